"""The decoder of the Transformer (Vaswani et al. 2017, section 3.1).

Shapes: B sentences, Q hypotheses of each, R = B * Q rows, S source and T target positions, D width of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from nmt.model.attention.multi_head import EncoderDecoderAttention, SelfAttention
from nmt.model.decoders.base import Decoder
from nmt.model.records import Memory, State
from nmt.model.transformer import FeedForward, Positions, Residual


@dataclass(frozen=True)
class TransformerState(State):
    """A Transformer between two steps."""

    caches: tuple[Tensor, ...] = ()
    """Keys and values of the self-attention of each layer, (R, position, 2D); empty before the first step."""


class TransformerDecoderLayer(nn.Module):
    """Self-attention, attention to the annotations (which belongs to the decoder), then the feed-forward network."""

    def __init__(
        self, self_attention: SelfAttention, feed_forward: FeedForward, residuals: tuple[Residual, Residual, Residual]
    ) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.around_self_attention, self.around_attention, self.around_feed_forward = residuals


class TransformerDecoder(Decoder):
    """A stack of layers; the keys and values of the positions so far are in the state.

    Args:
        width: D.
        positions: what is added to the embeddings.
        layers: from the first to the last.
        norm: of the last layer's output: the layer normalization that pre-norm layers need, or nothing.
        attention: to the annotations, of all layers.
    """

    attends = True

    def __init__(
        self,
        width: int,
        positions: Positions,
        layers: Sequence[TransformerDecoderLayer],
        norm: nn.Module,
        attention: EncoderDecoderAttention,
    ) -> None:
        super().__init__()
        self.readout_width = width
        self.positions, self.layers, self.norm = positions, nn.ModuleList(layers), norm
        self.attention = attention

    def with_positions(self, embedded: Tensor, first: int) -> Tensor:
        """(R, T, D) -> (R, T, D), scaled and with positions (sections 3.4 and 3.5)."""
        placed: Tensor = self.positions(embedded, first)
        return placed

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
            queries = layer.around_attention.before(x).view(-1, state.width * steps, width)
            y, of_layer = self.attention.read(index, queries, state.memory)
            weights = weights if of_layer is None else of_layer
            x = layer.around_attention.after(x, y.view(rows, steps, width))
            x = layer.around_feed_forward.after(x, layer.feed_forward(layer.around_feed_forward.before(x)))
        return self.norm(x), tuple(caches), weights
