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
    """Count the multiply-adds of a network with a target vocabulary of this size."""
    if isinstance(config.encoder, schema.TransformerEncoder):
        encoder = _transformer_encoder(config.encoder)
    else:
        assert isinstance(config.encoder, schema.GruEncoder)
        encoder = _gru_encoder(config.encoder, config.embeddings.size)
    annotation = config.encoder.width
    if isinstance(config.decoder, schema.TransformerDecoder):
        decoder, readout = _transformer_decoder(config.decoder, annotation), config.decoder.hidden
    else:
        bridge = annotation // 2 if isinstance(config.encoder, schema.GruEncoder) else annotation
        readout = config.decoder.readout or config.embeddings.size
        decoder = _gru_decoder(config, config.decoder.hidden, readout, annotation, bridge)
    return encoder + decoder + Cost(target_token=readout * target_size)


def _gru_encoder(encoder: schema.GruEncoder, embedding: int) -> Cost:
    inputs = [embedding] + [encoder.width] * (encoder.layers - 1)
    return Cost(source_token=sum(2 * 3 * encoder.hidden * (each + encoder.hidden) for each in inputs))


def _gru_decoder(config: schema.Model, state: int, readout: int, annotation: int, bridge: int) -> Cost:
    embedding = config.embeddings.size
    found = Cost(sentence=bridge * state, target_token=3 * state * (embedding + state))  # W_s; gates
    from_context = 3 * state * annotation + 2 * readout * annotation  # Bahdanau's gates and readout
    match config.attention:
        case schema.NoAttention():
            found += Cost(sentence=from_context, target_token=2 * readout * (state + embedding))
        case schema.BahdanauAttention(hidden=units):
            target = state * units + from_context + 2 * readout * (state + embedding)
            found += Cost(source_token=annotation * units, target_token=target, pair=units + annotation)
        case schema.LuongAttention(score=score, input_feeding=feeding) as luong:
            target = readout * (annotation + state) + (3 * state * readout if feeding else 0)
            target += state * (luong.hidden or state) if score == "concat" else 0
            units = (luong.hidden or state) if score == "concat" else state
            source = 0 if score == "dot" else annotation * units
            found += Cost(source_token=source, target_token=target, pair=units + annotation)
    return found


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
