"""Write docs/length-decay.md and its figures; every number is read from what ``make figure`` has left on disk."""

import argparse
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nmt.cli.common import command, say
from nmt.config import load_run_config
from nmt.errors import DataError
from nmt.evaluation.diagnosis import FUNCTION_WORDS, PARTS
from nmt.evaluation.links import best_threshold
from nmt.foundation.files import read_json
from nmt.plots.alignment import draw_error_rates
from nmt.plots.files import write_all
from nmt.plots.style import png
from nmt.runs.directory import RunDirectory
from nmt.training.log import duration

Row = Mapping[str, Any]
SHORT, LONG = (11, 20), (51, 70)
FALLING = [(31, 40), (41, 50), (51, 60), (61, 70)]
"""Bins in which the baseline that was trained on short pairs is held against the one trained on long ones."""
FAR = FALLING[-1]
BASELINE, ATTENDING, BASELINE_OF_SHORT = "rnnencdec-50", "rnnsearch-50", "rnnencdec-30"
ENOUGH = {"cpu": 22.0, "gpu": 34.0}
"""BLEU that RNNsearch-50 is to reach on test3000."""
TEMPLATE = Path(__file__).with_suffix(".template.md")
GOLD = """The models read {pairs} pairs of the Canadian Hansards whose words people have linked (Och & Ney 2003), in
lower case and tokenized, unlike the text they were trained on. The attention between pieces is summed into words, and
links are scored against the sure and the possible ones. The diagonal links each target word to the source word at its
relative place, and knows nothing. The best threshold is the best on these very pairs: a bound, not a result.

![Alignment error rate against the least weight](figures/length_decay_alignment.png)

{table}"""
ONE_SEED = "One training each: the intervals say how much depends on the sentences, not how much on the seed."


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="length_decay.py", description=__doc__)
    arguments.add_argument("--runs", required=True, metavar="FOLDER", help="where make figure trained and drew")
    arguments.add_argument(
        "--output", required=True, metavar="FILE", help="the page; its figures go to figures/ beside it"
    )
    return arguments


@dataclass(frozen=True)
class Found:
    """All that is on disk."""

    folder: Path
    curves: dict[str, dict[str, Any]]
    """Of each test set what nmt-length-curve wrote."""
    reasons: dict[str, Any]
    """Of test_lenstrat what nmt-diagnose wrote: system to rows."""
    gold: dict[str, dict[str, Any]]
    """Of each system with attention, the first seed: what nmt-evaluate --gold wrote."""
    runs: dict[str, list[Path]]
    """Of each system its trainings."""

    @property
    def systems(self) -> list[str]:
        """In the order in which they are drawn."""
        return list(self.curves["test_lenstrat"]["systems"])

    def bleu(self, system: str, test: str = "test_lenstrat") -> float:
        """Of the whole test set."""
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
        """Trainings behind its curve."""
        return len(self.curves["test_lenstrat"]["systems"][system].get("bleu_by_seed", [None]))


