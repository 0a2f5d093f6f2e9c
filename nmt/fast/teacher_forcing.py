"""A network for teacher forcing whose parts run as their fast twins.

The plain twin is ``Seq2Seq`` itself. A twin here is a function of a part and of what the part's own method takes; it
holds no parameters of its own.

Shapes: B sentences, S source and T target positions, E embedding, H hidden, C context, O readout, I input, G gates,
W state, D directions.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config.schema import Kernels
from nmt.fast.kernels.attending import attending_sequence
from nmt.fast.kernels.output_loss import output_loss
from nmt.fast.recurrent import WALKED, gates_of, outputs_of, reads, recurrent_of, writes
from nmt.model.attention import AdditiveAttention, DotAttention, GeneralAttention, InitialStateOnly, NoAttention
from nmt.model.cells import Cell
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder, RecurrentState
from nmt.model.encoders import RecurrentEncoder
from nmt.model.records import Memory, source_mask
from nmt.model.seq2seq import Network, Seq2Seq

Unrolled = tuple[Tensor, Tensor | None]
Unroll = Callable[..., Unrolled]


def training(model: Seq2Seq, kernels: Kernels = "auto", *, attention_gradients: bool = False) -> Network:
    """Return the network for teacher forcing: the same parameters and, up to rounding, the same numbers.

    With ``attention_gradients`` a loss may read the attention weights: no twin is taken that gives them no gradient.
    """
    return FastTraining(model, attention_gradients=attention_gradients) if kernels == "auto" else model


class FastTraining(Network):
    """Teacher forcing of a network by the twins of its parts; parameters and training mode are the network's."""

    def __init__(self, model: Seq2Seq, *, attention_gradients: bool) -> None:
        self.model, self.output = model, model.output
        decoder, encoder = model.decoder, model.encoder
        self._read = partial(read_at_once, encoder) if reads(encoder, WALKED) else encoder
        unroll = unroll_of(decoder, attention_gradients=attention_gradients)
        self._unroll = partial(unroll, decoder) if unroll else decoder.unroll

    @property
    def capturable(self) -> bool:
        """Among the built-in parts only the exact marginal synchronizes: it needs the number of real words."""
        built_in = all(type(part).__module__.startswith(("nmt.model.", "torch.nn.")) for part in self.model.modules())
        return built_in and type(self.output) is nn.Linear

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        return self.model.remember(self._read(self.model.embed_source(source), lengths), lengths)

    def unroll(self, target_input: Tensor, memory: Memory) -> Unrolled:
        readouts, weights = self._unroll(self.model.embed_target(target_input, 0), self.model.start(memory))
        return self.model.readout_dropout(readouts), weights

    def loss(self, readouts: Tensor, targets: Tensor, mask: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        output = self.output
        if type(output) is not nn.Linear:
            return self.model.loss(readouts, targets, mask, smoothing)
        if readouts.is_cuda:  # boolean indexing would force a GPU synchronization
            rows = readouts.flatten(0, 1), output.weight, output.bias, targets.flatten()
            return output_loss(*rows, smoothing, counted=mask.flatten())
        return output_loss(readouts[mask], output.weight, output.bias, targets[mask], smoothing)


# --- encoders ---------------------------------------------------------------------------------------------------------


def read_at_once(encoder: RecurrentEncoder, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Run both directions in one walk, one of them over the sentences reversed with their padding.

    embedded (B, S, E), lengths (B,) -> annotations (B, S, C), summary (B, C), as the encoder.
    """
    annotations = embedded.transpose(0, 1)  # (S, B, E), then (S, B, C)
    padded = ~source_mask(lengths, len(annotations), embedded.device).T  # (S, B)
    # checking on a GPU would synchronize
    some = lengths.device.type != "cpu" or bool((lengths < len(annotations)).any())
    for above, ways in enumerate(encoder.directions):
        # drawn in the order of the plain encoder, (B, S, C)
        below = encoder.dropout(annotations.transpose(0, 1)).transpose(0, 1) if above else annotations
        padding = torch.stack((padded, padded.flip(0))[: len(ways)], 1) if some else None
        both = torch.stack((below, below.flip(0))[: len(ways)], 1)
        gates = gates_of(both, [way.input_gates for way in ways])  # (S, D, G, B)
        outputs = outputs_of(gates, [way.cell for way in ways], padding=padding)  # (S, D, H, B)
        forward, *backward = outputs.unbind(1)
        both = torch.cat((forward, *(each.flip(0) for each in backward)), 1).transpose(1, 2)  # (S, B, C)
        annotations = both + annotations if above and encoder.residual else both
    annotations = annotations.transpose(0, 1)
    if some:
        annotations = annotations.masked_fill(padded.T.unsqueeze(-1), 0.0)
    return annotations.contiguous(), outputs[-1].flatten(0, 1).T


# --- decoders ---------------------------------------------------------------------------------------------------------


def _gates(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """The input's part of the gates of all positions, as the kernels read it: (B, T, I) -> (T, G, B)."""
    return gates_of(inputs.transpose(0, 1).unsqueeze(1), [layer]).squeeze(1)


def _outputs(cell: Cell, gates: Tensor, state: Tensor) -> Tensor:
    """All steps where no input depends on a state: gates (T, G, B), first state (B, W) -> outputs (B, T, H)."""
    return outputs_of(gates.unsqueeze(1), [cell], state.T.unsqueeze(0)).squeeze(1).permute(2, 0, 1)


def _upper_layers(decoder: RecurrentDecoder, outputs: Tensor, start: RecurrentState) -> Tensor:
    """All steps of the layers above the first: its outputs (B, T, H) -> those of the last (B, T, H)."""
    for layer, state in zip(decoder.above, start.upper, strict=True):
        above = _outputs(layer.cell, _gates(layer.input_gates, layer.dropout(outputs)), state)
        outputs = above + outputs if layer.residual else above
    return outputs.contiguous()  # else a product without gradient would copy its weight for each sentence


def _attending(
    decoder: RecurrentDecoder,
    embedded: Tensor,
    state: RecurrentState,
    values: Tensor,
    feeding: Tensor,
    combine: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """All steps of the first layer and its attention, as :func:`attending_sequence`: embedded (B, T, E)."""
    attention = decoder.attention
    additive = None
    if isinstance(attention, AdditiveAttention):
        additive = attention.query.weight, attention.energy.weight.squeeze(0)
    return attending_sequence(
        WALKED[type(decoder.cell)],
        _gates(decoder.embedding_gates, embedded),
        state.hidden.T,
        cast(Tensor, state.memory.keys),
        values,
        state.memory.source_mask,
        recurrent=recurrent_of(decoder.cell),
        feeding=feeding,
        additive=additive,
        combine=combine,
    )


def unroll_without_attention(decoder: BahdanauDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Add the context, which is the same at every step, to all gates; then walk each layer in one operation."""
    context = state.memory.summary  # (B, C)
    # a context without units adds a single zero
    gates = _gates(decoder.embedding_gates, embedded) + torch.atleast_2d(decoder.context_gates(context)).T
    outputs = _upper_layers(decoder, _outputs(decoder.cell, gates, state.hidden), state)
    return decoder.readout(embedded, context.unsqueeze(1), outputs), None


def unroll_bahdanau(decoder: BahdanauDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Attend and update in one operation for all steps; then walk the other layers. The weights carry no gradient."""
    feeding = cast(Tensor, decoder.context_gates.weight)
    outputs, contexts, weights = _attending(decoder, embedded, state, state.memory.annotations, feeding)
    outputs = _upper_layers(decoder, outputs.permute(2, 0, 1), state)
    return decoder.readout(embedded, contexts.transpose(0, 1).contiguous(), outputs), weights.transpose(0, 1)


def unroll_luong(decoder: LuongDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Without input feeding, walk each layer in one operation, then attend from all outputs at once."""
    outputs = _outputs(decoder.cell, _gates(decoder.embedding_gates, embedded), state.hidden)
    return decoder.attend_at_once(_upper_layers(decoder, outputs, state), state)


def unroll_feeding(decoder: LuongDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Update, attend, combine and feed in one operation for all steps. The weights carry no gradient."""
    combine, hidden = decoder.combine, decoder.cell.hidden
    assert decoder.feeding_gates is not None
    from_context, from_state = combine.weight.split((combine.in_features - hidden, hidden), 1)
    values = functional.linear(state.memory.annotations, from_context)
    feeding = decoder.feeding_gates.weight
    _, readouts, weights = _attending(decoder, embedded, state, values, feeding, (from_state, combine.bias))
    return readouts.permute(2, 0, 1).contiguous(), weights.transpose(0, 1)


# --- the choice -------------------------------------------------------------------------------------------------------

FED = {AdditiveAttention, DotAttention, GeneralAttention}
"""Attentions that input feeding walks together with a cell."""


def unroll_of(decoder: Decoder, *, attention_gradients: bool = False) -> Unroll | None:
    """Look up the twin of a decoder's ``unroll``; with ``attention_gradients`` none whose weights have no gradient."""
    if not writes(decoder, WALKED):
        return None
    attention = type(decoder.attention)
    if type(decoder) is BahdanauDecoder:
        if attention in (NoAttention, InitialStateOnly):
            return unroll_without_attention
        return unroll_bahdanau if attention is AdditiveAttention and not attention_gradients else None
    if type(decoder) is LuongDecoder:
        if decoder.feeding_gates is None:
            return unroll_luong
        fed = attention in FED and not decoder.above and type(decoder.nonlinearity) is nn.Tanh
        return unroll_feeding if fed and not attention_gradients else None
    return None
