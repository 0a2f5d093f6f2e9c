"""Initial values of the parameters."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nmt.config.schema import AnyInitialization, PaperInitialization, UniformInitialization
from nmt.model.attention import WeightedMean


class Uninitialized(TorchFunctionMode):
    """While this context is entered, the functions of ``torch.nn.init`` leave tensors as they are.

    For networks whose parameters are replaced by those of a file: random numbers take time, and on the device ``meta``
    PyTorch imports its compiler for them, which takes a second.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def initialize(model: nn.Module, config: AnyInitialization) -> None:
    """Fill the parameters of the model, in the order in which it names them, from PyTorch's generator.

    Layer normalizations start as the identity, and single numbers, as the scale of a score, as their module has them.
    """
    identities = {
        parameter for module in model.modules() if isinstance(module, nn.LayerNorm) for parameter in module.parameters()
    }
    zero, small = _alignment(model)
    for name, parameter in model.named_parameters():
        if parameter in identities or parameter.ndim == 0:
            continue
        if isinstance(config, UniformInitialization):
            nn.init.uniform_(parameter, -config.range, config.range)
        elif isinstance(config, PaperInitialization):
            _paper(name, parameter, zero=parameter in zero, small=parameter in small)
        else:
            _xavier(name, parameter)


def _is_recurrent(name: str) -> bool:
    return name.endswith("recurrent.weight")


def _is_bias(name: str) -> bool:
    return "bias" in name.rpartition(".")[2]


def _orthogonal_blocks(parameter: nn.Parameter) -> None:
    """Fill the recurrent matrices of the gates, each H x H, that lie one above the other."""
    with torch.no_grad():
        for block in parameter.split(parameter.size(1)):
            nn.init.orthogonal_(block)


def _xavier(name: str, parameter: nn.Parameter) -> None:
    if _is_recurrent(name):
        _orthogonal_blocks(parameter)
    elif _is_bias(name):
        nn.init.zeros_(parameter)
    elif parameter.ndim < 2:
        return  # of a custom part, which knows better
    elif "embedding.weight" in name:
        nn.init.normal_(parameter, std=1 / math.sqrt(parameter.size(1)))
    else:
        nn.init.xavier_uniform_(parameter)


def _alignment(model: nn.Module) -> tuple[set[nn.Parameter], set[nn.Parameter]]:
    """Find the v_a, and the W_a and U_a, of all scores of a network."""
    zero: set[nn.Parameter] = set()
    small: set[nn.Parameter] = set()
    for module in model.modules():
        if isinstance(module, WeightedMean):
            for names, found in ((module.zero, zero), (module.small, small)):
                found.update(each for name in names for each in module.get_submodule(name).parameters())
    return zero, small


def _paper(name: str, parameter: nn.Parameter, *, zero: bool, small: bool) -> None:
    """Bahdanau et al. 2015, appendix B.1."""
    if _is_recurrent(name):
        _orthogonal_blocks(parameter)
    elif _is_bias(name) or zero:
        nn.init.zeros_(parameter)
    elif parameter.ndim < 2:
        return  # of a custom part, which knows better
    else:
        nn.init.normal_(parameter, std=0.001 if small else 0.01)
