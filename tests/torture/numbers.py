"""Gradients that are not finite, and too little memory, in the middle of training."""

import math
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nmt.data.batching import Batch
from nmt.model import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.runs.tensors import load_tensors
from nmt.training import trainer
from nmt.training.gradients import Gradients, gradients_on
from nmt.training.trainer import SKIPS
from tests.torture.comparison import crashed, metrics, resumption_problems
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder

Fault = Callable[[int, Batch, list[Tensor], Tensor], Tensor]
"""Called after each computation of gradients with its number, the batch, the gradients and the likelihood: changes the
gradients in place and returns the likelihood, changed or not; or raises an error."""
KINDS = ("a loss that is not a number", "an infinite gradient", "a gradient that is not a number")
NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
)
COMPARABLE = (
    *("--set", "model.dropout={embedding: 0, annotation: 0, readout: 0}"),  # halves draw other dropout
    *("--set", "training.optimizer={type: sgd, learning_rate: 0.3}"),  # Adam would hide a wrong scale of the gradients
    *("--set", "training.clip=null"),
)
NEAR = 1e-3
"""Tolerance of validation losses, in nats, when the gradients of every update are added up in another order."""


class Faulty:
    """Computes gradients as training does, and lets a fault change them."""

    def __init__(self, gradients: Gradients, model: Seq2Seq, fault: Fault) -> None:
        self.gradients, self.model, self.fault, self.calls = gradients, model, fault, 0

    def __call__(self, batch: Batch, tokens: int, update: int = 0) -> Tensor:
        """Compute gradients as ``Gradients`` does, then apply the fault."""
        likelihood = self.gradients(batch, tokens, update)
        self.calls += 1
        found = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        return self.fault(self.calls, batch, found, likelihood)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gradients, name)


@contextmanager
def faulty(fault: Fault) -> Iterator[None]:
    """Apply a fault to every training run in this process."""

    def built(model: Seq2Seq, *arguments: Any, **options: Any) -> Gradients:
        return Faulty(gradients_on(model, *arguments, **options), model, fault)

    with patch.object(trainer, gradients_on.__name__, built):
        yield


def poison(kind: str, updates: Callable[[int], bool], seed: int) -> Fault:
    """Make the loss or one gradient not finite at the updates that ``updates`` accepts; ``kind`` is one of KINDS."""
    generator = random.Random(seed)

    def fault(number: int, _: Batch, gradients: list[Tensor], likelihood: Tensor) -> Tensor:
        if not updates(number):
            return likelihood
        if kind == KINDS[0]:
            return likelihood * math.nan
        numbers = generator.choice(gradients).view(-1)
        numbers[generator.randrange(len(numbers))] = math.inf if kind == KINDS[1] else math.nan
        return likelihood

    return fault


def cramped(pairs: int, error: Exception) -> Fault:
    """Raise ``error`` for batches of more than ``pairs`` pairs, once some of their gradients are computed."""

    def fault(_: int, batch: Batch, gradients: list[Tensor], likelihood: Tensor) -> Tensor:
        if len(batch.source) > pairs:
            raise error
        return likelihood

    return fault


def skipped_updates(folder: TrialFolder, times: int) -> Result:
    """Poison some updates: they are named, skipped and counted, and the weights at the end equal those of a run in
    which the optimizer leaves these updates out."""
    tally, generator = Tally("loss or gradient not finite at some updates"), random.Random(11)
    updates = folder.values["training"]["updates"]
    for number in range(times):
        kind, bad = KINDS[number % len(KINDS)], set(generator.sample(range(1, updates), generator.randint(1, 5)))
        good, run = folder.fresh("left-out"), folder.fresh("skipped")
        with _left_out(bad):
            folder.train(good.name)
        with faulty(poison(kind, bad.__contains__, number)):
            code, err = folder.train(run.name)
        if code:
            tally.add([f"{kind} at {sorted(bad)}: ended with {code}: {err[-200:]}"])
        else:
            tally.add([f"{kind} at {sorted(bad)}: {each}" for each in _skipping_problems(good, run, bad, updates, err)])
    return tally.result()


