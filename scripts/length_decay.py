"""Write docs/length-decay.md and its figures from the results of configs/experiments/europarl.yaml (make figure)."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from length_decay_results import (
    ATTENDING,
    BASELINE,
    BASELINE_OF_SHORT,
    FAR,
    LONG,
    SHORT,
    Results,
    Row,
    bin_from,
    claims,
    p_value,
    percent,
    range_name,
    ratio,
    read,
    share_difference,
)
from machine import commit, machine
from nmt.cli.common import command, say
from nmt.config import load_run_config
from nmt.evaluation.diagnosis import FUNCTION_WORDS, PARTS, display_factor
from nmt.evaluation.links import best_threshold
from nmt.experiments.results import run_facts
from nmt.foundation.files import read_json
from nmt.foundation.messages import duration
from nmt.plots.alignment import draw_error_rates
from nmt.plots.files import markdown, write_all
from nmt.plots.style import png
from nmt.runs.directory import RunDirectory

TEMPLATE = Path(__file__).with_suffix(".template.md")
GOLD = """The models read {pairs} pairs of the Canadian Hansards whose words people have linked (Och & Ney 2003), in
lower case and tokenized, unlike the text they were trained on. The attention between pieces is summed into words, and
links are scored against the sure and the possible ones. The diagonal links each target word to the source word at its
relative place, and knows nothing. The best threshold is the best on these very pairs: a bound, not a result.

![Alignment error rate against the least weight](figures/length_decay_alignment.png)

