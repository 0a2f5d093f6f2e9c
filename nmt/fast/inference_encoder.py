"""The encoder made fast for search: its weights cast once, both directions in one walk, no work on padding.

The plain twin is ``nmt.model.encoders.GruEncoder``. The backward direction reads each sentence reversed, so that both
directions start at step 0 and a sentence of n pieces takes n steps; sentences are sorted, the longest first, so that
those still being read are the first rows.

Shapes: B sentences, S source positions, n sentences still being read, D = 2 directions, H hidden.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.model.encoders import GruEncoder

Layer = Callable[[Tensor], Tensor]
"""W x + b: (..., I) -> (..., O) in fp32 or finer; or the same for the embedding of a token, (...) ids -> (..., O)."""
MakeLayer = Callable[[Tensor, Tensor], Layer]
"""Makes a layer of a weight (O, I) and a bias (O,)."""

WAYS = ("", "_reverse")


class FastEncoder:
    """Annotates sentences, for as long as the encoder's weights stay as they are.

    Args:
        encoder: whose weights to take.
        table: makes a layer over token ids.
        layer: makes a layer over states.
        dtype: of the states.
    """

    def __init__(self, encoder: GruEncoder, *, table: MakeLayer, layer: MakeLayer, dtype: torch.dtype) -> None:
        self.hidden = encoder.rnn.hidden_size
        self.dtype = dtype

        def both(name: str, number: int, make: MakeLayer) -> list[Layer]:
            ends = [f"_{name}_l{number}{way}" for way in WAYS]
            return [make(getattr(encoder.rnn, "weight" + end), getattr(encoder.rnn, "bias" + end)) for end in ends]

        layers = range(encoder.rnn.num_layers)
        self.input = [both("ih", number, layer if number else table) for number in layers]
        self.recurrent = [both("hh", number, layer) for number in layers]

    def __call__(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """source (B, S) ids, lengths (B,) on the CPU -> annotations (B, S, 2H), zero at padding, summary (B, 2H)."""
        order = lengths.argsort(descending=True, stable=True)
        moved = bool((order.diff() < 0).any())
        if moved:
            lengths, source = lengths[order], source[order.to(source.device)]
        positions = torch.arange(source.size(1)).unsqueeze(1)
        reading = (positions < lengths).sum(1).tolist()  # n of each step
        # where each direction is at each step, (2, S, B)
        places = torch.stack((positions.expand(-1, len(source)), lengths - 1 - positions)).to(source.device)
        annotations, summary = source, source
        for input_layers, recurrent_layers in zip(self.input, self.recurrent, strict=True):
            annotations, summary = self._walk(annotations, places, reading, input_layers, recurrent_layers)
        if moved:
            back = order.argsort().to(source.device)
            annotations, summary = annotations[back], summary[back]
        return annotations, summary

    def _walk(
        self,
        inputs: Tensor,
        places: Tensor,
        reading: list[int],
        input_layers: list[Layer],
        recurrent_layers: list[Layer],
    ) -> tuple[Tensor, Tensor]:
        """One layer: ids (B, S) or states (B, S, 2H) -> states (B, S, 2H), zero at padding, and the last (B, 2H)."""
        sentences, steps = inputs.shape[:2]
        rows = torch.arange(sentences, device=inputs.device)
        state = torch.zeros(2, sentences, self.hidden, dtype=self.dtype, device=inputs.device)
        states = state.new_zeros(sentences, steps, 2, self.hidden)
        for t, n in enumerate(reading):
            for way in range(2):
                where = rows[:n], places[way, t, :n]
                gates = input_layers[way](inputs[where])  # (n, 3H)
                now = state[way, :n]
                states[:, :, way][where] = gated_update(gates, recurrent_layers[way](now), now, out=now)
        return states.flatten(2), state.transpose(0, 1).flatten(1)


def gated_update(input_gates: Tensor, recurrent_gates: Tensor, hidden: Tensor, out: Tensor | None = None) -> Tensor:
    """As ``nmt.model.cells.GruCell``, its product done: (R, 3H), (R, 3H), (R, H) -> (R, H).

    Overwrites the recurrent gates.
    """
    both = 2 * hidden.size(1)
    reset, update = recurrent_gates[:, :both].add_(input_gates[:, :both]).sigmoid_().chunk(2, 1)
    candidate = torch.addcmul(input_gates[:, both:], reset, recurrent_gates[:, both:]).tanh_()
    return torch.lerp(candidate, hidden, update, out=out)
