"""The two recurrences as single autograd functions: a GRU over a sequence, and Bahdanau's attending GRU.

Their plain twins are ``torch.nn.GRU`` over packed sequences (``nmt.model.encoders.gru``) and the step-by-step loops of
``nmt.model.decoders``. What is saved: the loop runs without a graph, the backward pass walks the recurrence alone, and
the gradient of each weight is one product over all steps after the walk. Products are computed in the type of the
gates ("low", bf16 under autocast), gates and states in fp32 or finer ("high").

The rest of a step is in ``torch_steps``, and for GPUs in ``triton_steps``.

Features come before sentences: with the weight at the left, the product of a step reads the large matrix as it lies in
memory and rearranges only the small one (CPU: up to a fifth faster), and each gate is one block.

Shapes: T steps, D directions, B sentences, S source positions, I input, H hidden, A alignment units, C context.
"""

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels import torch_steps
from nmt.fast.kernels.product import add_product, product

KEEP = 1e3
"""A pre-activation whose sigmoid is exactly 1, in every type."""


def _high(low: torch.dtype) -> torch.dtype:
    return torch.promote_types(low, torch.float32)


def _steps_on(device: torch.device) -> Any:
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


def _candidate_first(rows: Tensor, dim: int) -> Tensor:
    """Reorder gates (reset, update, candidate) as ``torch_steps.GateSlopes`` has the recurrent ones."""
    reset, update, candidate = rows.chunk(3, dim)
    return torch.cat((candidate, reset, update), dim)


def _candidate_last(rows: Tensor, dim: int) -> Tensor:
    """Restore PyTorch's order of gates."""
    candidate, reset, update = rows.chunk(3, dim)
    return torch.cat((reset, update, candidate), dim)


def _all_steps(each: Tensor) -> Tensor:
    """Put the steps side by side for one product over all of them: (T, ..., F, B) -> (..., F, T * B)."""
    return each.movedim(0, -2).flatten(-2)


