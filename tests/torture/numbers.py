"""Numbers that are none, and memory that does not suffice, in the middle of training."""

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

from nmt.data.batching import Batch
from nmt.model import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.runs.tensors import load_tensors
from nmt.training import trainer
from nmt.training.gradients import Gradients, gradients_on
from nmt.training.optimizer import build_optimizer
from nmt.training.trainer import SKIPS
from tests.torture.work import Result, Trials, Work, gone_on, metrics

Fault = Callable[[int, Batch, list[Tensor], Tensor], Tensor]
"""What becomes of the gradients, in place, and of the likelihood, which it returns, at a call of the number: it may
raise, too."""
KINDS = ("a loss that is no number", "an infinite gradient", "a gradient that is no number")
NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
)
COMPARABLE = (
    *("--set", "model.dropout={embedding: 0, annotation: 0, readout: 0}"),  # halves draw it anew
    *("--set", "training.optimizer={type: sgd, learning_rate: 0.3}"),  # Adam takes twice the gradient for the same
    *("--set", "training.clip=null"),
)
NEAR = 1e-3
"""Of validation losses, nats, where gradients were added up in another order at every update."""


class Faulty:
    """In the place of the gradients of a training: at a call, a fault befalls them."""

    def __init__(self, gradients: Gradients, model: Seq2Seq, fault: Fault) -> None:
        self.gradients, self.model, self.fault, self.calls = gradients, model, fault, 0

    def __call__(self, batch: Batch, tokens: int) -> Tensor:
        """As ``Gradients`` has it."""
        likelihood = self.gradients(batch, tokens)
        self.calls += 1
        found = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        return self.fault(self.calls, batch, found, likelihood)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gradients, name)


@contextmanager
def faulty(fault: Fault) -> Iterator[None]:
    """Every training in this process, while this is entered."""

    def built(model: Seq2Seq, *arguments: Any, **options: Any) -> Gradients:
        return Faulty(gradients_on(model, *arguments, **options), model, fault)

    with patch.object(trainer, "gradients_on", built):
        yield


def poison(kind: str, updates: Callable[[int], bool], seed: int) -> Fault:
    """Not finite, in one of the ways, at some updates."""
    chance = random.Random(seed)

    def fault(number: int, _: Batch, gradients: list[Tensor], likelihood: Tensor) -> Tensor:
        if not updates(number):
            return likelihood
        if kind == KINDS[0]:
            return likelihood * math.nan
        numbers = chance.choice(gradients).view(-1)
        numbers[chance.randrange(len(numbers))] = math.inf if kind == KINDS[1] else math.nan
        return likelihood

    return fault


def cramped(pairs: int, error: Exception) -> Fault:
    """Memory suffices for so many pairs at once, and breaks off in the middle of more."""

    def fault(_: int, batch: Batch, gradients: list[Tensor], likelihood: Tensor) -> Tensor:
        if len(batch.source) > pairs:
            raise error
        return likelihood

    return fault


def skipped(work: Work, times: int) -> Result:
    """Some updates have no finite loss or gradient: these are named, skipped and counted, and the weights at the end
    are those of a training in which the optimizer did nothing there."""
    trials, chance = Trials("a loss or gradient that is not finite, at some updates"), random.Random(11)
    updates = work.values["training"]["updates"]
    for number in range(times):
        kind, bad = KINDS[number % len(KINDS)], set(chance.sample(range(1, updates), chance.randint(1, 5)))
        good, run = work.fresh("left-out"), work.fresh("skipped")
        with _left_out(bad):
            work.train(good.name)
        with faulty(poison(kind, bad.__contains__, number)):
            code, err = work.train(run.name)
        if code:
            trials.add([f"{kind} at {sorted(bad)}: ended with {code}: {err[-200:]}"])
            continue
        said = re.findall(r"^update (\d+) \(epoch (\d+), batch (\d+)\): .*skipped$", err, re.M)
        named = {int(update) for update, *_ in said}
        counted = RunDirectory(run).training("last").state["skipped"]
        found, expected = (load_tensors(each / "checkpoints/last/model.safetensors") for each in (run, good))
        problems = [] if named == bad else [f"{kind} at {sorted(bad)}: named are {sorted(named)}"]
        problems += [] if counted == len(bad) else [f"{kind} at {len(bad)} updates: counted are {counted}"]
        if any(not torch.equal(found[name], expected[name]) for name in expected):
            problems.append(f"{kind} at {sorted(bad)}: other weights than where these updates are left out")
        position = RunDirectory(good).training("last").state["position"]
        in_epoch = (updates - position["batch"]) // position["epoch"]
        if any((int(epoch) - 1) * in_epoch + int(batch) != int(update) for update, epoch, batch in said):
            problems.append(f"{kind}: epochs have {in_epoch} batches, and others are named: {said}")
        trials.add(problems)
    return trials.result()


