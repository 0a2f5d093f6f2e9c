"""Optimisers and learning-rate schedules, from the configuration."""

import math
from collections.abc import Iterable, Mapping
from typing import assert_never

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.tensors import refuse_other_tensors


def build_optimiser(parameters: Iterable[nn.Parameter], config: schema.AnyOptimiser) -> torch.optim.Optimizer:
    """The configured optimiser over these parameters."""
    match config:
        case schema.AdamW():
            return torch.optim.AdamW(
                parameters,
                lr=config.learning_rate,
                betas=config.betas,
                eps=config.epsilon,
                weight_decay=config.weight_decay,
                fused=True,
            )
        case schema.Adam():
            return torch.optim.Adam(
                parameters, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True
            )
        case schema.Adadelta():
            return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=config.rho, eps=config.epsilon)
        case schema.Sgd():
            return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=config.momentum)
    assert_never(config)


def saved_moments(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers of the updates made, by the parameter's number and the moment's name."""
    return {
        f"optimiser.{index}.{name}": value
        for index, moments in optimiser.state_dict()["state"].items()
        for name, value in moments.items()
        if value is not None
    }


def load_moments(
    optimiser: torch.optim.Optimizer,
    config: schema.AnyOptimiser,
    moments: Mapping[str, Tensor],
    where: str,
    *,
    begun: bool,
) -> None:
    """Put :func:`saved_moments` back; ``begun`` is whether an update was made before they were saved.

    Raises CheckpointError unless they are what this optimiser remembers: its kernels would read beyond the end of a
    tensor that is too small.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    shapes = {
        f"optimiser.{index}.{name}": torch.Size() if name == "step" else parameter.shape
        for index, parameter in enumerate(parameters)
        for name in (_moment_names(config) if begun else ())
    }
    refuse_other_tensors(moments, shapes, where, "optimiser")
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        _, index, name = key.split(".")
        state.setdefault(int(index), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _moment_names(config: schema.AnyOptimiser) -> list[str]:
    """What the optimiser remembers of each parameter: seen from one update of one number."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    optimiser = build_optimiser([parameter], config)
    optimiser.step()
    return [name.rpartition(".")[2] for name in saved_moments(optimiser)]


def learning_rate(schedule: schema.AnySchedule, base: float, update: int, scale: float = 1.0) -> float:
    """The rate of one update.

    Args:
        schedule: which one.
        base: the optimiser's learning rate.
        update: counted from 1.
        scale: what the plateau schedule has come down to.
    """
    warm = min(1.0, update / schedule.warmup) if schedule.warmup else 1.0
    if isinstance(schedule, schema.InverseSquareRootSchedule):
        return base * min(warm, math.sqrt(schedule.warmup / update))
    return base * warm * scale
