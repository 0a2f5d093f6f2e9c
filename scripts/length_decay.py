"""Copy the figures and numbers of configs/experiments/europarl.yaml (make figure) to docs/figures.

length_decay.json says where they come from, and what they say about the claims of docs/length-decay.md.
"""

import argparse
import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from machine import commit, machine
from nmt.cli.common import command, say
from nmt.errors import DataError
from nmt.experiments.results import run_facts
from nmt.files import read_json, write_json
from nmt.runs.directory import RunDirectory

Row = Mapping[str, Any]
SHORT, LONG = (11, 20), (51, 70)
FALLING = [(31, 40), (41, 50), (51, 60), (61, 70)]
"""Bins in which the baseline that was trained on short pairs is held against the one trained on long ones."""
FAR = FALLING[-1]
BASELINE, ATTENDING, BASELINE_OF_SHORT = "rnnencdec-50", "rnnsearch-50", "rnnencdec-30"
ENOUGH = {"cpu": 22.0, "gpu": 34.0}
"""BLEU on test3000 that RNNsearch-50 is expected to reach."""


@dataclass(frozen=True)
class Results:
    """Everything that is on disk."""

    folder: Path
    curves: dict[str, dict[str, Any]]
    """By test set: what nmt-length-curve wrote."""
    gold: dict[str, dict[str, Any]]
    """By system with attention: the scores of its first seed on the pairs that people have linked."""
    runs: dict[str, list[Path]]
    """By system: its run directories."""

    @property
    def systems(self) -> list[str]:
        """The systems, in the order in which they are drawn."""
        return list(self.curves["test_lenstrat"]["systems"])

    def bleu(self, system: str, test: str = "test_lenstrat") -> float:
        """BLEU of a whole test set."""
        return float(self.curves[test]["systems"][system]["BLEU"]["score"])

    def bins(self, system: str) -> list[Row]:
        """The rows of test_lenstrat."""
        return list(self.curves["test_lenstrat"]["systems"][system]["by_length"])

    def kept(self, system: str, low: int, high: int) -> float:
        """BLEU in a bin as a share of the system's own BLEU on short sentences."""
        rows = {(row["low"], row["high"]): row["bleu"] for row in self.bins(system)}
        return float(rows[low, high] / rows[SHORT]) if rows[SHORT] else 0.0

    def share(self, system: str) -> Row:
        """The share of its BLEU at SHORT that it keeps at LONG: share, low and high; None where BLEU at SHORT is 0."""
        shares: dict[str, Row] = self.curves["test_lenstrat"]["kept"]["shares"]
        return shares[system]

    def seeds(self, system: str) -> int:
        """The number of runs behind the curve of a system."""
        return len(self.curves["test_lenstrat"]["systems"][system].get("bleu_by_seed", [None]))


