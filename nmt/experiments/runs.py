"""What an experiment makes: runs, and texts that runs translate for other runs. Values alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config
from nmt.config.schema import Decoding
from nmt.experiments.schema import MadeText

Languages = tuple[str, str]
"""The source and the target language."""


@dataclass(frozen=True)
class Run:
    """One system, trained with one seed."""

    system: str
    seed: int | None
    """None where the experiment lists no seeds."""
    config: Config
    """Resolved, with the run directory as its output."""
    settings: tuple[str, ...]
    """Differences from the base configuration: KEY=VALUE, for ``nmt-train --set``."""
    texts: tuple[str, ...] = ()
    """Made texts that it is trained on."""

    @property
    def label(self) -> str:
        """NAME or NAME:SEED, as ``--only`` takes it."""
        return self.system if self.seed is None else f"{self.system}:{self.seed}"

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(str(self.config.output))

    @property
    def languages(self) -> Languages:
        """From which and to which it translates."""
        return self.config.data.source_language, self.config.data.target_language


@dataclass(frozen=True)
class PlannedText:
    """Lines and their translations by finished runs."""

    name: str
    """As ``--only`` takes it."""
    of: MadeText
    models: tuple[Run, ...]
    """They translate together."""
    back: tuple[Run, ...]
    """They translate back; none without a round trip."""
    decoding: Decoding
    """Resolved."""
    folder: Path

    @property
    def runs(self) -> Sequence[Run]:
        """Everything that must be finished before."""
        return (*self.models, *self.back)

    @property
    def lines(self) -> Path:
        """The file with the lines that are translated."""
        return text_file(self.folder, self.name, self.models[0].languages[0])

    @property
    def translations(self) -> Path:
        """The file with their translations."""
        return text_file(self.folder, self.name, self.models[0].languages[1])

    @property
    def manifest(self) -> Path:
        """The file that says what they were made from."""
        return self.folder / f"{self.name}.json"


def text_file(folder: Path, name: str, language: str) -> Path:
    """The side of a made text that is in a language."""
    return folder / f"{name}.{language}"
