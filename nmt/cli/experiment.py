"""Train, translate, score and compare systems, each described by its differences from a base configuration; also make
texts with some of them for others: back-translations, distillations.

A second call keeps what is finished and resumes what was stopped.

examples:
  nmt-experiment --config configs/experiments/demo.yaml --dry-run
  nmt-experiment --config configs/experiments/europarl.yaml --only rnnsearch-50:1
"""

import argparse
import os
import shlex
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nmt.cli import made_texts
from nmt.cli.common import FAILED, INTERRUPTED, as_typed, command, importing, say
from nmt.cli.experiment_results import draw_all, list_scores, translate_all
from nmt.cli.made_texts import Unfinished
from nmt.cli.options import CommandParser, add_config_options, whole
from nmt.cli.train import StopRequest
from nmt.data.corpus import read_test_set
from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluation.alignment import read_gold
from nmt.experiments.jobs import Job, run_jobs
from nmt.experiments.plan import Plan, make_plan
from nmt.experiments.runs import Run
from nmt.experiments.schema import TestSet, load_experiment
from nmt.messages import Result


def parser() -> argparse.ArgumentParser:
    """The options of ``nmt-experiment``."""
    arguments = CommandParser(prog="nmt-experiment", description=__doc__)
    add_config_options(arguments)
    arguments.add_argument("--base", metavar="FILE", help="the base configuration (default: base: in the experiment)")
    arguments.add_argument(
        "--output", metavar="DIR", help="directory of runs, figures and tables (default: output: in the experiment)"
    )
    arguments.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME[:SEED]",
        help="train and translate with this system alone, or make this text alone, and draw nothing, as in a job "
        "array; may be given again (default: all, and draw)",
    )
    arguments.add_argument(
        "--jobs", type=whole(1), metavar="N", help="runs trained side by side (default: jobs: in the experiment, or 1)"
    )
    arguments.add_argument(
        "--overwrite",
        action="append",
        default=[],
        metavar="NAME[:SEED]",
        help="train these runs again from the start; may be given again (default: none)",
    )
    arguments.add_argument(
        "--dry-run", action="store_true", help="rehearse the training of each system and keep nothing"
    )
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Complete the experiment; return 0, or 128 plus the signal number."""
    if os.environ.get("WORLD_SIZE", "1") != "1":  # set by torchrun
        raise ConfigError(
            "nmt-experiment starts processes of its own (--jobs); start it without torchrun, or one process for each "
            "--only NAME:SEED"
        )
    experiment = load_experiment(arguments.config, base=arguments.base, output=arguments.output, jobs=arguments.jobs)
    whole = plan = make_plan(experiment, arguments.config, arguments.overrides)
    overwritten = {run.label for name in arguments.overwrite for run in plan.select(name, "--overwrite")}
    if arguments.only:
        plan = plan.only(arguments.only)
        if others := overwritten - {run.label for run in plan.runs}:
            only = " ".join(f"--only {name}" for name in arguments.only)
            raise ConfigError(f"--overwrite {', '.join(sorted(others))}: has no effect with {only}")
    compared = plan.compared()
    if compared.runs:
        compared = readable_tests(compared)
    unfinished = look(plan, overwritten)
    replaced = [(run, manifest(run)) for run in plan.runs if run.label in overwritten]
    if arguments.dry_run:
        with made_texts.stand_ins(plan, whole) as folder:
            rehearsed = make_plan(experiment, arguments.config, arguments.overrides, folder) if folder else whole
            chosen = [run for run in rehearsed.runs if run.label in {each.label for each in plan.runs}]
            return rehearse(replace(compared, runs=tuple(chosen)), unfinished, experiment.jobs, *amount(arguments))
    texts = made_texts.look(plan, whole, unfinished)
    finish = list_scores if arguments.only else draw_all
    try:
        if not plan.runs and len(texts) == 1:
            code = made_texts.make(texts[0])
        else:
            jobs = training_jobs(plan, unfinished, *amount(arguments))
            jobs += made_texts.jobs(texts, [*command_words(arguments), *amount(arguments)])
            code = run_all(jobs, experiment.jobs)
        code = code or translate_all(compared) or finish(compared)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code not in (0, FAILED):
        again = [run.label for run, before in replaced if before and manifest(run) == before]
        say(Result(f"stopped; continue with: {shlex.join(continuing(arguments, again))}"))
    return code


def manifest(run: Run) -> bytes:
    """Read what tells one start of a run from another."""
    path = run.path / "manifest.json"
    return path.read_bytes() if path.exists() else b""


def continuing(arguments: argparse.Namespace, overwrite: list[str]) -> list[str]:
    """Return the command that continues this one; only runs that were not yet started again are still overwritten."""
    words = [word for name in arguments.only for word in ("--only", name)]
    words += [word for label in overwrite for word in ("--overwrite", label)]
    return [as_typed("nmt-experiment"), *command_words(arguments, words)]


def command_words(arguments: argparse.Namespace, words: Sequence[str] = ()) -> list[str]:
    """Return the options that describe the experiment, with others before the overrides."""
    described = ["--config", arguments.config]
    for option in ("base", "output", "jobs"):
        if (value := getattr(arguments, option)) is not None:
            described += [f"--{option}", str(value)]
    return [*described, *words, *(word for each in arguments.overrides for word in ("--set", each))]


def amount(arguments: argparse.Namespace) -> list[str]:
    """Return the options that say how much is shown."""
    return ["--quiet"] if arguments.quiet else ["--verbose"] if arguments.verbose else []


# --- before training --------------------------------------------------------------------------------------------------


def readable_tests(plan: Plan) -> Plan:
    """The plan without optional test sets that are missing. Raises DataError, before hours of training, for files that
    could not be read after them."""
    tests, errors = dict[str, TestSet](), list[NmtError]()
    for name, test in plan.tests.items():
        missing = [path for path in test.files if not Path(path).exists()]
        if test.optional and missing:
            say(f"test set {name}: left out: {', '.join(missing)}: no such file")
            continue
        tests[name] = test
        try:
            read_test_set(test.source, test.reference)
            if test.gold:
                read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)
        except NmtError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]  # it may have a hint where the file is
    if errors:
        raise DataError(*(problem for error in errors for problem in error.problems))
    if not tests:
        raise DataError(f"{plan.output}: no test set is left; name one in tests: of the experiment")
    return replace(plan, tests=tests)


def look(plan: Plan, overwritten: set[str]) -> Unfinished:
    """Say what is left to do for each run. Raises ConfigError, with all problems, for runs of another experiment."""
    with importing():
        from nmt.experiments.progress import remaining  # noqa: PLC0415  (PyTorch is slow to import)

    unfinished, problems = dict[str, tuple[str, ...]](), list[str]()
    for run in plan.runs:
        if run.label in overwritten and run.path.exists():
            unfinished[run.label] = ("--overwrite",)
            say(f"{run.label}: to be replaced: {run.path}")
            continue
        try:
            left = remaining(run, say)
        except NmtError as error:
            problems += error.problems
            continue
        say(f"{run.label}: {left.described}")
        if left.options is not None:
            unfinished[run.label] = left.options
    if problems:
        raise ConfigError(*problems)
    return unfinished


def rehearse(plan: Plan, unfinished: Unfinished, count: int, *options: str) -> int:
    """Rehearse the training of every system that is not finished, with its first seed; say what would be done."""
    first = {run.system: run.label for run in reversed(plan.runs) if run.label in unfinished}
    begun = {label: unfinished[label] for label in first.values()}
    if code := run_all(training_jobs(plan, begun, "--dry-run", *options), count):
        return code
    trained, texts = f"{len(unfinished)} of {len(plan.runs)} runs would be trained", ", ".join(plan.tests)
    say(f"dry run: {trained}; all would translate {texts}; figures and tables would go to {plan.output}")
    return 0


# --- training ---------------------------------------------------------------------------------------------------------


def training_jobs(plan: Plan, unfinished: Unfinished, *options: str) -> list[Job]:
    """Return the jobs that finish the runs by ``nmt-train``."""
    jobs = []
    for run in plan.runs:
        if (own := unfinished.get(run.label)) is not None:
            settings = [word for setting in run.settings for word in ("--set", setting)]
            arguments = ("--config", plan.base, *settings, "--output", str(run.path), *own, *options)
            jobs.append(Job(run.label, "nmt.cli.train", arguments, run.texts))
    return jobs


def run_all(jobs: Sequence[Job], count: int) -> int:
    """Run the jobs, up to ``count`` at a time, each in its own process.

    Returns 0, FAILED, or 128 plus the number of the signal that stopped them.
    """
    modules = {job.label: job.module for job in jobs}
    with StopRequest() as stop:
        codes = run_jobs(jobs, count, lambda line: say(Result(line)), lambda: stop.signal)  # they choose what to show
    if stop.signal is not None:
        return 128 + stop.signal
    for label, code in codes.items():
        if code:
            end = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
            say(Result(f"{label}: nmt-{modules[label].rpartition('.')[2]} ended with {end}; see its messages above"))
    return FAILED if any(codes.values()) else 0
