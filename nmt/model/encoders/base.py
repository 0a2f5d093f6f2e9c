"""The interface of an encoder.

Shapes: B sentences, S source positions, E embedding, C width of an annotation.
"""

from abc import abstractmethod

from torch import Tensor, nn


class Encoder(nn.Module):
    """Reads embedded source tokens; padding never enters what it says of real ones."""

    width: int
    """C: the width of an annotation and of the summary."""
    bridge_width: int
    """The width of the vector that :meth:`bridge` returns."""

    def with_positions(self, embedded: Tensor) -> Tensor:
        """Place the embeddings, before their dropout: (B, S, E) -> (B, S, E). A recurrent encoder need not."""
        return embedded

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source token in its context.

        embedded (B, S, E), lengths (B,) -> annotations (B, S, C), zero at padding; summary of the sentence (B, C).
        """

    def bridge(self, summary: Tensor) -> Tensor:
        """Select the part of the summary that the decoder's first state is made of: (B, C) -> (B, ``bridge_width``)."""
        return summary


def mean_of(annotations: Tensor, lengths: Tensor) -> Tensor:
    """The mean over real positions: annotations (B, S, C), zero at padding, lengths (B,) -> (B, C)."""
    return annotations.sum(1) / lengths.to(annotations.device).unsqueeze(1)
