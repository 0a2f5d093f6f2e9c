"""Options that are valid on their own and contradict each other."""

from collections.abc import Iterator

from nmt.config import schema
from nmt.config.decoding import search_contradictions
from nmt.config.problems import Problem
from nmt.config.schema import Config
from nmt.config.scripts import scripts_of


def contradictions(config: Config) -> list[Problem]:
    """Find every contradiction, each under the key to change first."""
    attention = config.model.attention
    problems: list[Problem] = []
    if isinstance(attention, schema.BahdanauAttention | schema.LuongAttention):
        problems += _of_score(config.model, attention)
        problems += _of_heads(config.model, attention)
        problems += _of_coverage(config.model, attention)
        problems += _of_scope(attention)
        problems += _of_hard_attention(config.model, attention)
    problems += _of_encoder(config.model)
    problems += _of_embeddings(config)
    problems += _of_transformers(config.model)
    problems += _of_data(config)
    problems += _of_training(config)
    problems += _of_decoding(config)
    return problems


Attention = schema.BahdanauAttention | schema.LuongAttention
ADDITIVE = ("additive", "concat")


def _of_score(model: schema.Model, attention: Attention) -> Iterator[Problem]:
    """Options of another score, and widths that do not fit."""
    score, usual = attention.score, type(attention).model_fields["hidden"].default
    if attention.hidden not in (None, usual) and score not in (*ADDITIVE, "low_rank"):
        text = f"has no effect for score '{score}', only for 'additive', 'concat' and 'low_rank'; leave it out"
        yield Problem("model.attention.hidden", text)
    if attention.bias is not None and score not in ADDITIVE:
        text = f"has no effect for score '{score}', only for 'additive' and 'concat'; leave it out"
        yield Problem("model.attention.bias", text)
    if attention.positions is not None and score != "location":
        text = f"has no effect for score '{score}', only for 'location'; leave it out"
        yield Problem("model.attention.positions", text)
    annotation = _annotation(model)
    if score == "low_rank":
        full = min(model.decoder.hidden, annotation) // attention.heads
        rank = attention.hidden or model.decoder.hidden // attention.heads
        if rank >= full:
            which = "each head's states and annotations" if attention.heads > 1 else "states and annotations"
            text = (
                f"{rank} is no low rank: the matrix between {which} has a rank of up to {full}; use less, "
                "or score 'general'"
            )
            yield Problem("model.attention.hidden", text)
    if score in ("dot", "scaled_dot") and model.decoder.hidden != annotation:
        both = isinstance(model.encoder, schema.RecurrentEncoder) and model.encoder.directions == "both"
        text = (
            f"{model.decoder.hidden} does not fit model.attention.score '{score}', which multiplies states and "
            f"annotations; must be {'twice ' if both else ''}model.encoder.hidden ({annotation}), "
            "or use score 'general'"
        )
        yield Problem("model.decoder.hidden", text)


def _of_heads(model: schema.Model, attention: Attention) -> Iterator[Problem]:
    for key, width in (("decoder.hidden", model.decoder.hidden), ("annotations", _annotation(model))):
        if width % attention.heads:
            what = f"model.{key} ({width})" if "." in key else f"the width of the {key} ({width})"
            yield Problem("model.attention.heads", f"{attention.heads} heads cannot share {what} evenly; use a divisor")


def _of_coverage(model: schema.Model, attention: Attention) -> Iterator[Problem]:
    if not attention.coverage:
        return
    if isinstance(model.decoder, schema.CustomDecoder):
        text = "needs a built-in decoder, which keeps the sum of the weights; use false"
        yield Problem("model.attention.coverage", text)
    if attention.score not in ADDITIVE:
        text = f"is an option of score 'additive', and the score is '{attention.score}'; change either"
        yield Problem("model.attention.coverage", text)
    for key, other in (
        ("heads: 1", attention.heads > 1),
        ("scope: {type: global}", not isinstance(attention.scope, schema.GlobalScope)),
        ("hard: null", attention.hard is not None),
    ):
        if other:
            yield Problem(
                "model.attention.coverage", f"is defined for one soft attention over all positions; use {key}"
            )


def _of_scope(attention: Attention) -> Iterator[Problem]:
    if attention.score == "location" and not isinstance(attention.scope, schema.GlobalScope):
        text = (
            f"'{attention.scope.type}' weighs the positions around a center, and score 'location' chooses positions "
            "itself, of which a window may have none; use scope: {type: global}, or another score"
        )
        yield Problem("model.attention.scope.type", text)
    if attention.hard and isinstance(attention.scope, schema.PredictiveScope) and not attention.scope.normalize:
        text = "must be true with hard attention, which takes the weights for probabilities; leave it out"
        yield Problem("model.attention.scope.normalize", text)


