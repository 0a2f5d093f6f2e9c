"""Encoders of PyTorch's own stacked recurrences (Bahdanau et al. 2015, section 3.2).

Shapes: B sentences, S source positions, E embedding, H hidden, C = 2H annotation in both directions, H in one.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.model.encoders.base import Encoder


class RnnEncoder(Encoder):
    """Annotations h_j = [forward_j ; backward_j] of a stacked recurrence, or forward_j alone.

    Args:
        embedding: E.
        hidden: H, of each direction.
        layers: stacked layers.
        dropout: between layers.
        bidirectional: read in both directions.
        mean: the summary is the mean of the annotations, not the last states.
    """

    library: ClassVar[type[nn.GRU | nn.LSTM]]
    """PyTorch's module."""
    rnn: nn.GRU | nn.LSTM

    def __init__(
        self,
        embedding: int,
        hidden: int,
        layers: int,
        dropout: float,
        *,
        bidirectional: bool = True,
        mean: bool = False,
    ) -> None:
        super().__init__()
        self.bidirectional, self.mean = bidirectional, mean
        self.width = 2 * hidden if bidirectional else hidden
        self.bridge_width = self.width if mean else hidden
        self.rnn = self.library(
            embedding,
            hidden,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
            batch_first=True,
        )

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source token in its context.

        embedded (B, S, E), lengths (B,) -> annotations (B, S, C), zero at padding; summary (B, C): of each direction
        the state that has read the whole sentence, the last forward and the first backward one, or the mean.
        """
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)
        annotations, _ = pad_packed_sequence(output, batch_first=True, total_length=embedded.size(1))
        return annotations, mean_of(annotations, lengths) if self.mean else self.last_states(last)

    def last_states(self, last: Tensor) -> Tensor:
        """Select the last layer's: (directions * layers, B, H) in the order of PyTorch -> (B, C)."""
        return torch.cat((last[-2], last[-1]), dim=-1) if self.bidirectional else last[-1]

    def bridge(self, summary: Tensor) -> Tensor:
        """Select what s_0 is made of: of last states backward_1 (Bahdanau et al. 2015, A.2.2), if there is one.

        (B, C) -> (B, ``bridge_width``)
        """
        return summary[:, self.width - self.bridge_width :]


class GruEncoder(RnnEncoder):
    """A GRU. PyTorch applies the reset gate after the recurrent product (as cuDNN does); the 2014 papers before it."""

    library = nn.GRU


class LstmEncoder(RnnEncoder):
    """Long short-term memory; annotations are its h."""

    library = nn.LSTM

    def last_states(self, last: Tensor) -> Tensor:
        """As of a GRU: h of (h, c)."""
        return super().last_states(last[0])


def mean_of(annotations: Tensor, lengths: Tensor) -> Tensor:
    """The mean over real positions: annotations (B, S, C), zero at padding, lengths (B,) -> (B, C)."""
    return annotations.sum(1) / lengths.to(annotations.device).unsqueeze(1)
