"""Fast twins of networks for search: weights are cast once, and a step takes a few wide products.

The plain twin is ``Seq2Seq`` itself, step by step. What reads the context is linear, so it is applied to the
annotations once instead of to the context of each hypothesis at each step: C sum_j alpha_j h_j = sum_j alpha_j (C h_j).
That pays where a sentence has several hypotheses; with one hypothesis it saves nothing and needs more memory.
Products that share their input are one. Products are computed in the given precision, everything else in fp32.

Shapes: B sentences, Q hypotheses of each, R = B * Q rows, S source positions, C annotation, H hidden, W state of a
layer, G input gates of the first one, U units of the readout before its nonlinearity, O readout, A alignment units, P
what the layers that read a context make of it, V target vocabulary.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from nmt.config.schema import Kernels
from nmt.device import autocast
from nmt.errors import ConfigError
from nmt.fast.kernels.products import Int8Linear, multiplies_int8
from nmt.fast.recurrent import STEPPED, reads, recurrent_of, writes
from nmt.fast.search_layers import FastEncoder, Linear, RecurrentStep, weight_and_bias
from nmt.model.attention import (
    AdditiveAttention,
    CosineAttention,
    DotAttention,
    GeneralAttention,
    InitialStateOnly,
    LocationAttention,
    NoAttention,
    ScaledDotAttention,
    WeightedMean,
)
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder, RecurrentState, Unread
from nmt.model.records import Memory, State, source_mask
from nmt.model.seq2seq import Seq2Seq
from nmt.search.interface import Searchable

LARGEST_LOOKUP = 1 << 25
"""Numbers of a table of what a layer makes of each word of the vocabulary: 128 MB."""


class FastSearch(Searchable[RecurrentState]):
    """A network as search needs it, for inference only.

    A subclass sets ``from_context``, (..., C) -> (..., P): all that reads a context, except for the attention.

    Args:
        model: the network; its weights must stay as they are.
        decoder: the network's.
        precision: what matrix products are computed in: fp32, bf16, int8 (first states and keys: bf16 where the
            hardware has it), or float64 for a network in float64.
    """

    from_context: Linear

    def __init__(self, model: Seq2Seq, decoder: RecurrentDecoder, precision: torch.dtype) -> None:
        self.model = model
        self.attends = model.attends
        self.attention = decoder.attention
        self.fixed = type(decoder.attention) in (NoAttention, InitialStateOnly)
        self.precision = precision
        self.linear = type(decoder.attention) in LINEAR
        self.high = torch.promote_types(precision, torch.float32)
        self.embedding = model.target_embedding.weight.detach().to(self.high)
        self.logits = self._layer(*weight_and_bias(model.output))
        source, encoder = model.source_embedding.weight.detach().to(self.high), model.encoder
        self.encoder = None
        if reads(encoder, STEPPED):
            self.encoder = FastEncoder(encoder, table=partial(self._table, source), linear=self._layer, dtype=self.high)
        self.cell = decoder.cell
        self.gates = decoder.embedding_gates.out_features
        self.upper = [RecurrentStep(layer.input_gates, layer.cell, self._layer, self._layer) for layer in decoder.above]
        self.above = decoder.above
        self.nonlinearity = decoder.nonlinearity
        self.units = 0
        if type(self.attention) is AdditiveAttention:
            attention = self.attention
            self.units = attention.query.out_features
            self.energy = 2 * attention.energy.weight.detach().to(self.high).T  # (A, 1)
            self.query = -2 * attention.query.weight.detach(), attention.query.weight.new_zeros(self.units)

    def _layer(self, weight: Tensor, bias: Tensor) -> Linear:
        if not len(weight):
            return lambda x: x[..., :0]
        weight, bias = weight.detach(), bias.detach()
        if self.precision == torch.int8:
            return Int8Linear(weight, bias)
        low, high = self.precision, self.high  # the layer holds no reference to its owner: a cycle would live on
        low_weight, low_bias = weight.to(low), bias.to(low)
        # not the product of training: oneDNN compiles one for each number of rows, and a search has them all
        return lambda x: functional.linear(x.to(low), low_weight, low_bias).to(high)

    def _table(self, embedding: Tensor, weight: Tensor, bias: Tensor) -> Linear:
        """Make a layer that reads embeddings: (R,) ids -> (R, O); soon a table to look up, unless that is too large."""
        layer, lock, table = self._layer(weight, bias), Lock(), None
        if embedding.size(0) * len(bias) > LARGEST_LOOKUP:
            return lambda tokens: layer(embedding[tokens])
        left = embedding.size(0) // 8  # a line or two need fewer rows: neither the work nor the memory of the table

        def look_up(tokens: Tensor) -> Tensor:
            nonlocal left, table
            left -= tokens.numel()
            if left > 0:
                return layer(embedding[tokens])
            with lock:  # threads share one table
                table = layer(embedding) if table is None else table
            return functional.embedding(tokens, table)

        return look_up

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        if self.encoder is None:
            with autocast(source.device, self.precision):
                return self.model.encode(source, lengths).map(in_type(self.high))
        return Memory(*self.encoder(source, lengths), source_mask(lengths, source.size(1), source.device))

    def start(self, memory: Memory, beam_size: int = 1) -> RecurrentState:
        """As ``Seq2Seq.start``; before a search with a beam, what reads a context is applied to the annotations."""
        with autocast(memory.summary.device, self.precision):
            state = cast(RecurrentState, self.model.start(memory)).map(in_type(self.high))
        memory = state.memory
        if self.units:
            memory = replace(memory, keys=_exp(-2 * cast(Tensor, memory.keys)))
        if self.fixed:
            memory = replace(memory, annotations=none_of(memory), summary=self.from_context(memory.summary))
        elif self.linear and beam_size > 1:
            memory = replace(memory, annotations=none_of(memory), values=self.from_context(memory.annotations))
        return replace(state, memory=memory)

    def _upper_layers(self, hidden: Tensor, state: RecurrentState) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Take one step of the layers above the first, whose new state is given.

        hidden (R, W) -> output of the last layer (R, H), the states of those above the first.
        """
        output, after = self.cell.output(hidden), []
        for layer, step, before in zip(self.above, self.upper, state.upper, strict=True):
            after.append(step(output, before))
            output = layer.add(output, after[-1])
        return output, tuple(after)

    def _attend(self, state: RecurrentState, queries: Tensor) -> tuple[Tensor, Tensor | None]:
        """Queries -> projected contexts (R, P), weights (R, S) or None.

        queries: -2 W_a s, (R, A), of the additive score; else outputs (R, H).
        """
        memory, width = state.memory, state.hypotheses
        if self.fixed:
            return memory.summary.unsqueeze(1).expand(-1, width, -1).flatten(0, 1), None
        queries = queries.unflatten(0, (-1, width))  # (B, Q, A)
        if self.units:  # v·tanh(q + k) is, but for a constant, 2 v·sigmoid(2q + 2k) = 2 v·1 / (1 + exp(-2q) exp(-2k))
            assert memory.keys is not None
            one = queries.new_ones(())
            sigmoids = torch.addcmul(one, _exp(queries).unsqueeze(2), memory.keys.unsqueeze(1)).reciprocal_()
            energies = (sigmoids.flatten(0, 2) @ self.energy).view(sigmoids.shape[:3])  # sigmoids (B, Q, S, A)
            weights = energies.masked_fill_(~memory.source_mask.unsqueeze(1), -torch.inf).softmax(-1)
            contexts = weights @ WeightedMean.values(memory)
        else:
            positions = torch.full((width,), state.position, device=queries.device)
            contexts, weights = self.attention(queries, positions, memory)
        contexts = contexts.flatten(0, 1)
        projected = self.from_context(contexts) if memory.values is None or not self.linear else contexts
        return projected, None if weights is None else weights.flatten(0, 1)

    def _read(
        self, units: Tensor, state: RecurrentState, hidden: Tensor, upper: tuple[Tensor, ...], weights: Tensor | None
    ) -> tuple[Tensor, RecurrentState, Tensor | None]:
        """End a step: units of the readout (R, U), the state before it, those of its layers, and its weights."""
        readout = self.nonlinearity(units)
        fed = None if state.attentional is None else readout
        logits = self.logits(readout).float()
        log_probs = torch.log_softmax(logits, -1, out=logits)  # in place: half the memory to go through
        return log_probs, state.advanced(hidden=hidden, upper=upper, attentional=fed), weights


