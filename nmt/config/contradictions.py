"""Options that are valid on their own and contradict each other."""

from nmt.config.problems import Problem
from nmt.config.schema import (
    EVERY_SEGMENTATION,
    BpeTokenizer,
    Config,
    DiagonalGuide,
    GivenTokenizer,
    GruEncoder,
    LinksGuide,
    LuongAttention,
    Model,
    NoAttention,
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
    if model.dropout.variational:
        problems += _of_variational_dropout(model)
    return problems + _of_training(config) + _without_effect_on_data(config)


def _of_training(config: Config) -> list[Problem]:
    problems, guide, key = [], config.training.guided_attention, "training.guided_attention"
    if config.training.average_of == "last" and config.training.average == 1:
        text = "has no effect where training.average is 1; set training.average to the number of checkpoints"
        problems.append(Problem("training.average_of", text))
    if guide is not None and isinstance(config.model.attention, NoAttention):
        text = "guides an attention, and model.attention.type is 'none'; leave it out or choose an attention"
        problems.append(Problem(key, text))
    if isinstance(guide, DiagonalGuide) and config.data.reverse_source:
        text = "'diagonal' needs both texts in one order, and data.reverse_source reverses the source; leave one out"
        problems.append(Problem(f"{key}.type", text))
    if isinstance(guide, LinksGuide) and config.data.train.links is None:
        text = "'links' needs the links of the training set; name their file in data.train.links"
        problems.append(Problem(f"{key}.type", text))
    return problems


def _without_effect_on_data(config: Config) -> list[Problem]:
    """Options of the data that nothing reads."""
    problems = []
    for split in ("validation", "test"):
        corpus = getattr(config.data, split)
        if corpus is not None and corpus.links is not None:
            text = "has no effect, only the links of data.train are read; leave it out (gold links: evaluation.gold)"
            problems.append(Problem(f"data.{split}.links", text))
    if config.data.train.links is not None and not isinstance(config.training.guided_attention, LinksGuide):
        text = "has no effect without training.guided_attention, type 'links'; leave it out"
        problems.append(Problem("data.train.links", text))
    sampling = config.tokenizer.sampling
    if isinstance(config.tokenizer, BpeTokenizer) and sampling is not None and sampling.nbest != EVERY_SEGMENTATION:
        text = "has no effect for tokenizer.type 'bpe', only for 'unigram'; leave it out"
        problems.append(Problem("tokenizer.sampling.nbest", text))
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
