"""Decoders with attention over a sequence as a single autograd function: Bahdanau's, and Luong's with input feeding.

The plain twins are ``BahdanauDecoder`` and ``LuongDecoder`` step by step. Both alternate: read the memory from a state,
and update it by what was read. Bahdanau reads from s_0 ... s_{T-1}, before each update, and feeds the context. Luong
reads from s_1 ... s_T, after each update, and feeds h~, of the context and the state; the first update is fed zeros.
Types and layout are those of ``recurrence``.

Shapes: T steps, B sentences, S source positions, H hidden, G rows of gates (3H or 4H), A alignment units or width of a
key, C context, O readout, F what is fed: C or O.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels import recurrence
from nmt.fast.kernels.products import add_product, product
from nmt.fast.kernels.recurrence import Walked, all_steps, begin, separate_steps
from nmt.fast.kernels.torch_steps import DotAttentionSteps


class _AttendingSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cell: Walked, learns: bool, mask: Tensor, energy: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        gates, initial, keys, values, recurrent, bias, feeding, query, combine, combine_bias = tensors
        low, hidden, steps, late = gates.dtype, recurrent.size(1), len(gates), int(len(combine) > 0)
        gates, walk = begin(cell, gates, initial)
        attention: Any
        if energy is None:
            attention = DotAttentionSteps(steps, keys, values, mask)
        else:
            attend = recurrence.steps_on(gates.device).AttentionSteps
            attention = attend(steps, keys.contiguous(), values.contiguous(), mask, energy, learns)
        split = units, readout, _ = len(query), len(combine), len(recurrent)
        merged = torch.cat((query, combine, recurrent)).to(low)  # all that reads a state, (A + O + G, H)
        offset = torch.cat((bias.new_zeros(units), combine_bias, bias)).to(low).unsqueeze(1)
        feeding = feeding.to(low)
        readouts = gates.new_zeros(late * (steps + 1), readout, gates.size(-1))
        fed = readouts[0] if late else readouts
        output = walk.states[0, :hidden].to(low)  # (H, B)
        for t in range(steps + late):
            queries, combined, recurrent_gates = add_product(offset, merged, output).split(split)
            if t >= late:
                fed = attention.attend(t - late, queries if units else output).T  # (F, B)
            if t >= late > 0:
                fed = readouts[t].copy_(combined.to(walk.states.dtype).add_(fed).tanh_())
            if t < steps:
                output = walk.advance(t, add_product(gates[t], feeding, fed), recurrent_gates)
        ctx.walk, ctx.attention, ctx.sizes = walk, attention, (units, readout, late)
        ctx.save_for_backward(merged, feeding, readouts)
        weights = attention.weights.detach()  # ctx must not hold its own outputs
        ctx.mark_non_differentiable(weights)
        return walk.states[1:, :hidden].to(low), readouts[1:] if late else attention.contexts.detach(), weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_read: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        merged, feeding, readouts = ctx.saved_tensors
        walk, attention, states, (units, readout, late) = ctx.walk, ctx.attention, ctx.walk.states, ctx.sizes
        (steps, hidden, sentences), (rows, width), high = d_outputs.shape, feeding.shape, states.dtype
        moved, before = walk.rolled * hidden, units + readout
        walk.prepare()
        attention.prepare()
        # one below the other: queries, readout, then the gates as the steps have them
        back = torch.cat((merged[:before], merged[before:].roll(moved, 0))).T.contiguous()  # (H, A + O + G)
        back_to_fed = feeding.T.contiguous()  # (F, G)
        d_rows = merged.new_zeros(steps + late, before + 4 * hidden, sentences)  # of all that reads a state, and inputs
        d_context, d_query = merged.new_empty(steps, sentences, width), merged.new_empty(hidden, sentences)
        flat = 1 - readouts[1:].to(high).square()  # tanh'
        d_outputs = d_outputs.contiguous()
        carry, d_fed = torch.zeros_like(states[0]), merged.new_zeros(width, sentences)
        for t in reversed(range(steps + late)):
            here, read = d_rows[t], t - late
            if t < steps:
                carry = walk.back(t, carry, d_outputs[t], here[before:])
                d_fed = product(back_to_fed, here[-rows:])
            if read >= 0:
                if late:
                    here[units:before] = flat[read].mul_(d_read[read] + d_fed.to(high))
                    d_context[read] = here[units:before].T
                else:
                    torch.add(d_read[read], d_fed.T, out=d_context[read])
                attention.back(read, d_context[read], here[:units] if units else d_query)
                if not units:
                    carry[:hidden] += d_query
            carry[:hidden] += product(back, here[: before + rows])
        d_all = all_steps(d_rows)  # (A + O + 4H, (T or T + 1) * B)
        d_products, d_input = d_all[: before + rows], d_all[-rows:, : steps * sentences]
        d_weight = product(d_products, all_steps(states[: steps + late, :hidden].to(merged.dtype)).T).to(high)
        d_bias = d_products.sum(1).to(high)
        fed = all_steps(readouts[:-1]).T if late else attention.contexts.flatten(0, 1)  # (T * B, F)
        # sum over t of alpha_t d c_t
        d_values = torch.bmm(attention.weights.permute(1, 2, 0), d_context.transpose(0, 1))
        d_keys, d_energy = attention.gradients()
        of_memory = separate_steps(d_input, steps), carry, d_keys, d_values
        of_recurrence = d_weight[before:].roll(-moved, 0), d_bias[before:].roll(-moved, 0)
        of_readout = d_weight[:units], d_weight[units:before], d_bias[units:before]
        d_feeding = product(d_input, fed).to(high)
        return None, None, None, d_energy, *of_memory, *of_recurrence, d_feeding, *of_readout


def attending_sequence(
    cell: Walked,
    gates: Tensor,
    initial: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    recurrent: tuple[Tensor, Tensor],
    feeding: Tensor,
    additive: tuple[Tensor, Tensor] | None,
    combine: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a decoder over T steps.

    Args:
        cell: GRU or LSTM.
        gates: W E y_{i-1} with its bias, (T, G, B).
        initial: the first state: s_0 (H, B), or h_0 above c_0 (2H, B).
        keys: U_a h_j with its bias, or what queries are multiplied with, (B, S, A).
        values: h_j, (B, S, C); with ``combine`` the part of W_c for the contexts, applied to h_j, (B, S, O).
        mask: (B, S), True on real tokens.
        recurrent: U (G, H) and its bias (G,).
        feeding: reads the context, or the readout: (G, F).
        additive: W_a (A, H) and v_a (A,) of the additive score; None: states and keys are multiplied, and A = H.
        combine: the part of W_c for the state, (O, H), and its bias (O,), for Luong's decoder; None: Bahdanau's.

    Returns:
        outputs s_i (T, H, B), contexts c_i (T, B, C) or readouts h~_i (T, O, B), and weights alpha_ij (T, B, S), which
        carry no gradient.
    """
    low, no_weight, no_bias = gates.dtype, recurrent[0].detach()[:0], recurrent[1].detach()[:0]
    query, energy = additive or (no_weight, None)
    layers = *recurrent, feeding, query, *(combine or (no_weight, no_bias))
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor, Tensor] = _AttendingSequence.apply(  # type: ignore[no-untyped-call]
            cell, torch.is_grad_enabled(), mask, energy, gates, initial, keys.to(low), values.to(low), *layers
        )
        return result
