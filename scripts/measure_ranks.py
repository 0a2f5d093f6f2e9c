"""Train with 1, 2 and 4 processes: how far their losses and weights are apart, and how fast they are.

The runs have no dropout and compute in fp32. For the comparison, fewer processes make an update of more batches, so
that all updates have the same ones; for the speed, each process has one batch.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from machine import commit, machine
from nmt.cli.common import command, say
from nmt.cli.signature import whole
from nmt.errors import CheckpointError
from nmt.files import write_json
from nmt.plots.files import markdown
from nmt.runs.directory import RunDirectory

PLAIN = (
    "precision=fp32",
    "model.dropout={embedding: 0, annotation: 0, readout: 0}",
    "training.validation={every: 1000000, first: null, sentences: 20, samples: 0}",
    "data.test=null",
    "evaluation.gold=null",
    "threads=1",
)


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="measure_ranks.py", description=__doc__)
    arguments.add_argument("--config", required=True, metavar="FILE", help="the configuration")
    arguments.add_argument("--ranks", type=whole(1), nargs="+", default=[1, 2, 4], metavar="N", help="processes")
    arguments.add_argument("--updates", type=whole(10), default=60, metavar="N", help="updates of each run")
    arguments.add_argument("--output", required=True, metavar="DIR", help="directory for the runs and points.json")
    return arguments


def train(config: str, run: Path, ranks: int, options: Sequence[str]) -> RunDirectory:
    """Train with torchrun. Raises CheckpointError if it fails."""
    shutil.rmtree(run, ignore_errors=True)
    here = Path(sys.executable).parent
    launcher = [str(here / "torchrun"), "--standalone", "--nproc-per-node", str(ranks), "--no-python"]
    settings = [part for option in (*PLAIN, *options) for part in ("--set", option)]
    trainer = [str(here / "nmt-train"), "--config", config, "--output", str(run), *settings]
    say(f"{run}: {ranks} processes")
    done = subprocess.run(
        [*launcher, *trainer], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CheckpointError(f"{run}: torchrun ended with {done.returncode}: {done.stderr[-2000:]}")
    return RunDirectory(run)


def lines(run: RunDirectory) -> list[dict[str, Any]]:
    """The progress lines of training."""
    records = [json.loads(line) for line in run.metrics.read_text("utf-8").splitlines()]
    return [record for record in records if record["split"] == "train"]


def weights(run: RunDirectory) -> torch.Tensor:
    """All weights of the last checkpoint, (parameters,)."""
    return torch.cat([tensor.flatten().double() for _, tensor in sorted(run.weights("last").items())])


def differences(run: RunDirectory, first: RunDirectory) -> dict[str, float]:
    """The largest relative difference of a loss, and that of the weights: the norm of the difference over the norm."""
    losses, others = ([line["loss"] for line in lines(each)] for each in (run, first))
    own, other = weights(run), weights(first)
    return {
        "loss": max(abs(loss - before) / before for loss, before in zip(losses, others, strict=True)),
        "weights": float((own - other).norm() / other.norm()),
    }


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Train, compare, and print two tables."""
    output, updates, most = Path(arguments.output), arguments.updates, max(arguments.ranks)
    output.mkdir(parents=True, exist_ok=True)
    equal = [
        train(
            arguments.config,
            output / f"equal-{ranks}",
            ranks,
            [f"training.updates={updates // 3}", "training.log_every=1", f"training.accumulation={most // ranks}"],
        )
        for ranks in arguments.ranks
    ]
    fast = [
        train(
            arguments.config, output / f"fast-{ranks}", ranks, [f"training.updates={updates}", "training.log_every=5"]
        )
        for ranks in arguments.ranks
    ]
    found = [differences(run, equal[0]) for run in equal]
    rates = [float(np.median([line["target_tokens_per_second"] for line in lines(run)[2:]])) for run in fast]
    tokens = json.loads((fast[0].checkpoints / "last/training.json").read_text())["target_tokens"] / updates
    rows = [
        {
            "processes": str(ranks),
            "loss differs by": f"{difference['loss']:.1e}",
            "weights differ by": f"{difference['weights']:.1e}",
            "target tokens/s": f"{rate:,.0f}",
            "times one process": f"{rate / rates[0]:.2f}",
        }
        for ranks, difference, rate in zip(arguments.ranks, found, rates, strict=True)
    ]
    points = [{"ranks": ranks, "tokens_per_second": rate} for ranks, rate in zip(arguments.ranks, rates, strict=True)]
    write_json(output / "points.json", {"tokens_per_rank": tokens, "points": points})
    print(markdown(rows))
    print(f"\ncommit {commit()}, {machine()}, {datetime.now(UTC):%Y-%m-%d}; one thread for each process")


if __name__ == "__main__":
    sys.exit(main())
