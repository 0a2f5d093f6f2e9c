"""nmt-experiment: systems x seeds x test sets from one YAML file."""

import os
from dataclasses import replace
from typing import Annotated

from nmt.cli.command import Command
from nmt.cli.options import InputFile, Overrides, Value
from nmt.cli.terminal import StopRequest, say, verbosity_options
from nmt.config.schema import Size
from nmt.errors import ConfigError, Stopped
from nmt.experiments.plan import load_experiment, make_plan, readable_tests
from nmt.messages import Result

Names = list[Annotated[str, Value("NAME[:SEED]")]]


def experiment(
    *,
    config: InputFile,
    set: Overrides | None = None,
    base: InputFile | None = None,
    output: Annotated[str, Value("DIR")] | None = None,
    only: Names | None = None,
    jobs: Size | None = None,
    dry_run: bool = False,
) -> int:
    """Train, translate, score and compare systems, each described by its differences from a base configuration.

    A second call keeps what is finished and resumes what was stopped.

    Args:
        config: YAML file of the experiment
        base: the base configuration (default: base: in the experiment)
        output: directory of runs, figures and tables (default: output: in the experiment)
        only: train and translate only this system, without figures; may be repeated (default: all)
        jobs: runs trained side by side (default: jobs: in the experiment, or 1)
        dry_run: rehearse the training of each system and keep nothing

    examples:
      nmt-experiment --config configs/experiments/demo.yaml --dry-run
      nmt-experiment --config configs/experiments/europarl.yaml --only rnnsearch-50:1
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":  # set by torchrun
        raise ConfigError("nmt-experiment starts processes of its own (--jobs); start it without torchrun")
    described = load_experiment(config, base=base, output=output, jobs=jobs)
    plan = make_plan(described, config, set or [])
    if only:
        plan = replace(plan, runs=plan.select(only))
    plan = readable_tests(plan, say)
    from nmt.experiments.running import run_experiment  # noqa: PLC0415  (slow to import)

    stop = StopRequest()
    try:
        table = run_experiment(
            plan,
            described.jobs,
            draw=not only,
            dry_run=dry_run,
            say=say,
            stop_request=stop,
            stop_signal=lambda: stop.signal,
            options=verbosity_options(),
        )
    except Stopped:
        say(Result("stopped; the same command continues"))
        return stop.exit_code
    if table:
        print(table)
    return 0


main = Command(experiment)
