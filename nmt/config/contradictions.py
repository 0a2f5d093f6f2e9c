"""Options that are valid on their own and contradict each other."""

from nmt.config.problems import Problem
from nmt.config.schema import Config, GivenTokenizer, GruEncoder, LuongAttention, Model, NoAttention


def contradictions(config: Config) -> list[Problem]:
    """Find every contradiction, each under the key to change first."""
    model, problems = config.model, []
    attention, decoder, embeddings = model.attention, model.decoder, model.embeddings
    if isinstance(attention, LuongAttention):
        if attention.hidden is not None and attention.score != "concat":
            text = f"has no effect for score '{attention.score}', only for 'concat'; leave it out"
            problems.append(Problem("model.attention.hidden", text))
        annotation = model.encoder.width if isinstance(model.encoder, GruEncoder) else decoder.hidden
        if attention.score == "dot" and decoder.hidden != annotation:
            text = (
                f"{decoder.hidden} does not fit model.attention.score 'dot', which multiplies states and annotations; "
                f"must be twice model.encoder.hidden ({annotation}), or use score 'general'"
            )
            problems.append(Problem("model.decoder.hidden", text))
    if embeddings.tie != "none" and decoder.readout not in (None, embeddings.size):
        text = (
            f"{decoder.readout} does not fit tied embeddings; must be model.embeddings.size ({embeddings.size}) or null"
        )
        problems.append(Problem("model.decoder.readout", text))
    if embeddings.tie == "all" and not config.tokenizer.shared:
        given = isinstance(config.tokenizer, GivenTokenizer)
        share = "the same file as tokenizer.source and tokenizer.target" if given else "tokenizer.shared: true"
        problems.append(Problem("model.embeddings.tie", f"'all' needs one vocabulary: {share}; or use tie 'target'"))
    if config.training.average_of == "last" and config.training.average == 1:
        text = "has no effect where training.average is 1; set training.average to the number of checkpoints"
        problems.append(Problem("training.average_of", text))
    if model.dropout.variational:
        problems += _of_variational_dropout(model)
    if config.training.guided_attention is not None and isinstance(attention, NoAttention):
        text = "guides an attention, and model.attention.type is 'none'; leave it out or choose an attention"
        problems.append(Problem("training.guided_attention", text))
    return problems


def _of_variational_dropout(model: Model) -> list[Problem]:
    units, key = model.dropout, "model.dropout.variational"
    if not (units.embedding or units.annotation or units.readout):
        return [Problem(key, "has no effect where embedding, annotation and readout are 0; leave it out")]
    if units.annotation and isinstance(model.encoder, GruEncoder) and model.encoder.layers > 1:
        text = (
            "the layers of the encoder drop other units at each position; set model.encoder.layers to 1, or "
            "model.dropout.annotation to 0"
        )
        return [Problem(key, text)]
    return []
