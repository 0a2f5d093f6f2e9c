"""Options that are valid on their own and contradict each other."""

from nmt.config.decoding import search_contradictions
from nmt.config.problems import Problem
from nmt.config.schema import Config, GivenTokenizer, GruEncoder, LuongAttention, NoAttention


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
    if config.decoding.coverage_penalty and isinstance(attention, NoAttention):
        text = "needs attention weights, and model.attention.type is none; must be 0, or choose an attention"
        problems.append(Problem("decoding.coverage_penalty", text))
    return problems + search_contradictions(config.decoding)