def read(folder: Path) -> Found:
    """Raises DataError for what is missing: files, systems, bins."""
    tests = [path.stem for path in sorted(folder.glob("*.json")) if path.with_suffix(".why.json").exists()]
    if "test_lenstrat" not in tests:
        raise DataError(f"{folder}/test_lenstrat.json: missing; make figure draws it")
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
            f"{folder}/test_lenstrat.json: no shares kept at {LONG} of BLEU at {SHORT}; make figure draws it"
        )
    runs = {
        name: sorted((folder / name).glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
        for name in systems
    }
    gold = {
        name: read_json(path)
        for name in runs
        if (path := next(iter(sorted((folder / name).glob("hansards.seed-*.json"))), None)) is not None
    }
    for name, scores in gold.items():
        if "gold" not in scores["alignment"]:
            raise DataError(
                f"{folder / name}/hansards.seed-*.json: written by an older version; remove it and try again"
            )
    reasons = read_json(folder / "test_lenstrat.why.json")["systems"]
    return Found(folder, curves, reasons, gold, runs)


# --- claims -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """Something that was expected before it was measured."""

    expected: str
    found: str
    holds: bool


def claims(found: Found, size: str) -> Iterator[Claim]:
    """Each expectation, and what came out."""
    against = [
        {**row, "difference": row["difference"] if row["system"] == ATTENDING else -row["difference"]}
        for row in found.curves["test_lenstrat"]["comparisons"]
        if {row["system"], row["other"]} == {BASELINE, ATTENDING} and row["low"] > 20 and row["p_value"] is not None
    ]
    least = min((row["difference"] for row in against), default=0.0)
    largest = max((row["p_value"] for row in against), default=1.0)
    yield Claim(
        "With attention BLEU is higher in every bin from 21 words on, p < 0.05",
        f"by {least:.1f} BLEU or more; largest p {p_value(largest, found)}",
        least > 0 and largest < 0.05,
    )
    for system, most, words in ((ATTENDING, False, "at least 85%"), (BASELINE, True, "no more than 60%")):
        share = found.share(system)["share"]
        yield Claim(
            f"{system} keeps {words} of its BLEU at {range_name(SHORT)} at {range_name(LONG)}",
            percent(found.share(system)),
            share is not None and (share <= 0.60 if most else share >= 0.85),
        )
    row = share_difference(found)
    difference, p = row["difference"], row["p_value"]
    yield Claim(
        f"{ATTENDING} keeps a larger share than {BASELINE}, p < 0.05",
        f"by {percent(row, 'difference')}; p {'–' if p is None else p_value(p, found)}",
        p is not None and p < 0.05 and difference > 0,
    )
    earlier = [found.kept(BASELINE_OF_SHORT, *each) < found.kept(BASELINE, *each) for each in FALLING]
    yield Claim(
        "Trained on up to 30 words, the baseline falls earlier than trained on up to 50",
        "share of BLEU at 11–20 words kept at "
        + ", ".join(
            f"{low}–{high}: {found.kept(BASELINE_OF_SHORT, low, high):.0%} and {found.kept(BASELINE, low, high):.0%}"
            for low, high in FALLING
        )
        + f"; but its translations get short (length ratio {ratio(found, BASELINE_OF_SHORT):.2f} and "
        f"{ratio(found, BASELINE):.2f} at {FAR[0]}–{FAR[1]}): without BLEU's brevity penalty it keeps "
        f"{kept_of_precision(found, BASELINE_OF_SHORT):.0%}, the other {kept_of_precision(found, BASELINE):.0%}",
        all(earlier),
    )
    if "test3000" in found.curves:
        reached = found.bleu(ATTENDING, "test3000")
        yield Claim(
            f"{ATTENDING} reaches {ENOUGH[size]:.0f} BLEU on test3000", f"{reached:.2f}", reached >= ENOUGH[size]
        )
    if ATTENDING in found.gold:
        report = found.gold[ATTENDING]["alignment"]
        rate = report["likeliest"]["error_rate"]  # nothing is chosen on the pairs that are scored
        below = report["diagonal"]["error_rate"] - rate
        yield Claim(
            "Its attention aligns words with an error rate at least 0.10 below the diagonal's",
            f"{rate:.3f}, {below:.3f} below",
            below >= 0.10,
        )


def range_name(of: tuple[int, int]) -> str:
    """Its ends."""
    return f"{of[0]}–{of[1]}"


def percent(row: Row, value: str = "share") -> str:
    """A share, or a difference of shares, with its 95% interval."""
    if row[value] is None:
        return "undefined"
    unit = "%" if value == "share" else " points"
    middle, low, high = (f"{100 * row[key]:.0f}" for key in (value, "low", "high"))
    return f"{middle}{unit} [{low}, {high}]"


def share_difference(found: Found) -> Row:
    """The share that ATTENDING keeps minus that of BASELINE, with its interval and p-value."""
    [row] = (
        each
        for each in found.curves["test_lenstrat"]["kept"]["comparisons"]
        if {each["system"], each["other"]} == {BASELINE, ATTENDING}
    )
    if row["system"] == BASELINE and row["difference"] is not None:
        return {**row, "difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
    return dict(row)


def overall_table(found: Found) -> str:
    """Every two systems on the whole of test_lenstrat: difference in BLEU, interval, and both p-values."""
    rows = []
    for each in found.curves["test_lenstrat"]["overall"]:
        ps = (each["p_bootstrap"], each["p_randomization"])
        bootstrap, randomization = ("–" if p is None else p_value(p, found) for p in ps)
        rows.append(
            {
                "systems": f"{each['system']} − {each['other']}",
                "difference in BLEU": f"{each['difference']:+.2f} [{each['low']:+.2f}, {each['high']:+.2f}]",
                "p, paired bootstrap": bootstrap,
                "p, approximate randomization": randomization,
            }
        )
    return table(rows)


def bin_from(low: int, rows: Sequence[Row]) -> Row:
    """The row of the bin that begins at ``low``."""
    return next(row for row in rows if row["low"] == low)


def ratio(found: Found, system: str) -> float:
    """Words of the hypotheses over words of the references, in the bin FAR."""
    return float(bin_from(FAR[0], found.bins(system))["length_ratio"])


def kept_of_precision(found: Found, system: str) -> float:
    """As :meth:`Found.kept`, at FAR, of BLEU without its brevity penalty (Papineni et al. 2002)."""

    def precision(low: int) -> float:
        row = bin_from(low, found.bins(system))
        return float(row["bleu"] / math.exp(min(0.0, 1 - 1 / row["length_ratio"]))) if row["length_ratio"] else 0.0

    short = precision(SHORT[0])
    return precision(FAR[0]) / short if short else 0.0


def p_value(p: float, found: Found) -> str:
    """As text; the resamples can give none below a floor."""
    floor = 1 / (found.curves["test_lenstrat"]["interval"]["resamples"] + 1)
    return f"≤ {floor:.3f}" if p <= floor * 1.001 else f"{p:.3f}"


# --- the page ---------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """As Markdown."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def lengths(row: Row) -> str:
    """The name of a bin."""
    return f"{row['low']}–{row['high']}"


def trained(found: Found) -> str:
    """A row for each training."""
    rows = []
    for name, runs in found.runs.items():
        for path in runs[: found.seeds(name)]:
            run = RunDirectory(path)
            config, manifest = load_run_config(run.path), read_json(run.manifest)
            progress = read_json(run.checkpoints / "last" / "training.json")
            rows.append(
                {
                    "system": name,
                    "seed": str(config.seed),
                    "attention": config.model.attention.type,
                    "longest pair": f"{config.data.filter.max_words} words",
                    "updates": f"{progress['update']:,}",
                    "target pieces": f"{progress['target_tokens'] / 1e6:.1f} M",
                    "time in updates": duration(progress["seconds"]),
                    "threads": str(manifest["threads"]),
                    "pieces/s": f"{progress['target_tokens'] / progress['seconds']:,.0f}",
                    "begun": manifest["started"][:16].replace("T", " "),
                }
            )
    return table(rows)


def bleu_table(found: Found) -> str:
    """BLEU, its interval and the length ratio by length, and the p-value of the two systems that are compared."""
    p_values = {
        row["low"]: row["p_value"]
        for row in found.curves["test_lenstrat"]["comparisons"]
        if {row["system"], row["other"]} == {BASELINE, ATTENDING}
    }
    rows = []
    for places in zip(*map(found.bins, found.systems), strict=True):
        row = {"source words": lengths(places[0]), "sentences": str(places[0]["n"])}
        for name, each in zip(found.systems, places, strict=True):
            row[name] = (
                f"{each['bleu']:.1f} [{each['bleu_low']:.1f}, {each['bleu_high']:.1f}] {each['length_ratio']:.2f}"
            )
        p = p_values[places[0]["low"]]
        rows.append(row | {"p": "–" if p is None else p_value(p, found)})
    return table(rows)


def reasons_table(found: Found, measures: Mapping[str, Sequence[str]], places: int = 2) -> str:
    """By length, a column for each system and each heading that it has measures for."""
    rows: list[dict[str, str]] = [{"source words": lengths(each)} for each in found.reasons[found.systems[0]]]
    for name in found.systems:
        for heading, columns in measures.items():
            if any(each[column] is not None for each in found.reasons[name] for column in columns):
                for row, each in zip(rows, found.reasons[name], strict=True):
                    row[f"{name}{heading}"] = slashed(each, columns, places)
    return table(rows)


def slashed(row: Row, columns: Sequence[str], places: int = 2) -> str:
    """Some measures of one bin."""
    return " / ".join("–" if row[column] is None else f"{row[column]:.{places}f}" for column in columns)


def thirds(measure: str) -> list[str]:
    """Its columns."""
    return [f"{measure}_{part}" for part in PARTS]


def alignment_section(found: Found) -> str:
    """The error rates on the gold links, or that there are none."""
    if not found.gold:
        return "No gold alignment was there when this page was written."
    rows = []
    for name, scores in found.gold.items():
        report = scores["alignment"]
        best = best_threshold(report)
        rows.append(scored(name, "likeliest word", report["likeliest"]))
        rows.append(scored(name, f"weight from {best['threshold']:.2f}, the best of {len(report['thresholds'])}", best))
    rows.append(scored("diagonal", "", next(iter(found.gold.values()))["alignment"]["diagonal"]))
    pairs = sum(row["n"] for row in next(iter(found.gold.values()))["by_length"])
    return GOLD.format(pairs=pairs, table=table(rows))


def scored(name: str, how: str, score: Row) -> dict[str, str]:
    """A row of the table of error rates."""
    numbers = {key.replace("error_rate", "AER"): f"{score[key]:.3f}" for key in ("error_rate", "precision", "recall")}
    return {"system": name, "link": how} | numbers


def other_sets(found: Found) -> str:
    """BLEU of every test set as a whole."""
    return table(
        [
            {"test set": name, "sentences": f"{curve['sentences']:,}"}
            | {system: f"{scores['BLEU']['score']:.2f}" for system, scores in curve["systems"].items()}
            for name, curve in found.curves.items()
        ]
    )


def machine() -> str:
    """What this runs on."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {models[0] if models else platform.machine()}"


def commit() -> str:
    """Of the code that writes the page; with what was changed since, if anything was."""
    describe = ["git", "describe", "--always", "--dirty"]
    answer = subprocess.run(describe, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def page(found: Found, size: str, written_by: str) -> str:
    """The template with everything in its place; ``written_by`` a commit."""
    config = load_run_config(found.runs[ATTENDING][0])
    curve = found.curves["test_lenstrat"]
    several = max(map(found.seeds, found.systems)) > 1
    verdicts = [
        {"expected": each.expected, "found": each.found, "": "holds" if each.holds else "**does not hold**"}
        for each in claims(found, size)
    ]
    other_curves = [
        f"![BLEU against source length on {name}](figures/length_decay_{name}.png)"
        for name in found.curves
        if name != "test_lenstrat"
    ]
    return TEMPLATE.read_text("utf-8").format(
        config=config,
        size=size,
        baseline=BASELINE,
        attending=ATTENDING,
        trained=trained(found),
        sentences=f"{curve['sentences']:,}",
        signature=curve["signature"],
        resamples=f"{curve['interval']['resamples']:,}",
        seeds="Scores are means over the seeds." if several else ONE_SEED,
        verdicts=table(verdicts),
        bleu=bleu_table(found),
        other_sets=other_sets(found),
        other_curves="\n\n".join(other_curves),
        kept={name: percent(found.share(name)) for name in found.systems},
        share_difference=percent(share_difference(found), "difference"),
        overall=overall_table(found),
        ratio={name: f"{ratio(found, name):.2f}" for name in found.systems},
        ahead=f"{found.bins(ATTENDING)[0]['bleu'] - found.bins(BASELINE)[0]['bleu']:.1f}",
        shortest=lengths(found.bins(BASELINE)[0]),
        longest=lengths(found.bins(BASELINE)[-1]),
        recall_longest={name: recall(found, name, found.bins(name)[-1]["low"]) for name in found.systems},
        repeats={name: f"{found.reasons[name][-1]['repeats']:.0%}" for name in found.systems},
        others="\n".join(said_of_others(found)),
        comparisons=comparisons_table(found),
        recall_short={name: recall(found, name, SHORT[0]) for name in found.systems},
        recall_long={name: recall(found, name, FAR[0]) for name in found.systems},
        short=range_name(SHORT),
        long=range_name(LONG),
        far=range_name(FAR),
        function_words=FUNCTION_WORDS,
        recall=reasons_table(found, {"": thirds("recall")}),
        probability=reasons_table(found, {"": thirds("log_probability")}),
        attention=reasons_table(found, {": entropy": ["entropy"], ": distance": ["distance_from_diagonal"]}, places=3),
        failures=reasons_table(found, {"": ["stops_early", "runs_on", "repeats"]}, places=3),
        alignment=alignment_section(found),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=written_by,
        machine=machine(),
    )


def said_of_others(found: Found) -> Iterator[str]:
    """A line for each other system with attention: what it keeps, and which part it loses."""
    for name in found.systems:
        if name not in (BASELINE, BASELINE_OF_SHORT, ATTENDING):
            yield (
                f"- {name} keeps {percent(found.share(name))}. At {range_name(FAR)} words its length ratio is "
                f"{ratio(found, name):.2f}; of the content words of the three thirds it has "
                f"{recall(found, name, FAR[0])}."
            )


def comparisons_table(found: Found) -> str:
    """The differences of BLEU between every two systems by length, with p-values."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for each in found.curves["test_lenstrat"]["comparisons"]:
        pair = each["system"], each["other"]
        row = rows.setdefault(pair, {"systems": " − ".join(pair)})
        p = "" if each["p_value"] is None else f" ({p_value(each['p_value'], found)})"
        row[lengths(each)] = f"{each['difference']:+.1f}{p}"
    return table(list(rows.values()))


def recall(found: Found, system: str, low: int) -> str:
    """Of content words, by thirds, in the bin that begins at ``low``."""
    return slashed(bin_from(low, found.reasons[system]), thirds("recall"))


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Copy the figures, draw the one of alignment, write the page."""
    folder, output = Path(arguments.runs), Path(arguments.output)
    found, written_by = read(folder), commit()  # before the figures change
    figures = output.parent / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for name in found.curves:
        shutil.copy(folder / f"{name}.png", figures / f"length_decay_{name}.png")
    shutil.copy(folder / "test_lenstrat.csv", figures / "length_decay_test_lenstrat.csv")
    shutil.copy(folder / "test_lenstrat.why.csv", figures / "length_decay_why.csv")
    for name in ("recall", "probability", "attention", "failures"):
        shutil.copy(folder / f"test_lenstrat.why.{name}.png", figures / f"length_decay_{name}.png")
    if found.gold:
        reports = {name: scores["alignment"] for name, scores in found.gold.items()}
        figure = draw_error_rates(reports, test_set="Hansards", systems=found.systems)
        write_all(figures / "length_decay_alignment", {".png": png(figure)})
    output.write_text(page(found, "gpu" if folder.name == "gpu" else "cpu", written_by), encoding="utf-8")
    say(f"written: {output}")


if __name__ == "__main__":
    sys.exit(main())