def read(folder: Path) -> Results:
    """Read the output of the experiment. Raises DataError for what is missing: files, systems, bins."""
    tests = [path.stem for path in sorted(folder.glob("*.json")) if path.with_suffix(".why.json").exists()]
    if "test_lenstrat" not in tests:
        raise DataError(f"{folder}/test_lenstrat.json: missing; nmt-experiment draws it")
    curves = {
        name: read_json(folder / f"{name}.json") for name in sorted(tests, key=lambda name: name != "test_lenstrat")
    }
    systems = curves["test_lenstrat"]["systems"]
    wanted = {BASELINE, ATTENDING, BASELINE_OF_SHORT}
    if wanted - systems.keys():
        raise DataError(f"{folder}/test_lenstrat.json: no curve of {', '.join(sorted(wanted - systems.keys()))}")
    bins = {(row["low"], row["high"]) for row in systems[BASELINE]["by_length"]}
    if {SHORT, *FALLING} - bins:
        raise DataError(f"{folder}/test_lenstrat.json: no bins {sorted({SHORT, *FALLING} - bins)}; see evaluation.bins")
    kept = curves["test_lenstrat"].get("kept")
    if kept is None or (tuple(kept["short"]), tuple(kept["long"])) != (SHORT, LONG):
        raise DataError(
            f"{folder}/test_lenstrat.json: no shares kept at {LONG} of BLEU at {SHORT}; nmt-experiment draws it"
        )
    runs = {
        name: sorted((folder / name).glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
        for name in systems
    }
    gold = {}
    for name, (first, *_) in runs.items():
        scores = folder / "tests" / "hansards" / f"{name}.{first.name}.json"
        if scores.exists() and "alignment" in (of_pairs := read_json(scores)):
            gold[name] = of_pairs
    return Results(folder, curves, gold, runs)


# --- claims -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """An expectation from before the measurement, and what was measured."""

    expected: str
    found: str
    verdict: str


def claims(results: Results, size: str) -> Iterator[Claim]:
    """Hold every expectation against the results."""
    against = [
        {**row, "difference": row["difference"] if row["system"] == ATTENDING else -row["difference"]}
        for row in results.curves["test_lenstrat"]["comparisons"]
        if {row["system"], row["other"]} == {BASELINE, ATTENDING}
        and row["lengths"][0] > 20
        and row["p_value"] is not None
    ]
    least = min((row["difference"] for row in against), default=0.0)
    largest = max((row["p_value"] for row in against), default=1.0)
    yield Claim(
        "With attention BLEU is higher in every bin from 21 words on, p < 0.05",
        f"by {least:.1f} BLEU or more; largest p {p_value(largest, results)}",
        verdict(least > 0 and largest < 0.05),
    )
    for system, most, words in ((ATTENDING, False, "at least 85%"), (BASELINE, True, "no more than 60%")):
        share = results.share(system)["share"]
        yield Claim(
            f"{system} keeps {words} of its BLEU at {range_name(SHORT)} at {range_name(LONG)}",
            percent(results.share(system)),
            verdict(share is not None and (share <= 0.60 if most else share >= 0.85)),
        )
    row = share_difference(results)
    difference, p = row["difference"], row["p_value"]
    yield Claim(
        f"{ATTENDING} keeps a larger share than {BASELINE}, p < 0.05",
        f"by {percent(row, 'difference')}; p {'–' if p is None else p_value(p, results)}",
        verdict(p is not None and p < 0.05 and difference > 0),
    )
    earlier = all(results.kept(BASELINE_OF_SHORT, *each) < results.kept(BASELINE, *each) for each in FALLING)
    without_penalty = kept_of_precision(results, BASELINE_OF_SHORT) < kept_of_precision(results, BASELINE)
    yield Claim(
        "Trained on up to 30 words, the baseline falls earlier than trained on up to 50",
        "share of BLEU at 11–20 words kept at "
        + ", ".join(
            f"{range_name(each)}: {results.kept(BASELINE_OF_SHORT, *each):.0%} and {results.kept(BASELINE, *each):.0%}"
            for each in FALLING
        )
        + f"; but its translations get short (length ratio {ratio(results, BASELINE_OF_SHORT):.2f} and "
        f"{ratio(results, BASELINE):.2f} at {FAR[0]}–{FAR[1]}): without BLEU's brevity penalty it keeps "
        f"{kept_of_precision(results, BASELINE_OF_SHORT):.0%}, the other {kept_of_precision(results, BASELINE):.0%}",
        verdict(earlier) if earlier == without_penalty else "mixed",
    )
    if "test3000" in results.curves:
        reached = results.bleu(ATTENDING, "test3000")
        yield Claim(
            f"{ATTENDING} reaches {ENOUGH[size]:.0f} BLEU on test3000",
            f"{reached:.2f}",
            verdict(reached >= ENOUGH[size]),
        )
    if ATTENDING in results.gold:
        report = results.gold[ATTENDING]["alignment"]
        rate = report["likeliest"]["error_rate"]  # nothing is chosen on the pairs that are scored
        below = report["diagonal"]["error_rate"] - rate
        yield Claim(
            "Its attention aligns words with an error rate at least 0.10 below the diagonal's",
            f"{rate:.3f}, {below:.3f} below",
            verdict(below >= 0.10),
        )


def verdict(holds: bool) -> str:
    """The verdict in words."""
    return "holds" if holds else "does not hold"


def range_name(of: tuple[int, int]) -> str:
    """Format the ends of a range."""
    return f"{of[0]}–{of[1]}"


def percent(row: Row, value: str = "share") -> str:
    """A share, or a difference of shares, with its 95% interval."""
    if row[value] is None:
        return "undefined"
    unit = "%" if value == "share" else " points"
    middle, low, high = (f"{100 * row[key]:.0f}" for key in (value, "low", "high"))
    return f"{middle}{unit} [{low}, {high}]"


def share_difference(results: Results) -> Row:
    """The share that ATTENDING keeps minus that of BASELINE, with its interval and p-value."""
    [row] = (
        each
        for each in results.curves["test_lenstrat"]["kept"]["comparisons"]
        if {each["system"], each["other"]} == {BASELINE, ATTENDING}
    )
    if row["system"] == BASELINE and row["difference"] is not None:
        return {**row, "difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
    return dict(row)


def bin_from(low: int, rows: Sequence[Row]) -> Row:
    """The row of the bin that begins at ``low``."""
    return next(row for row in rows if row["low"] == low)


def ratio(results: Results, system: str) -> float:
    """Words of the hypotheses over words of the references, in the bin FAR."""
    return float(bin_from(FAR[0], results.bins(system))["length_ratio"])


def kept_of_precision(results: Results, system: str) -> float:
    """As :meth:`Results.kept`, at FAR, of BLEU without its brevity penalty (Papineni et al. 2002)."""

    def precision(low: int) -> float:
        row = bin_from(low, results.bins(system))
        return float(row["bleu"] / math.exp(min(0.0, 1 - 1 / row["length_ratio"]))) if row["length_ratio"] else 0.0

    short = precision(SHORT[0])
    return precision(FAR[0]) / short if short else 0.0


def p_value(p: float, results: Results) -> str:
    """Format a p-value, which is never below one in the number of resamples."""
    floor = 1 / (results.curves["test_lenstrat"]["interval"]["resamples"] + 1)
    return f"≤ {floor:.3f}" if p <= floor * 1.001 else f"{p:.3f}"


# --- files ------------------------------------------------------------------------------------------------------------


def about(results: Results, size: str) -> dict[str, Any]:
    """Where the figures come from, and what they say."""
    curve = results.curves["test_lenstrat"]
    runs = {}
    for name, paths in results.runs.items():
        for path in paths[: results.seeds(name)]:
            manifest, facts = read_json(RunDirectory(path).manifest), run_facts(path)
            runs[f"{name}/{path.name}"] = {
                "begun": manifest["started"],
                "threads": manifest["threads"],
                **{key: facts[key] for key in ("updates", "target_tokens", "seconds", "perplexity")},
            }
    return {
        "command": f"make figure SIZE={size}",
        "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine(),
        "signature": curve["signature"],
        "resamples": curve["interval"]["resamples"],
        "runs": runs,
        "bleu": {test: {name: results.bleu(name, test) for name in results.systems} for test in results.curves},
        "kept": {name: dict(results.share(name)) for name in results.systems},
        "kept_without_brevity_penalty": {name: kept_of_precision(results, name) for name in results.systems},
        "alignment": {name: scores["alignment"]["likeliest"] for name, scores in results.gold.items()},
        "claims": [asdict(each) for each in claims(results, size)],
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="length_decay.py", description=__doc__)
    arguments.add_argument("--runs", required=True, metavar="DIR", help="the output of nmt-experiment")
    arguments.add_argument("--figures", required=True, metavar="DIR", help="where the figures go")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Copy the figures, and write what they say."""
    folder, figures = Path(arguments.runs), Path(arguments.figures)
    results = read(folder)
    found = about(results, "gpu" if folder.name == "gpu" else "cpu")  # the commit before the figures change
    figures.mkdir(parents=True, exist_ok=True)
    for name in results.curves:
        shutil.copy(folder / f"{name}.png", figures / f"length_decay_{name}.png")
    shutil.copy(folder / "test_lenstrat.csv", figures / "length_decay_test_lenstrat.csv")
    shutil.copy(folder / "test_lenstrat.why.csv", figures / "length_decay_why.csv")
    for name in ("recall", "probability", "attention", "failures"):
        shutil.copy(folder / f"test_lenstrat.why.{name}.png", figures / f"length_decay_{name}.png")
    write_json(figures / "length_decay.json", found)
    say(f"written: {figures}/length_decay.json and its figures")


if __name__ == "__main__":
    sys.exit(main())
