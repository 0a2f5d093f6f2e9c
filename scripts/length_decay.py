"""Draw the figures of docs/length-decay.md and the length curve of docs/results.md from their numbers in docs/figures.

Color says which attention a system has, the line how long its training sentences are, in all figures.
"""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nmt.cli.command import Command
from nmt.evaluation.by_length import MIN_SENTENCES
from nmt.evaluation.figures.diagnosis import FIGURES as WHY
from nmt.evaluation.figures.files import table
from nmt.evaluation.figures.length_curve import centers, draw_counts, draw_points, label_lengths, spans_of
from nmt.evaluation.figures.style import COLORS, GREY, MARKERS, png, style, write_caption
from nmt.evaluation.metrics import Floats
from nmt.files import read_json, write_bytes, write_json
from nmt.runs.log import best_validation, read_metrics
from textbook import gain

FIGURES = Path(__file__).parent.parent / "docs/figures"
TESTS = {"test_lenstrat": "Europarl, stratified by length", "test3000": "Europarl, natural lengths"}
"""Each test set with a length curve, and its description in captions."""
LOOKS = {
    kind: (COLORS[number], MARKERS[number])
    for number, kind in enumerate(("rnnencdec", "rnnsearch", "luong", "transformer", "ssru", "sutskever"))
}
"""Color and marker of the systems that share an attention and a network. No attention, Bahdanau's and Luong's look as
in the figure of `make demo`, which has them in this order."""
LENGTHS: Mapping[str, Any] = {"50": "-", "30": (0, (2, 1.5))}
"""Line of the systems trained on sentences of up to so many words."""
OLDER = "older run"
"""Key of the provenance of the systems that only an older run has."""
Row = Mapping[str, Any]

# --- numbers ----------------------------------------------------------------------------------------------------------


def read_rows(name: str) -> list[Row]:
    """Read the rows of a table in docs/figures."""
    return list(csv.DictReader((FIGURES / f"{name}.csv").open(encoding="utf-8")))


def write_rows(name: str, rows: Sequence[Row]) -> None:
    """Write a table in docs/figures, with the columns of ``rows``. Systems that ``rows`` lack keep the rows that they
    have there, with an empty cell in each new column."""
    systems = {row["system"] for row in rows}
    others = [row for row in read_rows(name) if row["system"] not in systems]
    kept = [{column: row.get(column, "") for column in rows[0]} for row in others]
    write_bytes(FIGURES / f"{name}.csv", table(sorted([*kept, *rows], key=lambda row: order(row["system"]))))


def order(system: str) -> tuple[int, str]:
    """Sort systems by attention, then by the length of their training sentences."""
    kind, _, longest = system.rpartition("-")
    return list(LOOKS).index(kind), longest


def look_of(system: str) -> tuple[str, str]:
    """Return color and marker of a system."""
    return LOOKS[system.rpartition("-")[0]]


def numbers(rows: Iterable[Row], column: str) -> Floats:
    """Return a column of a table, (rows,); NaN for an empty cell or where there is no such column."""
    return np.array([float(row.get(column) or "nan") for row in rows])


def interval_of(rows: Sequence[Row], column: str) -> tuple[Floats, Floats]:
    """Return the ends of an interval, each (rows,).

    That of BLEU is over sentences and, if there are several, seeds: its half is the root of both halves, squared and
    summed.
    """
    values, low, high = (numbers(rows, name) for name in (column, f"{column}_low", f"{column}_high"))
    seeds = np.nan_to_num(numbers(rows, "half_over_seeds")) if column == "bleu" else np.zeros(len(rows))
    return values - np.hypot(values - low, seeds), values + np.hypot(high - values, seeds)


def half(seeds: Sequence[float]) -> float:
    """Half the width of the 95% interval of the mean over seeds (Student's t)."""
    found = gain(seeds, [0.0] * len(seeds))
    return found.high - found.mean


