"""The Transformer (Vaswani et al. 2017): positions, sublayers, encoder and decoder.

Its attentions are in multi_head.py.

Shapes: B sentences, Q hypotheses of each, R = B * Q rows, S source and T target positions, D width of the model.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.config.schema import DECODERS, ENCODERS
from nmt.model.decoders import Decoder
from nmt.model.dropout import Dropout
from nmt.model.encoders import Encoder
from nmt.model.multi_head import EncoderDecoderAttention, self_attention
from nmt.model.records import Memory, State, source_mask

# --- positions (sections 3.4 and 3.5) ---------------------------------------------------------------------------------


def placed(embedded: Tensor, first: int, *, sinusoidal: bool) -> Tensor:
    """Scale embeddings by sqrt(D), and place them at the positions from ``first`` on: (B, T, D) -> (B, T, D).

    Relative positions are in the self-attention instead.
    """
    scaled = embedded * math.sqrt(embedded.size(-1))
    return scaled + sinusoids(first, embedded) if sinusoidal else scaled


def sinusoids(first: int, embedded: Tensor) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i / D)), PE(p, 2i + 1) = cos(the same), of T positions: (B, T, D) -> (T, D)."""
    _, count, width = embedded.shape
    dtype = torch.promote_types(embedded.dtype, torch.float32)
    position = torch.arange(first, first + count, device=embedded.device, dtype=dtype).unsqueeze(1)
    even = torch.arange(0, width, 2, device=embedded.device, dtype=dtype)
    angle = position * torch.exp(even * (-math.log(10000) / width))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width]


# --- sublayers --------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    """A residual connection around a sublayer, with dropout (section 5.4) and layer normalization.

    LayerNorm(x + Sublayer(x)) (section 3.1); or, pre-norm, x + Sublayer(LayerNorm(x)), which trains without a warm-up
    too (Xiong et al. 2020) and whose last sum is normalized once.
    """

    def __init__(self, options: schema.Transformer) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(options.hidden)
        self.dropout = Dropout(options.dropout)
        self.pre = options.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        """Return what the sublayer reads."""
        return cast(Tensor, self.norm(x)) if self.pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Add the output y of the sublayer to its input x."""
        both: Tensor = x + self.dropout(y)
        return both if self.pre else cast(Tensor, self.norm(both))


# --- encoder (section 3.1) --------------------------------------------------------------------------------------------


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, options: schema.Transformer) -> None:
        super().__init__()
        self.self_attention = self_attention(options)
        inner = nn.Linear(options.hidden, options.feedforward)  # max(0, x W_1 + b_1) W_2 + b_2 (eq. 2)
        output = nn.Linear(options.feedforward, options.hidden)
        self.feed_forward = nn.Sequential(OrderedDict(inner=inner, relu=nn.ReLU(), output=output))
        self.around_self_attention, self.around_feed_forward = Residual(options), Residual(options)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        y, _ = self.self_attention(self.around_self_attention.before(x), mask)
        x = self.around_self_attention.after(x, y)
        return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))


def last_norm(options: schema.Transformer) -> nn.Module:
    """Make the layer normalization of the last layer's output, which pre-norm layers need."""
    return nn.LayerNorm(options.hidden) if options.norm == "pre" else nn.Identity()


@ENCODERS.builds(schema.TransformerEncoder)
class TransformerEncoder(Encoder):
    """A stack of layers; the summary is the mean of the annotations."""

    def __init__(self, options: schema.TransformerEncoder, config: schema.Model) -> None:
        super().__init__()
        self.width = self.bridge_width = options.hidden
        self.sinusoidal = isinstance(options.positions, schema.SinusoidalPositions)
        self.layers = nn.ModuleList(TransformerEncoderLayer(options) for _ in range(options.layers))
        self.norm = last_norm(options)

    def with_positions(self, embedded: Tensor) -> Tensor:
        return placed(embedded, 0, sinusoidal=self.sinusoidal)

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source token: (B, S, D), lengths (B,) -> (B, S, D), zero at padding; their mean (B, D)."""
        mask = source_mask(lengths, embedded.size(1), embedded.device)
        x = embedded
        for layer in self.layers:
            x = layer(x, mask[:, None, None])
        annotations = self.norm(x).masked_fill(~mask.unsqueeze(-1), 0.0)
        return annotations, annotations.sum(1) / mask.sum(1, keepdim=True)


# --- decoder (section 3.1) --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerState(State):
    """A Transformer between two steps."""

    caches: tuple[Tensor, ...] = ()
    """Keys and values of the self-attention of each layer, (R, position, 2D); empty before the first step."""


class TransformerDecoderLayer(TransformerEncoderLayer):
    """An encoder layer with attention to the annotations (kept by the decoder) before the feed-forward network."""

    def __init__(self, options: schema.Transformer) -> None:
        super().__init__(options)
        self.around_attention = Residual(options)


@DECODERS.builds(schema.TransformerDecoder)
class TransformerDecoder(Decoder):
    """A stack of layers; the keys and values of the positions so far are in the state."""

    attends = True

    def __init__(
        self,
        options: schema.TransformerDecoder,
        config: schema.Model,
        encoder: Encoder,
        attention: EncoderDecoderAttention,
    ) -> None:
        super().__init__()
        self.readout_width = options.hidden
        self.sinusoidal = isinstance(options.positions, schema.SinusoidalPositions)
        self.layers = nn.ModuleList(TransformerDecoderLayer(options) for _ in range(options.layers))
        self.norm = last_norm(options)
        self.attention = attention

    def with_positions(self, embedded: Tensor, first: int) -> Tensor:
        return placed(embedded, first, sinusoidal=self.sinusoidal)

    def start(self, memory: Memory, bridge: Tensor) -> TransformerState:
        """No position so far; the bridge is not read."""
        return TransformerState(self.attention.prepare(memory), 0, 1)

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position, the others from the caches: (R, D) -> readout (R, D), state, weights (R, S)."""
        readout, caches, weights = self._read(embedded.unsqueeze(1), state)
        return readout.squeeze(1), state.advanced(caches=caches), None if weights is None else weights.flatten(0, 1)

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """All positions at once, each reading those before it: (B, T, D) -> readouts (B, T, D), weights (B, T, S)."""
        readouts, _, weights = self._read(embedded, state)
        return readouts, weights

    def _read(self, x: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...], Tensor | None]:
        """Go through the layers at one position of R rows or, from the start, at all positions of B rows.

        x (R, T, D) -> readouts (R, T, D), caches, weights (B, Q * T, S) of the chosen layer; Q or T is 1.
        """
        assert isinstance(state, TransformerState)
        rows, steps, width = x.shape
        assert steps == 1 or not state.caches
        caches, weights = [], None
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, TransformerDecoderLayer)
            past = state.caches[index] if state.caches else None
            y, cache = layer.self_attention(layer.around_self_attention.before(x), past=past, causal=steps > 1)
            caches.append(cache)
            x = layer.around_self_attention.after(x, y)
            queries = layer.around_attention.before(x).view(-1, state.hypotheses * steps, width)
            y, of_layer = self.attention.read(index, queries, state.memory)
            weights = weights if of_layer is None else of_layer
            x = layer.around_attention.after(x, y.view(rows, steps, width))
            x = layer.around_feed_forward.after(x, layer.feed_forward(layer.around_feed_forward.before(x)))
        return self.norm(x), tuple(caches), weights
