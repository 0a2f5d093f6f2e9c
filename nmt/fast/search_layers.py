"""Recurrent layers made fast for search: a step of a layer, and the encoder.

The plain twins are a layer with its cell and the recurrent encoder. The cells are the network's own: only their
products with a state are computed here, in the precision of search.

Shapes: R rows, B sentences, S source positions, n sentences still being read, I input, H hidden, W state, C annotation.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from nmt.fast.recurrent import recurrent_of
from nmt.model.cells import Cell
from nmt.model.encoders import RecurrentEncoder

Linear = Callable[[Tensor], Tensor]
"""W x + b: (..., I) -> (..., O) in fp32 or finer; or the same for the embedding of a token, (...) ids -> (..., O)."""
MakeLinear = Callable[[Tensor, Tensor], Linear]
"""Makes a layer of a weight (O, I) and a bias (O,)."""


def weight_and_bias(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Return both of a linear layer; a bias of zeros where it has none."""
    assert isinstance(layer, nn.Linear)
    bias: Tensor | None = layer.bias
    return layer.weight, layer.weight.new_zeros(layer.out_features) if bias is None else bias


class RecurrentStep:
    """One step of a layer with products of its own; ``inputs`` and ``linear`` make those of its input and its state."""

    def __init__(self, input_gates: nn.Linear, cell: Cell, inputs: MakeLinear, linear: MakeLinear) -> None:
        self.cell = cell
        self.inputs = inputs(*weight_and_bias(input_gates))
        self.recurrent = linear(*recurrent_of(cell))

    def __call__(self, below: Tensor, state: Tensor) -> Tensor:
        """Take one step: below (R, I), state (R, W) -> state (R, W)."""
        return self.cell.update(self.inputs(below), self.recurrent(self.cell.output(state)), state)


class FastEncoder:
    """Annotates sentences, for as long as the encoder's weights stay as they are.

    Both directions are read in one walk, without work on padding. ``table`` makes a layer over token ids, ``linear``
    one over states, whose type is ``dtype``.
    """

    def __init__(self, encoder: RecurrentEncoder, *, table: MakeLinear, linear: MakeLinear, dtype: torch.dtype) -> None:
        cell = encoder.directions[0][0].cell
        self.hidden, self.state_width = cell.hidden, cell.width * cell.hidden
        self.residual = encoder.residual
        self.dtype = dtype
        self.layers = [
            [RecurrentStep(way.input_gates, way.cell, linear if above else table, linear) for way in ways]
            for above, ways in enumerate(encoder.directions)
        ]

    def __call__(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """source (B, S) ids, lengths (B,) on the CPU -> annotations (B, S, C), zero at padding, summary (B, C)."""
        order = lengths.argsort(descending=True, stable=True)
        moved = bool((order.diff() < 0).any())
        if moved:
            lengths, source = lengths[order], source[order.to(source.device)]
        positions = torch.arange(source.size(1)).unsqueeze(1)
        reading = (positions < lengths).sum(1).tolist()  # n of each step
        # where each direction is at each step, (2, S, B)
        places = torch.stack((positions.expand(-1, len(source)), lengths - 1 - positions)).to(source.device)
        annotations, summary = source, source
        for above, ways in enumerate(self.layers):
            outputs, summary = self._walk(annotations, places, reading, ways)
            annotations = outputs + annotations if above and self.residual else outputs
        if moved:
            back = order.argsort().to(source.device)
            annotations, summary = annotations[back], summary[back]
        return annotations, summary

    def _walk(
        self, inputs: Tensor, places: Tensor, reading: list[int], ways: Sequence[RecurrentStep]
    ) -> tuple[Tensor, Tensor]:
        """One layer: ids (B, S) or (B, S, C) -> outputs (B, S, C), zero at padding, and the last ones (B, C)."""
        sentences, steps = inputs.shape[:2]
        rows = torch.arange(sentences, device=inputs.device)
        state = torch.zeros(len(ways), sentences, self.state_width, dtype=self.dtype, device=inputs.device)
        last = state.new_zeros(sentences, len(ways), self.hidden)
        outputs = state.new_zeros(sentences, steps, len(ways), self.hidden)
        for t, n in enumerate(reading):
            for way, step in enumerate(ways):
                where = rows[:n], places[way, t, :n]
                state[way, :n] = now = step(inputs[where], state[way, :n])
                outputs[:, :, way][where] = last[:n, way] = step.cell.output(now)
        return outputs.flatten(2), last.flatten(1)
