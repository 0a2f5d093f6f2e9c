"""A cell over a sequence as a single autograd function: the GRU and the LSTM.

The plain twins are the step-by-step loops of ``nmt.model``. The loop runs without a graph, the backward pass walks the
recurrence alone, and the gradient of each weight is one product over all steps after the walk. Products are computed in
the type of the gates ("low", bf16 under autocast), gates and states in fp32 or finer ("high"). The rest of a step is in
``torch_steps``, and for GPUs in ``triton_steps``; ``attending`` walks the same cells with an attention.

Features come before sentences: with the weight at the left, the product of a step reads the large matrix as it lies in
memory and rearranges only the small one (CPU: up to a fifth faster), and each gate is one block.

Shapes: T steps, D directions, B sentences, I input, H hidden, G rows of gates (3H or 4H).
"""

import warnings
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels import torch_steps
from nmt.fast.kernels.products import add_product, product, transposed
from nmt.fast.kernels.torch_steps import LstmSteps, Steps

KEEP = 1e3
"""A pre-activation whose sigmoid is exactly 1, in every type."""
Walked = Literal["gru", "lstm"]
"""A cell that the kernels walk: each step has one product, U h, of as many rows as the input has gates."""


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
        warnings.warn(f"Triton cannot be used; continuing without its kernels: {error}", stacklevel=2)
        return None
    from nmt.fast.kernels import triton_steps  # noqa: PLC0415

    return triton_steps


def begin(cell: Walked, gates: Tensor, initial: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Steps]:
    """Begin a walk: gates (T, ..., G, B), the first state, padding (T, ..., B) -> the gates to walk with, the steps."""
    initial = initial.to(torch.promote_types(gates.dtype, torch.float32))
    if cell == "lstm":
        return gates.contiguous(), LstmSteps(len(gates), initial, gates.dtype, padding)
    if padding is not None:  # where the update gate is exactly 1, the state stays what it was
        hidden = initial.size(-2)
        gates = gates.clone(memory_format=torch.contiguous_format)
        gates[..., hidden : 2 * hidden, :].masked_fill_(padding.unsqueeze(-2), KEEP)
    return gates.contiguous(), steps_on(gates.device).GruSteps(len(gates), initial, gates.dtype)


def all_steps(each: Tensor) -> Tensor:
    """Put the steps side by side for one product over all of them: (T, ..., F, B) -> (..., F, T * B)."""
    return each.movedim(0, -2).flatten(-2)


def separate_steps(each: Tensor, steps: int) -> Tensor:
    """Undo ``all_steps``: (..., F, T * B) -> (T, ..., F, B)."""
    separate: Tensor = each.unflatten(-1, (steps, -1))
    return separate.movedim(-2, 0)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cell: Walked, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None
    ) -> Tensor:
        low, hidden = gates.dtype, weight.size(-1)
        gates, walk = begin(cell, gates, initial, padding)
        weight, offset = weight.to(low), bias.to(low).unsqueeze(-1)  # (D, G, H), (D, G, 1)
        output = walk.states[0, ..., :hidden, :].to(low)  # (D, H, B)
        for t in range(len(gates)):
            output = walk.advance(t, gates[t], add_product(offset, weight, output))
        ctx.walk = walk
        ctx.save_for_backward(weight)
        return walk.states[1:, ..., :hidden, :].to(low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        walk, states = ctx.walk, ctx.walk.states
        directions, rows, hidden = weight.shape
        moved = walk.rolled * hidden
        walk.prepare()
        back = transposed(weight.roll(moved, 1))  # (D, H, G)
        d_outputs = d_outputs.contiguous()
        steps, sentences = len(d_outputs), d_outputs.size(-1)
        d_gates = weight.new_empty(steps, directions, 4 * hidden, sentences)
        carry = torch.zeros_like(states[0])
        for t in reversed(range(steps)):
            carry = walk.back(t, carry, d_outputs[t], d_gates[t])
            carry[:, :hidden] += product(back, d_gates[t, :, :rows])
        d_all = all_steps(d_gates)  # (D, 4H, T * B)
        before = all_steps(states[:-1, :, :hidden].to(weight.dtype))  # (D, H, T * B)
        d_weight = product(d_all[:, :rows], before.mT).to(states.dtype).roll(-moved, 1)
        d_bias = d_all[:, :rows].sum(2).to(states.dtype).roll(-moved, 1)
        return None, separate_steps(d_all[:, -rows:], steps), carry, d_weight, d_bias, None


def cell_sequence(
    cell: Walked, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None
) -> Tensor:
    """Run a cell in D directions side by side over T steps -> outputs s_t or h_t, (T, D, H, B).

    Args:
        cell: GRU or LSTM.
        gates: W x with its bias, in PyTorch's order (reset, update, candidate; or input, forget, cell, output),
            (T, D, G, B).
        initial: the first state: of the GRU s_0 (D, H, B), of the LSTM h_0 above c_0 (D, 2H, B).
        weight: U, (D, G, H).
        bias: that of U, (D, G).
        padding: (T, D, B); where it is True, a state stays what it was.
    """
    with torch.autocast(gates.device.type, enabled=False):
        outputs: Tensor = _Sequence.apply(  # type: ignore[no-untyped-call]
            cell, gates, initial, weight, bias, padding
        )
        return outputs
