"""The twins of both decoders for search: one step of each, in a few wide products.

Shapes: R rows, S source positions, A alignment units, G input gates of the first layer, U units of the readout before
its nonlinearity, P what the layers that read a context make of it, V target vocabulary.
"""

import torch
from torch import Tensor

from nmt.fast.inference_network import FastSearch, joined, none_of, weight_and_bias
from nmt.model.decoders import BahdanauDecoder, LuongDecoder, RecurrentState, Unread
from nmt.model.seq2seq import Seq2Seq


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
        gates = self._fed(inputs[:, : self.gates], state)
        hidden = self.cell(gates, products[:, self.units :], state.hidden)
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
