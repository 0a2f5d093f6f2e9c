"""Optimizers and learning-rate schedules."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.errors import CheckpointError


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


def load_moments(optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor], where: str) -> None:
    """Load :func:`saved_moments`.

    Raises CheckpointError for a moment of another shape than its parameter: a kernel would read beyond its end.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        try:
            _, index, name = key.split(".")
            shape = parameters[int(index)].shape
        except (ValueError, IndexError):
            raise CheckpointError(f"{where}: tensor {key} belongs to no parameter") from None
        if tensor.shape not in (shape, torch.Size()):
            raise CheckpointError(f"{where}: tensor {key} has shape {tuple(tensor.shape)}, not {tuple(shape)}")
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def learning_rate(schedule: schema.AnySchedule, base: float, update: int, scale: float = 1.0) -> float:
    """The learning rate of an update, counted from 1; ``scale`` is the current factor of the plateau schedule, which a
    run that goes on with another schedule no longer has."""
    warm = min(1.0, update / schedule.warmup) if schedule.warmup else 1.0
    if isinstance(schedule, schema.InverseSquareRootSchedule):
        return base * min(warm, math.sqrt(schedule.warmup / update))
    return base * warm * (scale if isinstance(schedule, schema.PlateauSchedule) else 1.0)
