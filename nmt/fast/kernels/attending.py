"""Bahdanau's decoder over a sequence as a single autograd function: attend, then update.

The plain twin is ``BahdanauDecoder`` step by step. What is saved, types and layout are those of ``recurrence``.

Shapes: T steps, B sentences, S source positions, H hidden, G rows of gates (3H or 4H), A alignment units, C context.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels import recurrence
from nmt.fast.kernels.product import add_product, product
from nmt.fast.kernels.recurrence import Cell, all_steps, high, separate_steps


class _AttendingSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        gates: Tensor,
        initial: Tensor,
        keys: Tensor,
        annotations: Tensor,
        mask: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        query: Tensor,
        energy: Tensor,
        context: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        low, units, hidden = gates.dtype, keys.size(2), recurrent.size(1)
        gates, walk = cell.begin(gates, initial.to(high(low)), None)
        attend = recurrence.steps_on(gates.device).Attention
        attention = attend(len(gates), keys.contiguous(), annotations.contiguous(), mask, energy)
        # W_a s and U s share their right side
        merged = torch.cat((attention.QUERY_SCALE * query, recurrent)).to(low)
        offset = torch.cat((bias.new_zeros(units), bias)).to(low).unsqueeze(1)
        context = context.to(low)
        output = walk.states[0, :hidden].to(low)  # (H, B)
        for t in range(len(gates)):
            products = add_product(offset, merged, output)  # (A + G, B)
            context_gates = add_product(gates[t], context, attention.attend(t, products[:units]).T)
            output = walk.advance(t, context_gates, products[units:])
        ctx.cell, ctx.walk, ctx.attention = cell, walk, attention
        ctx.save_for_backward(merged, context)
        contexts, weights = attention.contexts.detach(), attention.weights.detach()  # ctx must not hold its own outputs
        ctx.mark_non_differentiable(weights)
        return walk.states[1:, :hidden].to(low), contexts, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_contexts: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        merged, context = ctx.saved_tensors
        cell, states, weights, contexts = ctx.cell, ctx.walk.states, ctx.attention.weights, ctx.attention.contexts
        slopes, attention_slopes = ctx.walk.slopes(), ctx.attention.slopes()
        (steps, hidden, sentences), rows = d_outputs.shape, len(context)
        units = len(merged) - rows
        # one below the other: the queries, then the gates as slopes have them
        back = torch.cat((merged[:units], cell.slopes_first(merged[units:], 0))).T.contiguous()  # (H, A + G)
        back_to_context = context.T.contiguous()  # (C, G)
        d_gates = merged.new_empty(steps, units + 4 * hidden, sentences)
        d_context = torch.empty_like(contexts)
        d_outputs = d_outputs.contiguous()
        carry = torch.zeros_like(states[0])
        for t in reversed(range(steps)):
            carry = slopes.back(t, carry, d_outputs[t], d_gates[t, units:])
            torch.add(d_contexts[t], product(back_to_context, d_gates[t, -rows:]).T, out=d_context[t])
            attention_slopes.back(t, d_context[t], d_gates[t, :units])
            carry[:hidden] += product(back, d_gates[t, : units + rows])
        d_keys, d_energy = attention_slopes.gradients()
        d_all = all_steps(d_gates)  # (A + 4H, T * B)
        d_recurrent, d_input = d_all[: units + rows], d_all[-rows:]
        d_weight = product(d_recurrent, all_steps(states[:-1, :hidden].to(merged.dtype)).T).to(states.dtype)
        d_context_weight = product(d_input, contexts.flatten(0, 1)).to(states.dtype)
        d_annotations = torch.bmm(weights.permute(1, 2, 0), d_context.transpose(0, 1))  # sum over t of alpha_t d c_t
        return (
            None,
            separate_steps(d_input, steps),
            carry,
            d_keys,
            d_annotations,
            None,
            cell.slopes_last(d_weight[units:], 0),
            cell.slopes_last(d_recurrent[units:].sum(1).to(states.dtype), 0),
            ctx.attention.QUERY_SCALE * d_weight[:units],
            d_energy,
            d_context_weight,
        )


def attending_sequence(
    cell: Cell,
    gates: Tensor,
    initial: Tensor,
    keys: Tensor,
    annotations: Tensor,
    mask: Tensor,
    *,
    recurrent: Tensor,
    bias: Tensor,
    query: Tensor,
    energy: Tensor,
    context: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run Bahdanau's decoder over T steps, attending before each update.

    Args:
        cell: GRU or LSTM.
        gates: W E y_{i-1} with its bias, (T, G, B).
        initial: the first state: s_0 (H, B), or h_0 above c_0 (2H, B).
        keys: U_a h_j with its bias, (B, S, A).
        annotations: h_j, (B, S, C).
        mask: (B, S), True on real tokens.
        recurrent: U, (G, H).
        bias: that of U, (G,).
        query: W_a, (A, H).
        energy: v_a, (A,).
        context: C, (G, C).

    Returns:
        outputs s_i (T, H, B), contexts c_i (T, B, C), weights alpha_ij (T, B, S). The weights carry no gradient.
    """
    low = gates.dtype
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor, Tensor] = _AttendingSequence.apply(  # type: ignore[no-untyped-call]
            cell, gates, initial, keys.to(low), annotations.to(low), mask, recurrent, bias, query, energy, context
        )
        return result
