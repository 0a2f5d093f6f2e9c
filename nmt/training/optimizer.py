"""Optimizers, and their moments in checkpoints."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from nmt.config import schema


def build_optimizer(parameters: Iterable[nn.Parameter], config: schema.AnyOptimizer) -> torch.optim.Optimizer:
    """The configured optimizer over these parameters; its groups begin with their learning rates after warm-up."""
    optimizer: torch.optim.Optimizer = schema.OPTIMIZERS.build(config, parameters)
    return optimizer


@schema.OPTIMIZERS.builds(schema.Adam)
def _adam(config: schema.Adam, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True)


@schema.OPTIMIZERS.builds(schema.AdamW)
def _adamw(config: schema.AdamW, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = config.learning_rate, config.weight_decay
    return torch.optim.AdamW(parameters, rate, config.betas, config.epsilon, weight_decay=decay, fused=True)


@schema.OPTIMIZERS.builds(schema.Adadelta)
def _adadelta(config: schema.Adadelta, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=config.rho, eps=config.epsilon)


@schema.OPTIMIZERS.builds(schema.Sgd)
def _sgd(config: schema.Sgd, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=config.momentum)


def saved_moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of the optimizer, by parameter index and moment name; it must consist of tensors."""
    return {
        f"optimizer.{index}.{name}": value
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
        if value is not None
    }


def load_moments(optimizer: torch.optim.Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Load :func:`saved_moments`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        _, number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
