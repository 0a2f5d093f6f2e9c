"""Decoders with attention over a sequence, each a single autograd function: Bahdanau's, and Luong's with input feeding.

The plain twins are ``BahdanauDecoder`` and ``LuongDecoder`` step by step. What is saved, types and layout are those of
``recurrence``.

Shapes: T steps, B sentences, S source positions, H hidden, G rows of gates (3H or 4H), A alignment units or width of a
key, C context, O readout.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels import recurrence
from nmt.fast.kernels.products import add_product, product
from nmt.fast.kernels.recurrence import Walked, all_steps, begin, separate_steps
from nmt.fast.kernels.torch_steps import DotAttentionSteps

# --- Bahdanau's decoder: attend, then update --------------------------------------------------------------------------


class _AttendingSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: Walked, mask: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, initial, keys, annotations, recurrent, bias, query, energy, context = tensors
        low, units, hidden = gates.dtype, keys.size(2), recurrent.size(1)
        gates, walk = begin(cell, gates, initial)
        attend = recurrence.steps_on(gates.device).AttentionSteps
        attention = attend(len(gates), keys.contiguous(), annotations.contiguous(), mask, energy)
        merged = torch.cat((query, recurrent)).to(low)  # W_a s and U s share their right side
        offset = torch.cat((bias.new_zeros(units), bias)).to(low).unsqueeze(1)
        context = context.to(low)
        output = walk.states[0, :hidden].to(low)  # (H, B)
        for t in range(len(gates)):
            products = add_product(offset, merged, output)  # (A + G, B)
            context_gates = add_product(gates[t], context, attention.attend(t, products[:units]).T)
            output = walk.advance(t, context_gates, products[units:])
        ctx.walk, ctx.attention = walk, attention
        ctx.save_for_backward(merged, context)
        contexts, weights = attention.contexts.detach(), attention.weights.detach()  # ctx must not hold its own outputs
        ctx.mark_non_differentiable(weights)
        return walk.states[1:, :hidden].to(low), contexts, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_contexts: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        merged, context = ctx.saved_tensors
        walk, attention, states = ctx.walk, ctx.attention, ctx.walk.states
        (steps, hidden, sentences), rows = d_outputs.shape, len(context)
        units, moved = len(merged) - rows, walk.rolled * hidden
        walk.prepare()
        attention.prepare()
        # one below the other: the queries, then the gates as the steps have them
        back = torch.cat((merged[:units], merged[units:].roll(moved, 0))).T.contiguous()  # (H, A + G)
        back_to_context = context.T.contiguous()  # (C, G)
        d_gates = merged.new_empty(steps, units + 4 * hidden, sentences)
        d_context = torch.empty_like(attention.contexts)
        d_outputs = d_outputs.contiguous()
        carry = torch.zeros_like(states[0])
        for t in reversed(range(steps)):
            carry = walk.back(t, carry, d_outputs[t], d_gates[t, units:])
            torch.add(d_contexts[t], product(back_to_context, d_gates[t, -rows:]).T, out=d_context[t])
            attention.back(t, d_context[t], d_gates[t, :units])
            carry[:hidden] += product(back, d_gates[t, : units + rows])
        d_all = all_steps(d_gates)  # (A + 4H, T * B)
        d_recurrent, d_input = d_all[: units + rows], d_all[-rows:]
        d_weight = product(d_recurrent, all_steps(states[:-1, :hidden].to(merged.dtype)).T).to(states.dtype)
        d_bias = d_recurrent[units:].sum(1).to(states.dtype).roll(-moved, 0)
        d_context_weight = product(d_input, attention.contexts.flatten(0, 1)).to(states.dtype)
        # sum over t of alpha_t d c_t
        d_annotations = torch.bmm(attention.weights.permute(1, 2, 0), d_context.transpose(0, 1))
        d_keys, d_energy = attention.gradients()
        of_memory = separate_steps(d_input, steps), carry, d_keys, d_annotations
        of_weights = d_weight[units:].roll(-moved, 0), d_bias, d_weight[:units], d_energy, d_context_weight
        return None, None, *of_memory, *of_weights


def attending_sequence(
    cell: Walked,
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
    memory, weights = (gates, initial, keys.to(low), annotations.to(low)), (recurrent, bias, query, energy, context)
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor, Tensor] = _AttendingSequence.apply(  # type: ignore[no-untyped-call]
            cell, mask, *memory, *weights
        )
        return result


# --- Luong's decoder: update, attend, combine, feed -------------------------------------------------------------------


class _FeedingSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: Walked, mask: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        gates, initial, fed, keys, values, recurrent, bias, combine, combine_bias, feeding, *additive = tensors
        low, hidden, readout = gates.dtype, combine.size(1), len(combine)
        gates, walk = begin(cell, gates, initial)
        queries, attention = combine.new_empty(0, hidden), DotAttentionSteps(len(gates), keys, values, mask)
        if additive:
            queries, energy = additive
            attend = recurrence.steps_on(gates.device).AttentionSteps
            attention = attend(len(gates), keys.contiguous(), values.contiguous(), mask, energy)
        units = len(queries)
        merged = torch.cat((queries, combine, recurrent)).to(low)  # (A + O + G, H), or without A
        offset = torch.cat((bias.new_zeros(units), combine_bias, bias)).to(low).unsqueeze(1)
        feeding = feeding.to(low)
        readouts = fed.new_empty(len(gates) + 1, *fed.shape, dtype=low)
        readouts[0] = fed
        split = units, readout, len(recurrent)
        output = walk.states[0, :hidden].to(low)  # (H, B)
        *_, recurrent_gates = add_product(offset, merged, output).split(split)
        for t in range(len(gates)):
            output = walk.advance(t, add_product(gates[t], feeding, readouts[t]), recurrent_gates)
            q, combined, recurrent_gates = add_product(offset, merged, output).split(split)
            context = attention.attend(t, q if units else output)  # (B, O)
            readouts[t + 1] = combined.to(walk.states.dtype).add_(context.T).tanh_()
        ctx.walk, ctx.attention, ctx.units = walk, attention, units
        ctx.save_for_backward(merged, feeding, readouts)
        weights = attention.weights.detach()  # ctx must not hold its own outputs
        ctx.mark_non_differentiable(weights)
        return readouts[1:], weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_readouts: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        merged, feeding, readouts = ctx.saved_tensors
        walk, attention, states, units = ctx.walk, ctx.attention, ctx.walk.states, ctx.units
        (steps, readout, sentences), (rows, _), hidden = d_readouts.shape, feeding.shape, merged.size(1)
        walk.prepare()
        attention.prepare()
        moved = walk.rolled * hidden
        before = units + readout  # what reads the state after the update, before the gates of the next step
        back = torch.cat((merged[:before], merged[before:].roll(moved, 0))).T.contiguous()  # (H, A + O + G)
        back_to_fed = feeding.T.contiguous()  # (O, G)
        # what reads state t: the queries and the readout of step t - 1, then the gates of step t as the steps have them
        d_rows = merged.new_zeros(steps + 1, before + 4 * hidden, sentences)
        d_query = merged.new_empty(hidden, sentences)
        flat = 1 - readouts[1:].to(states.dtype).square()  # tanh'
        d_combined = merged.new_empty(steps, sentences, readout)
        carry, d_fed = torch.zeros_like(states[0]), torch.zeros_like(readouts[0])
        for t in reversed(range(steps)):
            here = d_rows[t + 1]
            here[units:before] = flat[t].mul_(d_readouts[t] + d_fed.to(flat.dtype))
            d_combined[t] = here[units:before].T
            attention.back(t, d_combined[t], here[:units] if units else d_query)
            d_output = product(back, here[: before + rows])
            if not units:
                d_output += d_query
            carry = walk.back(t, carry, d_output, d_rows[t, before:])
            d_fed = product(back_to_fed, d_rows[t, -rows:])
        carry[:hidden] += product(back[:, before:].contiguous(), d_rows[0, before : before + rows])
        d_all = all_steps(d_rows)  # (A + O + 4H, (T + 1) * B)
        d_products, d_input = d_all[: before + rows], d_all[-rows:, : steps * sentences]
        d_weight = product(d_products, all_steps(states[:, :hidden].to(merged.dtype)).T).to(states.dtype)
        d_bias = d_products.sum(1).to(states.dtype)
        d_values = torch.bmm(attention.weights.permute(1, 2, 0), d_combined.transpose(0, 1))
        d_keys, *d_energy = attention.gradients()
        of_memory = separate_steps(d_input, steps), carry, d_fed, d_keys, d_values
        of_recurrence = d_weight[before:].roll(-moved, 0), d_bias[before:].roll(-moved, 0)
        d_feeding = product(d_input, all_steps(readouts[:-1]).T).to(states.dtype)
        of_readout = d_weight[units:before], d_bias[units:before], d_feeding
        of_score = (d_weight[:units], *d_energy) if units else ()
        return None, None, *of_memory, *of_recurrence, *of_readout, *of_score


def feeding_sequence(
    cell: Walked,
    gates: Tensor,
    initial: Tensor,
    fed: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    recurrent: Tensor,
    bias: Tensor,
    combine: Tensor,
    combine_bias: Tensor,
    feeding: Tensor,
    additive: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor]:
    """Run Luong's decoder over T steps, each fed the readout of the one before.

    Args:
        cell: GRU or LSTM.
        gates: W E y_{i-1} with its bias, (T, G, B).
        initial: the first state: s_0 (H, B), or h_0 above c_0 (2H, B).
        fed: h~_0, (O, B).
        keys: what queries are compared with, (B, S, A).
        values: the part of W_c for the contexts, applied to the annotations, (B, S, O).
        mask: (B, S), True on real tokens.
        recurrent: U, (G, H).
        bias: that of U, (G,).
        combine: the part of W_c for the state, (O, H).
        combine_bias: that of W_c, (O,).
        feeding: (G, O).
        additive: W_a (A, H) and v_a (A,) of the additive score; None: states and keys are multiplied, and A = H.

    Returns:
        readouts h~_i (T, O, B), weights (T, B, S). The weights carry no gradient.
    """
    low = gates.dtype
    memory, layers = (gates, initial, fed, keys.to(low), values.to(low)), (recurrent, bias, combine, combine_bias)
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor] = _FeedingSequence.apply(  # type: ignore[no-untyped-call]
            cell, mask, *memory, *layers, feeding, *(additive or ())
        )
        return result
