"""The description of the runs behind a server: languages, updates, BLEU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import load_run_config
from nmt.foundation.files import run_name
from nmt.runs.directory import RunDirectory
from nmt.runs.metrics import best_validation, read_metrics


@dataclass(frozen=True)
class About:
    """The model behind a server."""

    name: str
    languages: tuple[str, str]
    """Of source and target."""
    runs: Sequence[Mapping[str, Any]] = ()
    """A description of each run; see :func:`known_of`."""

    @classmethod
    def of(cls, paths: Sequence[str]) -> "About":
        """Describe run directories that translate together. Raises ConfigError, FileError."""
        data = load_run_config(paths[0]).data
        languages = (data.source_language, data.target_language)
        return cls(" + ".join(map(run_name, paths)), languages, [known_of(Path(path)) for path in paths])

    def as_dict(self) -> dict[str, Any]:
        """Return the description of the model in ``/health``."""
        source, target = self.languages
        return {"model": self.name, "source_language": source, "target_language": target, "runs": list(self.runs)}


def known_of(path: Path) -> dict[str, Any]:
    """Describe a run: its name; the update of its best weights; their BLEU, and of which set it is: that of the test
    set, or else of the validation set. None for what its metrics do not say."""
    records = read_metrics(RunDirectory(path).metrics)
    best = best_validation(records)
    scored = [best, *(each for each in records if each.get("split") == "test")][-1]
    return {
        "name": run_name(path),
        "update": best.get("step"),
        "bleu": None if (score := scored.get("bleu")) is None else round(score, 2),
        "bleu_of": "test" if scored.get("split") == "test" else "validation" if scored else None,
    }
