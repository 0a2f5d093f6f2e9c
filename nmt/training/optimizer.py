"""Optimizers, and their moments in checkpoints."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.runs.checkpoints import refuse_other_tensors


def build_optimizer(parameters: Iterable[nn.Parameter], config: schema.AnyOptimizer) -> torch.optim.Optimizer:
    """The configured optimizer over these parameters; its groups begin with their learning rates after warm-up."""
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
    """The state of the optimizer, by parameter index and moment name. Raises TypeError for a part that is no tensor."""
    found = {
        f"optimizer.{index}.{name}": value
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
        if value is not None
    }
    for name, value in found.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} of {type(optimizer).__name__} is {value!r}; its state must consist of tensors")
    return found


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
    used = {key.split(".")[1] for key in moments if key.count(".") == 2}
    shapes: dict[str, torch.Size] = {}
    for index, parameter in enumerate(each for group in optimizer.param_groups for each in group["params"]):
        if str(index) in used or not used:  # a parameter that never had a gradient has no moments
            twin = nn.Parameter(torch.zeros(parameter.shape))
            twin.grad = torch.zeros(parameter.shape)
            fresh = build_optimizer([twin], config)
            if stepped:
                fresh.step()
            shapes |= {
                f"optimizer.{index}.{name}": each.shape for name, each in fresh.state[twin].items() if each is not None
            }
    refuse_other_tensors(moments, shapes, where, "optimizer")
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        _, number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
