"""The bidirectional GRU encoder (Bahdanau et al. 2015, section 3.2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.kernels.recurrence import gru_sequence


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
        if self.fused and embedded.device.type == "cpu":  # on a GPU, cuDNN's packed GRU is the fused one
            return self._read_both_ways(embedded, lengths)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)  # last (2 * layers, B, H): forward, backward of each layer
        annotations, _ = pad_packed_sequence(output, batch_first=True, total_length=embedded.size(1))
        return annotations, torch.cat((last[-2], last[-1]), dim=-1)

    def _read_both_ways(self, layer_input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The same with both directions in one walk: each sentence is reversed where it stands, so that padding comes
        last in either direction and is read only after everything real."""
        positions, ends = torch.arange(layer_input.size(1)), lengths.cpu().unsqueeze(1)
        mirrored = torch.where(positions < ends, ends - 1 - positions, positions).unsqueeze(-1)  # (B, S, 1)
        annotations = layer_input
        for layer in range(self.rnn.num_layers):
            if layer:
                annotations = functional.dropout(annotations, self.rnn.dropout, self.training)
            w_ih, w_hh, b_ih, b_hh = (
                [getattr(self.rnn, f"{name}_l{layer}{way}") for way in ("", "_reverse")]
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            backwards = annotations.gather(1, mirrored.expand_as(annotations))
            inputs = torch.stack((annotations, backwards)).flatten(1, 2)  # (2, B * S, E or 2H)
            products = torch.baddbmm(torch.stack(b_ih).unsqueeze(1), inputs, torch.stack(w_ih).transpose(1, 2))
            gates = products.unflatten(1, annotations.shape[:2])  # (2, B, S, 3H)
            initial = gates.new_zeros(2, gates.size(1), self.rnn.hidden_size)
            states = gru_sequence(gates.permute(2, 0, 1, 3), initial, torch.stack(w_hh), torch.stack(b_hh))
            forward, backward = states.permute(1, 2, 0, 3)  # each (B, S, H)
            backward = backward.gather(1, mirrored.expand_as(backward))
            annotations = torch.cat((forward, backward), -1)
        last = forward.gather(1, (ends - 1).unsqueeze(-1).expand(-1, 1, forward.size(-1))).squeeze(1)
        annotations = annotations.masked_fill((positions >= ends).unsqueeze(-1), 0.0)
        return annotations, torch.cat((last, backward[:, 0]), -1)
