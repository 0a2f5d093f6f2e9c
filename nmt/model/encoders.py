"""Encoders: embedded source tokens to annotations; the interface, and the recurrent encoder of any cell.

The Transformer's is in transformer.py.

Shapes: B sentences, S source positions, E embedding, H hidden, C annotation: 2H in both directions, H in one.
"""

from abc import ABC, abstractmethod
from typing import cast

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.config.schema import CELLS, ENCODERS
from nmt.model.cells import Cell
from nmt.model.dropout import Dropout
from nmt.model.records import source_mask


class Encoder(nn.Module, ABC):
    """Reads embedded source tokens; padding does not change the annotations of real ones."""

    width: int
    """C: the width of an annotation and of the summary."""
    bridge_width: int
    """The width of the vector that :meth:`bridge` returns."""

    def with_positions(self, embedded: Tensor) -> Tensor:
        """Add positions to the embeddings, before dropout; a recurrent encoder adds none: (B, S, E) -> (B, S, E)."""
        return embedded

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate each source token in its context.

        embedded (B, S, E), lengths (B,) on the CPU -> annotations (B, S, C), zero at padding; summary (B, C).
        """

    def bridge(self, summary: Tensor) -> Tensor:
        """Select the part of the summary that the decoder's first state is made of: (B, C) -> (B, ``bridge_width``)."""
        return summary


@ENCODERS.builds(schema.RecurrentEncoder)
class RecurrentEncoder(Encoder):
    """Annotations h_j = [forward_j ; backward_j] of stacked layers of a cell (Bahdanau et al. 2015, section 3.2)."""

    def __init__(self, options: schema.RecurrentEncoder, config: schema.Model) -> None:
        super().__init__()
        self.residual = options.residual
        self.width, self.bridge_width = options.width(config.embeddings.size), options.hidden
        self.dropout = Dropout(config.dropout.annotation)
        ways = 2 if options.directions == "both" else 1
        self.layers = nn.ModuleList(
            nn.ModuleList(Direction(options, self.width if above else config.embeddings.size) for _ in range(ways))
            for above in range(options.layers)
        )

    @property
    def directions(self) -> list[list["Direction"]]:
        """The directions of each layer: forward, and backward if there is one."""
        return [cast(list[Direction], list(cast(nn.ModuleList, layer))) for layer in self.layers]

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Annotate as every encoder does; the summary is the output of each direction that has read the whole sentence,
        the last forward and the first backward one: (B, S, E), (B,) -> (B, S, C), (B, C)."""
        mask = source_mask(lengths, embedded.size(1), embedded.device)
        annotations = embedded
        for above, directions in enumerate(self.directions):
            below = self.dropout(annotations) if above else annotations
            read = [direction(below, mask, backward=way == 1) for way, direction in enumerate(directions)]
            outputs, last = (torch.cat(parts, -1) for parts in zip(*read, strict=True))
            annotations = outputs + annotations if above and self.residual else outputs
        return annotations * mask.unsqueeze(-1), last

    def bridge(self, summary: Tensor) -> Tensor:
        """Select backward_1 (Bahdanau et al. 2015, A.2.2), if there is one: (B, C) -> (B, ``bridge_width``)."""
        return summary[:, self.width - self.bridge_width :]


class Direction(nn.Module):
    """One direction of one layer, which reads vectors of ``width`` units."""

    def __init__(self, options: schema.Recurrence, width: int) -> None:
        super().__init__()
        cell: Cell = CELLS.build(options)
        self.input_gates = cell.of_input(width)
        self.cell = cell

    def forward(self, below: Tensor, mask: Tensor, *, backward: bool) -> tuple[Tensor, Tensor]:
        """Read a sentence: below (B, S, ...), mask (B, S) -> outputs (B, S, H) and the last one (B, H).

        Padding leaves the state as it is, so a backward reading begins at the last real token.
        """
        gates = self.input_gates(below)
        gates = gates.to(torch.promote_types(gates.dtype, torch.float32))  # and so states, under autocast too
        state = gates.new_zeros(len(gates), self.cell.width * self.cell.hidden)
        places = range(gates.size(1))
        outputs = [state] * len(places)
        for j in reversed(places) if backward else places:
            state = torch.where(mask[:, j].unsqueeze(1), self.cell(gates[:, j], state), state)
            outputs[j] = self.cell.output(state)
        return torch.stack(outputs, 1), self.cell.output(state)
