"""The caption of a figure: the test set, the runs, the intervals, and the meaning of hollow points."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from matplotlib.figure import Figure

from nmt.evaluation.by_length import MIN_SENTENCES, SEED
from nmt.evaluation.writing import BinnedBy
from nmt.plots.style import GREY, plain

LONGEST_LINE = 130
"""Maximum characters in a line of a caption; fewer if they are wide or the figure is narrow."""


@dataclass(frozen=True)
class Origin:
    """The run behind a translation."""

    source_language: str
    target_language: str
    beam_size: int | None
    """None if the run did not search."""
    length_penalty: float
    updates: tuple[int, ...] = ()
    """The update of the weights that translated, or of all that were averaged; empty if unknown."""
    search_options: str = ""
    """Other options of the search that differ from the defaults."""


@dataclass(frozen=True)
class About:
    """The content of a caption, the same for all figures of a command."""

    test_set: str
    resamples: int
    """Number of bootstrap resamples."""
    binned_by: BinnedBy
    origins: Mapping[str, Sequence[Origin]] = field(default_factory=dict)
    """The run of each seed, by system; none for a file of translations."""

    def caption(self, counts: Sequence[int], several_seeds: bool = False) -> list[str]:
        """Return the paragraphs of every figure over bins; ``counts`` are the numbers of sentences in the bins."""
        made = [f"{plain(self.test_set, 60)}: {sum(counts):,} sentences", *made_with(self.origins)]
        drawn = [f"Bands: 95% bootstrap intervals ({self.resamples:,} resamples)"]
        if min(counts) < MIN_SENTENCES:
            drawn.append(f"Hollow points: fewer than {MIN_SENTENCES} sentences, no interval")
        if several_seeds:
            drawn.append("Thick lines: mean over seeds; thin lines: each seed")
        return [" ".join(f"{each}." for each in sentences) for sentences in (made, drawn)]

    def as_dict(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return {
            "test_set": self.test_set,
            "binned_by": str(self.binned_by),
            "min_sentences": MIN_SENTENCES,
            "runs": {name: [asdict(run) for run in runs] for name, runs in self.origins.items()},
            "interval": {"level": 0.95, "method": "percentile bootstrap", "resamples": self.resamples, "seed": SEED},
        }


def made_with(origins: Mapping[str, Sequence[Origin]]) -> list[str]:
    """List languages, search options and updates as far as known, with the names of systems that differ.

    ``origins`` has the run of each seed, by system.
    """
    facts: dict[str, Callable[[Origin], str | None]] = {
        "From ": lambda run: f"{run.source_language} to {run.target_language}",
        "Search: ": _search,
        "Update: ": lambda run: _update(run.updates),
    }
    sentences = []
    for heading, fact in facts.items():
        systems: dict[str, list[str]] = {}
        for name, runs in origins.items():
            values = dict.fromkeys(value for run in runs if (value := fact(run)) is not None)
            systems.setdefault(" and ".join(values), []).append(plain(name, 24))
        if len(systems) == 1:
            value, _ = systems.popitem()
            each = [value] if value else []
        else:
            each = [f"{value} ({', '.join(names)})" for value, names in systems.items() if value]
        if each:
            sentences.append(heading + "; ".join(each))
    return sentences


def _update(updates: Sequence[int]) -> str | None:
    if len(updates) > 1:
        return f"mean of {len(updates)} from {min(updates):,} to {max(updates):,}"
    return f"{updates[0]:,}" if updates else None


def _search(run: Origin) -> str | None:
    if run.beam_size is None:
        return None
    others = f", {run.search_options}" if run.search_options else ""
    return f"beam {run.beam_size}, length penalty {run.length_penalty:g}{others}"


def write_caption(figure: Figure, paragraphs: Sequence[str]) -> float:
    """Write paragraphs below a figure, in lines that fit its width; return the height of the text in pixels."""
    text = figure.supxlabel("", fontsize=7.5, color=GREY, x=0.015, ha="left")
    for width in range(LONGEST_LINE, 20, -10):
        lines = [line for each in paragraphs for line in textwrap.wrap(each, width, break_on_hyphens=False)]
        text.set_text("\n".join(lines))
        if text.get_window_extent().width < 0.94 * figure.bbox.width:
            break
    return float(text.get_window_extent().height)
