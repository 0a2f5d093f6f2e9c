"""After the training of an experiment: translations, scores, figures and tables."""

from collections.abc import Iterator
from pathlib import Path

from nmt.data.lines import read_lines
from nmt.experiments import scores
from nmt.experiments.jobs import Say
from nmt.experiments.plan import Plan
from nmt.experiments.results import drawn_files, results, unequal_precisions, write_results
from nmt.experiments.runs import Run
from nmt.library.diagnosis import diagnose_systems
from nmt.library.evaluation import Systems
from nmt.library.length_curve import compare_by_length_of
from nmt.messages import Highlight, counted
from nmt.plots.diagnosis import ENDINGS
from nmt.plots.files import KINDS
from nmt.translation.files import made_from, translate_file
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop
from nmt.translation.watching import load_watched


def translate_all(plan: Plan, say: Say, check_stop: CheckStop) -> None:
    """Translate and score each test set with each run, unless that is done. Raises what ``check_stop`` raises."""
    for run in plan.runs:
        for test in plan.tests:
            if scores.is_scored(plan, run, test):  # which digests the weights: once is enough
                continue
            if not (plan.has_translated(run, test) or scores.is_translated(plan, run, test)):
                _translate(plan, run, test, say, check_stop)
            scores.score(plan, run, test)


def _translate(plan: Plan, run: Run, test: str, say: Say, check_stop: CheckStop) -> None:
    """Write all translations of a test set, or no file."""
    source, path = plan.tests[test].source, plan.translations(run, test)
    say(f"{run.label}: translating {source}")
    path.parent.mkdir(parents=True, exist_ok=True)
    translator = load_watched([run.path], run.config.device, say=say)
    options, lines = SearchOptions.from_config(translator.decoding), list(read_lines(source))
    shown = counted(lines, source, len(lines), "lines")
    translate_file(translator, shown, path, options, made_from([run.path], [source], options), say, check_stop)


def draw_all(plan: Plan, say: Say) -> str:
    """Draw what has changed since the last call, and say where everything is; return the table, in Markdown."""
    if unequal := unequal_precisions(plan):
        computed = "; ".join(f"{precision}: {', '.join(labels)}" for precision, labels in sorted(unequal.items()))
        say(
            Highlight(
                f"warning: precision: auto has chosen differently for these runs ({computed}); to compare them in one "
                "precision, name it in the base configuration and replace the runs with --overwrite"
            )
        )
    drawn = drawn_files(plan)
    if drawn is None:
        for test in plan.tests:
            _draw(plan, test, say)
        drawn = [path for test in plan.tests for path in _figures(plan, test) if path.exists()]
        write_results(plan, results(plan), drawn)
    for test in plan.tests:
        pictures = [str(path) for path in _figures(plan, test) if path in drawn and path.suffix == ".png"]
        if pictures:
            say(f"figures of {test}: {', '.join(pictures)}; their numbers: .csv and .json beside them")
    say(f"results: {plan.results}.md, .csv and .json; runs and translations: {plan.output}")
    return Path(f"{plan.results}.md").read_text("utf-8")


def _figures(plan: Plan, test: str) -> Iterator[Path]:
    """The files that may be drawn of a test set."""
    kinds = plan.tests[test].draw
    if "curve" in kinds:
        yield from (Path(f"{plan.curve(test)}{ending}") for ending in KINDS)
    if "diagnosis" in kinds:
        yield from (Path(f"{plan.diagnosis(test)}{ending}") for ending in ENDINGS)


def _draw(plan: Plan, test: str, say: Say) -> None:
    """Draw the length curve and the diagnosis of a test set."""
    of = plan.tests[test]
    systems = Systems(
        [(run.system, run.path) for run in plan.runs],
        of.source,
        of.reference,
        [(run.system, plan.translations(run, test)) for run in plan.runs],
        plan.runs[0].config.device,
        say=say,
    )
    if "curve" in of.draw:
        bins = of.bins or ()
        curve = compare_by_length_of(systems, bins=bins, short=of.short, long=of.long, title=of.title)
        curve.write(plan.curve(test))
    if "diagnosis" in of.draw:
        diagnose_systems(systems, bins=of.bins or ()).write(plan.diagnosis(test))