def _of_hard_attention(model: schema.Model, attention: Attention) -> Iterator[Problem]:
    if attention.hard is None:
        return
    if isinstance(model.decoder, schema.CustomDecoder) and not isinstance(attention.hard, schema.Gumbel):
        text = f"'{attention.hard.type}' needs a decoder of type 'gru', 'lstm' or 'ssru'; use one, or 'gumbel'"
        yield Problem("model.attention.hard.type", text)
    if attention.heads > 1:
        yield Problem("model.attention.hard", "reads one position, and there are several heads; use heads: 1")
    if isinstance(attention.hard, schema.ExactMarginal):
        if attention.type != "luong":
            text = (
                "'marginal' sums over the positions of one word, and with type 'bahdanau' later words depend on them; "
                "use type 'luong' with input_feeding: false, or 'gumbel' or 'reinforce'"
            )
            yield Problem("model.attention.hard.type", text)
        elif attention.input_feeding:
            text = (
                "must be false with hard: {type: marginal}, which sums over the positions of one word: with input "
                "feeding later words depend on them"
            )
            yield Problem("model.attention.input_feeding", text)


def _of_encoder(model: schema.Model) -> Iterator[Problem]:
    encoder, attention = model.encoder, model.attention
    if (
        isinstance(attention, schema.NoAttention)
        and attention.context == "initial_state"
        and isinstance(encoder, schema.RecurrentEncoder)
        and encoder.directions == "both"
        and encoder.summary == "last"
    ):
        text = (
            "'initial_state' lets the decoder see the last state of the backward direction alone, so that the forward "
            "one would be read by nothing; use model.encoder.directions: forward, or model.encoder.summary: mean"
        )
        yield Problem("model.attention.context", text)
    for key, section in (("encoder", encoder), ("decoder", model.decoder)):
        if isinstance(section, schema.Recurrence) and section.residual and section.layers == 1:
            yield Problem(f"model.{key}.residual", "has no effect with one layer; leave it out, or add layers")


def _of_embeddings(config: Config) -> Iterator[Problem]:
    decoder, embeddings = config.model.decoder, config.model.embeddings
    readout = None if isinstance(decoder, schema.TransformerDecoder) else decoder.readout
    if embeddings.tie != "none" and readout not in (None, embeddings.size):
        text = f"{readout} does not fit tied embeddings; must be model.embeddings.size ({embeddings.size}) or null"
        yield Problem("model.decoder.readout", text)
    if embeddings.tie == "all" and not config.tokenizer.shared:
        given = isinstance(config.tokenizer, schema.GivenTokenizer)
        share = "the same file as tokenizer.source and tokenizer.target" if given else "tokenizer.shared: true"
        yield Problem("model.embeddings.tie", f"'all' needs one vocabulary: {share}; or use tie 'target'")


def _annotation(model: schema.Model) -> int:
    """The width of an annotation; of a custom encoder, one that fits."""
    return model.decoder.hidden if isinstance(model.encoder, schema.CustomPart) else model.encoder.width


def _of_data(config: Config) -> Iterator[Problem]:
    """Options of the data that nothing reads."""
    yield from _of_mix(config.data)
    for split in ("validation", "test"):
        corpus = getattr(config.data, split)
        if corpus is not None and corpus.links is not None:
            text = "has no effect, only the links of data.train are read; leave it out (gold links: evaluation.gold)"
            yield Problem(f"data.{split}.links", text)
        if corpus is not None and corpus.tag is not None:
            text = "has no effect, only training corpora are tagged; leave it out"
            yield Problem(f"data.{split}.tag", text)
    guided = isinstance(config.training.guided_attention, schema.LinksGuide)
    for key in () if guided else _linked(config.data):
        yield Problem(key, "has no effect without training.guided_attention, type 'links'; leave it out")
    if config.data.filter.script is not None:
        for side in ("source_language", "target_language"):
            if not scripts_of(language := getattr(config.data, side)):
                text = f"needs the script of data.{side}, and that of '{language}' is unknown; leave it out"
                yield Problem("data.filter.script", text)
    substitution = config.data.substitution
    if substitution is not None and not (substitution.source or substitution.target):
        yield Problem("data.substitution", "has no effect where source and target are 0; leave it out")
    sampling = config.tokenizer.sampling
    bpe = isinstance(config.tokenizer, schema.BpeTokenizer)
    if bpe and sampling is not None and sampling.nbest != schema.EVERY_SEGMENTATION:
        text = "has no effect for tokenizer.type 'bpe', only for 'unigram'; leave it out"
        yield Problem("tokenizer.sampling.nbest", text)


def _of_mix(data: schema.Data) -> Iterator[Problem]:
    """A mix of corpora that are not there, and corpora that no mix reads."""
    mixed = data.train.mix if isinstance(data.train, schema.Mix) else {}
    known = ", ".join(data.corpora) or "none"
    for name in mixed:
        if name not in data.corpora:
            yield Problem(f"data.train.mix.{name}", f"there is no data.corpora.{name}; the corpora are: {known}")
    for name in data.corpora:
        if name not in mixed:
            yield Problem(f"data.corpora.{name}", "has no effect; add it to data.train.mix, or leave it out")
    if isinstance(data.train, schema.Mix) and len(mixed) == 1 and data.train.temperature != 1:
        yield Problem("data.train.temperature", "has no effect for a mix of one corpus; leave it out")


