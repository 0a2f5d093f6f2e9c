"""A cell over a sequence as a single autograd function: the GRU and the LSTM.

The plain twins are ``torch.nn.GRU`` and ``torch.nn.LSTM`` over packed sequences, and the step-by-step loops of
``nmt.model``. What is saved: the loop runs without a graph, the backward pass walks the recurrence alone, and the
gradient of each weight is one product over all steps after the walk. Products are computed in the type of the gates
("low", bf16 under autocast), gates and states in fp32 or finer ("high").

The rest of a step is in ``torch_steps``, that of the LSTM below, and for GPUs in ``triton_steps``. ``attending`` and
``feeding`` walk the same cells with an attention.

Features come before sentences: with the weight at the left, the product of a step reads the large matrix as it lies in
memory and rearranges only the small one (CPU: up to a fifth faster), and each gate is one block.

Shapes: T steps, D directions, B sentences, I input, H hidden, G rows of gates (3H or 4H).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels import torch_steps
from nmt.fast.kernels.products import add_product, product, transposed
from nmt.fast.kernels.torch_steps import Steps

KEEP = 1e3
"""A pre-activation whose sigmoid is exactly 1, in every type."""


@dataclass(frozen=True)
class Walked:
    """What the walks know of a cell: each step has one product, U h, of as many rows as the input has gates."""

    begin: Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Steps]]
    """gates (T, ..., G, B), the first state, high, and padding (T, ..., B) or None -> the gates to walk with, steps."""
    slopes_last: Callable[[Tensor, int], Tensor]
    """Restores PyTorch's order of gates in rows that are ordered as the slopes have them, along a dimension."""
    slopes_first: Callable[[Tensor, int], Tensor]
    """Reorders rows of gates as the slopes have the recurrent ones."""


def high(low: torch.dtype) -> torch.dtype:
    """Return the type of states for a type of products."""
    return torch.promote_types(low, torch.float32)


def steps_on(device: torch.device) -> Any:
    """Return the module with the steps for a device."""
    return (_triton_steps() or torch_steps) if device.type == "cuda" else torch_steps


@cache
def _triton_steps() -> Any:
    """Return ``nmt.fast.kernels.triton_steps``, or None, with a warning, if Triton cannot be used."""
    try:
        import triton  # noqa: PLC0415  # it is not installed everywhere

        triton.runtime.driver.active.get_current_target()  # builds its driver, for which it needs a C compiler
    except Exception as error:  # of many kinds
        warnings.warn(f"Triton cannot be used, training goes on without its kernels: {error}", stacklevel=2)
        return None
    from nmt.fast.kernels import triton_steps  # noqa: PLC0415

    return triton_steps


# --- the steps of an LSTM: a state is h above c, (..., 2H, B) ---------------------------------------------------------

_by_sigmoid = torch.ops.aten.sigmoid_backward  # d, sigmoid(x) -> d sigmoid'(x)
_by_tanh = torch.ops.aten.tanh_backward


class LstmSteps:
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
        """Compute the gradient of state t; the gates of the state and of the input have one gradient."""
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


# --- walks ------------------------------------------------------------------------------------------------------------


def _begin_gru(gates: Tensor, initial: Tensor, padding: Tensor | None) -> tuple[Tensor, Steps]:
    hidden = initial.size(-2)
    if padding is None:
        gates = gates.contiguous()
    else:  # where the update gate is exactly 1, the state stays what it was
        gates = gates.clone(memory_format=torch.contiguous_format)
        gates[..., hidden : 2 * hidden, :].masked_fill_(padding.unsqueeze(-2), KEEP)
    return gates, steps_on(gates.device).GruSteps(len(gates), initial, gates.dtype)


def _candidate_first(rows: Tensor, dim: int) -> Tensor:
    reset, update, candidate = rows.chunk(3, dim)
    return torch.cat((candidate, reset, update), dim)


def _candidate_last(rows: Tensor, dim: int) -> Tensor:
    candidate, reset, update = rows.chunk(3, dim)
    return torch.cat((reset, update, candidate), dim)


