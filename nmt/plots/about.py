"""Captions shared by the figures of one call: the test set, the runs, the intervals, the meaning of hollow points."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from matplotlib.figure import Figure

from nmt.evaluation.by_length import SEED
from nmt.evaluation.writing import BinnedBy
from nmt.plots.style import GREY, plain

MIN_SENTENCES = 30
"""A bin with fewer is drawn hollow, if nothing else is asked for."""
LONGEST_LINE = 130
"""Characters of a caption; fewer where they are wide or the figure is narrow."""


@dataclass(frozen=True)
class Origin:
    """The run behind a translation."""

    source_language: str
    target_language: str
    beam_size: int
    length_penalty: float
    updates: int | None
    """Made in training; None if the run does not tell."""


@dataclass(frozen=True)
class About:
    """The content of a caption, the same in all figures of a call."""

    test_set: str
    resamples: int
    """Of the bootstrap behind the intervals."""
    binned_by: BinnedBy
    min_sentences: int = MIN_SENTENCES
    """A bin with fewer is drawn hollow, without line and interval."""
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    """By system, the run of each training; none for files, of which nothing is known."""

    def hollow(self, counts: Sequence[int]) -> bool:
        """Whether any bin is drawn hollow, by its number of sentences."""
        return min(counts) < self.min_sentences

    def caption(self, counts: Sequence[int], several_seeds: bool = False) -> list[str]:
        """The paragraphs that every figure over bins has; ``counts`` are the sentences of each bin."""
        made = [f"{plain(self.test_set, 60)}: {sum(counts):,} sentences", *self._made_with()]
        drawn = [f"Bands: 95% bootstrap intervals ({self.resamples:,} resamples)"]
        if self.hollow(counts):
            drawn.append(f"Hollow: fewer than {self.min_sentences} sentences, no interval")
        if several_seeds:
            drawn.append("Thick lines: means over seeds, thin ones: each")
        return [" ".join(f"{each}." for each in sentences) for sentences in (made, drawn)]

    def _made_with(self) -> list[str]:
        """Languages, search and updates, as far as they are known, and of which systems if not of all."""
        facts: dict[str, Callable[[Origin], str | None]] = {
            "From ": lambda run: f"{run.source_language} to {run.target_language}",
            "Search: ": lambda run: f"beam {run.beam_size}, length penalty {run.length_penalty:g}",
            "Updates: ": lambda run: None if run.updates is None else f"{run.updates:,}",
        }
        told = []
        for heading, fact in facts.items():
            systems: dict[str, list[str]] = {}
            for name, runs in self.origins.items():
                values = dict.fromkeys(value for run in runs if (value := fact(run)) is not None)
                systems.setdefault(" and ".join(values), []).append(plain(name, 24))
            if len(systems) == 1:
                value, _ = systems.popitem()
                each = [value] if value else []
            else:
                each = [f"{value} ({', '.join(names)})" for value, names in systems.items() if value]
            if each:
                told.append(heading + "; ".join(each))
        return told

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "test_set": self.test_set,
            "binned_by": str(self.binned_by),
            "min_sentences": self.min_sentences,
            "runs": {name: [asdict(run) for run in runs] for name, runs in self.origins.items()},
            "interval": {
                "level": 0.95,
                "method": "percentile bootstrap",
                "resamples": self.resamples,
                "seed": SEED,
            },
        }


def write_caption(figure: Figure, paragraphs: Sequence[str]) -> None:
    """Write paragraphs below a figure, in lines that it has room for."""
    text = figure.supxlabel("", fontsize=7.5, color=GREY, x=0.015, ha="left")
    for width in range(LONGEST_LINE, 20, -10):
        lines = [line for each in paragraphs for line in textwrap.wrap(each, width, break_on_hyphens=False)]
        text.set_text("\n".join(lines))
        if text.get_window_extent().width < 0.97 * figure.bbox.width:
            break
