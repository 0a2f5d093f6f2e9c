"""Trainers that have not begun, and what stands in for their parts."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.batching import Batch, Position, collate
from nmt.data.dataset import prepare
from nmt.model import build_model
from nmt.runs.directory import RunDirectory
from nmt.training.progress import Update, ValidationResult
from nmt.training.reports import Log
from nmt.training.trainer import Trainer
from nmt.training.validation import Measures
from nmt.training.world import Machine
from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import CheckStop, Translator, never_stop
from tests.small_run import options, translate

Make = Callable[..., Trainer]


@pytest.fixture
def make(folder: Path, tmp_path: Path) -> Make:
    """Trainers in double precision that have not begun; what they say is in ``said``."""
    numbers = count()

    def make(said: list[str] | None = None, sections: dict[str, Any] | None = None, **training: Any) -> Trainer:
        configuration = Config.model_validate(options(folder, **training) | (sections or {}))
        run = RunDirectory(tmp_path / f"run-{next(numbers)}")
        run.path.mkdir()
        log = Log(run, (said if said is not None else []).append)
        return trainer_of(configuration, log, Machine(torch.device("cpu"), torch.float64))

    return make


def trainer_of(configuration: Config, log: Log, machine: Machine) -> Trainer:
    """A trainer that has not begun, in the precision of the machine."""
    prepared = prepare(configuration)
    torch.manual_seed(1)
    model = build_model(configuration.model, *prepared.tokenizers.sizes).to(machine.precision)
    return Trainer(configuration, prepared, model, log, machine, Measures.of(configuration))


def batch_of(trainer: Trainer, rows: list[int]) -> Batch:
    return collate(*trainer.prepared.train.rows(rows), trainer.specials)


def parameters(trainer: Trainer) -> Tensor:
    return torch.cat([each.detach().flatten() for each in trainer.model.parameters()])


def results(*losses: float) -> Callable[..., ValidationResult]:
    """In the place of a validator: these losses, one a call; BLEU falls as they rise."""
    left = iter(losses)

    def validate(update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        loss = next(left)
        return ValidationResult({"loss": loss, "perplexity": math.exp(loss), "bleu": -loss, "chrf": -loss}, 0.0)

    return validate


def oracle(translator: Translator, lines: Iterable[str], options: SearchOptions, **how: Any) -> Iterator[Translation]:
    """In the place of a translator's search: right, but for lines of one word, which become three."""
    for line in lines:
        text = translate(line) if " " in line else f"{translate(line)} OAK ELM"
        yield Translation(line, [], [TranslatedHypothesis(text, 0.0, 0.0, [])])


def update(trainer: Trainer, batches: Sequence[Batch]) -> Update:
    """Make an update and count it, as the loop does."""
    made = trainer.update(batches)
    trainer.progress = trainer.progress.updated(made, Position(0, 1), 0.0, trainer.training.log_every)
    return made


def poison(trainer: Trainer) -> None:
    with torch.no_grad():
        trainer.model.output.bias[5] = math.inf


Fault = Callable[[Batch, list[Tensor], Tensor], Tensor]
"""Takes the batch, the gradients and the nll of an update: changes the gradients in place and returns the nll,
changed or not; or raises an error."""
KINDS = ("a loss that is not a number", "an infinite gradient", "a gradient that is not a number")
NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
)


def spoil(trainer: Trainer, fault: Fault, calls: Collection[int] = range(1, 1000)) -> list[int]:
    """Let a fault change the gradients that the trainer computes in some of the next calls, counted from 1; return
    where the numbers of their updates will be."""
    compute, model, numbers, updates = trainer.gradients, trainer.model, count(1), list[int]()

    class Spoilt:
        def __call__(self, batch: Batch, tokens: int, update: int = 0) -> Tensor:
            updates.append(update)
            nll = compute(batch, tokens, update)
            if next(numbers) not in calls:
                return nll
            return fault(batch, [each.grad for each in model.parameters() if each.grad is not None], nll)

        def __getattr__(self, name: str) -> Any:
            return getattr(compute, name)

    trainer.gradients = cast(Any, Spoilt())
    return updates


def not_finite(kind: str) -> Fault:
    """Make the loss or one number of a gradient not finite; ``kind`` is one of KINDS."""

    def fault(_: Batch, gradients: list[Tensor], nll: Tensor) -> Tensor:
        if kind == KINDS[0]:
            return nll * math.nan
        gradients[-1].view(-1)[0] = math.inf if kind == KINDS[1] else math.nan
        return nll

    return fault


def cramp(trainer: Trainer, pairs: int, error: Exception = NO_MEMORY[0]) -> None:
    """Memory for a limited number of pairs at once."""

    def fault(batch: Batch, _: list[Tensor], nll: Tensor) -> Tensor:
        if len(batch.source) > pairs:
            raise error
        return nll

    spoil(trainer, fault)
