"""nmt-experiment: systems x seeds x test sets from one YAML file."""

import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from nmt.cli.common import FAILED, INTERRUPTED, as_typed, importing, say, verbosity_options
from nmt.cli.signature import Command, InputFile, Overrides, Value
from nmt.cli.train import StopRequest
from nmt.data.corpus import read_test_set
from nmt.errors import ConfigError, DataError, NmtError, Stopped
from nmt.evaluation.alignment import read_gold
from nmt.experiments.plan import Plan, Run, make_plan
from nmt.experiments.schema import TestSet, load_experiment
from nmt.messages import Result

if TYPE_CHECKING:  # PyTorch is slow to import
    from nmt.experiments.training import Job

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
        only: train and translate with this system only, and draw nothing, as in a job array; may be given again
            (default: all, and draw)
        jobs: runs trained side by side (default: jobs: in the experiment, or 1)
        overwrite: train these runs again from the start; may be given again
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
    overrides = set or []
    plan = make_plan(described, config, overrides)
    overwritten = plan.select(overwrite or (), "--overwrite")
    if only:
        plan = plan.only(only)
        if others := [run.label for run in overwritten if run not in plan.runs]:
            raise ConfigError(f"--overwrite {', '.join(others)}: has no effect with --only {' --only '.join(only)}")
    plan = readable_tests(plan)
    with importing():
        from nmt.experiments.training import remaining_runs, training_jobs  # noqa: PLC0415  (PyTorch is slow to import)

    unfinished = remaining_runs(plan, overwritten, say)
    replaced = [(run, _manifest(run)) for run in overwritten]
    amount = verbosity_options()
    if dry_run:
        return _rehearse(plan, unfinished, described.jobs, *amount)
    try:
        code = _run_all(training_jobs(plan, unfinished, *amount), described.jobs) or _finish(plan, draw=not only)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code not in (0, FAILED):
        words = ["--config", config]
        for option, value in (("--base", base), ("--output", output), ("--jobs", jobs)):
            words += [option, str(value)] if value is not None else []
        again = [run.label for run, before in replaced if before and _manifest(run) == before]
        for option, values in (("--only", only or ()), ("--overwrite", again), ("--set", overrides)):
            words += [word for value in values for word in (option, value)]
        say(Result(f"stopped; continue with: {shlex.join([as_typed('nmt-experiment'), *words])}"))
    return code


main = Command(experiment)


def _manifest(run: Run) -> bytes:
    """Read what tells one start of a run from another."""
    path = run.path / "manifest.json"
    return path.read_bytes() if path.exists() else b""


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


def _rehearse(plan: Plan, unfinished: Mapping[str, tuple[str, ...]], count: int, *options: str) -> int:
    """Rehearse the training of every system that is not finished, with its first seed; say what would be done."""
    from nmt.experiments.training import training_jobs  # noqa: PLC0415

    first = {run.system: run.label for run in reversed(plan.runs) if run.label in unfinished}
    begun = {label: unfinished[label] for label in first.values()}
    if code := _run_all(training_jobs(plan, begun, "--dry-run", *options), count):
        return code
    trained, texts = f"{len(unfinished)} of {len(plan.runs)} runs would be trained", ", ".join(plan.tests)
    say(f"dry run: {trained}; all would translate {texts}; figures and tables would go to {plan.output}")
    return 0


def _run_all(jobs: "Sequence[Job]", count: int) -> int:
    """Run the jobs, up to ``count`` at a time, each in its own process.

    Returns 0, FAILED, or 128 plus the number of the signal that stopped them.
    """
    from nmt.experiments.training import run_jobs  # noqa: PLC0415

    with StopRequest() as stop:
        codes = run_jobs(jobs, count, lambda line: say(Result(line)), lambda: stop.signal)  # they choose what to show
    if stop.signal is not None:
        return 128 + stop.signal
    for label, code in codes.items():
        if code:
            end = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
            say(Result(f"{label}: nmt-train ended with {end}; see its messages above"))
    return FAILED if any(codes.values()) else 0


def _finish(plan: Plan, *, draw: bool) -> int:
    """Translate and score, then draw and print the table, or say where the scores are; return an exit code."""
    from nmt.experiments.results import draw_all  # noqa: PLC0415
    from nmt.experiments.scores import translate_all  # noqa: PLC0415

    if code := _until_stopped(lambda check_stop: translate_all(plan, say, check_stop)):
        return code
    if draw:
        print(draw_all(plan, say), end="")
        return 0
    for run in plan.runs:
        say(f"{run.label}: scores: {', '.join(str(plan.scores(run, test)) for test in plan.tests)}")
    return 0


def _until_stopped(work: Callable[[Callable[[], None]], None]) -> int:
    """Do work that checks for stop requests; return 0, or 128 plus the number of the signal that stopped it."""
    with StopRequest() as stop:

        def check_stop() -> None:
            if stop():
                raise Stopped

        try:
            work(check_stop)
        except Stopped:
            assert stop.signal is not None
            return 128 + stop.signal
    return 0
