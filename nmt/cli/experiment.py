"""nmt-experiment: systems x seeds x test sets from one YAML file."""

import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from nmt.cli.command import FAILED, Command
from nmt.cli.options import InputFile, Overrides, Value
from nmt.cli.terminal import StopRequest, say, verbosity_options
from nmt.data.corpus import read_test_set
from nmt.errors import ConfigError, DataError, NmtError, Stopped
from nmt.evaluation.alignment import read_gold
from nmt.experiments.plan import Plan, make_plan
from nmt.experiments.schema import TestSet, load_experiment
from nmt.messages import Result

Names = list[Annotated[str, Value("NAME[:SEED]")]]


def experiment(
    *,
    config: InputFile,
    set: Overrides | None = None,
    base: InputFile | None = None,
    output: Annotated[str, Value("DIR")] | None = None,
    only: Names | None = None,
    jobs: Annotated[int, Field(ge=1)] | None = None,
    overwrite: Names | None = None,
    dry_run: bool = False,
) -> int:
    """Train, translate, score and compare systems, each described by its differences from a base configuration.

    A second call keeps what is finished and resumes what was stopped.

    Args:
        config: YAML file of the experiment
        set: override a key of the configuration of every system, for example training.updates=100; may be repeated
        base: the base configuration (default: base: in the experiment)
        output: directory of runs, figures and tables (default: output: in the experiment)
        only: train and translate with this system only, and draw nothing, as in a job array; may be repeated (default:
            all, and draw)
        jobs: runs trained side by side (default: jobs: in the experiment, or 1)
        overwrite: train these runs again from the start; may be repeated
        dry_run: rehearse the training of each system and keep nothing

    examples:
      nmt-experiment --config configs/experiments/demo.yaml --dry-run
      nmt-experiment --config configs/experiments/europarl.yaml --only rnnsearch-50:1
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":  # set by torchrun
        raise ConfigError(
            "nmt-experiment starts processes of its own (--jobs); start it without torchrun, or one process for each "
            "--only NAME:SEED"
        )
    described = load_experiment(config, base=base, output=output, jobs=jobs)
    plan = make_plan(described, config, set or [])
    overwritten = plan.select(overwrite or (), "--overwrite")
    if only:
        plan = plan.only(only)
        if others := [run.label for run in overwritten if run not in plan.runs]:
            raise ConfigError(f"--overwrite {', '.join(others)}: has no effect with --only {' --only '.join(only)}")
    plan = readable_tests(plan)
    from nmt.experiments.results import draw_all, translate_all  # noqa: PLC0415  (slow to import)
    from nmt.experiments.training import prepare_all, remaining_runs  # noqa: PLC0415

    unfinished = remaining_runs(plan, overwritten, say)
    said: Collection[str] = () if dry_run else prepare_all(plan, unfinished, say)
    with StopRequest() as stop:

        def check_stop() -> None:
            if stop():
                raise Stopped

        try:
            if dry_run:
                first = {run.system: run.label for run in reversed(plan.runs) if run.label in unfinished}
                rehearsed = {label: (*unfinished[label], "--dry-run") for label in first.values()}
                if train_all(plan, rehearsed, described.jobs, stop, said):
                    return FAILED
                trained, tests = f"{len(unfinished)} of {len(plan.runs)} runs would be trained", ", ".join(plan.tests)
                say(f"dry run: {trained}; all would translate {tests}; figures and tables would go to {plan.output}")
                return 0
            if train_all(plan, unfinished, described.jobs, stop, said):
                return FAILED
            translate_all(plan, say, check_stop)
            if only:
                for run in plan.runs:
                    files = ", ".join(str(plan.translations(run, test)) for test in plan.tests)
                    say(f"{run.label}: translations: {files}")
            else:
                print(draw_all(plan, say), end="")
            return 0
        except Stopped:
            assert stop.signal is not None
            begun = "; leave out --overwrite of runs that it has begun again" if overwritten else ""
            say(Result(f"stopped; the same command continues{begun}"))
            return 128 + stop.signal


main = Command(experiment)


def readable_tests(plan: Plan) -> Plan:
    """The plan without optional test sets that are missing. Raises DataError, before hours of training, for files that
    could not be read after them."""
    tests, problems = dict[str, TestSet](), list[str]()
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
            problems += error.problems
    if not tests:
        problems.append(f"{plan.output}: no test set is left; name one in tests: of the experiment")
    if problems:
        raise DataError(*problems)
    return replace(plan, tests=tests)


def train_all(
    plan: Plan, unfinished: Mapping[str, tuple[str, ...]], count: int, stop: StopRequest, said: Collection[str]
) -> int:
    """Run ``nmt-train`` for the unfinished runs, up to ``count`` at a time, each in its own process and with its own
    options; say which have failed, and return how many. Lines that were ``said`` are not said again. Raises Stopped."""
    from nmt.experiments.training import run_jobs, training_jobs  # noqa: PLC0415

    jobs = training_jobs(plan, unfinished, *verbosity_options())
    codes = run_jobs(jobs, count, lambda line: say(Result(line)), lambda: stop.signal, said)  # they choose what to show
    if stop():
        raise Stopped
    failed = {label: code for label, code in codes.items() if code}
    for label, code in failed.items():
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
        say(Result(f"{label}: nmt-train ended with {end}; see its messages above"))
    return len(failed)
