"""The GRU of Cho et al. (2014) over a sequence as a single autograd function: the reset gate before the product.

s' = tanh(x_n + U_n (r s) + b_n), where PyTorch's GRU has tanh(x_n + r (U_n s + b_n)). The second product of a step has
to wait for the first, so the steps of ``recurrence`` do not fit; what is saved, types and layout are the same.

Shapes: T steps, D directions, B sentences, H hidden.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels.products import add_product, product, transposed
from nmt.fast.kernels.recurrence import KEEP, all_steps, high

_by_sigmoid = torch.ops.aten.sigmoid_backward  # d, sigmoid(x) -> d sigmoid'(x)


class _GruBeforeSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None
    ) -> Tensor:
        low, finer, both = gates.dtype, high(gates.dtype), 2 * weight.size(2)
        gates = gates + bias.to(low).unsqueeze(-1)
        if padding is not None:  # where the update gate is exactly 1, the state stays what it was
            gates[..., both // 2 : both, :].masked_fill_(padding.unsqueeze(-2), KEEP)
        of_gates, of_candidate = (each.contiguous() for each in weight.to(low).split((both, both // 2), 1))
        states = initial.new_empty(len(gates) + 1, *initial.shape, dtype=finer)
        states[0] = initial
        opened = states.new_empty(len(gates), len(weight), both, initial.size(-1))  # r, z
        candidates = torch.empty_like(states[1:])
        reset_states = torch.empty_like(candidates, dtype=low)  # r s
        for t in range(len(gates)):
            state = states[t]
            opened[t] = add_product(gates[t, :, :both], of_gates, state.to(low))
            reset, update = opened[t].sigmoid_().chunk(2, 1)
            reset_states[t] = reset * state
            candidates[t] = add_product(gates[t, :, both:], of_candidate, reset_states[t])
            torch.lerp(candidates[t].tanh_(), state, update, out=states[t + 1])
        ctx.save_for_backward(weight, states, opened, candidates, reset_states)
        return states[1:].to(low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        weight, states, opened, candidates, reset_states = ctx.saved_tensors
        low, hidden, before = reset_states.dtype, weight.size(2), states[:-1]
        from_reset, from_update, from_candidate = (transposed(each) for each in weight.to(low).chunk(3, 1))
        back = torch.cat((from_reset, from_update), 2)  # (D, H, 2H)
        reset, update = opened.chunk(2, 2)
        by_reset, by_update = _by_sigmoid(before, reset), _by_sigmoid(before - candidates, update)
        by_candidate = torch.ops.aten.tanh_backward(1 - update, candidates)
        d_gates = reset_states.new_empty(*opened.shape[:2], 3 * hidden, opened.size(-1))
        carry = torch.zeros_like(states[0])
        for t in reversed(range(len(d_states))):
            d_reset, d_update, d_candidate = d_gates[t].chunk(3, 1)
            d_state = carry + d_states[t]
            torch.mul(d_state, by_candidate[t], out=d_candidate)
            torch.mul(d_state, by_update[t], out=d_update)
            d_reset_state = product(from_candidate, d_candidate.contiguous()).to(states.dtype)
            torch.mul(d_reset_state, by_reset[t], out=d_reset)
            carry = torch.addcmul(d_state * update[t], d_reset_state, reset[t])
            carry += product(back, d_gates[t, :, : 2 * hidden])
        d_all = all_steps(d_gates)  # (D, 3H, T * B)
        of_gates = product(d_all[:, : 2 * hidden], all_steps(before.to(low)).mT)
        of_candidate = product(d_all[:, 2 * hidden :], all_steps(reset_states).mT)
        d_weight, d_bias = torch.cat((of_gates, of_candidate), 1), d_all.sum(2)
        return d_gates, carry, d_weight.to(weight.dtype), d_bias.to(weight.dtype), None


def gru_before_sequence(
    gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None = None
) -> Tensor:
    """Run D GRUs side by side over T steps: gates (T, D, 3H, B), initial (D, H, B), weight (D, 3H, H), bias (D, 3H).

    Gates are W x with its bias, in PyTorch's order (reset, update, candidate). Where padding (T, D, B) is True, a
    state stays what it was. -> states (T, D, H, B).
    """
    with torch.autocast(gates.device.type, enabled=False):
        states: Tensor = _GruBeforeSequence.apply(  # type: ignore[no-untyped-call]
            gates, initial, weight, bias, padding
        )
        return states
