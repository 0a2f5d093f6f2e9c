"""A display that remembers the steps it is shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nmt.messages import Step


@dataclass
class RecordedStep(Step):
    """A step and what was said of it."""

    what: str
    total: float | None
    unit: str
    done: float
    counts: list[float] = field(default_factory=list)
    """What was done after each change."""
    notes: list[str] = field(default_factory=list)
    ended: bool = False

    def advance(self, amount: float = 1) -> None:
        self.done += amount
        self.counts.append(self.done)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Recorder:
    """Remembers every step."""

    def __init__(self) -> None:
        self.steps: list[RecordedStep] = []

    @contextmanager
    def __call__(self, what: str, total: float | None, unit: str, done: float) -> Iterator[RecordedStep]:
        found = RecordedStep(what, total, unit, done)
        self.steps.append(found)
        yield found
        found.ended = True

    def named(self, what: str) -> RecordedStep:
        """The only step of this name."""
        [found] = [each for each in self.steps if each.what == what]
        return found