def _linked(data: schema.Data) -> list[str]:
    """The keys of the links of the training set."""
    return [f"data.{key}.links" for key, corpus in data.training_corpora.items() if corpus.links is not None]


def _of_transformers(model: schema.Model) -> Iterator[Problem]:
    attention, decoder = model.attention, model.decoder
    for key, part in (("model.encoder", model.encoder), ("model.decoder", decoder)):
        if isinstance(part, schema.Transformer) and part.hidden != model.embeddings.size:
            text = f"{part.hidden} does not fit a Transformer; must be model.embeddings.size ({model.embeddings.size})"
            yield Problem(f"{key}.hidden", text)
        if isinstance(part, schema.Transformer) and part.hidden % part.heads:
            text = f"{part.heads} heads do not divide {key}.hidden ({part.hidden}) into equal parts; must be a divisor"
            yield Problem(f"{key}.heads", text)
    if isinstance(decoder, schema.TransformerDecoder) and isinstance(attention, schema.TransformerAttention):
        for name, count in (("layer", decoder.layers), ("head", decoder.heads)):
            chosen = getattr(attention, name)
            if chosen is not None and chosen > count:
                text = f"there is no {name} {chosen}; must be up to model.decoder.{name}s ({count}), or null"
                yield Problem(f"model.attention.{name}", text)
    elif isinstance(attention, schema.TransformerAttention):
        text = f"'{decoder.type}' does not fit model.attention.type 'transformer'; use decoder: {{type: transformer}}"
        yield Problem("model.decoder.type", f"{text}, or an attention of another type")
    elif isinstance(decoder, schema.TransformerDecoder):
        text = f"'{attention.type}' does not fit model.decoder.type 'transformer'; use attention: {{type: transformer}}"
        yield Problem("model.attention.type", f"{text}, or decoder: {{type: gru}}")


def _of_training(config: Config) -> Iterator[Problem]:
    model, training = config.model, config.training
    if training.average_of == "last" and training.average == 1:
        text = "has no effect where training.average is 1; set training.average to the number of checkpoints"
        yield Problem("training.average_of", text)
    if model.dropout.variational:
        yield from _of_variational_dropout(model)
    if training.scheduled_sampling is not None:
        yield from _of_scheduled_sampling(training.scheduled_sampling)
    guide, key = training.guided_attention, "training.guided_attention"
    if guide is not None and isinstance(model.attention, schema.NoAttention):
        text = "guides an attention, and model.attention.type is 'none'; leave it out or choose an attention"
        yield Problem(key, text)
    if isinstance(guide, schema.DiagonalGuide) and config.data.reverse_source:
        text = "'diagonal' needs both texts in one order, and data.reverse_source reverses the source; leave one out"
        yield Problem(f"{key}.type", text)
    if isinstance(guide, schema.LinksGuide) and not _linked(config.data):
        text = "'links' needs the links of the training set; name their file in data.train.links"
        yield Problem(f"{key}.type", text)


def _of_variational_dropout(model: schema.Model) -> Iterator[Problem]:
    units, key = model.dropout, "model.dropout.variational"
    if not (units.embedding or units.annotation or units.readout):
        yield Problem(key, "has no effect where embedding, annotation and readout are 0; leave it out")


def _of_scheduled_sampling(sampling: schema.AnySampling) -> Iterator[Problem]:
    """A share of references that is 1 at every update."""
    key, text = "training.scheduled_sampling", "leaves every reference in its place; use {}, or leave the section out"
    match sampling:
        case schema.LinearSampling(floor=1.0):
            yield Problem(f"{key}.floor", f"1 {text.format('less than 1')}")
        case schema.LinearSampling(offset=offset, slope=0.0) if offset >= 1:
            yield Problem(f"{key}.slope", f"0 {text.format('more than 0')}")
        case schema.LinearSampling(floor=floor, offset=offset) if offset < floor:
            text = f"{offset:g} is less than {key}.floor ({floor:g}), which is then the share at every update; "
            yield Problem(f"{key}.offset", f"{text}must be at least the floor")
        case schema.ExponentialSampling(base=1.0):
            yield Problem(f"{key}.base", f"1 {text.format('less than 1')}")


def _of_decoding(config: Config) -> Iterator[Problem]:
    if config.decoding.coverage_penalty and isinstance(config.model.attention, schema.NoAttention):
        text = "needs attention weights, and model.attention.type is none; must be 0, or choose an attention"
        yield Problem("decoding.coverage_penalty", text)
    yield from search_contradictions(config.decoding)
    beam, groups = config.training.validation.beam_size, config.decoding.beam_groups
    if beam > 1 and beam % groups:
        text = f"{beam} hypotheses cannot be shared by decoding.beam_groups ({groups}); must be a multiple of it, or 1"
        yield Problem("training.validation.beam_size", text)