def in_type(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return a function that converts floating-point tensors to a type."""
    return lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor


def none_of(memory: Memory) -> Tensor:
    """Annotations of width zero, where no step reads any; a view would keep them all in memory."""
    return memory.annotations.new_empty(*memory.annotations.shape[:-1], 0)


def _exp(x: Tensor) -> Tensor:
    """e^x; never infinite nor zero, so that no product of two is 0 * inf. Beyond 80, which no trained network
    comes near (x is twice what the hyperbolic tangent sees), x counts as 80."""
    return x.clamp(-80, 80).exp()


def joined(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Join two layers that share their input, on the device of the first: an SSRU's empty weight is on the CPU."""
    return torch.cat((one[0], other[0].to(one[0]))), torch.cat((one[1], other[1].to(one[1])))


LINEAR = {AdditiveAttention, DotAttention, ScaledDotAttention, GeneralAttention, CosineAttention, LocationAttention}
"""Attentions whose contexts are weighted means of the annotations and that read nothing else of these but keys."""

# --- the twins of both decoders: one step of each, in a few wide products ---------------------------------------------


class FastBahdanau(FastSearch):
    """Attend, update, read out; with the baseline's fixed context too."""

    def __init__(self, model: Seq2Seq, decoder: BahdanauDecoder, precision: torch.dtype) -> None:
        super().__init__(model, decoder, precision)
        gates, readout = weight_and_bias(decoder.embedding_gates), weight_and_bias(decoder.embedding_readout)
        self.from_token = self._table(self.embedding, *joined(gates, readout))
        self.reads_context = not isinstance(decoder.context_gates, Unread)
        self.from_context = lambda summary: summary[..., :0]
        if self.reads_context:
            gates, readout = weight_and_bias(decoder.context_gates), weight_and_bias(decoder.context_readout)
            self.from_context = self._layer(*joined(gates, readout))
        self.from_state = self._layer(*weight_and_bias(decoder.state_readout))
        recurrent = recurrent_of(decoder.cell)
        self.recurrent = self._layer(*(joined(self.query, recurrent) if self.units else recurrent))

    def step(self, previous: Tensor, state: RecurrentState, /) -> tuple[Tensor, RecurrentState, Tensor | None]:
        output = self.cell.output(state.hidden)
        products = self.recurrent(output)  # (R, A + rows of U)
        context, weights = self._attend(state, products[:, : self.units] if self.units else output)
        inputs = self.from_token(previous)  # (R, G + U)
        if self.reads_context:
            inputs += context
        hidden = self.cell.update(inputs[:, : self.gates], products[:, self.units :], state.hidden)
        output, upper = self._upper_layers(hidden, state)
        return self._read(self.from_state(output).add_(inputs[:, self.gates :]), state, hidden, upper, weights)


class FastLuong(FastSearch):
    """Update, attend, combine."""

    def __init__(self, model: Seq2Seq, decoder: LuongDecoder, precision: torch.dtype) -> None:
        super().__init__(model, decoder, precision)
        self.from_token = self._table(self.embedding, *weight_and_bias(decoder.embedding_gates))
        weight, bias = weight_and_bias(decoder.combine)
        annotation = weight.size(1) - decoder.cell.hidden
        self.from_context = self._layer(weight[:, :annotation].contiguous(), torch.zeros_like(bias))
        self.from_state = self._layer(weight[:, annotation:].contiguous(), bias)
        self.recurrent = self._layer(*recurrent_of(decoder.cell))
        if self.units:
            self.to_query = self._layer(*self.query)
        if decoder.feeding_gates is not None:
            self.feeding = self._layer(*weight_and_bias(decoder.feeding_gates))

    def step(self, previous: Tensor, state: RecurrentState, /) -> tuple[Tensor, RecurrentState, Tensor | None]:
        gates = self.from_token(previous)
        if state.attentional is not None:
            gates += self.feeding(state.attentional)
        hidden = self.cell.update(gates, self.recurrent(self.cell.output(state.hidden)), state.hidden)
        output, upper = self._upper_layers(hidden, state)
        context, weights = self._attend(state, self.to_query(output) if self.units else output)
        return self._read(self.from_state(output).add_(context), state, hidden, upper, weights)


SEARCH_TWINS: dict[type[Decoder], Callable[..., FastSearch]] = {BahdanauDecoder: FastBahdanau, LuongDecoder: FastLuong}


# --- the choice -------------------------------------------------------------------------------------------------------


def search(model: Seq2Seq, precision: torch.dtype, kernels: Kernels = "auto") -> Searchable[Any]:
    """Return the network for search, its fast twin if it has one, which is valid while the weights do not change.

    Matrix products are computed in ``precision``: fp32, bf16, float64, or int8. Raises ConfigError for int8 where there
    is no twin, or no processor for it.
    """
    if precision == torch.int8 and kernels == "plain":
        raise ConfigError("precision: int8 needs kernels: auto, and the run has kernels: plain; use fp32 or bf16")
    if precision == torch.int8 and not multiplies_int8():
        raise ConfigError("precision: int8 needs a processor with VNNI; use fp32 or bf16")
    decoder, twin = model.decoder, SEARCH_TWINS.get(type(model.decoder)) if kernels == "auto" else None
    if twin is not None and writes(decoder, STEPPED):
        return twin(model, decoder, precision)
    if precision == torch.int8:
        needed = "a built-in recurrent decoder without layer normalization, coverage or exact marginal"
        raise ConfigError(f"precision: int8 needs {needed}; use fp32 or bf16")
    return PlainSearch(model, precision)


class PlainSearch(Searchable[State]):
    """The network as it is; under autocast where products are not computed in fp32."""

    def __init__(self, model: Seq2Seq, precision: torch.dtype) -> None:
        self.model = model
        self.precision = precision
        self.attends = model.attends

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        return self.model.encode(source, lengths)

    def start(self, memory: Memory, beam_size: int = 1) -> State:
        return self.model.start(memory)

    def step(self, previous: Tensor, state: State, /) -> tuple[Tensor, State, Tensor | None]:
        return self.model.step(previous, state)

    def searching(self) -> AbstractContextManager[object]:
        return autocast(self.model.output.weight.device, self.precision)