def _skipping_problems(good: Path, run: Path, bad: set[int], updates: int, err: str) -> list[str]:
    """Return what is wrong with a run that skipped the updates ``bad``; ``good`` is the one that left them out."""
    skips = re.findall(r"^update (\d+) \(epoch (\d+), batch (\d+)\): .*skipped$", err, re.M)
    named = {int(update) for update, *_ in skips}
    counted = RunDirectory(run).training("last").state["skipped"]
    found, expected = (load_tensors(each / "checkpoints/last/model.safetensors") for each in (run, good))
    problems = [] if named == bad else [f"{sorted(named)} are named"]
    problems += [] if counted == len(bad) else [f"{counted} are counted"]
    if any(not torch.equal(found[name], expected[name]) for name in expected):
        problems.append("other weights than without these updates")
    position = RunDirectory(good).training("last").state["position"]
    in_epoch = (updates - position["batch"]) // position["epoch"]
    if any((int(epoch) - 1) * in_epoch + int(batch) != int(update) for update, epoch, batch in skips):
        problems.append(f"an epoch has {in_epoch} batches, but other positions are named: {skips}")
    return problems


@contextmanager
def _left_out(updates: set[int]) -> Iterator[None]:
    """Let the optimizer do nothing at some updates of a run in this process."""
    numbers = count(1)

    def leave_out(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if len(optimizer.param_groups[0]["params"]) > 1 and next(numbers) in updates:  # no probe of one parameter
            optimizer.zero_grad(set_to_none=True)  # parameters without a gradient stay as they are

    handle = register_optimizer_step_pre_hook(leave_out)
    try:
        yield
    finally:
        handle.remove()


def no_finite_gradient(folder: TrialFolder, times: int) -> Result:
    """Poison every update from a certain one on: training ends, and resumes from the update before it once gradients
    are finite."""
    tally, generator = Tally("no finite gradient from one update on, then finite ones"), random.Random(12)
    folder.undisturbed()
    updates = folder.values["training"]["updates"]
    for number in range(times):
        first, kind = generator.randint(1, updates - SKIPS), KINDS[number % len(KINDS)]
        run = folder.fresh("failing")
        with faulty(poison(kind, lambda update, first=first: update >= first, number)):  # type: ignore[misc]
            code, err = folder.train(run.name)
        expected = f"{SKIPS} updates in a row had no finite gradient (the last is {first + SKIPS - 1})"
        problems = [] if code == 2 and expected in err else [f"{kind} from {first} on: ended with {code}: {err[-200:]}"]
        if (saved := folder.saved(run)) != first - 1:
            problems.append(f"{kind} from {first} on: update {saved} is saved")
        tally.add(problems + resumption_problems(folder, run, saved))
    return tally.result()


def out_of_memory(folder: TrialFolder, times: int) -> Result:
    """Limit the pairs that fit into memory: batches are halved, which is reported and counted, and training reaches the
    same loss. With memory for no pair, training ends, and resumes once there is enough."""
    tally, generator = Tally("too little memory for a batch, or for a pair"), random.Random(13)
    folder.undisturbed()
    unlimited = folder.fresh("unlimited")
    folder.train(unlimited.name, *COMPARABLE)
    for number in range(times):
        run, error = folder.fresh("cramped"), NO_MEMORY[number % len(NO_MEMORY)]
        if number % 4 == 3:
            with faulty(cramped(0, error)):
                code, err = folder.train(run.name)
            explained = code == 2 and "out of memory with a single pair" in err and not crashed(err)
            problems = [] if explained else [f"no pair: {err[-200:]}"]
            tally.add(problems + resumption_problems(folder, run, folder.saved(run)))
            continue
        pairs = generator.randint(1, 6)
        with faulty(cramped(pairs, error)):
            code, err = folder.train(run.name, *COMPARABLE)
        if code:
            tally.add([f"{pairs} pairs: ended with {code}: {err[-200:]}"])
            continue
        named = set(re.findall(r"^update (\d+) \(epoch \d+, batch \d+\): .*retrying in halves", err, re.M))
        counted = RunDirectory(run).training("last").state["halved"]
        problems = [] if named and counted == len(named) else [f"{pairs} pairs: {counted} counted, {len(named)} named"]
        apart = max(abs(a - b) for a, b in zip(_losses(unlimited), _losses(run), strict=True))
        tally.add(problems + ([] if apart < NEAR else [f"{pairs} pairs: a validation loss is {apart:.1e} off"]))
    return tally.result()


def _losses(run: Path) -> list[float]:
    return [float(line["loss"]) for line in metrics(run) if line["split"] == "validation"]
