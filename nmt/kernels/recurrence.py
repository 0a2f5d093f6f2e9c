"""The two recurrences as single autograd functions: a GRU over a sequence, and Bahdanau's attending GRU.

Their plain twins are ``torch.nn.GRU`` over packed sequences (``nmt.model.encoder``) and the step-by-step loops of
``nmt.model.decoder``. What is saved: the loop runs without a graph, the backward pass walks the recurrence alone, and
the gradient of each weight is one product over all steps after the walk. Products are computed in the type of the
gates ("low", bf16 under autocast), gates and states in fp32 or finer ("high").

Features come before sentences: with the weight at the left, the product of a step reads the large matrix as it lies in
memory and rearranges only the small one (CPU: up to a fifth faster), and each gate is one block.

Shapes: T steps, D directions, B sentences, S source positions, I input, H hidden, A alignment units, C context.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.kernels.product import add_product, product

KEEP = 1e3
"""A pre-activation whose sigmoid is exactly 1, in every type."""


def _high(low: torch.dtype) -> torch.dtype:
    return torch.promote_types(low, torch.float32)


@dataclass(frozen=True)
class _Trace:
    """What the gates of all steps leave behind for the backward pass."""

    states: Tensor
    """s_0 ... s_T, (T + 1, ..., H, B)"""
    gates: Tensor
    """r, z, and U_n s, to which the reset gate is applied, (T, ..., 3H, B)"""
    candidate: Tensor
    """s', (T, ..., H, B)"""

    @classmethod
    def empty(cls, steps: int, initial: Tensor) -> "_Trace":
        *directions, hidden, sentences = initial.shape
        states = initial.new_empty(steps + 1, *initial.shape)
        states[0] = initial
        gates = initial.new_empty(steps, *directions, 3 * hidden, sentences)
        return cls(states, gates, initial.new_empty(steps, *initial.shape))

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        """s_{t+1} from the gates (..., 3H, B), as ``nmt.model.decoder.GatedUpdate`` has it; overwrites the latter."""
        hidden = self.states.size(-2)
        gates = self.gates[t]
        recurrent_gates[..., : 2 * hidden, :] += input_gates[..., : 2 * hidden, :]
        gates.copy_(recurrent_gates)
        gates[..., : 2 * hidden, :].sigmoid_()
        reset, update, recurrent = gates.chunk(3, -2)
        candidate = self.candidate[t].copy_(input_gates[..., 2 * hidden :, :])
        candidate.addcmul_(reset, recurrent).tanh_()
        return torch.lerp(candidate, self.states[t], update, out=self.states[t + 1])

    def slopes(self, low: torch.dtype) -> "_Slopes":
        """The derivatives of all steps at once, so that the walk back only multiplies."""
        (r, z, recurrent), n = self.gates.chunk(3, -2), self.candidate
        *outer, hidden, sentences = n.shape
        slopes = n.new_empty(*outer, 4, hidden, sentences, dtype=low)
        by_recurrent, by_reset, by_update, by_candidate = slopes.unbind(-3)
        rest = 1 - z
        by_update.copy_((self.states[:-1] - n).mul_(z).mul_(rest))
        rest.addcmul_(rest * n, n, value=-1)  # (1 - z) (1 - n^2)
        by_candidate.copy_(rest)
        by_recurrent.copy_(rest.mul_(r))
        by_reset.copy_(rest.mul_(recurrent).addcmul_(rest, r, value=-1))
        return _Slopes(slopes, z)


@dataclass(frozen=True)
class _Slopes:
    """Of s_{t+1} by each pre-activation, and by s_t on the direct way.

    One below the other stand (U_n s, reset, update, x_n): the first three are the recurrent gates, the last three the
    input's, so that both gradients are slices of one tensor.
    """

    gates: Tensor
    """(T, ..., 4, H, B)"""
    direct: Tensor
    """(T, ..., H, B)"""

    def back(self, t: int, d_state: Tensor, d_gates: Tensor) -> Tensor:
        """Fill the gradient of the gates (..., 4H, B); -> that of s_t without the recurrent product."""
        low = d_state.to(d_gates.dtype).unsqueeze(-3)
        torch.mul(self.gates[t], low, out=d_gates.unflatten(-2, (4, -1)))
        return d_state * self.direct[t]


