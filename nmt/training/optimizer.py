"""What moves the weights: optimizers, learning-rate schedules, and the moving average of the weights."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.runs.tensors import refuse_other_tensors

LATEST = "latest."
"""Prefix of the names of tensors that a checkpoint holds beside the used weights."""


def build_optimizer(parameters: Iterable[nn.Parameter], config: schema.AnyOptimizer) -> torch.optim.Optimizer:
    """The configured optimizer over these parameters."""
    optimizer: torch.optim.Optimizer = schema.OPTIMIZERS.build(config, parameters)
    return optimizer


@schema.OPTIMIZERS.builds(schema.Adam)
def _adam(config: schema.Adam, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True)


@schema.OPTIMIZERS.builds(schema.AdamW)
def _adamw(config: schema.AdamW, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        parameters,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


@schema.OPTIMIZERS.builds(schema.Adadelta)
def _adadelta(config: schema.Adadelta, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=config.rho, eps=config.epsilon)


@schema.OPTIMIZERS.builds(schema.Sgd)
def _sgd(config: schema.Sgd, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=config.momentum)


def saved_moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of the optimizer, by parameter index and moment name."""
    return {
        f"optimizer.{index}.{name}": value
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
        if value is not None
    }


def load_moments(
    optimizer: torch.optim.Optimizer,
    config: schema.AnyOptimizer,
    moments: Mapping[str, Tensor],
    where: str,
    *,
    stepped: bool,
) -> None:
    """Load :func:`saved_moments`; ``stepped`` says whether the optimizer had made a step before they were saved.

    Raises CheckpointError unless names and shapes are exactly those of this optimizer, whose kernels would read beyond
    the end of a tensor that is too small.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    used = {name.split(".")[1] for name in moments if name.count(".") == 2} or set(map(str, range(len(parameters))))
    kept = state_of_one(config) if stepped else {}
    shapes = {
        f"optimizer.{index}.{name}": parameter.shape if kept[name].dim() else torch.Size()
        for index, parameter in enumerate(parameters)
        for name in (kept if str(index) in used else ())  # unused ones have no moments
    }
    refuse_other_tensors(moments, shapes, where, "optimizer")
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        _, index, name = key.split(".")
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def state_of_one(config: schema.AnyOptimizer) -> dict[str, Tensor]:
    """The state that the optimizer keeps of one parameter, found by one step on one number: (1,), or () for a single
    number whatever the parameter's shape."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimizer = build_optimizer([parameter], config)
    optimizer.step()
    return {name.rpartition(".")[2]: tensor for name, tensor in saved_moments(optimizer).items()}


def learning_rate(schedule: schema.AnySchedule, base: float, update: int, scale: float = 1.0) -> float:
    """The learning rate of an update, counted from 1; ``scale`` is the current factor of the plateau schedule, which a
    run that goes on with another schedule no longer has."""
    warm = min(1.0, update / schedule.warmup) if schedule.warmup else 1.0
    if isinstance(schedule, schema.InverseSquareRootSchedule):
        return base * min(warm, math.sqrt(schedule.warmup / update))
    return base * warm * (scale if isinstance(schedule, schema.PlateauSchedule) else 1.0)


# --- the weights that a run is judged and used by ---------------------------------------------------------------------


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
        """See ``UsedWeights``."""

    def used(self) -> AbstractContextManager[None]:
        """See ``UsedWeights``."""
        return nullcontext()

    def saved(self) -> dict[str, Tensor]:
        """See ``UsedWeights``."""
        return {}

    def restore(self, saved: Mapping[str, Tensor], where: str) -> None:
        """See ``UsedWeights``."""
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
        """See ``UsedWeights``."""
        share = (1 - self.decay) / (1 - self.decay**step)
        for name, average in self.averages.items():
            average.lerp_(self.latest[name], share)

    @contextmanager
    def used(self) -> Iterator[None]:
        """See ``UsedWeights``."""
        latest = _copies(self.latest)
        _write(self.averages, self.latest)
        try:
            yield
        finally:
            _write(latest, self.latest)

    def saved(self) -> dict[str, Tensor]:
        """See ``UsedWeights``."""
        return {LATEST + name: weights for name, weights in _copies(self.latest).items()}

    def restore(self, saved: Mapping[str, Tensor], where: str) -> None:
        """See ``UsedWeights``."""
        refuse_other_tensors(saved, {LATEST + name: each.shape for name, each in self.latest.items()}, where, "model")
        _write(self.latest, self.averages)
        _write({name: saved[LATEST + name] for name in self.latest}, self.latest)


def used_weights(config: schema.MovingAverage | None, model: nn.Module) -> UsedWeights:
    """Choose between the weights of the last update and their moving average."""
    return LatestWeights() if config is None else AveragedWeights(model, config.decay)


def _copies(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in weights.items()}


@torch.no_grad()
def _write(weights: Mapping[str, Tensor], into: Mapping[str, Tensor]) -> None:
    """Copy in place, because recorded CUDA graphs read the memory of the parameters."""
    for name, each in into.items():
        each.copy_(weights[name])
