"""Initial values of the parameters."""

import math
from collections.abc import Callable
from typing import Any, Literal

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

    Layer normalizations start as the identity. Single numbers, as the scale of a score, and vectors of custom parts
    start as their module has them.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    as_made = {parameter for norm in norms for parameter in norm.parameters()}
    zero, small = _parameters(model, "zero"), _parameters(model, "small")
    paper = isinstance(config, PaperInitialization)
    for name, parameter in model.named_parameters():
        if parameter in as_made or parameter.ndim == 0:
            continue
        if isinstance(config, UniformInitialization):
            nn.init.uniform_(parameter, -config.range, config.range)
        elif name.endswith("recurrent.weight"):
            with torch.no_grad():
                for block in parameter.split(parameter.size(1)):  # H x H, one for each gate
                    nn.init.orthogonal_(block)
        elif "bias" in name.rpartition(".")[2] or (paper and parameter in zero):
            nn.init.zeros_(parameter)
        elif parameter.ndim < 2:
            continue
        elif paper:
            nn.init.normal_(parameter, std=0.001 if parameter in small else 0.01)
        elif "embedding.weight" in name:
            nn.init.normal_(parameter, std=1 / math.sqrt(parameter.size(1)))
        else:
            nn.init.xavier_uniform_(parameter)


def _parameters(model: nn.Module, names: Literal["zero", "small"]) -> set[nn.Parameter]:
    """Find the parameters of the layers that the attentions of a network list under ``names``."""
    attentions = [module for module in model.modules() if isinstance(module, WeightedMean)]
    layers = [each.get_submodule(layer) for each in attentions for layer in getattr(each, names)]
    return {parameter for layer in layers for parameter in layer.parameters()}
