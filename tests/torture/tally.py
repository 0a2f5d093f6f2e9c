"""Count the trials of one kind of fault and how many were survived."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """The outcome of all trials of one kind of fault."""

    fault: str
    tried: int
    survived: int
    notes: tuple[str, ...] = ()
    """Each problem; or a remark on how hard the trials were."""

    @property
    def lost(self) -> int:
        """Trials after which something was missing, wrong or let in."""
        return self.tried - self.survived

    def as_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        return asdict(self) | {"lost": self.lost}


class Tally:
    """Counts the trials of one kind of fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.tried = 0
        self.notes: list[str] = []
        self._lost = 0

    def add(self, problems: list[str], count: int = 1) -> None:
        """Count ``count`` trials; all of them are lost if there are problems."""
        self.tried += count
        if problems:
            self._lost += count
            self.notes += problems

    def result(self, *remarks: str) -> Result:
        """Return the outcome, with remarks after the problems."""
        return Result(self.fault, self.tried, self.tried - self._lost, (*self.notes, *remarks))
