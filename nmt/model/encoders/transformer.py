"""The encoder of the Transformer (Vaswani et al. 2017, section 3.1).

Shapes: B sentences, S source positions, D width of the model.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from nmt.model.attention.multi_head import SelfAttention
from nmt.model.encoders.base import Encoder, mean_of
from nmt.model.records import source_mask
from nmt.model.transformer import FeedForward, Positions, Residual


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(
        self, self_attention: SelfAttention, feed_forward: FeedForward, residuals: tuple[Residual, Residual]
    ) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.around_self_attention, self.around_feed_forward = residuals

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        y, _ = self.self_attention(self.around_self_attention.before(x), mask)
        x = self.around_self_attention.after(x, y)
        return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))


class TransformerEncoder(Encoder):
    """A stack of layers; the summary is the mean of the annotations.

    Args:
        width: D.
        positions: what is added to the embeddings.
        layers: from the first to the last.
        norm: of the last layer's output: the layer normalization that pre-norm layers need, or nothing.
    """

    def __init__(
        self, width: int, positions: Positions, layers: Sequence[TransformerEncoderLayer], norm: nn.Module
    ) -> None:
        super().__init__()
        self.width = self.bridge_width = width
        self.positions, self.layers, self.norm = positions, nn.ModuleList(layers), norm

    def with_positions(self, embedded: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, D), scaled and with positions (sections 3.4 and 3.5)."""
        placed: Tensor = self.positions(embedded, 0)
        return placed

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source token: (B, S, D), lengths (B,) -> (B, S, D), zero at padding; their mean (B, D)."""
        mask = source_mask(lengths, embedded.size(1), embedded.device)
        x = embedded
        for layer in self.layers:
            x = layer(x, mask[:, None, None])
        annotations = self.norm(x).masked_fill(~mask.unsqueeze(-1), 0.0)
        return annotations, mean_of(annotations, lengths)