{table}"""
ONE_SEED = "One run each: the intervals say how much depends on the sentences, not how much on the seed."


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="length_decay.py", description=__doc__)
    arguments.add_argument("--runs", required=True, metavar="DIR", help="the output of nmt-experiment")
    arguments.add_argument(
        "--output", required=True, metavar="FILE", help="the page; its figures go to figures/ beside it"
    )
    return arguments


def overall_table(results: Results) -> str:
    """Every two systems on the whole of test_lenstrat: difference in BLEU, interval, and both p-values."""
    rows = []
    for each in results.curves["test_lenstrat"]["overall"]:
        ps = (each["p_bootstrap"], each["p_randomization"])
        bootstrap, randomization = ("–" if p is None else p_value(p, results) for p in ps)
        rows.append(
            {
                "systems": f"{each['system']} − {each['other']}",
                "difference in BLEU": f"{each['difference']:+.2f} [{each['low']:+.2f}, {each['high']:+.2f}]",
                "p, paired bootstrap": bootstrap,
                "p, approximate randomization": randomization,
            }
        )
    return markdown(rows)


# --- the page ---------------------------------------------------------------------------------------------------------


def lengths(row: Row) -> str:
    """The name of a bin."""
    return f"{row['low']}–{row['high']}"


def trained(results: Results) -> str:
    """A row for each run."""
    rows = []
    for name, runs in results.runs.items():
        for path in runs[: results.seeds(name)]:
            run = RunDirectory(path)
            config, manifest, facts = load_run_config(run.path), read_json(run.manifest), run_facts(run.path)
            rows.append(
                {
                    "system": name,
                    "seed": str(config.seed),
                    "attention": facts["attention"],
                    "longest pair": f"{config.data.filter.max_words} words",
                    "updates": f"{facts['updates']:,}",
                    "target pieces": f"{facts['target_tokens'] / 1e6:.1f} M",
                    "time in updates": duration(facts["seconds"]),
                    "threads": str(manifest["threads"]),
                    "pieces/s": f"{facts['tokens_per_second']:,.0f}",
                    "begun": manifest["started"][:16].replace("T", " "),
                }
            )
    return markdown(rows)


def bleu_table(results: Results) -> str:
    """BLEU, its interval and the length ratio by length, and the p-value of the two systems that are compared."""
    p_values = {
        row["low"]: row["p_value"]
        for row in results.curves["test_lenstrat"]["comparisons"]
        if {row["system"], row["other"]} == {BASELINE, ATTENDING}
    }
    rows = []
    for places in zip(*map(results.bins, results.systems), strict=True):
        row = {"source words": lengths(places[0]), "sentences": str(places[0]["n"])}
        for name, each in zip(results.systems, places, strict=True):
            row[name] = (
                f"{each['bleu']:.1f} [{each['bleu_low']:.1f}, {each['bleu_high']:.1f}] {each['length_ratio']:.2f}"
            )
        p = p_values[places[0]["low"]]
        rows.append(row | {"p": "–" if p is None else p_value(p, results)})
    return markdown(rows)


def reasons_table(results: Results, measures: Mapping[str, Sequence[str]], places: int = 2) -> str:
    """By length, a column for each system and each heading that it has measures for."""
    rows: list[dict[str, str]] = [{"source words": lengths(each)} for each in results.reasons[results.systems[0]]]
    for name in results.systems:
        for heading, columns in measures.items():
            if any(each[column] is not None for each in results.reasons[name] for column in columns):
                for row, each in zip(rows, results.reasons[name], strict=True):
                    row[f"{name}{heading}"] = slashed(each, columns, places)
    return markdown(rows)


def slashed(row: Row, columns: Sequence[str], places: int = 2) -> str:
    """Some measures of one bin."""
    return " / ".join(
        "–" if row[column] is None else f"{row[column] * display_factor(column):.{places}f}" for column in columns
    )


def thirds(measure: str) -> list[str]:
    """Its columns."""
    return [f"{measure}_{part}" for part in PARTS]


def alignment_section(results: Results) -> str:
    """The error rates on the gold links, or that there are none."""
    if not results.gold:
        return "No gold alignment was there when this page was written."
    rows = []
    for name, scores in results.gold.items():
        report = scores["alignment"]
        best = best_threshold(report)
        rows.append(scored(name, "likeliest word", report["likeliest"]))
        rows.append(scored(name, f"weight from {best['threshold']:.2f}, the best of {len(report['thresholds'])}", best))
    rows.append(scored("diagonal", "", next(iter(results.gold.values()))["alignment"]["diagonal"]))
    pairs = sum(row["n"] for row in next(iter(results.gold.values()))["by_length"])
    return GOLD.format(pairs=pairs, table=markdown(rows))


def scored(name: str, how: str, score: Row) -> dict[str, str]:
    """A row of the table of error rates."""
    numbers = {key.replace("error_rate", "AER"): f"{score[key]:.3f}" for key in ("error_rate", "precision", "recall")}
    return {"system": name, "link": how} | numbers


def other_sets(results: Results) -> str:
    """BLEU of every test set as a whole."""
    return markdown(
        [
            {"test set": name, "sentences": f"{curve['sentences']:,}"}
            | {system: f"{scores['BLEU']['score']:.2f}" for system, scores in curve["systems"].items()}
            for name, curve in results.curves.items()
        ]
    )


def page(results: Results, size: str, written_by: str) -> str:
    """The template with everything in its place; ``written_by`` a commit."""
    config = load_run_config(results.runs[ATTENDING][0])
    curve = results.curves["test_lenstrat"]
    several = max(map(results.seeds, results.systems)) > 1
    verdicts = [
        {"expected": each.expected, "found": each.found, "": "holds" if each.holds else "**does not hold**"}
        for each in claims(results, size)
    ]
    other_curves = [
        f"![BLEU against source length on {name}](figures/length_decay_{name}.png)"
        for name in results.curves
        if name != "test_lenstrat"
    ]
    return TEMPLATE.read_text("utf-8").format(
        config=config,
        size=size,
        baseline=BASELINE,
        attending=ATTENDING,
        trained=trained(results),
        sentences=f"{curve['sentences']:,}",
        signature=curve["signature"],
        resamples=f"{curve['interval']['resamples']:,}",
        seeds="Scores are means over the seeds." if several else ONE_SEED,
        verdicts=markdown(verdicts),
        bleu=bleu_table(results),
        other_sets=other_sets(results),
        other_curves="\n\n".join(other_curves),
        kept={name: percent(results.share(name)) for name in results.systems},
        share_difference=percent(share_difference(results), "difference"),
        overall=overall_table(results),
        ratio={name: f"{ratio(results, name):.2f}" for name in results.systems},
        ahead=f"{results.bins(ATTENDING)[0]['bleu'] - results.bins(BASELINE)[0]['bleu']:.1f}",
        shortest=lengths(results.bins(BASELINE)[0]),
        longest=lengths(results.bins(BASELINE)[-1]),
        recall_longest={name: recall(results, name, results.bins(name)[-1]["low"]) for name in results.systems},
        repeats={name: f"{results.reasons[name][-1]['repeats']:.0%}" for name in results.systems},
        others="\n".join(said_of_others(results)),
        comparisons=comparisons_table(results),
        recall_short={name: recall(results, name, SHORT[0]) for name in results.systems},
        recall_long={name: recall(results, name, FAR[0]) for name in results.systems},
        short=range_name(SHORT),
        long=range_name(LONG),
        far=range_name(FAR),
        function_words=FUNCTION_WORDS,
        recall=reasons_table(results, {"": thirds("recall")}),
        probability=reasons_table(results, {"": thirds("log_probability")}),
        attention=reasons_table(
            results, {": entropy": ["entropy"], ": distance": ["distance_from_diagonal"]}, places=3
        ),
        failures=reasons_table(results, {"": ["stops_early", "runs_on", "repeats"]}, places=3),
        alignment=alignment_section(results),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=written_by,
        machine=machine(),
    )


def said_of_others(results: Results) -> Iterator[str]:
    """A line for each other system with attention: what it keeps, and which part it loses."""
    for name in results.systems:
        if name not in (BASELINE, BASELINE_OF_SHORT, ATTENDING):
            yield (
                f"- {name} keeps {percent(results.share(name))}. At {range_name(FAR)} words its length ratio is "
                f"{ratio(results, name):.2f}; of the content words of the three thirds it has "
                f"{recall(results, name, FAR[0])}."
            )


def comparisons_table(results: Results) -> str:
    """The differences of BLEU between every two systems by length, with p-values."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for each in results.curves["test_lenstrat"]["comparisons"]:
        pair = each["system"], each["other"]
        row = rows.setdefault(pair, {"systems": " − ".join(pair)})
        p = "" if each["p_value"] is None else f" ({p_value(each['p_value'], results)})"
        row[lengths(each)] = f"{each['difference']:+.1f}{p}"
    return markdown(list(rows.values()))