def input_gates(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute W x of all steps: inputs (T, D, B, I), weight (D, 3H, I), bias (D, 3H) -> (T, D, 3H, B)."""
    steps, directions, sentences, _ = inputs.shape
    rows = inputs.transpose(0, 1).reshape(directions, steps * sentences, -1)  # (D, T * B, I)
    if directions == 1:
        products = torch.addmm(bias.T, weight[0], rows[0].T).unsqueeze(0)
    else:
        products = torch.baddbmm(bias.unsqueeze(-1), weight, rows.mT)  # (D, 3H, T * B)
    gates: Tensor = products.unflatten(-1, (steps, sentences)).movedim(-2, 0)
    return gates


class _GruSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None
    ) -> Tensor:
        low, high = gates.dtype, _high(gates.dtype)
        hidden = initial.size(-2)
        gates = gates.contiguous() if padding is None else gates.clone(memory_format=torch.contiguous_format)
        if padding is not None:  # where the update gate is exactly 1, the state stays what it was
            gates[:, :, hidden : 2 * hidden].masked_fill_(padding.unsqueeze(-2), KEEP)
        walk = _steps_on(gates.device).Gates(len(gates), initial.to(high), low)
        weight, offset = weight.to(low), bias.to(low).unsqueeze(-1)  # (D, 3H, H), (D, 3H, 1)
        state = walk.states[0].to(low)  # (D, H, B)
        for t in range(len(gates)):
            state = walk.advance(t, gates[t], add_product(offset, weight, state))
        ctx.walk = walk
        ctx.save_for_backward(weight)
        states: Tensor = walk.states[1:].to(low)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        walk, states, hidden = ctx.walk, ctx.walk.states, weight.size(2)
        high, slopes = states.dtype, walk.slopes()
        back = _candidate_first(weight, 1).mT.contiguous()  # (D, H, 3H)
        d_states = d_states.contiguous()
        count, directions, _, sentences = d_states.shape
        d_gates = weight.new_empty(count, directions, 4 * hidden, sentences)
        carry = torch.zeros_like(states[0])
        for t in reversed(range(count)):
            carry = slopes.back(t, carry, d_states[t], d_gates[t])
            carry += product(back, d_gates[t, :, : 3 * hidden])
        d_all = _all_steps(d_gates)  # (D, 4H, T * B)
        before = _all_steps(states[:-1].to(weight.dtype))  # (D, H, T * B)
        d_weight = product(d_all[:, : 3 * hidden], before.mT).to(high)
        d_bias = d_all[:, : 3 * hidden].sum(2).to(high)
        d_input = d_all[:, hidden:].unflatten(-1, (count, -1)).movedim(-2, 0)  # (T, D, 3H, B)
        return d_input, carry, _candidate_last(d_weight, 1), _candidate_last(d_bias, 1), None


def gru_sequence(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None = None) -> Tensor:
    """Run D GRUs side by side over T steps: gates (T, D, 3H, B), initial (D, H, B), weight (D, 3H, H), bias (D, 3H).

    Gates are W x with its bias, in PyTorch's order (reset, update, candidate). Where padding (T, D, B) is True, a
    state stays what it was. -> states (T, D, H, B).
    """
    with torch.autocast(gates.device.type, enabled=False):
        states: Tensor = _GruSequence.apply(gates, initial, weight, bias, padding)  # type: ignore[no-untyped-call]
        return states


class _AttendingSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
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
        low, units, module = gates.dtype, keys.size(2), _steps_on(gates.device)
        walk = module.Gates(len(gates), initial.to(_high(low)), low)
        attention = module.Attention(len(gates), keys.contiguous(), annotations.contiguous(), mask, energy)
        # W_a s and U s share their right side
        merged = torch.cat((attention.QUERY_SCALE * query, recurrent)).to(low)
        offset = torch.cat((bias.new_zeros(units), bias)).to(low).unsqueeze(1)
        context, gates = context.to(low), gates.contiguous()
        state = walk.states[0].to(low)  # (H, B)
        for t in range(len(gates)):
            products = add_product(offset, merged, state)  # (A + 3H, B)
            context_gates = add_product(gates[t], context, attention.attend(t, products[:units]).T)
            state = walk.advance(t, context_gates, products[units:])
        ctx.walk, ctx.attention = walk, attention
        ctx.save_for_backward(merged, context)
        contexts, weights = attention.contexts.detach(), attention.weights.detach()  # ctx must not hold its own outputs
        ctx.mark_non_differentiable(weights)
        return walk.states[1:].to(low), contexts, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor, d_contexts: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        merged, context = ctx.saved_tensors
        states, weights, contexts = ctx.walk.states, ctx.attention.weights, ctx.attention.contexts
        slopes, attention_slopes = ctx.walk.slopes(), ctx.attention.slopes()
        (steps, hidden, sentences), high = d_states.shape, states.dtype
        units = len(merged) - 3 * hidden
        # one below the other: the queries, then the gates as slopes have them
        back = torch.cat((merged[:units], _candidate_first(merged[units:], 0))).T.contiguous()  # (H, A + 3H)
        back_to_context = context.T.contiguous()  # (C, 3H)
        d_gates = merged.new_empty(steps, units + 4 * hidden, sentences)
        d_context = torch.empty_like(contexts)
        d_states = d_states.contiguous()
        carry = torch.zeros_like(states[0])
        for t in reversed(range(steps)):
            carry = slopes.back(t, carry, d_states[t], d_gates[t, units:])
            torch.add(d_contexts[t], product(back_to_context, d_gates[t, units + hidden :]).T, out=d_context[t])
            attention_slopes.back(t, d_context[t], d_gates[t, :units])
            carry += product(back, d_gates[t, : units + 3 * hidden])
        d_keys, d_energy = attention_slopes.gradients()
        d_all = _all_steps(d_gates)  # (A + 4H, T * B)
        d_recurrent, d_input = d_all[: units + 3 * hidden], d_all[units + hidden :]
        d_weight = product(d_recurrent, _all_steps(states[:-1].to(merged.dtype)).T).to(high)
        d_context_weight = product(d_input, contexts.flatten(0, 1)).to(high)
        d_annotations = torch.bmm(weights.permute(1, 2, 0), d_context.transpose(0, 1))  # sum over t of alpha_t d c_t
        return (
            d_input.unflatten(-1, (steps, sentences)).movedim(-2, 0),
            carry,
            d_keys,
            d_annotations,
            None,
            _candidate_last(d_weight[units:], 0),
            _candidate_last(d_recurrent[units:].sum(1).to(high), 0),
            ctx.attention.QUERY_SCALE * d_weight[:units],
            d_energy,
            d_context_weight,
        )


def attending_sequence(
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
        gates: W E y_{i-1} with its bias, (T, 3H, B).
        initial: s_0, (H, B).
        keys: U_a h_j with its bias, (B, S, A).
        annotations: h_j, (B, S, C).
        mask: (B, S), True on real tokens.
        recurrent: U, (3H, H).
        bias: that of U, (3H,).
        query: W_a, (A, H).
        energy: v_a, (A,).
        context: C, (3H, C).

    Returns:
        states s_i (T, H, B), contexts c_i (T, B, C), weights alpha_ij (T, B, S). The weights carry no gradient.
    """
    low = gates.dtype
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor, Tensor] = _AttendingSequence.apply(  # type: ignore[no-untyped-call]
            gates, initial, keys.to(low), annotations.to(low), mask, recurrent, bias, query, energy, context
        )
        return result
