"""Dropout of units and of words, from a random generator that is fast on CPUs.

Shapes: B sentences, T positions, E units.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config import schema


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p, and scale the others by 1 / (1 - p).

    On a CPU, PyTorch draws one element after the other from its generator: 8 ns each, 5% of a training step. Here its
    generator only draws the seed of a faster one (SFC64), which gives four 16-bit numbers at a time; so p is rounded to
    a multiple of 2^-16.
    """
    if p in (0, 1) or x.device.type != "cpu":
        return functional.dropout(x, p)
    seed = int(torch.randint(2**63 - 1, ()))
    words = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
    numbers = torch.from_numpy(words.view(np.int16))[: x.numel()].view(x.shape)
    kept = numbers >= min(round(p * 2**16), 2**16 - 1) - 2**15  # from -2^15 to 2^15 - 1
    return x * kept.to(x.dtype).mul_(1 / (1 - p))


class Dropout(nn.Module):
    """``dropout`` in training mode, the identity otherwise."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same."""
        return dropout(x, self.p) if self.training else x

    def mask(self, like: Tensor) -> Tensor | None:
        """Return what every position is multiplied by, (B, E) as ``like``; None: each one draws its own."""
        return None


class VariationalDropout(Dropout):
    """Dropout of the same units at every position of a sentence (Gal & Ghahramani 2016, section 4).

    Each sentence, and each call, draws a mask of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, ..., E) -> the same; without positions, (B, E), as ``Dropout``."""
        if not self.training or x.dim() < 3:
            return super().forward(x)
        return x * dropout(x.new_ones(len(x), *[1] * (x.dim() - 2), x.size(-1)), self.p)  # (B, 1, ..., E)

    def mask(self, like: Tensor) -> Tensor | None:
        """Draw what every position is multiplied by, for networks that take one position after the other."""
        return dropout(torch.ones_like(like), self.p) if self.training else None


def dropout_of(config: schema.Model, probability: float) -> Dropout:
    """Make the dropout of units that a configuration chooses."""
    return VariationalDropout(probability) if config.dropout.variational else Dropout(probability)


class WordDropout(nn.Module):
    """Dropout of whole words in training mode (Gal & Ghahramani 2016, section 4.2).

    A word of the vocabulary that is dropped is zero at every position of the sentence where it stands. Each sentence
    draws a mask over the vocabulary of its own; special symbols are words like others. What stays is scaled by
    1 / (1 - p).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, embedded: Tensor, tokens: Tensor) -> Tensor:
        """Embeddings (B, T, E) of tokens (B, T) -> the same; or of one position, (B, E) and (B,)."""
        if not self.training or not self.p:
            return embedded
        words = tokens.view(len(tokens), -1)  # (B, T)
        # one draw for each word that occurs: that of its first position, which argmax finds
        first = (words.unsqueeze(2) == words.unsqueeze(1)).byte().argmax(2)
        kept = dropout(embedded.new_ones(words.shape), self.p).gather(1, first)
        return embedded * kept.view(tokens.shape).unsqueeze(-1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Turn dropout off; a model in training mode is in training mode again afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
