"""Recurrent cells: how a state is updated by an input. Encoders and decoders take any of them.

The input's part of the gates is given, so that it can be computed for all steps at once.

Shapes: R rows, T steps, H hidden, G = ``gates`` * H, W = ``width`` * H.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.config.schema import CELLS


class Cell(nn.Module):
    """One recurrent layer over time.

    With ``layer_norm``, the input's part of the gates and each product with the state are normalized, each by itself,
    before they are added; in an LSTM also the c' of tanh(c') (Ba et al. 2016, supplement). The shift of a
    normalization then takes the place of the bias. A bias before the normalization would be its only input while the
    state is zero, and the bias's gradient would outweigh all others.
    """

    gates: int
    """The input gates, in multiples of H."""
    width: int = 1
    """The state, in multiples of H."""
    groups: ClassVar[tuple[int, ...]] = ()
    """The gates that are normalized together, in multiples of H."""
    recurrent: nn.Linear
    """Makes the product, of the output of the state."""
    recurrent_norm: nn.Module

    def __init__(self, options: schema.Recurrence) -> None:
        super().__init__()
        self.hidden, self.normalized = options.hidden, options.layer_norm
        self.input_norm = self._norm(self.groups)

    def of_input(self, width: int) -> nn.Linear:
        """Make the layer that computes the input gates: (..., ``width``) -> (..., G)."""
        return nn.Linear(width, self.gates * self.hidden, bias=not self.normalized)

    def _of_state(self, multiple: int) -> nn.Linear:
        """Make a layer that reads the output of a state: (R, H) -> (R, ``multiple`` * H)."""
        return nn.Linear(self.hidden, multiple * self.hidden, bias=not self.normalized)

    def _norm(self, groups: Sequence[int]) -> nn.Module:
        return GateNorm(self.hidden, groups) if self.normalized else nn.Identity()

    def forward(self, input_gates: Tensor, state: Tensor) -> Tensor:
        """Take one step: input_gates (R, G), state (R, W) -> state (R, W)."""
        products = self.recurrent_norm(self.recurrent(self.output(state)))
        return self.update(self.input_norm(input_gates), products, state)

    def update(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """Take a step, given the product with the output of the state: (R, G), (R, ...), (R, W) -> state (R, W).

        A cell without such a product overrides ``forward``.
        """
        raise NotImplementedError

    def output(self, state: Tensor) -> Tensor:
        """Select what other layers read: (..., W) -> (..., H)."""
        return state

    def unroll(self, input_gates: Tensor, state: Tensor) -> Tensor:
        """Take all steps where no input depends on a state: gates (R, T, G), state (R, W) -> states (R, T, W)."""
        states = []
        for gates in input_gates.unbind(1):
            state = self(gates, state)
            states.append(state)
        return torch.stack(states, 1)


class GateNorm(nn.Module):
    """Layer normalization of gates, each group by itself: (..., G) -> (..., G)."""

    def __init__(self, hidden: int, groups: Sequence[int]) -> None:
        super().__init__()
        self.sizes = [group * hidden for group in groups]
        self.norms = nn.ModuleList(map(nn.LayerNorm, self.sizes))

    def forward(self, gates: Tensor) -> Tensor:
        """Normalize over the units of each group; autocast does so in fp32, and the gates keep their precision."""
        parts = zip(self.norms, gates.split(self.sizes, -1), strict=True)
        return torch.cat([norm(part) for norm, part in parts], -1).to(gates.dtype)


class GruCell(Cell):
    """s' = GRU(s, x) with the reset gate after the recurrent product, as cuDNN and PyTorch have it.

    r = sigmoid(x_r + U_r s), z = sigmoid(x_z + U_z s), n = tanh(x_n + r * (U_n s)), s' = (1 - z) * n + z * s, with
    x = W [input] and U with biases. z keeps the state, as in Cho et al. 2014; in Bahdanau et al. 2015, 1 - z does.
    """

    gates = 3
    groups = (2, 1)

    def __init__(self, options: schema.Recurrence) -> None:
        super().__init__(options)
        self.recurrent = self._of_state(3)  # U_r, U_z, U_n
        self.recurrent_norm = self._norm(self.groups)

    def update(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """Take the step whose products U s are given: (R, 3H), (R, 3H), (R, H) -> (R, H)."""
        both = 2 * self.hidden
        reset, update = torch.sigmoid(input_gates[..., :both] + products[..., :both]).chunk(2, -1)
        candidate = torch.tanh(torch.addcmul(input_gates[..., both:], reset, products[..., both:]))
        return torch.lerp(candidate, state, update)


class ResetBeforeGruCell(Cell):
    """s' = GRU(s, x) with the reset gate before the recurrent product (Cho et al. 2014, eq. 5 to 8).

    As :class:`GruCell`, but n = tanh(x_n + U_n (r * s)).
    """

    gates = 3
    groups = (2, 1)

    def __init__(self, options: schema.Recurrence) -> None:
        super().__init__(options)
        self.recurrent = self._of_state(2)  # U_r, U_z
        self.candidate_recurrent = self._of_state(1)  # U_n
        self.recurrent_norm = self._norm((2,))
        self.candidate_norm = self._norm((1,))

    def update(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """Take the step whose products U_r s and U_z s are given: (R, 3H), (R, 2H), (R, H) -> (R, H)."""
        both = 2 * self.hidden
        reset, update = torch.sigmoid(input_gates[..., :both] + products).chunk(2, -1)
        product = self.candidate_norm(self.candidate_recurrent(reset * state))
        return torch.lerp(torch.tanh(input_gates[..., both:] + product), state, update)


@CELLS.builds(schema.Lstm)
class LstmCell(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997, Gers et al. 2000), as in PyTorch; the state is [h ; c].

    i, f, o = sigmoid(x + U h), g = tanh(x_g + U_g h), c' = f * c + i * g, h' = o * tanh(c'); gates in order i, f, g, o.
    """

    gates = 4
    width = 2
    groups = (4,)

    def __init__(self, options: schema.Recurrence) -> None:
        super().__init__(options)
        self.recurrent = self._of_state(4)
        self.recurrent_norm = self._norm(self.groups)
        self.memory_norm = self._norm((1,))

    def update(self, input_gates: Tensor, products: Tensor, state: Tensor) -> Tensor:
        """Take the step whose products U h are given: (R, 4H), (R, 4H), (R, 2H) -> (R, 2H)."""
        i, f, g, o = (input_gates + products).chunk(4, -1)
        c = torch.sigmoid(f) * state[..., self.hidden :]
        c = torch.addcmul(c, torch.sigmoid(i), torch.tanh(g))
        return torch.cat((torch.sigmoid(o) * torch.tanh(self.memory_norm(c)), c), -1)

    def output(self, state: Tensor) -> Tensor:
        """h: (..., 2H) -> (..., H)."""
        return state[..., : self.hidden]


