"""Optimisers and learning-rate schedules, from the configuration."""

import math
from collections.abc import Iterable
from typing import assert_never

import torch
from torch import nn

from nmt.config import schema


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
