"""Options that are valid on their own and contradict each other."""

from nmt.config.problems import Problem
from nmt.config.schema import (
    Config,
    CustomPart,
    GivenTokenizer,
    LuongAttention,
    Model,
    Transformer,
    TransformerAttention,
    TransformerDecoder,
    TransformerEncoder,
)


def contradictions(config: Config) -> list[Problem]:
    """Find every contradiction, each under the key to change first."""
    model, problems = config.model, []
    attention, decoder, embeddings = model.attention, model.decoder, model.embeddings
    if isinstance(attention, LuongAttention):
        if attention.hidden is not None and attention.score != "concat":
            text = f"has no effect for score '{attention.score}', only for 'concat'; leave it out"
            problems.append(Problem("model.attention.hidden", text))
        annotation = decoder.hidden if isinstance(model.encoder, CustomPart) else model.encoder.width
        if attention.score == "dot" and decoder.hidden != annotation:
            times = "" if isinstance(model.encoder, TransformerEncoder) else "twice "
            text = (
                f"{decoder.hidden} does not fit model.attention.score 'dot', which multiplies states and annotations; "
                f"must be {times}model.encoder.hidden ({annotation}), or use score 'general'"
            )
            problems.append(Problem("model.decoder.hidden", text))
    readout = None if isinstance(decoder, TransformerDecoder) else decoder.readout
    if embeddings.tie != "none" and readout not in (None, embeddings.size):
        text = f"{readout} does not fit tied embeddings; must be model.embeddings.size ({embeddings.size}) or null"
        problems.append(Problem("model.decoder.readout", text))
    if embeddings.tie == "all" and not config.tokenizer.shared:
        given = isinstance(config.tokenizer, GivenTokenizer)
        share = "the same file as tokenizer.source and tokenizer.target" if given else "tokenizer.shared: true"
        problems.append(Problem("model.embeddings.tie", f"'all' needs one vocabulary: {share}; or use tie 'target'"))
    return problems + _of_transformers(model)


def _of_transformers(model: Model) -> list[Problem]:
    attention, decoder, problems = model.attention, model.decoder, []
    for key, part in (("model.encoder", model.encoder), ("model.decoder", decoder)):
        if isinstance(part, Transformer) and part.hidden != model.embeddings.size:
            text = f"{part.hidden} does not fit a Transformer; must be model.embeddings.size ({model.embeddings.size})"
            problems.append(Problem(f"{key}.hidden", text))
        if isinstance(part, Transformer) and part.hidden % part.heads:
            text = f"{part.heads} heads do not divide {key}.hidden ({part.hidden}) into equal parts; must be a divisor"
            problems.append(Problem(f"{key}.heads", text))
    if isinstance(decoder, TransformerDecoder) and isinstance(attention, TransformerAttention):
        for name, count in (("layer", decoder.layers), ("head", decoder.heads)):
            chosen = getattr(attention, name)
            if chosen is not None and chosen > count:
                text = f"there is no {name} {chosen}; must be up to model.decoder.{name}s ({count}), or null"
                problems.append(Problem(f"model.attention.{name}", text))
    elif isinstance(attention, TransformerAttention):
        text = f"'{decoder.type}' does not fit model.attention.type 'transformer'; use decoder: {{type: transformer}}"
        problems.append(Problem("model.decoder.type", f"{text}, or an attention of another type"))
    elif isinstance(decoder, TransformerDecoder):
        text = f"'{attention.type}' does not fit model.decoder.type 'transformer'; use attention: {{type: transformer}}"
        problems.append(Problem("model.attention.type", f"{text}, or decoder: {{type: gru}}"))
    return problems