@contextmanager
def _left_out(updates: set[int]) -> Iterator[None]:
    """The optimizers of all trainings in this process do nothing at some updates, while this is entered."""

    def built(*arguments: Any) -> torch.optim.Optimizer:
        optimizer, numbers = build_optimizer(*arguments), count(1)
        step = optimizer.step
        patch.object(optimizer, "step", lambda: None if next(numbers) in updates else step()).start()  # it goes with it
        return optimizer

    with patch.object(trainer, "build_optimizer", built):
        yield


def failing(work: Work, times: int) -> Result:
    """From some update on there is no finite gradient: training ends, and goes on from the update before once there
    is."""
    calm, trials, chance = work.calm(), Trials("nothing but such from an update on, then mended"), random.Random(12)
    updates = work.values["training"]["updates"]
    for number in range(times):
        first, kind = chance.randint(1, updates - SKIPS), KINDS[number % len(KINDS)]
        run = work.fresh("failing")
        with faulty(poison(kind, lambda update, first=first: update >= first, number)):  # type: ignore[misc]
            code, err = work.train(run.name)
        said = f"{SKIPS} updates in a row had no finite gradient (the last is {first + SKIPS - 1})"
        problems = [] if code == 2 and said in err else [f"{kind} from {first} on: ended with {code}: {err[-200:]}"]
        if (saved := work.saved(run)) != first - 1:
            problems.append(f"{kind} from {first} on: update {saved} is saved")
        trials.add(problems + gone_on(work, run, saved, calm))
    return trials.result()


def little_memory(work: Work, times: int) -> Result:
    """Memory suffices for a few pairs at once: batches are halved, named and counted, and training goes on to the same
    loss; where it does not suffice for one pair, training ends, and goes on once it does."""
    trials, chance = Trials("too little memory for a batch, or for a pair"), random.Random(13)
    calm, plain = work.calm(), work.fresh("plain")
    work.train(plain.name, *COMPARABLE)
    for number in range(times):
        run, error = work.fresh("cramped"), NO_MEMORY[number % len(NO_MEMORY)]
        if number % 4 == 3:
            with faulty(cramped(0, error)):
                code, err = work.train(run.name)
            well = code == 2 and "out of memory with a single pair" in err and "Traceback" not in err
            trials.add(([] if well else [f"no pair: {err[-200:]}"]) + gone_on(work, run, work.saved(run), calm))
            continue
        pairs = chance.randint(1, 6)
        with faulty(cramped(pairs, error)):
            code, err = work.train(run.name, *COMPARABLE)
        if code:
            trials.add([f"{pairs} pairs: ended with {code}: {err[-200:]}"])
            continue
        named = set(re.findall(r"^update (\d+) \(epoch \d+, batch \d+\): .*retrying in halves", err, re.M))
        counted = RunDirectory(run).training("last").state["halved"]
        problems = [] if named and counted == len(named) else [f"{pairs} pairs: {counted} counted, {len(named)} named"]
        apart = max(abs(a - b) for a, b in zip(_losses(plain), _losses(run), strict=True))
        trials.add(problems + ([] if apart < NEAR else [f"{pairs} pairs: a validation's loss is {apart:.1e} off"]))
    return trials.result()


def _losses(run: Path) -> list[float]:
    return [float(line["loss"]) for line in metrics(run) if line["split"] == "validation"]