@CELLS.builds(schema.Ssru)
class SsruCell(Cell):
    """Simpler simple recurrent unit (Kim et al. 2019): gates depend only on the input.

    f = sigmoid(x_f), c' = f * c + (1 - f) * x_c, h' = relu(c'). The state is c; no product depends on it.
    """

    gates = 2
    groups = (1, 1)

    def forward(self, input_gates: Tensor, state: Tensor) -> Tensor:
        return self.update(self.input_norm(input_gates), state, state)

    def update(self, input_gates: Tensor, _products: Tensor, state: Tensor) -> Tensor:
        """Take a step, which reads no product: (R, 2H), (R, ...), (R, H) -> (R, H)."""
        keep, candidate = input_gates.chunk(2, -1)
        return torch.lerp(candidate, state, torch.sigmoid(keep))

    def unroll(self, input_gates: Tensor, state: Tensor) -> Tensor:
        """Compute all gates at once; a step then only mixes two vectors, element by element."""
        gates, candidates = self.input_norm(input_gates).chunk(2, -1)
        states = []
        for keep, candidate in zip(torch.sigmoid(gates).unbind(1), candidates.unbind(1), strict=True):
            state = torch.lerp(candidate, state, keep)
            states.append(state)
        return torch.stack(states, 1)

    def output(self, state: Tensor) -> Tensor:
        return state.relu()


@CELLS.builds(schema.Gru)
def gru(options: schema.Gru) -> Cell:
    """Make the GRU that resets before or after the recurrent product."""
    return ResetBeforeGruCell(options) if options.reset == "before" else GruCell(options)
