"""Measure the claims in configs/experiments/textbook, and draw the picture of docs/textbook.md.

A claim whose runs are all finished gives docs/figures/textbook/NAME.json: the scores of both systems with each seed,
and where they come from. Its verdict follows from them by :func:`verdict` and is written nowhere by hand.
"""

import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from machine import commit, machine
from nmt.cli.command import Command
from nmt.config import load_config
from nmt.config.schema import Positive, Section, Text
from nmt.data.dataset import corpus_sha256
from nmt.evaluation.alignment import labelled_weights
from nmt.evaluation.figures.attention import draw_attention
from nmt.evaluation.figures.style import COLORS, legend_above, png, style
from nmt.evaluation.metrics import Floats
from nmt.experiments.plan import Experiment, Plan, Run, load_experiment, make_plan
from nmt.experiments.running import remaining
from nmt.files import read_json, write_bytes, write_json
from nmt.runs.directory import RunDirectory
from nmt.translation.translator import Translator
from textbook_scores import BASELINES, SCORES, Changes, sentence_error

ROOT = Path(__file__).parent.parent
FIGURES, CONFIGS = ROOT / "docs/figures", sorted(ROOT.glob("configs/experiments/textbook/*.yaml"))
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5% quantile of Student's t (1908) for 1 to 30 degrees of freedom; with more it is smaller."""
NORMAL = 1.96
"""The 97.5% quantile of the normal distribution."""
OPPOSITE = "the opposite holds"
VERDICTS = {"holds": COLORS[2], "does not hold": COLORS[4], OPPOSITE: COLORS[1], "not resolved": COLORS[6]}
"""Each verdict and its color."""
TICKS = (-10, -1, 0, 1, 10, 100)
OURS = "NMT_IMPORT=ablations PYTHONPATH=scripts"
"""The environment of the commands, for parts of scripts/ablations.py."""
SHOWN = "Margot will open his novel and a novel because you will always be new."
"""A test sentence with two verbs that move."""


class Claim(Section):
    """The claim of a textbook about two systems of an experiment."""

    text: Text
    source: Text
    """Paper and section."""
    compared: tuple[Text, Text]
    """Two systems, the supposedly better one first."""
    beside: tuple[Text, ...] = ()
    """Other systems that the score reads."""
    score: Text = "bleu"
    """One of ``SCORES``."""
    margin: Positive = 1.0
    """Smallest gain that counts, in units of the score."""
    decoding: tuple[Changes, Changes] = ({}, {})
    """What differs from the decoding of the configuration, for each of the two."""

    @property
    def measured(self) -> dict[str, Any]:
        """What the scores depend on; of the systems ``beside``, ``begun`` names the runs."""
        return self.model_dump(mode="json", exclude={"text", "source", "margin", "beside"})


def claims_of(experiment: Experiment) -> dict[str, Claim]:
    """Return the claims about an experiment, by name."""
    return {name: Claim.model_validate(each) for name, each in (experiment.claims or {}).items()}


# --- the rule ---------------------------------------------------------------------------------------------------------


class Gain(NamedTuple):
    """What the first system gains over the second: the mean over seeds, and its 95% interval."""

    mean: float
    low: float
    high: float


def gain(first: Sequence[float], second: Sequence[float], sentence_error: float = 0.0) -> Gain:
    """Compare two systems, given their scores with the same seeds, and the standard error of the mean gain over the
    test sentences.

    Half the interval is the root of two summed squares: of Student's half over the paired differences of the seeds, and
    of the normal half over the sentences. With one seed it is infinite; more than 31 count as 31.
    """
    differences = [one - other for one, other in zip(first, second, strict=True)]
    mean, freedom = statistics.fmean(differences), len(differences) - 1
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if freedom else math.inf
    half = math.hypot(STUDENT[min(max(freedom, 1), len(STUDENT)) - 1] * error, NORMAL * sentence_error)
    return Gain(mean, mean - half, mean + half)


