"""The bidirectional GRU encoder (Bahdanau et al. 2015, section 3.2)."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.kernels.recurrence import gru_sequence, input_gates
from nmt.model.dropout import dropout


class GruEncoder(nn.Module):
    """Annotations h_j = [forward_j ; backward_j] of a stacked bidirectional GRU.

    PyTorch's GRU applies the reset gate after the recurrent product (as cuDNN does); the 2014 papers before it.
    """

    def __init__(self, embedding: int, hidden: int, layers: int, dropout: float, *, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.rnn = nn.GRU(
            embedding,
            hidden,
            num_layers=layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source word in its context; padding never enters.

        embedded (B, S, E), lengths (B,) -> annotations (B, S, 2H), zero at padding; summary (B, 2H): the last
        forward and the first backward annotation, each the state of a GRU that has read the whole sentence.
        """
        if self.fused:
            return self._read_both_ways(embedded, lengths)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)  # last (2 * layers, B, H): forward, backward of each layer
        annotations, _ = pad_packed_sequence(output, batch_first=True, total_length=embedded.size(1))
        return annotations, torch.cat((last[-2], last[-1]), dim=-1)

    def _read_both_ways(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The same with both directions in one walk, one of them over the sentences reversed with their padding."""
        annotations = embedded.transpose(0, 1)  # (S, B, E), then (S, B, 2H)
        steps, sentences, _ = annotations.shape
        positions = torch.arange(steps, device=embedded.device).unsqueeze(1)
        padded = positions >= lengths.to(embedded.device)  # (S, B)
        # a GPU is not asked, for it would have to be waited for
        some = lengths.device.type != "cpu" or bool((lengths < steps).any())
        padding = torch.stack((padded, padded.flip(0)), 1) if some else None
        for layer in range(self.rnn.num_layers):
            if layer:
                annotations = dropout(annotations, self.rnn.dropout) if self.training else annotations
            w_ih, w_hh, b_ih, b_hh = (
                torch.stack([getattr(self.rnn, f"{name}_l{layer}{way}") for way in ("", "_reverse")])
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            gates = input_gates(torch.stack((annotations, annotations.flip(0)), 1), w_ih, b_ih)  # (S, 2, 3H, B)
            initial = gates.new_zeros(2, self.rnn.hidden_size, sentences)
            states = gru_sequence(gates, initial, w_hh, b_hh, padding)  # (S, 2, H, B)
            forward, backward = states.unbind(1)
            annotations = torch.cat((forward, backward.flip(0)), 1).transpose(1, 2)  # (S, B, 2H)
        annotations = annotations.transpose(0, 1)
        if padding is not None:
            annotations = annotations.masked_fill(padded.T.unsqueeze(-1), 0.0)
        return annotations.contiguous(), states[-1].flatten(0, 1).T
