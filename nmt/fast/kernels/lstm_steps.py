"""The steps of an LSTM in PyTorch's operations, forward and backward; ``recurrence`` walks them.

Shapes: T steps, B sentences, H hidden. A state is h above c, (..., 2H, B). "Low" is the type that products are computed
in, "high" fp32 or finer.
"""

import torch
from torch import Tensor

_by_sigmoid = torch.ops.aten.sigmoid_backward  # d, sigmoid(x) -> d sigmoid'(x)
_by_tanh = torch.ops.aten.tanh_backward


class LstmGates:
    """The gates of T steps, in PyTorch's order, and the values that the backward steps need.

    i, f, o = sigmoid(x + U h), g = tanh(x + U h), c_t = f c_{t-1} + i g, h_t = o tanh(c_t).

    Args:
        steps: T.
        initial: h_0 above c_0, (..., 2H, B), high.
        low: the type of products.
        padding: (T, ..., B); where it is True, a state stays what it was.
    """

    states: Tensor
    """h_0 above c_0 ... h_T above c_T, (T + 1, ..., 2H, B), high"""
    gates: Tensor
    """i, f, g, o, (T, ..., 4H, B), high"""
    squashed: Tensor
    """tanh(c_t), (T, ..., H, B), high"""

    def __init__(self, steps: int, initial: Tensor, low: torch.dtype, padding: Tensor | None) -> None:
        *directions, both, sentences = initial.shape
        self.low = low
        self.padding = None if padding is None else padding.unsqueeze(-2)  # (T, ..., 1, B)
        self.states = initial.new_empty(steps + 1, *initial.shape)
        self.states[0] = initial
        self.gates = initial.new_empty(steps, *directions, 2 * both, sentences)
        self.squashed = initial.new_empty(steps, *directions, both // 2, sentences)

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        """h_{t+1}, low, from gates (..., 4H, B); overwrites the recurrent ones."""
        recurrent_gates += input_gates
        gates = self.gates[t].copy_(recurrent_gates)
        i, f, g, o = gates.chunk(4, -2)
        gates[..., : gates.size(-2) // 2, :].sigmoid_()
        g.tanh_()
        o.sigmoid_()
        before, after = self.states[t], self.states[t + 1]
        (_, cell), (output, next_cell) = before.chunk(2, -2), after.chunk(2, -2)
        torch.mul(f, cell, out=next_cell).addcmul_(i, g)
        torch.tanh(next_cell, out=self.squashed[t])
        torch.mul(o, self.squashed[t], out=output)
        if self.padding is not None:
            after.copy_(torch.where(self.padding[t], before, after))
        return output.to(self.low)

    def slopes(self) -> "LstmSlopes":
        """Compute the derivatives of all steps at once, so that the backward steps only multiply."""
        i, f, g, o = self.gates.chunk(4, -2)
        cells = self.states[:-1].chunk(2, -2)[1]
        *outer, hidden, sentences = i.shape
        gates = i.new_empty(*outer, 4, hidden, sentences, dtype=self.low)
        by_input, by_forget, by_candidate, by_output = gates.unbind(-3)
        by_input.copy_(_by_sigmoid(g, i))
        by_forget.copy_(_by_sigmoid(cells, f))
        by_candidate.copy_(_by_tanh(i, g))
        by_output.copy_(_by_sigmoid(self.squashed, o))
        squashed = _by_tanh(o, self.squashed)
        if self.padding is not None:
            gates.masked_fill_(self.padding.unsqueeze(-2), 0)
            squashed.masked_fill_(self.padding, 0)
            f = f.masked_fill(self.padding, 1)
        return LstmSlopes(gates, squashed, f, self.padding)


class LstmSlopes:
    """Slopes by each pre-activation (T, ..., 4, H, B), low: of h_{t+1} by that of o, of c_{t+1} by the others; of
    h_{t+1} by c_{t+1}, and of c_{t+1} by c_t, (T, ..., H, B), high."""

    def __init__(self, gates: Tensor, squashed: Tensor, direct: Tensor, padding: Tensor | None) -> None:
        self.gates, self.squashed, self.direct, self.padding = gates, squashed, direct, padding

    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """As ``torch_steps.GateSlopes`` has it; all of the gates' gradient is the recurrent gates' and the input's."""
        d_hidden, d_cell = carry.chunk(2, -2)
        d_hidden = d_hidden + d_output
        d_cell = torch.addcmul(d_cell, d_hidden, self.squashed[t])
        low, slopes, out = d_gates.dtype, self.gates[t], d_gates.unflatten(-2, (4, -1))
        torch.mul(slopes[..., :3, :, :], d_cell.to(low).unsqueeze(-3), out=out[..., :3, :, :])
        torch.mul(slopes[..., 3, :, :], d_hidden.to(low), out=out[..., 3, :, :])
        earlier = torch.zeros_like(carry)
        d_before, d_cell_before = earlier.chunk(2, -2)
        torch.mul(d_cell, self.direct[t], out=d_cell_before)
        if self.padding is not None:
            torch.mul(d_hidden, self.padding[t], out=d_before)
        return earlier
