"""How many multiply-adds a network needs: the floor that its speed is held against.

Counted from the sizes of the layers, for matrix products alone and for useful work alone: no padding, nothing computed
twice, and what is the same for all steps of a sentence counted once.
"""

from dataclasses import astuple, dataclass
from operator import add, mul

from nmt.config import schema


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of teacher forcing, forward: per sentence, token, and pair of tokens."""

    sentence: int = 0
    source_token: int = 0
    target_token: int = 0
    pair: int = 0
    """Of a source and a target token."""
    source_pair: int = 0
    """Of two source tokens, in either order; a token makes a pair with itself too."""
    target_pair: int = 0
    """Of a target token and one that it may see: itself, or one before it."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))

    def training_flops(
        self,
        sentences: int,
        source_tokens: int,
        target_tokens: int,
        pairs: int,
        source_pairs: int,
        target_pairs: int,
    ) -> int:
        """Floating-point operations of forward and backward passes: three times two for each multiply-add.

        With S source and T target tokens, a sentence has S T ``pairs``, S^2 ``source_pairs``, T (T + 1) / 2
        ``target_pairs``.
        """
        counts = sentences, source_tokens, target_tokens, pairs, source_pairs, target_pairs
        forward: int = sum(map(mul, astuple(self), counts))
        return 6 * forward


def cost(config: schema.Model, target_size: int) -> Cost:
    """Count the multiply-adds of a network with a target vocabulary of this size.

    With the exact marginal of hard attention, the output layer is computed for each source token.
    """
    assert not isinstance(config.encoder, schema.CustomPart)
    annotation, embedding = config.encoder.width, config.embeddings.size
    if isinstance(config.encoder, schema.TransformerEncoder):
        encoder, bridge = _transformer_encoder(config.encoder), annotation
    else:
        assert isinstance(config.encoder, schema.RecurrentEncoder)
        encoder = _recurrent_encoder(config.encoder, embedding)
        bridge = annotation if config.encoder.summary == "mean" else config.encoder.hidden
    if isinstance(config.decoder, schema.TransformerDecoder):
        output = Cost(target_token=config.decoder.hidden * target_size)
        return encoder + _transformer_decoder(config.decoder, annotation) + output
    assert isinstance(config.decoder, schema.RecurrentDecoder)
    layers = _recurrent_layers(config.decoder, embedding, bridge)
    return encoder + layers + _reading(config, config.decoder, annotation, target_size)


# --- recurrent parts --------------------------------------------------------------------------------------------------


def _gates(section: schema.Recurrence) -> tuple[int, int]:
    """The multiples of H that a cell computes from its input, and from its state."""
    assert not isinstance(section, schema.CustomCell)
    if isinstance(section, schema.Ssru):
        return 2, 0
    gates = 4 if isinstance(section, schema.Lstm) else 3
    return gates, gates * (section.transitions if isinstance(section, schema.Transitions) else 1)


def _recurrent_encoder(encoder: schema.RecurrentEncoder, embedding: int) -> Cost:
    hidden, (from_input, from_state) = encoder.hidden, _gates(encoder)
    inputs = [embedding] + [encoder.width] * (encoder.layers - 1)
    each = sum(hidden * (from_input * below + from_state * hidden) for below in inputs)
    return Cost(source_token=encoder.width // hidden * each)


def _recurrent_layers(decoder: schema.RecurrentDecoder, embedding: int, bridge: int) -> Cost:
    """All layers, without what the first one reads of contexts and readouts."""
    hidden, (from_input, from_state) = decoder.hidden, _gates(decoder)
    state = hidden * (2 if isinstance(decoder, schema.Lstm) else 1)
    inputs = [embedding] + [hidden] * (decoder.layers - 1)
    return Cost(
        sentence=decoder.layers * bridge * state,  # W_s
        target_token=sum(hidden * (from_input * below + from_state * hidden) for below in inputs),
    )


def _reading(config: schema.Model, decoder: schema.RecurrentDecoder, annotation: int, target_size: int) -> Cost:
    """Attention, what reads the context, the readout and the output layer."""
    attention, embedding, state = config.attention, config.embeddings.size, decoder.hidden
    after = isinstance(attention, schema.LuongAttention)
    readout = decoder.readout or embedding
    units = readout * (1 if (decoder.readout_activation or ("tanh" if after else "maxout")) == "tanh" else 2)
    gates = _gates(decoder)[0] * state
    output = Cost(target_token=readout * target_size)
    if isinstance(attention, schema.NoAttention):
        seen = 0 if attention.context == "initial_state" else annotation
        return output + Cost(sentence=seen * (gates + units), target_token=units * (state + embedding))
    assert isinstance(attention, schema.ScoredAttention)
    read = Cost(target_token=units * (annotation + state)) + output
    if not after:
        read += Cost(target_token=annotation * gates + units * embedding)
    if isinstance(attention.hard, schema.ExactMarginal):
        each = output.target_token - annotation  # the context of one position is no product
        read = Cost(source_token=units * annotation, target_token=units * state, pair=each)
    feeding = Cost(target_token=gates * readout if attention.input_feeding else 0)
    return _attention(attention, state, annotation) + feeding + read


def _attention(attention: schema.ScoredAttention, state: int, annotation: int) -> Cost:
    found = sum((_head(attention, state, annotation) for _ in range(attention.heads)), Cost())
    if attention.heads == 1:
        return found
    projected = 1 if attention.score == "location" else 2  # values, and keys where there are any
    return found + Cost(source_token=projected * annotation**2, target_token=state**2 + annotation**2)


def _head(attention: schema.ScoredAttention, state: int, annotation: int) -> Cost:
    """One head: its score, its window, its context."""
    state, annotation = state // attention.heads, annotation // attention.heads
    units = attention.hidden or state
    scores = {
        "dot": Cost(pair=state),
        "general": Cost(source_token=annotation * state, pair=state),
        "low_rank": Cost(source_token=annotation * units, target_token=state * units, pair=units),
        "location": Cost(target_token=state * (attention.positions or schema.POSITIONS)),
    }
    scores |= {"scaled_dot": scores["dot"], "cosine": scores["general"]}
    scores["additive"] = scores["concat"] = scores["low_rank"]
    found = scores[attention.score] + Cost(pair=annotation)
    if attention.coverage:
        found += Cost(source_token=annotation, pair=units)
    if isinstance(attention.scope, schema.PredictiveScope):
        hidden = attention.scope.hidden or state
        found += Cost(target_token=state * hidden + hidden)
    return found


# --- the Transformer --------------------------------------------------------------------------------------------------


def _transformer_encoder(encoder: schema.TransformerEncoder) -> Cost:
    token = 4 * encoder.hidden**2 + 2 * encoder.hidden * encoder.feedforward  # queries, keys, values, output; FFN
    return Cost(source_token=encoder.layers * token, source_pair=_self_attention(encoder))


def _transformer_decoder(decoder: schema.TransformerDecoder, annotation: int) -> Cost:
    width = decoder.hidden
    token = 4 * width**2 + 2 * width**2 + 2 * width * decoder.feedforward  # self-attention; queries, output; FFN
    return Cost(
        source_token=decoder.layers * 2 * annotation * width,  # keys and values
        target_token=decoder.layers * token,
        pair=decoder.layers * 2 * width,
        target_pair=_self_attention(decoder),
    )


def _self_attention(options: schema.Transformer) -> int:
    """Energies and contexts of a pair in all layers; with relative positions, those of the distances too."""
    relative = isinstance(options.positions, schema.RelativePositions)
    return options.layers * 2 * options.hidden * (2 if relative else 1)