def copy_numbers(runs: Path, commit: str, beside: str) -> None:
    """Copy the numbers of the figures from the directory of an experiment, and write where they come from."""
    results, tests = read_json(runs / "results.json"), {name: read_json(runs / f"{name}.json") for name in TESTS}
    for name, test in tests.items():
        rows = []
        for system in test["systems"].values():
            for row, seeds in zip(system["by_length"], zip(*system["bleu_by_seed"], strict=True), strict=True):
                each = {f"seed_{number}": bleu for number, bleu in enumerate(seeds, 1)}
                rows.append({**row, **each, "half_over_seeds": half(seeds)})
        write_rows(f"length_decay_{name}", rows)
    why = read_json(runs / "test_lenstrat.why.json")["systems"]
    write_rows("length_decay_why", [flat(row) for rows in why.values() for row in rows])

    test = tests["test_lenstrat"]
    folders = {system: sorted((runs / system).glob("seed-*")) for system in test["systems"]}
    manifests = [read_json(folder / "manifest.json") for each in folders.values() for folder in each]
    manifest, path = manifests[0], FIGURES / "length_decay.json"
    device = manifest["config"]["device"]
    written = {
        "about": "Provenance and scores of docs/length-decay.md, written by scripts/length_decay.py; "
        f"'{OLDER}': of the systems trained on up to 30 words, transcribed",
        "command": f"nmt-experiment --config configs/experiments/europarl.yaml --set device={device}",
        "commit": commit,
        "date": manifest["started"][:10],
        **{key: manifest[key] for key in ("device", "precision", "threads", "versions", "corpus_sha256")},
        "beside": beside,
        "seeds": sorted({each["seed"] for each in manifests}),
        "signature": test["signature"],
        "resamples": test["interval"]["resamples"],
        "half, half_over_seeds": "half the width of the 95% interval of the mean over seeds (Student's t)",
        "systems": {system: scores(system, folders[system], results) for system in folders},
        "comparisons": results["comparisons"] | {"retained": results["retained"]["test_lenstrat"]["comparisons"]},
        OLDER: read_json(path)[OLDER],
    }
    write_json(path, written)


def flat(row: Row) -> Row:
    """Replace each interval in a row of the diagnosis by two columns after all others; None is an empty cell."""
    plain = {key: "" if value is None else value for key, value in row.items() if not key.endswith("_interval")}
    for measure in [key for figure in WHY.values() for key in figure[1]]:
        low, high = row.get(f"{measure}_interval") or ("", "")
        plain |= {f"{measure}_low": low, f"{measure}_high": high}
    return plain


