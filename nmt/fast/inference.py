"""What search asks of a network: the choice between the network itself, step by step, and its fast twin."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from nmt.config.schema import Kernels
from nmt.device import autocast
from nmt.errors import ConfigError
from nmt.fast.inference_decoders import FastBahdanau, FastLuong
from nmt.fast.inference_network import READOUTS, FastSearch
from nmt.fast.recurrent import has_kernels
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder
from nmt.model.records import Memory, State
from nmt.model.seq2seq import Seq2Seq
from nmt.search import Searchable


class PlainSearch(Searchable[State]):
    """The network as it is; under autocast where products are not computed in fp32."""

    def __init__(self, model: Seq2Seq, precision: torch.dtype) -> None:
        self.model = model
        self.precision = precision
        self.attends = model.attends

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """As ``Seq2Seq.encode``."""
        return self.model.encode(source, lengths)

    def start(self, memory: Memory) -> State:
        """As ``Seq2Seq.start``."""
        return self.model.start(memory)

    def step(self, previous: Tensor, state: State, /) -> tuple[Tensor, State, Tensor | None]:
        """As ``Seq2Seq.step``."""
        return self.model.step(previous, state)

    def searching(self) -> AbstractContextManager[object]:
        """As ``Searchable`` has it."""
        return autocast(self.model.output.weight.device, self.precision)


DECODERS: dict[type[Decoder], Callable[..., FastSearch]] = {BahdanauDecoder: FastBahdanau, LuongDecoder: FastLuong}


def twin_of(decoder: Decoder) -> Callable[..., FastSearch] | None:
    """Look up the twin of a network with this decoder."""
    if not isinstance(decoder, RecurrentDecoder) or not has_kernels(decoder):
        return None
    return DECODERS.get(type(decoder)) if type(decoder.nonlinearity) in READOUTS else None


def fast_search(model: Seq2Seq, precision: torch.dtype, *, ahead: bool) -> Searchable[Any]:
    """Return the twin of the network, to be searched for as long as its weights stay as they are.

    Raises ConfigError for int8 if the decoder has no twin.
    """
    twin = twin_of(model.decoder)
    if twin is None and precision == torch.int8:
        raise ConfigError(
            "precision: int8 needs a built-in recurrent decoder without layer normalization, deep transition and "
            "coverage; use fp32 or bf16"
        )
    return twin(model, model.decoder, precision, ahead=ahead) if twin else PlainSearch(model, precision)


def search(model: Seq2Seq, precision: torch.dtype, kernels: Kernels = "auto", *, beam_size: int = 1) -> Searchable[Any]:
    """Return what search asks of the network, for as long as its weights stay as they are.

    Matrix products are computed in ``precision``: fp32, bf16, float64, or int8, which plain kernels do not have.
    """
    refuse_precision(precision, kernels)
    return fast_search(model, precision, ahead=beam_size > 1) if kernels == "auto" else PlainSearch(model, precision)


def refuse_precision(precision: torch.dtype, kernels: Kernels) -> None:
    """Raise ConfigError for a precision that the kernels do not have."""
    if precision == torch.int8 and kernels == "plain":
        raise ConfigError("precision: int8 needs kernels: auto, and the run has kernels: plain; use fp32 or bf16")
