"""The weights that a run is judged and used by: those of the last update, or their exponential moving average."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from nmt.config.schema import MovingAverage
from nmt.runs.tensors import refuse_other_tensors

LATEST = "latest."
"""Prefix of the names of tensors that a checkpoint holds beside the used weights."""


class UsedWeights(Protocol):
    """The weights that validation, checkpoints and translation use, made from those in training."""

    def follow(self, step: int) -> None:
        """Take note of the model's weights after a step of the optimizer, counted from 1."""

    def used(self) -> AbstractContextManager[None]:
        """Put the used weights into the model; those in training are back afterwards, bit for bit."""

    def saved(self) -> dict[str, Tensor]:
        """Copy what training needs beside the used weights to resume, by names that begin with ``LATEST``."""

    def restore(self, saved: Mapping[str, Tensor], where: str) -> None:
        """Resume from :meth:`saved`; the model has the used weights, and afterwards those in training.

        Raises CheckpointError, which names the file ``where``, for other tensors.
        """


class LatestWeights:
    """The weights in training are used as they are."""

    def follow(self, step: int) -> None:
        """As ``UsedWeights`` has it."""

    def used(self) -> AbstractContextManager[None]:
        """As ``UsedWeights`` has it."""
        return nullcontext()

    def saved(self) -> dict[str, Tensor]:
        """As ``UsedWeights`` has it: nothing."""
        return {}

    def restore(self, saved: Mapping[str, Tensor], where: str) -> None:
        """As ``UsedWeights`` has it."""
        refuse_other_tensors(saved, {}, where, "run")


class AveragedWeights:
    """The mean of the weights after each step, those of k steps ago weighted by decay^k (Polyak & Juditsky 1992).

    After n steps the mean moves to the new weights by (1 - decay) / (1 - decay^n), so that the initial weights have no
    share in it: Adam's correction (Kingma & Ba 2015, section 3).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.latest = dict(model.named_parameters())
        self.averages = _copies(self.latest)

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """As ``UsedWeights`` has it."""
        share = (1 - self.decay) / (1 - self.decay**step)
        for name, average in self.averages.items():
            average.lerp_(self.latest[name], share)

    @contextmanager
    def used(self) -> Iterator[None]:
        """As ``UsedWeights`` has it."""
        latest = _copies(self.latest)
        _write(self.averages, self.latest)
        try:
            yield
        finally:
            _write(latest, self.latest)

    def saved(self) -> dict[str, Tensor]:
        """As ``UsedWeights`` has it: the weights in training."""
        return {LATEST + name: weights for name, weights in _copies(self.latest).items()}

    def restore(self, saved: Mapping[str, Tensor], where: str) -> None:
        """As ``UsedWeights`` has it."""
        refuse_other_tensors(saved, {LATEST + name: each.shape for name, each in self.latest.items()}, where, "model")
        _write(self.latest, self.averages)
        _write({name: saved[LATEST + name] for name in self.latest}, self.latest)


def used_weights(config: MovingAverage | None, model: nn.Module) -> UsedWeights:
    """Choose between the weights of the last update and their moving average."""
    return LatestWeights() if config is None else AveragedWeights(model, config.decay)


def _copies(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in weights.items()}


@torch.no_grad()
def _write(weights: Mapping[str, Tensor], into: Mapping[str, Tensor]) -> None:
    """Copy in place, because recorded CUDA graphs read the memory of the parameters."""
    for name, each in into.items():
        each.copy_(weights[name])
