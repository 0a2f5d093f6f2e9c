"""What the encoder and the decoder of a Transformer share (Vaswani et al. 2017): positions, sublayers, feed-forward.

Shapes: B sentences, T positions, D width of the model, F inner width of the feed-forward network.
"""

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from nmt.model.dropout import Dropout

# --- positions (sections 3.4 and 3.5) ---------------------------------------------------------------------------------


class Positions(nn.Module):
    """Makes the input of the first layer: embeddings times sqrt(D) (section 3.4), without positions."""

    def forward(self, embedded: Tensor, first: int) -> Tensor:
        """Place embeddings at the positions from ``first`` on: (B, T, D) -> (B, T, D)."""
        return embedded * math.sqrt(embedded.size(-1))


class SinusoidalPositions(Positions):
    """Adds sines and cosines whose wavelengths grow from 2 pi to 10000 * 2 pi (section 3.5)."""

    def forward(self, embedded: Tensor, first: int) -> Tensor:
        """As ``Positions``."""
        return super().forward(embedded, first) + sinusoids(first, embedded)


def sinusoids(first: int, embedded: Tensor) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i / D)), PE(p, 2i + 1) = cos(the same), of T positions: (B, T, D) -> (T, D)."""
    _, count, width = embedded.shape
    dtype = torch.promote_types(embedded.dtype, torch.float32)
    position = torch.arange(first, first + count, device=embedded.device, dtype=dtype).unsqueeze(1)
    even = torch.arange(0, width, 2, device=embedded.device, dtype=dtype)
    angle = position * torch.exp(even * (-math.log(10000) / width))
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width]


class LearnedPositions(Positions):
    """Adds a learned vector for each position (section 3.5); the positions from the last one on share its vector."""

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        self.position_embedding = nn.Embedding(longest, width)

    def forward(self, embedded: Tensor, first: int) -> Tensor:
        """As ``Positions``."""
        positions = torch.arange(first, first + embedded.size(1), device=embedded.device)
        last = self.position_embedding.num_embeddings - 1
        learned: Tensor = self.position_embedding(positions.clamp(max=last))
        return super().forward(embedded, first) + learned


# --- sublayers --------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    """A residual connection around a sublayer, with dropout (section 5.4) and layer normalization."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Tensor) -> Tensor:
        """Return what the sublayer reads."""

    @abstractmethod
    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Add what the sublayer has made of it, y."""


class PostNorm(Residual):
    """LayerNorm(x + Sublayer(x)) (section 3.1)."""

    def before(self, x: Tensor) -> Tensor:
        """x itself."""
        return x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """LayerNorm(x + y)."""
        normalized: Tensor = self.norm(x + self.dropout(y))
        return normalized


class PreNorm(Residual):
    """x + Sublayer(LayerNorm(x)): trains without a warm-up too (Xiong et al. 2020); the last sum is normalized once."""

    def before(self, x: Tensor) -> Tensor:
        """LayerNorm(x)."""
        normalized: Tensor = self.norm(x)
        return normalized

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        dropped: Tensor = self.dropout(y)
        return x + dropped


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (eq. 2)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        y: Tensor = self.output(torch.relu(self.inner(x)))
        return y
