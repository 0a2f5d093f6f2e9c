"""Trainers, and what stands in for their parts."""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.data.batching import Batch, collate
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult
from nmt.translation.options import SearchOptions
from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.translator import CheckStop, Translator, never_stop
from tests.small_run import config, translate

Make = Callable[..., Trainer]
NO_DROPOUT = {"embedding": 0.0, "annotation": 0.0, "readout": 0.0}


def without_dropout(make: Make, folder: Path, said: list[str] | None = None, **training: Any) -> Trainer:
    model = config(folder).model.model_dump() | {"dropout": NO_DROPOUT}
    return make(said, sections={"model": model}, **training)


def batch_of(trainer: Trainer, rows: list[int]) -> Batch:
    return collate(*trainer.prepared.train.rows(rows), trainer.specials)


def parameters(trainer: Trainer) -> Tensor:
    return torch.cat([each.detach().flatten() for each in trainer.model.parameters()])


def results(*losses: float, seconds: float = 0.0) -> Callable[..., ValidationResult]:
    """In the place of a validator: these losses, one a call; BLEU falls as they rise."""
    left = iter(losses)

    def validate(update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        loss = next(left)
        return ValidationResult({"loss": loss, "perplexity": math.exp(loss), "bleu": -loss, "chrf": -loss}, seconds)

    return validate


def oracle(translator: Translator, lines: Iterable[str], options: SearchOptions, **how: Any) -> Iterator[Translation]:
    """In the place of a translator's search: right, but for lines of one word, which become three."""
    for line in lines:
        text = translate(line) if " " in line else f"{translate(line)} OAK ELM"
        yield Translation(line, [], [TranslatedHypothesis(text, 0.0, 0.0, [])])


def poison(trainer: Trainer) -> None:
    with torch.no_grad():
        trainer.model.output.bias[5] = math.inf