def _begin_lstm(gates: Tensor, initial: Tensor, padding: Tensor | None) -> tuple[Tensor, Steps]:
    return gates.contiguous(), LstmSteps(len(gates), initial, gates.dtype, padding)


def _as_they_are(rows: Tensor, _dim: int) -> Tensor:
    return rows


GRU = Walked(_begin_gru, _candidate_last, _candidate_first)
LSTM = Walked(_begin_lstm, _as_they_are, _as_they_are)


def all_steps(each: Tensor) -> Tensor:
    """Put the steps side by side for one product over all of them: (T, ..., F, B) -> (..., F, T * B)."""
    return each.movedim(0, -2).flatten(-2)


def separate_steps(each: Tensor, steps: int) -> Tensor:
    """Undo ``all_steps``: (..., F, T * B) -> (T, ..., F, B)."""
    separate: Tensor = each.unflatten(-1, (steps, -1))
    return separate.movedim(-2, 0)


def input_gates(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute W x of all steps: inputs (T, D, B, I), weight (D, G, I), bias (D, G) -> (T, D, G, B)."""
    steps, directions, sentences, _ = inputs.shape
    rows = inputs.transpose(0, 1).reshape(directions, steps * sentences, -1)  # (D, T * B, I)
    if directions == 1:
        products = torch.addmm(bias.T, weight[0], rows[0].T).unsqueeze(0)
    else:
        products = torch.baddbmm(bias.unsqueeze(-1), weight, rows.mT)  # (D, G, T * B)
    return separate_steps(products, steps)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cell: Walked, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        low, hidden = gates.dtype, weight.size(-1)
        gates, walk = cell.begin(gates, initial.to(high(low)), padding)
        weight, offset = weight.to(low), bias.to(low).unsqueeze(-1)  # (D, G, H), (D, G, 1)
        output = walk.states[0, ..., :hidden, :].to(low)  # (D, H, B)
        for t in range(len(gates)):
            output = walk.advance(t, gates[t], add_product(offset, weight, output))
        ctx.cell, ctx.walk = cell, walk
        ctx.save_for_backward(weight)
        return walk.states[1:, ..., :hidden, :].to(low), walk.states[-1].to(low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        cell, states = ctx.cell, ctx.walk.states
        (directions, rows, hidden), type_of_states, slopes = weight.shape, states.dtype, ctx.walk.slopes()
        back = transposed(cell.slopes_first(weight, 1))  # (D, H, G)
        d_outputs = d_outputs.contiguous()
        count, sentences = len(d_outputs), d_outputs.size(-1)
        d_gates = weight.new_empty(count, directions, 4 * hidden, sentences)
        carry = d_last.to(type_of_states)
        for t in reversed(range(count)):
            carry = slopes.back(t, carry, d_outputs[t], d_gates[t])
            carry[:, :hidden] += product(back, d_gates[t, :, :rows])
        d_all = all_steps(d_gates)  # (D, 4H, T * B)
        before = all_steps(states[:-1, :, :hidden].to(weight.dtype))  # (D, H, T * B)
        d_weight = product(d_all[:, :rows], before.mT).to(type_of_states)
        d_bias = d_all[:, :rows].sum(2).to(type_of_states)
        d_input = separate_steps(d_all[:, -rows:], count)
        return None, d_input, carry, cell.slopes_last(d_weight, 1), cell.slopes_last(d_bias, 1), None


def cell_sequence(
    cell: Walked, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run a cell in D directions side by side over T steps.

    Args:
        cell: GRU or LSTM.
        gates: W x with its bias, in PyTorch's order (reset, update, candidate; or input, forget, cell, output),
            (T, D, G, B).
        initial: the first state: of the GRU s_0 (D, H, B), of the LSTM h_0 above c_0 (D, 2H, B).
        weight: U, (D, G, H).
        bias: that of U, (D, G).
        padding: (T, D, B); where it is True, a state stays what it was.

    Returns:
        outputs s_t or h_t, (T, D, H, B), and the last state, shaped as the first.
    """
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor] = _Sequence.apply(  # type: ignore[no-untyped-call]
            cell, gates, initial, weight, bias, padding
        )
        return result
