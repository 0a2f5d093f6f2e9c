"""The bidirectional GRU encoder (Bahdanau et al. 2015, section 3.2)."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.model.encoders.base import Encoder


class GruEncoder(Encoder):
    """Annotations h_j = [forward_j ; backward_j] of a stacked bidirectional GRU.

    PyTorch's GRU applies the reset gate after the recurrent product (as cuDNN does); the 2014 papers before it.
    """

    def __init__(self, embedding: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.width, self.bridge_width = 2 * hidden, hidden
        self.rnn = nn.GRU(
            embedding,
            hidden,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source token in its context.

        embedded (B, S, E), lengths (B,) -> annotations (B, S, 2H), zero at padding; summary (B, 2H): the last
        forward and the first backward annotation, each the state of a GRU that has read the whole sentence.
        """
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)  # last (2 * layers, B, H): forward, backward of each layer
        annotations, _ = pad_packed_sequence(output, batch_first=True, total_length=embedded.size(1))
        return annotations, torch.cat((last[-2], last[-1]), dim=-1)

    def bridge(self, summary: Tensor) -> Tensor:
        """Select backward_1, the half that s_0 is made of (Bahdanau et al. 2015, A.2.2): (B, 2H) -> (B, H)."""
        return summary.chunk(2, -1)[1]
