"""Fast twins of a network's parts, looked up by the type of each part.

A part whose type is in no table runs as it is. No other package knows which twins there are.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from nmt.config.schema import Kernels
from nmt.device import autocast
from nmt.errors import ConfigError
from nmt.fast.kernels.products import multiplies_int8
from nmt.fast.search_network import twin_of
from nmt.fast.teacher_forcing import FastTraining
from nmt.model import Memory, Network, Seq2Seq, State
from nmt.search import Searchable

__all__ = ["records_graphs", "search", "training"]


def training(model: Seq2Seq, kernels: Kernels = "auto", *, attention_gradients: bool = False) -> Network:
    """Return the network for teacher forcing: the same parameters and, up to rounding, the same numbers.

    With ``attention_gradients`` a loss may read the attention weights: no twin is taken that gives them no gradient.
    """
    return FastTraining(model, attention_gradients=attention_gradients) if kernels == "auto" else model


def records_graphs(network: Network, device: torch.device) -> bool:
    """Whether the steps of a network that :func:`training` returned are replayed as CUDA graphs.

    Not with a part without a twin or with hard attention: these may synchronize.
    """
    return isinstance(network, FastTraining) and network.repeatable and device.type == "cuda"


def search(model: Seq2Seq, precision: torch.dtype, kernels: Kernels = "auto") -> Searchable[Any]:
    """Return what search asks of the network, its twin if it has one, for as long as its weights stay as they are.

    Matrix products are computed in ``precision``: fp32, bf16, float64, or int8. Raises ConfigError for int8 where there
    is no twin, or no processor for it.
    """
    if precision == torch.int8 and kernels == "plain":
        raise ConfigError("precision: int8 needs kernels: auto, and the run has kernels: plain; use fp32 or bf16")
    if precision == torch.int8 and not multiplies_int8():
        raise ConfigError("precision: int8 needs a processor with VNNI; use fp32 or bf16")
    twin = twin_of(model.decoder) if kernels == "auto" else None
    if twin is not None:
        return twin(model, model.decoder, precision)
    if precision == torch.int8:
        decoder = "a built-in recurrent decoder without layer normalization, coverage or exact marginal"
        raise ConfigError(f"precision: int8 needs {decoder}; use fp32 or bf16")
    return PlainSearch(model, precision)


class PlainSearch(Searchable[State]):
    """The network as it is; under autocast where products are not computed in fp32."""

    def __init__(self, model: Seq2Seq, precision: torch.dtype) -> None:
        self.model = model
        self.precision = precision
        self.attends = model.attends

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """As ``Seq2Seq.encode``."""
        return self.model.encode(source, lengths)

    def start(self, memory: Memory, beam_size: int = 1) -> State:
        """As ``Seq2Seq.start``."""
        return self.model.start(memory)

    def step(self, previous: Tensor, state: State, /) -> tuple[Tensor, State, Tensor | None]:
        """As ``Seq2Seq.step``."""
        return self.model.step(previous, state)

    def searching(self) -> AbstractContextManager[object]:
        """Autocast to the precision of products."""
        return autocast(self.model.output.weight.device, self.precision)
