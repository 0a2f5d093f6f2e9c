"""From configuration to network, and the initial values of its parameters.

A part that is a single class registers beside that class; this module builds those made of several.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nmt.config import schema
from nmt.config.schema import ATTENTIONS, DECODERS, ENCODERS, SCORES
from nmt.model import transformer  # noqa: F401  it registers the Transformer
from nmt.model.attention import (
    Attention,
    InitialStateOnly,
    MonotonicLocalAttention,
    NoAttention,
    PredictiveLocalAttention,
    ScoredAttention,
    WeightedMean,
)
from nmt.model.coverage import CoverageAttention, CoveringBahdanau, CoveringLuong
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder
from nmt.model.encoders import Encoder
from nmt.model.hard import GumbelAttention, MarginalLuong, MixtureOutput, SampledAttention
from nmt.model.multi_head import MultiHeadAttention
from nmt.model.seq2seq import Seq2Seq


def build_model(config: schema.Model, source_size: int, target_size: int) -> Seq2Seq:
    """Make a freshly initialized network for vocabularies of these sizes, from PyTorch's random generator."""
    model = _assemble(config, source_size, target_size)
    initialize(model, config.initialization)
    return model


def uninitialized_model(config: schema.Model, source_size: int, target_size: int) -> Seq2Seq:
    """Make a network whose parameters a file replaces. It draws no random numbers, which take time."""
    with Uninitialized():
        return _assemble(config, source_size, target_size)


def _assemble(config: schema.Model, source_size: int, target_size: int) -> Seq2Seq:
    embedding, tie = config.embeddings.size, config.embeddings.tie
    source_embedding = nn.Embedding(source_size, embedding)
    target_embedding = source_embedding if tie == "all" else nn.Embedding(target_size, embedding)
    encoder: Encoder = ENCODERS.build(config.encoder, config)
    if encoder.width != (width := config.encoder.width(embedding)):
        options, part = type(config.encoder).__name__, type(encoder).__name__
        raise ValueError(f"{part}.width is {encoder.width}, {options}.width {width}; both are that of annotations")
    attention: Attention = ATTENTIONS.build(config.attention, config, encoder)
    decoder: Decoder = DECODERS.build(config.decoder, config, encoder, attention)
    output = nn.Linear(decoder.readout_width, target_size)  # W_o; in Luong et al. 2015, W_s
    dropout = config.dropout
    if isinstance(decoder, MarginalLuong):
        output = MixtureOutput(decoder.readout_width, target_size)
        dropout = dropout.model_copy(update={"readout": 0.0})  # the decoder drops units of its readouts itself
    if tie != "none":
        output.weight = target_embedding.weight
    return Seq2Seq(source_embedding, target_embedding, encoder, decoder, output, dropout)


@ATTENTIONS.builds(schema.NoAttention)
def no_attention(options: schema.NoAttention, config: schema.Model, encoder: Encoder) -> Attention:
    """Make the baseline: a context at every step, or only the initial state."""
    return NoAttention() if options.context == "every_step" else InitialStateOnly()


@ATTENTIONS.builds(schema.ScoredAttention)
def scored_attention(options: schema.ScoredAttention, config: schema.Model, encoder: Encoder) -> Attention:
    """Make an attention with a score: its scope and heads, hard or soft."""
    state, annotation = config.decoder.hidden, encoder.width
    heads = [_head(options, state // options.heads, annotation // options.heads) for _ in range(options.heads)]
    match options.hard:
        case schema.Gumbel(temperature=temperature):
            return GumbelAttention(heads[0], temperature)
        case schema.Reinforce():
            return SampledAttention(heads[0])
    return MultiHeadAttention(heads, state, annotation) if options.heads > 1 else heads[0]


def _head(options: schema.ScoredAttention, state: int, annotation: int) -> WeightedMean:
    scored: ScoredAttention = SCORES.build(options.score, state, annotation)
    match options.scope:
        case schema.MonotonicScope(window=window):
            return MonotonicLocalAttention(scored, window)
        case schema.PredictiveScope() as scope:
            return PredictiveLocalAttention(scored, scope, state)
    return scored


@DECODERS.builds(schema.RecurrentDecoder)
def recurrent_decoder(
    options: schema.RecurrentDecoder, config: schema.Model, encoder: Encoder, attention: Attention
) -> RecurrentDecoder:
    """Make Bahdanau's or Luong's decoder."""
    after = config.attention.after_update
    kind: type[RecurrentDecoder] = LuongDecoder if after else BahdanauDecoder
    if isinstance(getattr(config.attention, "hard", None), schema.ExactMarginal):
        kind = MarginalLuong
    elif isinstance(attention, CoverageAttention):
        kind = CoveringLuong if after else CoveringBahdanau
    return kind(options, config, encoder, attention)


# --- initial values ---------------------------------------------------------------------------------------------------


class Uninitialized(TorchFunctionMode):
    """While this context is entered, the functions of ``torch.nn.init`` that modules use leave tensors as they are."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def initialize(model: nn.Module, config: schema.AnyInitialization) -> None:
    """Fill the parameters of the model, in the order in which it names them, from PyTorch's generator.

    Layer normalizations start as the identity. Single numbers, such as the scale of a score, keep the value that their
    module gave them; so do vectors of custom parts that are not biases, except with ``uniform``.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    as_made = {parameter for norm in norms for parameter in norm.parameters()}
    zero, small = _parameters(model, "zero"), _parameters(model, "small")
    paper = isinstance(config, schema.PaperInitialization)
    for name, parameter in model.named_parameters():
        if parameter in as_made or parameter.ndim == 0:
            continue
        if isinstance(config, schema.UniformInitialization):
            nn.init.uniform_(parameter, -config.range, config.range)
        elif name.endswith("recurrent.weight"):
            with torch.no_grad():
                for block in parameter.split(parameter.size(1)):  # H x H, one for each gate
                    nn.init.orthogonal_(block)
        elif "bias" in name.rpartition(".")[2] or (paper and parameter in zero):
            nn.init.zeros_(parameter)
        elif parameter.ndim < 2:
            continue
        elif paper:
            nn.init.normal_(parameter, std=0.001 if parameter in small else 0.01)
        elif "embedding.weight" in name:
            nn.init.normal_(parameter, std=1 / math.sqrt(parameter.size(1)))
        else:
            nn.init.xavier_uniform_(parameter)


def _parameters(model: nn.Module, names: Literal["zero", "small"]) -> set[nn.Parameter]:
    """Find the parameters of the layers that the attentions of a network list under ``names``."""
    attentions = [module for module in model.modules() if isinstance(module, WeightedMean)]
    layers = [each.get_submodule(layer) for each in attentions for layer in getattr(each, names)]
    return {parameter for layer in layers for parameter in layer.parameters()}
