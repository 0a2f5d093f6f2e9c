"""Recurrent layers made fast for search: a step of each cell, and the encoder.

The plain twins are the cells of ``nmt.model.cells``, looked up by their exact type, and the recurrent encoder. The
product of a state is given, so that it can be one with other products of the same input.

Shapes: R rows, B sentences, S source positions, n sentences still being read, D directions, H hidden, G gates of the
input, P rows of the recurrent product, W state, C = DH annotation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nmt.fast.recurrent import Weights, of_layer
from nmt.model.cells import Cell, GruCell, LstmCell, ResetBeforeGruCell, SsruCell
from nmt.model.encoders import RecurrentEncoder, mean_of

Linear = Callable[[Tensor], Tensor]
"""W x + b: (..., I) -> (..., O) in fp32 or finer; or the same for the embedding of a token, (...) ids -> (..., O)."""
MakeLinear = Callable[[Tensor, Tensor], Linear]
"""Makes a layer of a weight (O, I) and a bias (O,)."""


class CellStep(ABC):
    """One step of a cell.

    Args:
        weights: the cell's.
        linear: makes a layer.
    """

    def __init__(self, weights: Weights, linear: MakeLinear) -> None:
        self.recurrent, self.bias = weights.recurrent, weights.recurrent_bias
        """What multiplies the output of a state, (P, H), and its bias."""

    @abstractmethod
    def __call__(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """Update: input_gates (R, G), products (R, P), state (R, W) -> (R, W). Overwrites the products."""

    def output(self, state: Tensor) -> Tensor:
        """As ``Cell.output``: (R, W) -> (R, H)."""
        return state


class GruStep(CellStep):
    """As ``GruCell``."""

    def __call__(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """(R, 3H), (R, 3H), (R, H) -> (R, H)."""
        both = 2 * state.size(1)
        reset, update = products[:, :both].add_(input_gates[:, :both]).sigmoid_().chunk(2, 1)
        candidate = torch.addcmul(input_gates[:, both:], reset, products[:, both:]).tanh_()
        return torch.lerp(candidate, state, update)


class ResetBeforeGruStep(CellStep):
    """As ``ResetBeforeGruCell``; the second product has to wait for the first."""

    def __init__(self, weights: Weights, linear: MakeLinear) -> None:
        super().__init__(weights, linear)
        both = 2 * weights.recurrent.size(1)
        self.candidate = linear(self.recurrent[both:], self.bias[both:])
        self.recurrent, self.bias = self.recurrent[:both], self.bias[:both]

    def __call__(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """(R, 3H), (R, 2H), (R, H) -> (R, H)."""
        both = products.size(1)
        reset, update = products.add_(input_gates[:, :both]).sigmoid_().chunk(2, 1)
        candidate = self.candidate(reset * state).add_(input_gates[:, both:]).tanh_()
        return torch.lerp(candidate, state, update)


class LstmStep(CellStep):
    """As ``LstmCell``; the state is h before c."""

    def __call__(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """(R, 4H), (R, 4H), (R, 2H) -> (R, 2H)."""
        write, keep, candidate, show = products.add_(input_gates).chunk(4, 1)
        after = torch.empty_like(state)
        output, memory = after.chunk(2, 1)
        torch.mul(keep.sigmoid_(), state.chunk(2, 1)[1], out=memory).addcmul_(write.sigmoid_(), candidate.tanh_())
        torch.mul(show.sigmoid_(), memory.tanh(), out=output)
        return after

    def output(self, state: Tensor) -> Tensor:
        """h: (R, 2H) -> (R, H)."""
        return state.chunk(2, 1)[0]


class SsruStep(CellStep):
    """As ``SsruCell``: without a product."""

    def __call__(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """(R, 2H), (R, 0), (R, H) -> (R, H)."""
        keep, candidate = input_gates.chunk(2, 1)
        return torch.lerp(candidate, state, keep.sigmoid())

    def output(self, state: Tensor) -> Tensor:
        """relu(c)."""
        return state.relu()


STEPS: dict[type[Cell], Callable[[Weights, MakeLinear], CellStep]] = {
    GruCell: GruStep,
    LstmCell: LstmStep,
    ResetBeforeGruCell: ResetBeforeGruStep,
    SsruCell: SsruStep,
}


class RecurrentStep:
    """One step of a layer that nothing shares its product with.

    Args:
        weights: the layer's.
        inputs: makes the layer that reads the input.
        linear: makes the layer that reads the state.
    """

    def __init__(self, weights: Weights, inputs: MakeLinear, linear: MakeLinear) -> None:
        self.cell = STEPS[weights.cell](weights, linear)
        self.inputs = inputs(weights.from_input, weights.input_bias)
        self.recurrent = linear(self.cell.recurrent, self.cell.bias)

    def __call__(self, below: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step: below (R, I), state (R, W) -> output (R, H), state (R, W)."""
        state = self.cell(self.inputs(below), self.recurrent(self.cell.output(state)), state)
        return self.cell.output(state), state


# --- the encoder: its weights cast once, both directions in one walk, no work on padding ------------------------------


class FastEncoder:
    """Annotates sentences, for as long as the encoder's weights stay as they are.

    Args:
        encoder: the encoder.
        table: makes a layer over token ids.
        linear: makes a layer over states.
        dtype: of the states.
    """

    def __init__(self, encoder: RecurrentEncoder, *, table: MakeLinear, linear: MakeLinear, dtype: torch.dtype) -> None:
        layers = [of_layer(ways) for ways in encoder.directions]
        first = layers[0][0]
        self.hidden = first.recurrent.size(1)
        self.state_width = first.cell.width * self.hidden
        self.residual, self.mean = encoder.residual, encoder.mean
        self.dtype = dtype
        self.layers = [
            [RecurrentStep(way, linear if above else table, linear) for way in ways]
            for above, ways in enumerate(layers)
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