def scores(system: str, folders: Sequence[Path], results: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the scores of a system: means over its runs, and those of each."""
    rows = {row["test"]: row for row in results["rows"] if row["system"] == system}
    logs = [read_metrics(folder / "metrics.jsonl") for folder in folders]
    retained, row = results["retained"]["test_lenstrat"], rows["test_lenstrat"]
    long, short = ([without_penalty(folder, retained[end]) for folder in folders] for end in ("long", "short"))
    return {
        "updates": row["updates"],
        "validation perplexity": {
            "mean": row["validation_perplexity"],
            "of each seed": [best_validation(log)["perplexity"] for log in logs],
        },
        "seconds of training and validations, of each seed": [seconds(log) for log in logs],
        "BLEU": {
            name: {"mean": row["bleu"], "half": half(row["bleu_by_seed"]), "of each seed": row["bleu_by_seed"]}
            for name, row in rows.items()
        },
        "retained BLEU": retained["shares"].get(system),
        "the same without brevity penalty": fmean(long) / fmean(short),
        "alignment error rate": rows["hansards"]["aer"],
    }


def seconds(log: Sequence[Row]) -> float:
    """Add up the time of a run: all of its updates, of which the last record has the sum, and each validation."""
    splits = {split: [row["seconds"] for row in log if row["split"] == split] for split in ("train", "validation")}
    return float(splits["train"][-1] + sum(splits["validation"]))


def without_penalty(run: Path, lengths: Sequence[int]) -> float:
    """Compute a run's BLEU in a bin without its brevity penalty, exp(1 - 1 / length ratio) if that is below 1."""
    bins = read_json(run / "test.scores.json")["by_length"]
    (row,) = [row for row in bins if [row["low"], row["high"]] == list(lengths)]
    return float(row["bleu"] / np.exp(min(0.0, 1 - 1 / row["length_ratio"])))


# --- figures ----------------------------------------------------------------------------------------------------------


class Bins:
    """The rows of each system in a table, its bins, and how each system looks."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.systems = {name: list(each) for name, each in groupby(rows, lambda row: str(row["system"]))}
        bins = next(iter(self.systems.values()))
        self.lengths = [(int(row["low"]), int(row["high"])) for row in bins]
        self.counts = [int(row["n"]) for row in bins]
        self.spans, self.solid = spans_of(self.lengths), np.array(self.counts) >= MIN_SENTENCES
        self.places = centers(self.spans, 0, 1)
        self.ends = sorted({name.rpartition("-")[2] for name in self.systems} & LENGTHS.keys())

    def draw(self, axes: Axes, column: str, **size: float) -> None:
        """Draw a column with its interval for each system, and lines where training ended."""
        for end in self.ends:
            axes.axvline(float(end) + 0.5, color=GREY, linewidth=0.8)
        for name, rows in self.systems.items():
            (color, marker), line = look_of(name), LENGTHS.get(name.rpartition("-")[2], "-")
            look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": line} | size
            draw_points(axes, self.places, numbers(rows, column), self.solid, look, interval_of(rows, column))

    def label(self, axes: Axes, column: str, apart: float) -> None:
        """Write the names of the systems at the right ends of their lines, ``apart`` of the axis from each other."""
        bottom, top = axes.get_ylim()
        place = -np.inf
        ends = {name: numbers(rows, column)[-1] for name, rows in self.systems.items()}
        for name in sorted((name for name, end in ends.items() if np.isfinite(end)), key=lambda name: ends[name]):
            place = max(ends[name], place + apart * (top - bottom))
            color, _ = look_of(name)
            axes.annotate(name, (self.places[-1], place), (7, -3), textcoords="offset points", color=color, fontsize=9)

    def caption(self, test: str, bands: str) -> list[str]:
        """Return the text under a figure, with the description of its test set."""
        test_set = f"{sum(self.counts):,} sentences of {test}."
        if self.ends:
            trained = "30 words (dashed curves) or 50" if len(self.ends) > 1 else f"{self.ends[0]} words"
            test_set += f" Vertical lines: longest training sentence, {trained}."
        hollow = "" if self.solid.all() else f" Hollow points: fewer than {MIN_SENTENCES} sentences."
        return [test_set, f"{bands}{hollow}"]


def means() -> str:
    """Say how many seeds the systems have."""
    return f"Means of {len(read_json(FIGURES / 'length_decay.json')['seeds'])} seeds."


def draw_curve(rows: Sequence[Row], test: str) -> bytes:
    """Draw BLEU and length ratio of each system by bin."""
    bins = Bins(rows)
    single = ", ".join(dict.fromkeys(row["system"] for row in rows if not row.get("half_over_seeds")))
    bands = f"{means()} Bands: 95% intervals over sentences and seeds."
    if single:
        bands += f" One seed, and bands over sentences only: {single}."
    with style():
        figure = Figure(figsize=(7.5, 6.8), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(4, 1.3, 1))
        bins.draw(upper, "bleu")
        bins.draw(middle, "length_ratio", markersize=4)
        upper.set(ylabel="BLEU (0 to 100)", ylim=(0, None))
        bins.label(upper, "bleu", 0.04)
        middle.set(ylabel="Length ratio")
        for axes in (upper, middle):
            axes.tick_params(labelbottom=False, length=0)
        draw_counts(lower, bins.counts, bins.spans)
        label_lengths(lower, bins.lengths, bins.spans, "words")
        figure.align_ylabels()
        write_caption(figure, bins.caption(test, bands))
        return png(figure)


def draw_why(rows: Sequence[Row], name: str) -> bytes:
    """Draw one of the figures of the diagnosis."""
    bins, (labels, measures) = Bins(rows), WHY[name]
    with style():
        size = 3.1 * len(measures) + 1.2, 3.4
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
        panels = figure.subplots(1, len(measures), sharey=len(labels) == 1)
        for axes, (measure, heading) in zip(panels, measures.items(), strict=True):
            bins.draw(axes, measure, markersize=4, linewidth=1.4)
            axes.set_title(heading.format(unit="words"))
            label_lengths(axes, bins.lengths, bins.spans, "words")
            axes.tick_params(axis="x", labelsize=7, rotation=45)
        for axes, label in zip(panels, labels, strict=False):
            axes.set_ylabel(label.format(unit="words"))
        if name != "probability":
            for axes in panels:
                axes.set_ylim(0, None)
        bins.label(panels[-1], list(measures)[-1], 0.07)
        bands = f"{means()} Bands: 95% intervals over sentences. Systems without bands: one seed."
        write_caption(figure, bins.caption(TESTS["test_lenstrat"], bands))
        return png(figure)


def length_decay(*, runs: str = "", commit: str = "", beside: str = "nothing") -> None:
    """Draw the figures again.

    Args:
        runs: Directory of finished runs of configs/experiments/europarl.yaml: first copy their numbers, and write where
            they come from. Systems that it lacks keep their numbers.
        commit: Commit that trained these runs.
        beside: Other work on the machine during training.
    """
    if runs:
        copy_numbers(Path(runs), commit, beside)
    curves = {name: read_rows(f"length_decay_{name}") for name in TESTS}
    for name, rows in curves.items():
        write_bytes(FIGURES / f"length_decay_{name}.png", draw_curve(rows, TESTS[name]))
    longest = [row for row in curves["test_lenstrat"] if row["system"].endswith("-50")]
    family = draw_curve([*longest, *read_rows("length_decay_family")], TESTS["test_lenstrat"])
    write_bytes(FIGURES / "length_decay_family.png", family)
    for name in WHY:
        write_bytes(FIGURES / f"length_decay_{name}.png", draw_why(read_rows("length_decay_why"), name))


main = Command(length_decay, "length_decay.py")

if __name__ == "__main__":
    sys.exit(main())
