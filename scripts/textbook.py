"""Measure the claims in configs/experiments/textbook, and write the table and the picture of docs/textbook.md.

A claim whose runs are all finished gives docs/figures/textbook/NAME.json: the scores of both systems with each seed,
and where they come from. Its verdict follows from them by :func:`verdict` and is written nowhere by hand.
"""

import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

import reference
from machine import commit, machine
from nmt.cli.command import Command
from nmt.data.lines import read_lines
from nmt.evaluation.figures.style import COLORS, png, style
from nmt.evaluation.metrics import bleu
from nmt.experiments.plan import Plan, Run, make_plan
from nmt.experiments.schema import DEFAULT_TEST, Claim, load_experiment
from nmt.experiments.training import remaining
from nmt.files import read_json, write_bytes, write_json
from nmt.runs.directory import RunDirectory
from nmt.runs.metrics import best_validation, read_metrics
from nmt.translation.translator import Translator

FIGURES = reference.ROOT / "docs/figures"
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5% quantile of Student's t for 1 to 9 degrees of freedom."""
VERDICTS = {"holds": COLORS[2], "does not hold": COLORS[1], "not resolved": COLORS[6]}
"""Each verdict and its color."""

# --- the rule ---------------------------------------------------------------------------------------------------------


class Gain(NamedTuple):
    """What the first system gains over the second: the mean over seeds, and its 95% interval."""

    mean: float
    low: float
    high: float


def gain(first: Sequence[float], second: Sequence[float]) -> Gain:
    """Compare two systems, given their scores with the same seeds, by Student's t (1908) of the paired differences.

    With one seed the interval is the whole line.
    """
    differences = [one - other for one, other in zip(first, second, strict=True)]
    mean, freedom = statistics.fmean(differences), len(differences) - 1
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if freedom else math.inf
    half = STUDENT[max(freedom, 1) - 1] * error
    return Gain(mean, mean - half, mean + half)


def verdict(found: Gain, margin: float) -> str:
    """Judge the claim that there is a gain: it does not hold if the interval lies below the smallest gain that counts,
    else it holds if the interval lies above 0."""
    if found.high < margin:
        return "does not hold"
    return "holds" if found.low > 0 else "not resolved"


# --- scores -----------------------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """One way to score a run. The higher, the better."""

    unit: str
    decimals: int
    compute: Callable[[Run, Sequence[str], Sequence[str]], float]
    """From the run, its translations of the test set, and the references."""


def bleu_of_run(_: Run, translations: Sequence[str], references: Sequence[str]) -> float:
    """The BLEU of the test set."""
    return bleu(translations, references, "13a").value


def names_recalled(_: Run, translations: Sequence[str], references: Sequence[str]) -> float:
    """The percentage that is translated of the references' names and numbers: words with a capital or a digit, except
    the first of a sentence."""
    wanted, found = 0, 0
    for lines in zip(references, translations, strict=True):
        names, written = (Counter(re.findall(r"\b[A-ZÀ-Þ\d][\w-]*", line.partition(" ")[2])) for line in lines)
        wanted, found = wanted + names.total(), found + (names & written).total()
    return 100 * found / wanted


def minus_loss(run: Run, *_: Sequence[str]) -> float:
    """The negative of the loss on the validation set."""
    return -float(best_validation(read_metrics(RunDirectory(run.path).metrics))["loss"])


SCORES = {
    "bleu": Score("BLEU", 1, bleu_of_run),
    "names": Score("%", 1, names_recalled),
    "loss": Score("nats", 3, minus_loss),
}


def measure(claim: Claim, plan: Plan) -> dict[str, Any] | None:
    """Score both systems with each seed; None if one of the runs is not finished."""
    sides = [plan.runs_of(system) for system in claim.compared]
    if not all(run.path.exists() and remaining(run)[0] is None for runs in sides for run in runs):
        return None
    references, compute = list(read_lines(plan.tests[DEFAULT_TEST].reference)), SCORES[claim.score].compute
    scores = [
        [compute(run, translations(plan, run, beam), references) for run in runs]
        for runs, beam in zip(sides, claim.beams or (None, None), strict=True)
    ]
    manifest = read_json(RunDirectory(sides[0][0].path).manifest)
    trained = {"trained": manifest["started"], "data": plan.base, "corpus_sha256": manifest["corpus_sha256"]}
    return {"seeds": [run.seed for run in sides[0]], "scores": scores, **trained}


def translations(plan: Plan, run: Run, beam: int | None) -> list[str]:
    """Read the translations of the test set, or make them with a beam of another size."""
    if beam is None:
        return list(read_lines(plan.translations(run, DEFAULT_TEST)))
    sources = list(read_lines(plan.tests[DEFAULT_TEST].source))
    return [each.text for each in Translator.load(run.path).translate(sources, beam_size=beam, attention=False)]


# --- the page ---------------------------------------------------------------------------------------------------------


def measured() -> list[dict[str, Any]]:
    """Read every claim that has been measured."""
    return [read_json(path) for path in sorted((FIGURES / "textbook").glob("*.json"))]


def table() -> str:
    """The claims with their verdicts, in Markdown."""
    heads = ["| claim | source | compared | seeds | gain | margin | verdict |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*heads, *(f"| {' | '.join(cells(each))} |" for each in measured())]) + "\n"


def cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    """Format a measured claim."""
    score, found, margin = SCORES[each["score"]], gain(*each["scores"]), each["margin"]
    mean, low, high = (f"{value:+.{score.decimals}f}" for value in found)
    compared = " – ".join(f"`{name}`" for name in each["compared"])
    judged = f"[{verdict(found, margin)}](figures/textbook/{each['name']}.json)"
    shown = f"{mean} [{low}, {high}] {score.unit}"
    return each["text"], each["source"], compared, str(len(each["seeds"])), shown, f"{margin:g}", judged


def picture(claims: Sequence[Mapping[str, Any]]) -> bytes:
    """Draw the gain of each claim and its interval, in multiples of the smallest gain that counts."""
    with style():
        figure = Figure(figsize=(8, 1 + 0.3 * len(claims)), layout="constrained")
        axes = figure.add_subplot()
        for row, each in enumerate(claims):
            found = gain(*each["scores"])
            mean, low, high = (value / each["margin"] for value in found)
            axes.plot([low, high], [row, row], "-", [mean], [row], "o", color=VERDICTS[verdict(found, each["margin"])])
        axes.set_yticks(range(len(claims)), [each["text"] for each in claims])
        axes.invert_yaxis()
        axes.axvspan(-1, 1, color="#EEEEEE")
        axes.set_xscale("symlog", linthresh=2)
        axes.set_xlabel("gain in multiples of the smallest that counts; green: holds, orange: does not hold")
        return png(figure)


def textbook(*, begun_at: str | None = None) -> None:
    """Measure the claims whose runs are finished, and write the table and the picture of all measured claims.

    Args:
        begun_at: commit at which the runs were begun (default: the current one)
    """
    for file in sorted(Path("configs/experiments/textbook").glob("*.yaml")):
        experiment = load_experiment(file)
        plan = make_plan(experiment, str(file))
        made = {
            "command": f"nmt-experiment --config {file}; python scripts/textbook.py",
            "commit": begun_at or commit(),
            "machine": machine(),
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        for name, claim in (experiment.claims or {}).items():
            if found := measure(claim, plan):
                write_json(FIGURES / f"textbook/{name}.json", {"name": name, **claim.model_dump(), **found, **made})
    write_bytes(FIGURES / "textbook.png", picture(measured()))
    reference.write()


main = Command(textbook, "textbook.py")

if __name__ == "__main__":
    sys.exit(main())
