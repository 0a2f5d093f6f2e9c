"""A network for teacher forcing whose parts run as their fast twins.

The plain twin is ``Seq2Seq`` itself. A twin here is a function of a part and of what the part's own method takes; it
holds no parameters of its own.

Shapes: B sentences, S source and T target positions, E embedding, H hidden, C context, O readout, V vocabulary.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from nmt.fast.kernels.attending import attending_sequence
from nmt.fast.kernels.feeding import feeding_sequence
from nmt.fast.kernels.output_loss import output_loss
from nmt.fast.kernels.recurrence import GRU, cell_sequence, input_gates
from nmt.fast.textbook import recurrent, textbook, textbook_encoder
from nmt.model.attention import AdditiveAttention, Attention, DotAttention, GeneralAttention, NoAttention
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder, RecurrentState
from nmt.model.dropout import dropout
from nmt.model.encoders import Encoder, GruEncoder
from nmt.model.records import Memory, source_mask
from nmt.model.seq2seq import Seq2Seq

Unrolled = tuple[Tensor, Tensor | None]


class FastTraining:
    """Teacher forcing of a network by the twins of its parts; the parameters, and the training mode, are the network's.

    With ``attention_gradients``, a loss may read the attention weights: no twin is taken that gives them no gradient.
    """

    def __init__(self, model: Seq2Seq, *, attention_gradients: bool) -> None:
        self.model, self.output = model, model.output
        decoder = model.decoder
        read = ENCODERS[type(model.encoder)] if textbook_encoder(model.encoder) else None
        self._read = partial(read, model.encoder) if read else model.encoder
        unroll = _decoder_twin(decoder)
        if attention_gradients and unroll in NO_ATTENTION_GRADIENTS:
            unroll = None
        self._unroll = partial(unroll, decoder) if unroll else decoder.unroll

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Read the source, as ``Network`` has it."""
        return self.model.remember(self._read(self.model.embed_source(source), lengths), lengths)

    def unroll(self, target_input: Tensor, memory: Memory) -> Unrolled:
        """Run teacher forcing up to the output layer, as ``Network`` has it."""
        readouts, weights = self._unroll(self.model.embed_target(target_input, 0), self.model.start(memory))
        return self.model.readout_dropout(readouts), weights

    def read_each(self, target_input: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Read out from every source position by itself, as ``Network`` has it."""
        return self.model.read_each(target_input, memory)

    def loss(self, readouts: Tensor, targets: Tensor, mask: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """Sum the loss over the real target tokens, as ``Network`` has it."""
        output = self.output
        if readouts.is_cuda:  # boolean indexing would force a GPU synchronization
            rows = readouts.flatten(0, 1), output.weight, output.bias, targets.flatten()
            return output_loss(*rows, smoothing, counted=mask.flatten())
        return output_loss(readouts[mask], output.weight, output.bias, targets[mask], smoothing)


def _decoder_twin(decoder: Decoder) -> "Callable[..., Unrolled] | None":
    if not textbook(decoder):
        return None
    twins = DECODERS[type(decoder)]
    if type(decoder) is LuongDecoder and decoder.feeding_gates is not None:
        twins = FEEDING
    return twins.get(type(decoder.attention), twins.get(None))


# --- encoders ---------------------------------------------------------------------------------------------------------


def read_both_ways(encoder: GruEncoder, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Run both directions in one walk, one of them over the sentences reversed with their padding.

    embedded (B, S, E), lengths (B,) -> annotations (B, S, 2H), summary (B, 2H), as ``GruEncoder``.
    """
    rnn = encoder.rnn
    annotations = embedded.transpose(0, 1)  # (S, B, E), then (S, B, 2H)
    steps, sentences, _ = annotations.shape
    padded = ~source_mask(lengths, steps, embedded.device).T  # (S, B)
    # checking on a GPU would synchronize
    some = lengths.device.type != "cpu" or bool((lengths < steps).any())
    padding = torch.stack((padded, padded.flip(0)), 1) if some else None
    for layer in range(rnn.num_layers):
        if layer:
            annotations = dropout(annotations, rnn.dropout) if encoder.training else annotations
        w_ih, w_hh, b_ih, b_hh = (
            torch.stack([getattr(rnn, f"{name}_l{layer}{way}") for way in ("", "_reverse")])
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates = input_gates(torch.stack((annotations, annotations.flip(0)), 1), w_ih, b_ih)  # (S, 2, 3H, B)
        initial = gates.new_zeros(2, rnn.hidden_size, sentences)
        states, _ = cell_sequence(GRU, gates, initial, w_hh, b_hh, padding)  # (S, 2, H, B)
        forward, backward = states.unbind(1)
        annotations = torch.cat((forward, backward.flip(0)), 1).transpose(1, 2)  # (S, B, 2H)
    annotations = annotations.transpose(0, 1)
    if padding is not None:
        annotations = annotations.masked_fill(padded.T.unsqueeze(-1), 0.0)
    return annotations.contiguous(), states[-1].flatten(0, 1).T


# --- decoders ---------------------------------------------------------------------------------------------------------


def _embedding_gates(decoder: RecurrentDecoder, embedded: Tensor) -> Tensor:
    """The embeddings' part of the gates of all positions, as the kernels read it: (B, T, E) -> (T, 3H, B)."""
    inputs = embedded.transpose(0, 1).unsqueeze(1)
    weight, bias = decoder.embedding_gates.weight.unsqueeze(0), decoder.embedding_gates.bias.unsqueeze(0)
    return input_gates(inputs, weight, bias).squeeze(1)


def _states(decoder: RecurrentDecoder, gates: Tensor, hidden: Tensor) -> Tensor:
    """All steps where no input depends on a state: gates (T, 3H, B), s_0 (B, H) -> states (B, T, H)."""
    weight, bias = recurrent(decoder).weight.unsqueeze(0), recurrent(decoder).bias.unsqueeze(0)
    states, _ = cell_sequence(GRU, gates.unsqueeze(1), hidden.T.unsqueeze(0), weight, bias)  # (T, 1, H, B)
    return states.squeeze(1).permute(2, 0, 1)


def unroll_without_attention(decoder: BahdanauDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Add the context, which is the same at every step, to all gates; then walk the recurrence in one operation."""
    context = state.memory.summary.unsqueeze(1)  # (B, 1, C)
    gates = _embedding_gates(decoder, embedded) + decoder.context_gates(context.squeeze(1)).T
    return decoder.readout(embedded, context, _states(decoder, gates, state.hidden)), None


def unroll_bahdanau(decoder: BahdanauDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Attend and update in one operation for all steps. The weights carry no gradient."""
    memory, attention = state.memory, decoder.attention
    assert isinstance(attention, AdditiveAttention)
    assert memory.keys is not None
    states, contexts, weights = attending_sequence(
        GRU,
        _embedding_gates(decoder, embedded),
        state.hidden.T,
        memory.keys,
        memory.annotations,
        memory.source_mask,
        recurrent=recurrent(decoder).weight,
        bias=recurrent(decoder).bias,
        query=attention.query.weight,
        energy=attention.energy.weight.squeeze(0),
        context=cast(Tensor, decoder.context_gates.weight),
    )
    readouts = decoder.readout(embedded, contexts.transpose(0, 1), states.permute(2, 0, 1))
    return readouts, weights.transpose(0, 1)


def unroll_luong(decoder: LuongDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Without input feeding, walk the recurrence in one operation, then attend from all states at once."""
    return decoder.attend_at_once(_states(decoder, _embedding_gates(decoder, embedded), state.hidden), state)


def unroll_feeding(decoder: LuongDecoder, embedded: Tensor, state: RecurrentState) -> Unrolled:
    """Update, attend, combine and feed in one operation for all steps. The weights carry no gradient."""
    memory, attention, hidden = state.memory, decoder.attention, state.hidden.size(1)
    assert memory.keys is not None and state.attentional is not None and decoder.feeding_gates is not None
    query, energy = None, None
    if isinstance(attention, AdditiveAttention):
        query, energy = attention.query.weight, attention.energy.weight.squeeze(0)
    from_context, from_state = decoder.combine.weight.split((decoder.combine.in_features - hidden, hidden), 1)
    readouts, weights = feeding_sequence(
        GRU,
        _embedding_gates(decoder, embedded),
        state.hidden.T,
        state.attentional.T,
        memory.keys,
        functional.linear(memory.annotations, from_context),
        memory.source_mask,
        recurrent=recurrent(decoder).weight,
        bias=recurrent(decoder).bias,
        combine=from_state,
        combine_bias=decoder.combine.bias,
        feeding=decoder.feeding_gates.weight,
        query=query,
        energy=energy,
    )
    return readouts.permute(2, 0, 1), weights.transpose(0, 1)


# --- tables -----------------------------------------------------------------------------------------------------------

ENCODERS: dict[type[Encoder], Callable[..., tuple[Tensor, Tensor]]] = {GruEncoder: read_both_ways}
DECODERS: dict[type[Decoder], dict[type[Attention] | None, Callable[..., Unrolled]]] = {
    BahdanauDecoder: {NoAttention: unroll_without_attention, AdditiveAttention: unroll_bahdanau},
    LuongDecoder: {None: unroll_luong},
}
"""By the decoder's type, then by its attention's; None stands for every other one."""
FEEDING: dict[type[Attention] | None, Callable[..., Unrolled]] = {
    AdditiveAttention: unroll_feeding,
    DotAttention: unroll_feeding,
    GeneralAttention: unroll_feeding,
}
"""Of Luong's decoder with input feeding."""
NO_ATTENTION_GRADIENTS = {unroll_bahdanau, unroll_feeding}