def _candidate_first(rows: Tensor, dim: int) -> Tensor:
    """Reorder gates (reset, update, candidate) as ``_Slopes`` has the recurrent ones."""
    reset, update, candidate = rows.chunk(3, dim)
    return torch.cat((candidate, reset, update), dim)


def _candidate_last(rows: Tensor, dim: int) -> Tensor:
    """Back to PyTorch's order."""
    candidate, reset, update = rows.chunk(3, dim)
    return torch.cat((reset, update, candidate), dim)


def _all_steps(each: Tensor) -> Tensor:
    """(T, ..., F, B) -> (..., F, T * B): the steps side by side, for one product over all of them."""
    return each.movedim(0, -2).flatten(-2)


def input_gates(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """W x of all steps: inputs (T, D, B, I), weight (D, 3H, I), bias (D, 3H) -> (T, D, 3H, B)."""
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
        steps, hidden = gates.size(0), initial.size(-2)
        gates = gates.contiguous() if padding is None else gates.clone(memory_format=torch.contiguous_format)
        if padding is not None:  # where the update gate is exactly 1, the state stays what it was
            gates[:, :, hidden : 2 * hidden].masked_fill_(padding.unsqueeze(-2), KEEP)
        trace = _Trace.empty(steps, initial.to(high))
        weight, offset = weight.to(low), bias.to(low).unsqueeze(-1)  # (D, 3H, H), (D, 3H, 1)
        state = trace.states[0].to(low)  # (D, H, B)
        for t in range(steps):
            state = trace.advance(t, gates[t], add_product(offset, weight, state)).to(low)
        ctx.trace = trace
        ctx.save_for_backward(weight)
        return trace.states[1:].to(low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        trace = ctx.trace
        (weight,) = ctx.saved_tensors
        slopes, high, hidden = trace.slopes(weight.dtype), trace.states.dtype, weight.size(2)
        back = _candidate_first(weight, 1).mT.contiguous()  # (D, H, 3H)
        d_gates = torch.empty_like(slopes.gates).flatten(2, 3)  # (T, D, 4H, B)
        d_states = d_states.contiguous()
        carry = torch.zeros_like(trace.states[0])
        for t in reversed(range(len(d_gates))):
            carry = slopes.back(t, carry + d_states[t], d_gates[t])
            carry += product(back, d_gates[t, :, : 3 * hidden])
        d_all = _all_steps(d_gates)  # (D, 4H, T * B)
        states = _all_steps(trace.states[:-1].to(weight.dtype))  # (D, H, T * B)
        d_weight = product(d_all[:, : 3 * hidden], states.mT).to(high)
        d_bias = d_all[:, : 3 * hidden].sum(2).to(high)
        d_input = d_all[:, hidden:].unflatten(-1, (d_gates.size(0), -1)).movedim(-2, 0)  # (T, D, 3H, B)
        return d_input, carry, _candidate_last(d_weight, 1), _candidate_last(d_bias, 1), None


def gru_sequence(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None = None) -> Tensor:
    """D GRUs side by side over T steps: gates (T, D, 3H, B), initial (D, H, B), weight (D, 3H, H), bias (D, 3H).

    Gates are W x with its bias, in PyTorch's order (reset, update, candidate). Where padding (T, D, B) is True, a
    state stays what it was. -> states (T, D, H, B).
    """
    with torch.autocast(gates.device.type, enabled=False):
        states: Tensor = _GruSequence.apply(gates, initial, weight, bias, padding)  # type: ignore[no-untyped-call]
        return states


class _AttendingSequence(torch.autograd.Function):
    """The energies v·tanh(x) are taken as 2 v·sigmoid(2x) - v·1: the sigmoid is several times faster than the
    hyperbolic tangent on CPUs. Softmax would not see the constant, but rounding to bf16 does."""

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
        low, high = gates.dtype, _high(gates.dtype)
        (steps, _, sentences), (_, positions, units) = gates.shape, keys.shape
        merged = torch.cat((2 * query, recurrent)).to(low)  # W_a s and U s share their right side
        offset = torch.cat((bias.new_zeros(units), bias)).to(low).unsqueeze(1)
        doubled, slope, context = 2 * keys, (2 * energy).to(low), context.to(low)
        constant = (slope.sum(dtype=high) / -2).to(low).view(1, 1)
        blocked = torch.zeros_like(mask, dtype=high).masked_fill_(~mask, -torch.inf)
        gates = gates.contiguous()
        trace = _Trace.empty(steps, initial.to(high))
        sigmoids = keys.new_empty(steps, sentences, positions, units)
        weights = keys.new_empty(steps, sentences, positions)
        contexts = annotations.new_empty(steps, sentences, annotations.size(-1))
        state = trace.states[0].to(low)  # (H, B)
        for t in range(steps):
            products = add_product(offset, merged, state)  # (A + 3H, B)
            queries = products[:units].T.contiguous().unsqueeze(1)  # (B, 1, A)
            torch.add(doubled, queries, out=sigmoids[t]).sigmoid_()
            energies = torch.addmm(constant, sigmoids[t].view(-1, units), slope.unsqueeze(1))
            energies = energies.view(sentences, positions).to(high)
            weights[t] = energies.add_(blocked).softmax(-1)
            torch.bmm(weights[t].unsqueeze(1), annotations, out=contexts[t].unsqueeze(1))
            state = trace.advance(t, add_product(gates[t], context, contexts[t].T), products[units:]).to(low)
        ctx.trace, ctx.sigmoids = trace, sigmoids
        ctx.save_for_backward(merged, slope, context, annotations, weights, contexts)
        ctx.mark_non_differentiable(weights)
        return trace.states[1:].to(low), contexts, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor, d_contexts: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        trace, sigmoids = ctx.trace, ctx.sigmoids
        merged, slope, context, annotations, weights, contexts = ctx.saved_tensors
        low, high, slopes = merged.dtype, trace.states.dtype, trace.slopes(merged.dtype)
        (steps, sentences, positions, units), hidden = sigmoids.shape, trace.states.size(-2)
        # one below the other: the queries, then the gates as _Slopes has them
        back = torch.cat((merged[:units], _candidate_first(merged[units:], 0))).T.contiguous()  # (H, A + 3H)
        back_to_context = context.T.contiguous()  # (C, 3H)
        d_gates = merged.new_empty(steps, units + 4 * hidden, sentences)
        d_context = torch.empty_like(contexts)
        d_keys = torch.zeros(sentences, positions, units, dtype=high, device=merged.device)
        d_energy = torch.zeros(units, dtype=high, device=merged.device)
        inner = torch.empty_like(sigmoids[0])
        d_states = d_states.contiguous()
        carry = torch.zeros_like(trace.states[0])
        for t in reversed(range(steps)):
            carry = slopes.back(t, carry + d_states[t], d_gates[t, units:])
            torch.add(d_contexts[t], product(back_to_context, d_gates[t, units + hidden :]).T, out=d_context[t])
            # softmax: d e = alpha * (d alpha - sum alpha d alpha)
            d_weights = torch.bmm(d_context[t].unsqueeze(1), annotations.transpose(1, 2)).squeeze(1).to(high)
            alpha = weights[t].to(high)
            d_energies = alpha * (d_weights - (alpha * d_weights).sum(-1, keepdim=True))
            d_low = d_energies.to(low)
            d_energy += d_low.view(-1) @ sigmoids[t].view(-1, units) - d_low.sum(dtype=high) / 2
            torch.mul(d_low.unsqueeze(-1), slope, out=inner)
            torch.ops.aten.sigmoid_backward.grad_input(inner, sigmoids[t], grad_input=inner)
            d_keys += inner
            d_gates[t, :units] = inner.sum(1).T
            carry += product(back, d_gates[t, : units + 3 * hidden])
        d_all = _all_steps(d_gates)  # (A + 4H, T * B)
        d_recurrent, d_input = d_all[: units + 3 * hidden], d_all[units + hidden :]
        d_weight = product(d_recurrent, _all_steps(trace.states[:-1].to(low)).T).to(high)
        d_context_weight = product(d_input, contexts.flatten(0, 1)).to(high)
        d_annotations = torch.bmm(weights.permute(1, 2, 0), d_context.transpose(0, 1))  # sum over t of alpha_t d c_t
        return (
            d_input.unflatten(-1, (steps, sentences)).movedim(-2, 0),
            carry,
            d_keys.mul_(2).to(low),
            d_annotations,
            None,
            _candidate_last(d_weight[units:], 0),
            _candidate_last(d_recurrent[units:].sum(1).to(high), 0),
            2 * d_weight[:units],
            2 * d_energy,
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
    """Bahdanau's decoder over T steps, attending before each update.

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
