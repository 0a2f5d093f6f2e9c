"""The encoder made fast for search: its weights cast once, both directions in one walk, no work on padding.

The plain twins are the recurrent encoders of ``nmt.model.encoders``. The backward direction reads each sentence
reversed, so that both directions start at step 0 and a sentence of n pieces takes n steps; sentences are sorted, the
longest first, so that those still being read are the first rows.

Shapes: B sentences, S source positions, n sentences still being read, D directions, H hidden, W state, C = DH
annotation.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.fast.inference_cells import MakeLinear, RecurrentStep
from nmt.fast.recurrent import Stack
from nmt.model.encoders import mean_of


class FastEncoder:
    """Annotates sentences, for as long as the encoder's weights stay as they are.

    Args:
        stack: the encoder's layers.
        table: makes a layer over token ids.
        linear: makes a layer over states.
        dtype: of the states.
    """

    def __init__(self, stack: Stack, *, table: MakeLinear, linear: MakeLinear, dtype: torch.dtype) -> None:
        first = stack.layers[0][0]
        self.hidden = first.recurrent.size(1)
        self.state_width = first.cell.width * self.hidden
        self.residual, self.mean = stack.residual, stack.mean
        self.dtype = dtype
        self.layers = [
            [RecurrentStep(way, linear if above else table, linear) for way in ways]
            for above, ways in enumerate(stack.layers)
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
        if self.mean:
            summary = mean_of(annotations, lengths)
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
                output, state[way, :n] = step(inputs[where], state[way, :n])
                outputs[:, :, way][where] = last[:n, way] = output
        return outputs.flatten(2), last.flatten(1)
