"""What search asks of a network: the network itself or its fast twin.

Shapes: R rows, S source positions, A alignment units, G input gates of the first layer, U units of the readout before
its nonlinearity, P what the layers that read a context make of it, V target vocabulary.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from nmt.config.schema import Kernels
from nmt.device import autocast
from nmt.errors import ConfigError
from nmt.fast.inference_network import READOUTS, FastSearch, joined, none_of, weight_and_bias
from nmt.fast.recurrent import has_kernels
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder, RecurrentState, Unread
from nmt.model.records import Memory, State
from nmt.model.seq2seq import Seq2Seq
from nmt.search import Searchable

# --- the twins of both decoders: one step of each, in a few wide products ---------------------------------------------


class FastBahdanau(FastSearch):
    """Attend, update, read out; with the baseline's fixed context too."""

    def __init__(self, model: Seq2Seq, decoder: BahdanauDecoder, precision: torch.dtype, *, ahead: bool) -> None:
        super().__init__(model, decoder, precision, ahead=ahead)
        gates, readout = weight_and_bias(decoder.embedding_gates), weight_and_bias(decoder.embedding_readout)
        self.from_token = self._table(self.embedding, *joined(gates, readout))
        self.reads_context = not isinstance(decoder.context_gates, Unread)
        if self.reads_context:
            gates, readout = weight_and_bias(decoder.context_gates), weight_and_bias(decoder.context_readout)
            self.from_context = self._layer(*joined(gates, readout))
        else:
            self.from_context = none_of
        self.from_state = self._layer(*weight_and_bias(decoder.state_readout))

    def _recurrent(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """W_a s and U s share their input."""
        return joined((self.query, bias.new_zeros(self.units)), (weight, bias)) if self.units else (weight, bias)

    def step(self, previous: Tensor, state: RecurrentState, /) -> tuple[Tensor, RecurrentState, Tensor | None]:
        """As ``Seq2Seq.step``."""
        output = self.cell.output(state.hidden)
        products = self.recurrent(output)  # (R, A + P)
        context, weights = self._attend(state, products[:, : self.units] if self.units else output)
        inputs = self.from_token(previous)  # (R, G + U)
        if self.reads_context:
            inputs += context
        hidden = self.cell(inputs[:, : self.gates], products[:, self.units :], state.hidden)
        output, upper = self._climb(hidden, state)
        return self._read(self.from_state(output).add_(inputs[:, self.gates :]), state, hidden, upper, weights)


class FastLuong(FastSearch):
    """Update, attend, combine."""

    def __init__(self, model: Seq2Seq, decoder: LuongDecoder, precision: torch.dtype, *, ahead: bool) -> None:
        super().__init__(model, decoder, precision, ahead=ahead)
        self.from_token = self._table(self.embedding, *weight_and_bias(decoder.embedding_gates))
        weight, bias = weight_and_bias(decoder.combine)
        annotation = weight.size(1) - decoder.cell.hidden
        self.from_context = self._layer(weight[:, :annotation].contiguous(), torch.zeros_like(bias))
        self.from_state = self._layer(weight[:, annotation:].contiguous(), bias)
        if self.units:
            self.to_query = self._layer(self.query, bias.new_zeros(self.units))

    def step(self, previous: Tensor, state: RecurrentState, /) -> tuple[Tensor, RecurrentState, Tensor | None]:
        """As ``Seq2Seq.step``."""
        gates = self._fed(self.from_token(previous), state)
        hidden = self.cell(gates, self.recurrent(self.cell.output(state.hidden)), state.hidden)
        output, upper = self._climb(hidden, state)
        context, weights = self._attend(state, self.to_query(output) if self.units else output)
        return self._read(self.from_state(output).add_(context), state, hidden, upper, weights)


# --- the choice -------------------------------------------------------------------------------------------------------


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
        """Autocast to the precision of products."""
        return autocast(self.model.output.weight.device, self.precision)


SEARCH_TWINS: dict[type[Decoder], Callable[..., FastSearch]] = {BahdanauDecoder: FastBahdanau, LuongDecoder: FastLuong}


def twin_of(decoder: Decoder) -> Callable[..., FastSearch] | None:
    """Look up the twin of a network with this decoder."""
    if not isinstance(decoder, RecurrentDecoder) or not has_kernels(decoder):
        return None
    return SEARCH_TWINS.get(type(decoder)) if type(decoder.nonlinearity) in READOUTS else None


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
