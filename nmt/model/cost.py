"""How many multiply-adds a network needs: the floor that its speed is held against.

Counted from the sizes of the layers, for matrix products alone and for useful work alone: no padding, nothing computed
twice, and what is the same for all steps of a sentence counted once.
"""

from dataclasses import dataclass

from nmt.config import schema


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of teacher forcing, forward: per sentence, token, and pair of a source and a target token."""

    sentence: int
    source_token: int
    target_token: int
    pair: int

    def training_flops(self, sentences: int, source_tokens: int, target_tokens: int, pairs: int) -> int:
        """Floating-point operations of forward and backward passes: three times two for each multiply-add.

        ``pairs``: the sum over the sentences of source tokens times target tokens.
        """
        forward = (
            self.sentence * sentences
            + self.source_token * source_tokens
            + self.target_token * target_tokens
            + self.pair * pairs
        )
        return 6 * forward


def cost(config: schema.Model, target_size: int) -> Cost:
    """Count the multiply-adds of a network with a target vocabulary of this size."""
    assert isinstance(config.encoder, schema.GruEncoder)
    embedding, annotation = config.embeddings.size, config.encoder.width
    state, readout = config.decoder.hidden, config.decoder.readout or embedding
    sentence = annotation // 2 * state  # W_s
    source = sum(
        2 * 3 * config.encoder.hidden * ((annotation if layer else embedding) + config.encoder.hidden)
        for layer in range(config.encoder.layers)
    )
    target = 3 * state * (embedding + state) + readout * target_size  # gates, output layer
    pair = 0
    from_context = 3 * state * annotation + 2 * readout * annotation  # Bahdanau's gates and readout
    match config.attention:
        case schema.NoAttention():
            sentence += from_context
            target += 2 * readout * (state + embedding)
        case schema.BahdanauAttention(hidden=hidden):
            units = hidden or state
            source += annotation * units
            target += state * units + from_context + 2 * readout * (state + embedding)
            pair = units + annotation
        case schema.LuongAttention(score=score, input_feeding=feeding) as luong:
            target += readout * (annotation + state) + (3 * state * readout if feeding else 0)
            units = (luong.hidden or state) if score == "concat" else state
            source += 0 if score == "dot" else annotation * units
            target += state * units if score == "concat" else 0
            pair = units + annotation
    return Cost(sentence, source, target, pair)
