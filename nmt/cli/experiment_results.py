"""After the training of an experiment: translations, scores, figures and tables."""

from pathlib import Path

from nmt.cli import diagnose, length_curve, translate
from nmt.cli.common import importing, say
from nmt.experiments.plan import Plan
from nmt.experiments.runs import Run
from nmt.messages import Highlight
from nmt.plots.diagnosis import ENDINGS
from nmt.plots.files import KINDS


def translate_all(plan: Plan) -> int:
    """Translate and score each test set with each run, and return the exit code of nmt-translate."""
    with importing():
        from nmt.experiments import scores  # noqa: PLC0415  (PyTorch is slow to import)

    for run in plan.runs:
        for test in plan.tests:
            if scores.is_scored(plan, run, test):  # which digests the weights: once is enough
                continue
            translated = plan.has_translated(run, test) or scores.is_translated(plan, run, test)
            if not translated and (code := translate_test(plan, run, test)):
                return code
            scores.score(plan, run, test)
    return 0


def translate_test(plan: Plan, run: Run, test: str) -> int:
    """Write all translations of a test set, or no file; return the exit code of nmt-translate."""
    source, path = plan.tests[test].source, plan.translations(run, test)
    say(f"{run.label}: translating {source}")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    options = ["--model", str(run.path), "--input", source, "--output", str(aside), "--device", run.config.device]
    if code := translate.main(options):
        return code
    aside.replace(path)
    return 0


def list_scores(plan: Plan) -> int:
    """Say where the scores of each run are."""
    for run in plan.runs:
        say(f"{run.label}: scores: {', '.join(str(plan.scores(run, test)) for test in plan.tests)}")
    return 0


def draw_all(plan: Plan) -> int:
    """Draw what has changed since the last call, print the table, say where everything is; return an exit code."""
    from nmt.experiments.results import (  # noqa: PLC0415  (PyTorch is slow to import)
        drawn_files,
        results,
        unequal_precisions,
        write_results,
    )

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
            if code := draw(plan, test):
                return code
        drawn = [path for test in plan.tests for path in figures(plan, test) if path.exists()]
        write_results(plan, results(plan), drawn)
    print(Path(f"{plan.results}.md").read_text("utf-8"), end="")
    for test in plan.tests:
        pictures = [str(path) for path in figures(plan, test) if path in drawn and path.suffix == ".png"]
        if pictures:
            say(f"figures of {test}: {', '.join(pictures)}; their numbers: .csv and .json beside them")
    say(f"results: {plan.results}.md, .csv and .json; runs and translations: {plan.output}")
    return 0


def figures(plan: Plan, test: str) -> list[Path]:
    """The files that may be drawn of a test set."""
    kinds = plan.tests[test].draw
    curve = [Path(f"{plan.curve(test)}{ending}") for ending in KINDS if "curve" in kinds]
    return curve + [Path(f"{plan.diagnosis(test)}{ending}") for ending in ENDINGS if "diagnosis" in kinds]


def draw(plan: Plan, test: str) -> int:
    """Draw the length curve and the diagnosis of a test set by their commands; return an exit code."""
    of = plan.tests[test]
    shared = ["--source", of.source, "--reference", of.reference, "--bins", ",".join(map(str, of.bins or ()))]
    for run in plan.runs:
        shared += ["--system", f"{run.system}={run.path}"]
        shared += ["--hypotheses", f"{run.system}={plan.translations(run, test)}"]
    code = 0
    if "curve" in of.draw:
        options = ["--title", of.title] if of.title else []
        for name, lengths in (("--short", of.short), ("--long", of.long)):
            options += [name, f"{lengths[0]}-{lengths[1]}"] if lengths else []
        code = length_curve.main([*shared, "--output", str(plan.curve(test)), *options])
    if "diagnosis" in of.draw and not code:
        device = ["--device", plan.runs[0].config.device]
        code = diagnose.main([*shared, "--output", str(plan.diagnosis(test)), *device])
    return code