def verdict(found: Gain, margin: float) -> str:
    """Judge the claim that there is a gain of at least the margin: it holds, or the opposite holds, if the interval
    excludes 0 and the mean reaches the margin; it does not hold if the interval lies below the margin."""
    if found.low > 0 and found.mean >= margin:
        return "holds"
    if found.high < 0 and found.mean <= -margin:
        return OPPOSITE
    return "does not hold" if found.high < margin else "not resolved"


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(claim: Claim, plan: Plan, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """Score both systems with each seed; None if one of the runs is not finished, or if this was done ``before``."""
    runs = {name: plan.runs_of(name) for name in (*claim.compared, *claim.beside) if name not in BASELINES}
    if not all(run.path.exists() and remaining(run)[0] is None for each in runs.values() for run in each):
        return None
    manifests = {run.label: read_json(RunDirectory(run.path).manifest) for each in runs.values() for run in each}
    begun = {label: manifest["started"] for label, manifest in manifests.items()}
    made_from = {**claim.measured, "begun": begun}
    if before.items() >= made_from.items():
        return None
    seeds = [run.seed for run in next(iter(runs.values()))]
    score = SCORES[claim.score]
    first, second = (
        [score.statistics(plan, run, changes) for run in runs[name]]
        if name in runs
        else [BASELINES[name](plan)] * len(seeds)
        for name, changes in zip(claim.compared, claim.decoding, strict=True)
    )
    trained = {key: sorted({manifest[key] for manifest in manifests.values()}) for key in ("device", "precision")}
    return {
        **made_from,
        "updates": next(iter(runs.values()))[0].config.training.updates,
        "seeds": seeds,
        "scores": values(score.value, first, second),
        "unpenalized": values(score.unpenalized, first, second) if score.unpenalized else [],
        "sentence_error": sentence_error(score.value, first, second),
        "data": plan.base,
        "corpus_sha256": corpus_sha256(plan.runs[0].config.data),
        "trained_on": trained["device"],
        "precision": trained["precision"],
    }


def values(of: Callable[[Floats], Floats], *systems: Sequence[Floats]) -> list[list[float]]:
    """Score each run of each system, given the statistics of its sentences."""
    return [[float(of(each.sum(0))) for each in runs] for runs in systems]


# --- the page ---------------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A claim, the updates of its first system, the scores of both systems, by seed, the standard error over
    sentences, and the scores without brevity penalties, if they have any; no scores before its runs."""

    name: str
    claim: Claim
    updates: int
    scores: Sequence[Sequence[float]]
    sentence_error: float
    unpenalized: Sequence[Sequence[float]] = ()

    @property
    def gain(self) -> Gain:
        """The gain of the first system."""
        first, second = self.scores
        return gain(first, second, self.sentence_error)

    @property
    def verdict(self) -> str:
        """The verdict on the claim."""
        return verdict(self.gain, self.claim.margin)


def all_claims() -> list[Measured]:
    """Read all claims with their scores, in the order of the experiments."""
    found = []
    for file in CONFIGS:
        experiment = load_experiment(file)
        updates = load_config(experiment.base).training.updates
        for name, claim in claims_of(experiment).items():
            own = next(experiment.systems[system] for system in claim.compared if system not in BASELINES)
            none = {"updates": own.get("training.updates", updates), "scores": (), "sentence_error": 0.0}
            measured = stored(name)
            if not measured.items() >= claim.measured.items():  # not yet, or otherwise
                measured = none
            scores = measured["scores"], measured["sentence_error"], measured.get("unpenalized", ())
            found.append(Measured(name, claim, measured["updates"], *scores))
    return found


def result_of(name: str) -> Path:
    """The file with the scores of a claim."""
    return FIGURES / f"textbook/{name}.json"


def stored(name: str) -> Any:
    """What the file of a claim holds; nothing before its runs."""
    return read_json(path) if (path := result_of(name)).exists() else {}


def cells(each: Measured) -> tuple[str, ...]:
    """Format a claim."""
    claim, score = each.claim, SCORES[each.claim.score]
    names, judged = [f"`{name}`" for name in claim.compared], "not measured"
    if each.scores:
        means = [score.sign * statistics.fmean(scores) for scores in each.scores]
        names = [f"{name} {mean:.{score.decimals}f}" for name, mean in zip(names, means, strict=True)]
        for place, scores in enumerate(each.unpenalized):
            names[place] += f"/{statistics.fmean(scores):.{score.decimals}f}"
        for place, changes in enumerate(claim.decoding):
            names[place] += "".join(f" (`{option}` {value:g})" for option, value in changes.items())
        mean, low, high = (f"{value:+.{score.decimals}f}" for value in each.gain)
        margin = f", margin {claim.margin:g}" if claim.margin != 1 else ""
        judged = f"{mean} [{low}, {high}] {score.unit}{margin}: [{each.verdict}](figures/textbook/{each.name}.json)"
    return label(each), claim.source, ", ".join(names), judged


def label(each: Measured) -> str:
    """A claim with its updates and seeds."""
    seeds = f"×{len(each.scores[0])}" if each.scores else ""
    return f"{each.claim.text} ({each.updates:,}{seeds})"


def picture(claims: Sequence[Measured]) -> bytes:
    """Draw the gain of each claim after so many updates, and its interval, in multiples of the margin."""
    with style():
        figure = Figure(figsize=(10, 1 + 0.3 * len(claims)), layout="constrained")
        axes = figure.add_subplot()
        for row, each in enumerate(claims):
            mean, low, high = (value / each.claim.margin for value in each.gain)
            axes.plot([low, high], [row, row], "-", [mean], [row], "o", color=VERDICTS[each.verdict])
        axes.set_yticks(range(len(claims)), map(label, claims))
        axes.set_ylabel("claim (updates×seeds)")
        axes.set_ylim(len(claims) - 0.4, -0.6)
        axes.axvspan(-1, 1, color="#EEEEEE")
        axes.set_xscale("symlog", linthresh=2)
        axes.set_xticks(TICKS, map(str, TICKS))
        axes.set_xlabel("gain / margin; grey: within the margin\n(linear up to 2, then logarithmic)")
        legend_above(figure, [Line2D([], [], color=color, marker="o") for color in VERDICTS.values()], list(VERDICTS))
        return png(figure)


def attention_map(run: Run) -> bytes:
    """Draw the attention of a run to a sentence."""
    found = Translator.load(run.path).translate(SHOWN)
    assert found.attention is not None
    pieces, words = (found.source_pieces, found.pieces), (True, True)
    labelled = labelled_weights(found.attention, *pieces, found.source, found.text, words=words)
    return png(draw_attention(labelled, units=("words", "words")))


def textbook(*, begun_at: str | None = None) -> None:
    """Measure the claims whose runs are finished, and draw all measured claims; reference.py writes the table.

    Args:
        begun_at: commit at which the runs were begun (default: the current one)
    """
    scored_at = commit()  # before the first result changes the working tree
    for file in CONFIGS:
        experiment = load_experiment(file)
        plan = make_plan(experiment, str(file))
        made = {
            "command": f"{OURS} nmt-experiment --config {file.relative_to(ROOT)}; {OURS} python scripts/textbook.py",
            "begun_at_commit": begun_at or scored_at,
            "scored_at_commit": scored_at,
            "scored_on": machine(),
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        for name, claim in claims_of(experiment).items():
            if found := measure(claim, plan, stored(name)):
                write_json(result_of(name), {"name": name, **found, **made})
                if name == "window-verb-final":
                    write_bytes(FIGURES / "verb_final.png", attention_map(plan.runs[0]))
    write_bytes(FIGURES / "textbook.png", picture([each for each in all_claims() if each.scores]))


main = Command(textbook, "textbook.py")

if __name__ == "__main__":
    sys.exit(main())
