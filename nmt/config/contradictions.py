"""Options that are valid on their own and contradict each other."""

from nmt.config.problems import Problem
from nmt.config.schema import (
    EVERY_SEGMENTATION,
    BpeTokenizer,
    Config,
    GivenTokenizer,
    GruEncoder,
    LuongAttention,
)


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
    return problems + _without_effect_on_data(config)


def _without_effect_on_data(config: Config) -> list[Problem]:
    """Options of the data that nothing reads."""
    problems = []
    for split in ("validation", "test"):
        corpus = getattr(config.data, split)
        if corpus is not None and corpus.links is not None:
            text = "has no effect, only the links of data.train are read; leave it out (gold links: evaluation.gold)"
            problems.append(Problem(f"data.{split}.links", text))
    sampling = config.tokenizer.sampling
    if isinstance(config.tokenizer, BpeTokenizer) and sampling is not None and sampling.nbest != EVERY_SEGMENTATION:
        text = "has no effect for tokenizer.type 'bpe', only for 'unigram'; leave it out"
        problems.append(Problem("tokenizer.sampling.nbest", text))
    return problems
