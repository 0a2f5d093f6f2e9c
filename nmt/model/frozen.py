"""A network made ready for search: its weights cast once, and each step a few wide products.

The plain twin is ``Seq2Seq`` itself, step by step. What reads the context is linear, so it is applied to the
annotations once instead of to the context of each hypothesis at each step: C sum_j alpha_j h_j = sum_j alpha_j (C h_j).
Products that share their input are one.

Shapes: B sentences, Q hypotheses of each, R = B * Q rows, S source positions, H hidden, A alignment units, O readout.
"""

from abc import abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from nmt.kernels.product import linear
from nmt.model.attention import AdditiveAttention, Memory, NoAttention
from nmt.model.decoder import BahdanauDecoder, Decoder, LuongDecoder, State
from nmt.model.seq2seq import Seq2Seq


class Frozen:
    """What search asks of a network, for inference alone: ``start`` and ``step``, in one type of number."""

    def __init__(self, model: Seq2Seq, dtype: torch.dtype) -> None:
        self.model = model
        self.dtype = dtype
        self.embedding = self._cast(model.target_embedding.weight)
        self.output = self._layer(model.output)
        self.recurrent = self._layer(model.decoder.update.recurrent)
        self.queries = 0
        attention = model.decoder.attention
        if isinstance(attention, AdditiveAttention):  # W_a s and U s share their input
            weight, bias = self.recurrent
            query = self._cast(attention.query.weight)
            self.queries = query.size(0)
            self.recurrent = torch.cat((2 * query, weight)), torch.cat((bias.new_zeros(self.queries), bias))
            self.energy = 2 * self._cast(attention.energy.weight.T)  # (A, 1)
            self.constant = (self.energy.float().sum() / -2).to(dtype).view(1, 1)

    def _cast(self, weight: Tensor) -> Tensor:
        return weight.detach().to(self.dtype)

    def _layer(self, *layers: nn.Linear) -> tuple[Tensor, Tensor]:
        """Weight and bias of layers that share their input, one below the other."""
        weight = torch.cat(tuple(layer.weight for layer in layers))
        zero = weight.new_zeros(1)
        bias = torch.cat(
            tuple(zero.expand(layer.out_features) if layer.bias is None else layer.bias for layer in layers)
        )
        return self._cast(weight), self._cast(bias)

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """As ``Seq2Seq.encode``."""
        return self.model.encode(source, lengths)

    def start(self, memory: Memory) -> State:
        """As ``Seq2Seq.start``; the memory holds projected annotations instead of annotations."""
        state = self.model.start(memory)
        keys = state.memory.keys
        if keys is not None:
            keys = (2 * keys if self.queries else keys).to(self.dtype)
        memory = replace(
            state.memory,
            keys=keys,
            annotations=self._project(memory.annotations),
            summary=self._project(memory.summary),
        )
        attentional = None if state.attentional is None else state.attentional.to(self.dtype)
        return replace(state, memory=memory, hidden=state.hidden.to(self.dtype), attentional=attentional)

    @abstractmethod
    def _project(self, context: Tensor) -> Tensor:
        """(..., C) -> what the layers that read a context make of it."""

    @abstractmethod
    def step(self, previous: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """As ``Seq2Seq.step``: previous (R,) -> log-probabilities (R, V) fp32, state, attention (R, S) or None."""

    def _attend(self, state: State, queries: Tensor) -> tuple[Tensor, Tensor | None]:
        """Queries (R, A) -> projected contexts (R, P), weights (R, S) or None."""
        memory, width = state.memory, state.width
        if memory.keys is None:
            return memory.summary.repeat_interleave(width, 0), None
        queries = queries.unflatten(0, (-1, width))  # (B, Q, A)
        if self.queries:  # v·tanh(x) = 2 v·sigmoid(2x) - v·1, as in nmt.kernels.recurrence
            sigmoids = (queries.unsqueeze(2) + memory.keys.unsqueeze(1)).sigmoid_()  # (B, Q, S, A)
            energies = torch.addmm(self.constant, sigmoids.flatten(0, 2), self.energy).view(sigmoids.shape[:3])
        else:
            energies = queries @ memory.keys.mT
        energies = energies.float().masked_fill_(~memory.source_mask.unsqueeze(1), -torch.inf)
        weights = energies.softmax(-1).to(self.dtype)
        return (weights @ memory.annotations).flatten(0, 1), weights.flatten(0, 1)

    def _update(self, input_gates: Tensor, recurrent_gates: Tensor, hidden: Tensor) -> Tensor:
        """As ``GatedUpdate``, its product done: (R, 3H), (R, 3H), (R, H) -> (R, H)."""
        both = 2 * hidden.size(1)
        reset, update = (input_gates[:, :both] + recurrent_gates[:, :both]).sigmoid_().chunk(2, 1)
        candidate = torch.addcmul(input_gates[:, both:], reset, recurrent_gates[:, both:]).tanh_()
        return torch.lerp(candidate, hidden, update)

    def _log_probs(self, readout: Tensor) -> Tensor:
        return linear(readout, *self.output).float().log_softmax(-1)


class FrozenBahdanau(Frozen):
    """Attend, update, read out; with the baseline's fixed context too."""

    def __init__(self, model: Seq2Seq, decoder: BahdanauDecoder, dtype: torch.dtype) -> None:
        super().__init__(model, dtype)
        self.fixed = isinstance(decoder.attention, NoAttention)
        self.from_embedding = self._layer(decoder.embedding_gates, decoder.embedding_readout)
        self.from_context = self._layer(decoder.context_gates, decoder.context_readout)
        self.from_state = self._layer(decoder.state_readout)

    def _project(self, context: Tensor) -> Tensor:
        if self.fixed and context.ndim == 3:  # no step reads the annotations
            return context[..., :0]
        return linear(context.to(self.dtype), *self.from_context)

    def step(self, previous: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """As ``Seq2Seq.step``."""
        products = linear(state.hidden, *self.recurrent)  # (R, A + 3H)
        context, weights = self._attend(state, products[:, : self.queries])
        inputs = linear(self.embedding[previous], *self.from_embedding) + context  # (R, 3H + 2O)
        gates = 3 * state.hidden.size(1)
        hidden = self._update(inputs[:, :gates], products[:, self.queries :], state.hidden)
        units = linear(hidden, *self.from_state) + inputs[:, gates:]
        readout = units.unflatten(-1, (-1, 2)).amax(-1)
        return self._log_probs(readout), replace(state, hidden=hidden), weights


class FrozenLuong(Frozen):
    """Update, attend, combine."""

    def __init__(self, model: Seq2Seq, decoder: LuongDecoder, dtype: torch.dtype) -> None:
        super().__init__(model, dtype)
        self.from_embedding = self._layer(decoder.embedding_gates)
        self.feeding = None if decoder.feeding_gates is None else self._layer(decoder.feeding_gates)
        weight, bias = self._layer(decoder.combine)
        width = weight.size(1) - decoder.update.recurrent.in_features
        self.from_context = weight[:, :width].contiguous(), torch.zeros_like(bias)
        self.from_state = weight[:, width:].contiguous(), bias
        if self.queries:  # here the query is the state after the update
            self.query = self.recurrent[0][: self.queries]
            self.recurrent = self._layer(decoder.update.recurrent)

    def _project(self, context: Tensor) -> Tensor:
        return linear(context.to(self.dtype), *self.from_context)

    def step(self, previous: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """As ``Seq2Seq.step``."""
        gates = linear(self.embedding[previous], *self.from_embedding)
        if self.feeding is not None and state.attentional is not None:
            gates += linear(state.attentional, *self.feeding)
        hidden = self._update(gates, linear(state.hidden, *self.recurrent), state.hidden)
        context, weights = self._attend(state, linear(hidden, self.query, None) if self.queries else hidden)
        readout = (linear(hidden, *self.from_state) + context).tanh_()
        fed = None if self.feeding is None else readout
        return self._log_probs(readout), replace(state, hidden=hidden, attentional=fed), weights


def freeze(model: Seq2Seq, dtype: torch.dtype) -> Frozen:
    """The network to search with in ``dtype``, for as long as its weights stay as they are."""
    decoder: Decoder = model.decoder
    if isinstance(decoder, BahdanauDecoder):
        return FrozenBahdanau(model, decoder, dtype)
    assert isinstance(decoder, LuongDecoder)
    return FrozenLuong(model, decoder, dtype)
