"""An experiment from its plan to its table: training, translations, scores, figures."""

import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from nmt.errors import ProcessError, Stopped
from nmt.experiments.plan import Plan, Run
from nmt.experiments.results import draw_all, translate_all
from nmt.experiments.training import Options, prepare_all, remaining_runs, run_jobs, training_jobs
from nmt.messages import Result, Say


class StopRequest(AbstractContextManager[object], Protocol):
    """A context in which a stop can be requested."""

    signal: int | None
    """The number of the signal that requested it."""


def run_experiment(
    plan: Plan,
    overwritten: Collection[Run],
    jobs: int,
    *,
    draw: bool,
    dry_run: bool,
    say: Say,
    stop_request: StopRequest,
    options: Sequence[str] = (),
) -> str:
    """Train the runs that are not finished, translate and score the test sets, draw the figures; return the table.

    Args:
        plan: the runs and test sets.
        overwritten: runs that begin again.
        jobs: runs that are trained side by side.
        draw: draw the figures; otherwise the table is "".
        dry_run: rehearse the first unfinished run of each system, and do nothing else.
        say: receives messages.
        stop_request: entered when the data are prepared; from then on a stop can be requested.
        options: further options of each ``nmt-train``.

    Raises Stopped after a stop was requested, ProcessError if a training fails.
    """
    unfinished = remaining_runs(plan, overwritten, say)

    def check_stop() -> None:
        if stop_request.signal is not None:
            raise Stopped

    def train(wanted: Mapping[str, Options], said: Collection[str] = ()) -> None:
        started = training_jobs(plan, wanted, *options)
        # trainings choose what to show: their lines are results
        codes = run_jobs(started, jobs, lambda line: say(Result(line)), lambda: stop_request.signal, said)
        check_stop()
        if failed := [f"{label}: nmt-train ended with {_end(code)}" for label, code in codes.items() if code]:
            raise ProcessError(*(f"{problem}; see its messages above" for problem in failed))

    if dry_run:
        first = {run.system: run.label for run in reversed(plan.runs) if run.label in unfinished}
        with stop_request:
            train({label: (*unfinished[label], "--dry-run") for label in first.values()})
        trained, tests = f"{len(unfinished)} of {len(plan.runs)} runs would be trained", ", ".join(plan.tests)
        say(f"dry run: {trained}; all would translate {tests}; figures and tables would go to {plan.output}")
        return ""
    said = prepare_all(plan, unfinished, say)
    with stop_request:
        train(unfinished, said)
        translate_all(plan, say, check_stop)
        if draw:
            return draw_all(plan, say)
    for run in plan.runs:
        say(f"{run.label}: translations: {', '.join(str(plan.translations(run, test)) for test in plan.tests)}")
    return ""


def _end(code: int) -> str:
    """Describe how a process ended, by its exit code."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