def recall(results: Results, system: str, low: int) -> str:
    """Recall of content words, by thirds, in the bin that begins at ``low``."""
    return slashed(bin_from(low, results.reasons[system]), thirds("recall"))


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Copy the figures, draw the one of alignment, write the page."""
    folder, output = Path(arguments.runs), Path(arguments.output)
    results, written_by = read(folder), commit()  # before the figures change
    figures = output.parent / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for name in results.curves:
        shutil.copy(folder / f"{name}.png", figures / f"length_decay_{name}.png")
    shutil.copy(folder / "test_lenstrat.csv", figures / "length_decay_test_lenstrat.csv")
    shutil.copy(folder / "test_lenstrat.why.csv", figures / "length_decay_why.csv")
    for name in ("recall", "probability", "attention", "failures"):
        shutil.copy(folder / f"test_lenstrat.why.{name}.png", figures / f"length_decay_{name}.png")
    if results.gold:
        reports = {name: scores["alignment"] for name, scores in results.gold.items()}
        figure = draw_error_rates(reports, test_set="Hansards", systems=results.systems)
        write_all(figures / "length_decay_alignment", {".png": png(figure)})
    output.write_text(page(results, "gpu" if folder.name == "gpu" else "cpu", written_by), encoding="utf-8")
    say(f"written: {output}")


if __name__ == "__main__":
    sys.exit(main())
