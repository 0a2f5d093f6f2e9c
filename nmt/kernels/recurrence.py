"""The two recurrences as single autograd functions: a GRU over a sequence, and Bahdanau's attending GRU.

Their plain twins are ``torch.nn.GRU`` over packed sequences (``nmt.model.encoder``) and the step-by-step loops of
``nmt.model.decoder``. What is saved: the loop runs without a graph, the backward pass walks the recurrence alone, and
the gradient of each weight is one product over all steps after the walk. Products are computed in the type of the
gates ("low", bf16 under autocast), gates and states in fp32 or finer ("high").

Shapes: T steps, D directions, B sentences, S source positions, H hidden, A alignment units, C context.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def _high(low: torch.dtype) -> torch.dtype:
    return torch.promote_types(low, torch.float32)


@dataclass(frozen=True)
class _Trace:
    """What the gates of all steps leave behind for the backward pass."""

    states: Tensor
    """s_0 ... s_T, (T + 1, ..., H)"""
    gates: Tensor
    """r, z, and U_n s, to which the reset gate is applied, (T, ..., 3H)"""
    candidate: Tensor
    """s', (T, ..., H)"""

    @classmethod
    def empty(cls, steps: int, initial: Tensor) -> "_Trace":
        states = initial.new_empty(steps + 1, *initial.shape)
        states[0] = initial
        gates = initial.new_empty(steps, *initial.shape[:-1], 3 * initial.size(-1))
        return cls(states, gates, initial.new_empty(steps, *initial.shape))

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        """s_{t+1} from the gates (..., 3H), as ``nmt.model.decoder.GatedUpdate`` has it; overwrites the recurrent."""
        hidden = self.states.size(-1)
        gates = self.gates[t]
        recurrent_gates[..., : 2 * hidden] += input_gates[..., : 2 * hidden]
        gates.copy_(recurrent_gates)
        gates[..., : 2 * hidden].sigmoid_()
        reset, update, recurrent = gates.chunk(3, -1)
        candidate = self.candidate[t].copy_(input_gates[..., 2 * hidden :])
        candidate.addcmul_(reset, recurrent).tanh_()
        return torch.lerp(candidate, self.states[t], update, out=self.states[t + 1])

    def slopes(self) -> "_Slopes":
        """The derivatives of all steps at once, so that the walk back only multiplies."""
        (r, z, recurrent), n = self.gates.chunk(3, -1), self.candidate
        by_candidate = (1 - z) * (1 - n * n)
        by_reset = by_candidate * recurrent * r * (1 - r)
        by_update = (self.states[:-1] - n) * z * (1 - z)
        return _Slopes(torch.cat((by_candidate * r, by_reset, by_update, by_candidate), -1), z)


@dataclass(frozen=True)
class _Slopes:
    """Of s_{t+1} by each pre-activation, and by s_t on the direct way.

    Side by side stand (U_n s, reset, update, x_n): the first three are the recurrent gates, the last three the input's,
    so that both gradients are slices of one tensor.
    """

    gates: Tensor
    """(T, ..., 4H)"""
    direct: Tensor
    """(T, ..., H)"""

    def back(self, t: int, d_state: Tensor, d_gates: Tensor) -> Tensor:
        """Fill the gradient of the gates (..., 4H); -> that of s_t without the recurrent product."""
        gates = self.gates[t].unflatten(-1, (4, -1))
        d_gates.unflatten(-1, (4, -1)).copy_(gates * d_state.unsqueeze(-2))
        return d_state * self.direct[t]


def _candidate_first(rows: Tensor, dim: int) -> Tensor:
    """Reorder gates (reset, update, candidate) as ``_Slopes`` has the recurrent ones."""
    reset, update, candidate = rows.chunk(3, dim)
    return torch.cat((candidate, reset, update), dim)


def _candidate_last(rows: Tensor, dim: int) -> Tensor:
    """Back to PyTorch's order."""
    candidate, reset, update = rows.chunk(3, dim)
    return torch.cat((reset, update, candidate), dim)


class _GruSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        low, high = gates.dtype, _high(gates.dtype)
        steps = gates.size(0)
        trace = _Trace.empty(steps, initial.to(high))
        across, offset = weight.to(low).transpose(1, 2), bias.to(low).unsqueeze(1)  # (D, H, 3H), (D, 1, 3H)
        state = initial.to(low)  # (D, B, H)
        for t in range(steps):
            state = trace.advance(t, gates[t], torch.baddbmm(offset, state, across)).to(low)
        ctx.trace, ctx.low = trace, low
        ctx.save_for_backward(weight)
        return trace.states[1:].to(low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor, ...]:
        trace, low = ctx.trace, ctx.low
        (weight,) = ctx.saved_tensors
        slopes, along = trace.slopes(), _candidate_first(weight, 1).to(low)  # (D, 3H, H)
        (steps, directions, sentences, width), hidden = slopes.gates.shape, weight.size(2)
        d_gates = torch.empty(directions, steps, sentences, width, dtype=low, device=weight.device)
        carry = torch.zeros_like(trace.states[0])
        for t in reversed(range(steps)):
            carry = slopes.back(t, carry + d_states[t], d_gates[:, t])
            carry += torch.bmm(d_gates[:, t, :, : 3 * hidden], along)
        d_recurrent = d_gates.view(directions, -1, width)[..., : 3 * hidden]  # (D, T * B, 3H)
        states = trace.states[:-1].to(low).transpose(0, 1).reshape(directions, -1, hidden)
        d_weight = torch.bmm(d_recurrent.transpose(1, 2), states).to(weight.dtype)
        d_bias = d_recurrent.sum(1, dtype=weight.dtype)
        d_input = d_gates[..., hidden:].transpose(0, 1)
        return d_input, carry, _candidate_last(d_weight, 1), _candidate_last(d_bias, 1)


def gru_sequence(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """D GRUs side by side over T steps: gates (T, D, B, 3H), initial (D, B, H), weight (D, 3H, H), bias (D, 3H).

    Gates are W x with its bias, in PyTorch's order (reset, update, candidate). -> states (T, D, B, H).
    """
    with torch.autocast(gates.device.type, enabled=False):
        states: Tensor = _GruSequence.apply(gates, initial, weight, bias)  # type: ignore[no-untyped-call]
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
        (steps, sentences, _), (_, positions, units) = gates.shape, keys.shape
        merged = torch.cat((recurrent, 2 * query)).to(low)  # W_a s and U s share their left side
        offset = torch.cat((bias, bias.new_zeros(units))).to(low)
        doubled, slope, context = 2 * keys, (2 * energy).to(low), context.to(low)
        constant = (slope.sum(dtype=high) / -2).to(low).view(1, 1)
        blocked = torch.zeros_like(mask, dtype=high).masked_fill_(~mask, -torch.inf)
        trace = _Trace.empty(steps, initial.to(high))
        sigmoids = keys.new_empty(steps, sentences, positions, units)
        weights = keys.new_empty(steps, sentences, positions)
        contexts = annotations.new_empty(steps, sentences, annotations.size(-1))
        state = initial.to(low)
        for t in range(steps):
            products = torch.addmm(offset, state, merged.t())
            recurrent_gates, queries = products.split((recurrent.size(0), units), -1)
            torch.add(doubled, queries.unsqueeze(1), out=sigmoids[t]).sigmoid_()
            energies = torch.addmm(constant, sigmoids[t].view(-1, units), slope.unsqueeze(1))
            energies = energies.view(sentences, positions).to(high)
            weights[t] = energies.add_(blocked).softmax(-1)
            torch.bmm(weights[t].unsqueeze(1), annotations, out=contexts[t].unsqueeze(1))
            input_gates = torch.addmm(gates[t], contexts[t], context.t())
            state = trace.advance(t, input_gates, recurrent_gates).to(low)
        ctx.trace, ctx.sigmoids = trace, sigmoids
        ctx.save_for_backward(merged, slope, context, annotations, weights, contexts)
        ctx.mark_non_differentiable(weights)
        return trace.states[1:].to(low), contexts, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor, d_contexts: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        trace, sigmoids = ctx.trace, ctx.sigmoids
        merged, slope, context, annotations, weights, contexts = ctx.saved_tensors
        low, high, slopes = merged.dtype, trace.states.dtype, trace.slopes()
        (steps, sentences, positions, units), hidden = sigmoids.shape, trace.states.size(-1)
        # side by side: the queries, then the gates as _Slopes has them
        along = torch.cat((merged[3 * hidden :], _candidate_first(merged[: 3 * hidden], 0)))  # (A + 3H, H)
        d_gates = merged.new_empty(steps, sentences, units + 4 * hidden)
        d_context = torch.empty_like(contexts)
        d_keys = torch.zeros(sentences, positions, units, dtype=high, device=merged.device)
        d_energy = torch.zeros(units, dtype=high, device=merged.device)
        inner = torch.empty_like(sigmoids[0])
        carry = torch.zeros_like(trace.states[0])
        for t in reversed(range(steps)):
            carry = slopes.back(t, carry + d_states[t], d_gates[t, :, units:])
            torch.addmm(d_contexts[t], d_gates[t, :, units + hidden :], context, out=d_context[t])
            # softmax: d e = alpha * (d alpha - sum alpha d alpha)
            d_weights = torch.bmm(d_context[t].unsqueeze(1), annotations.transpose(1, 2)).squeeze(1).to(high)
            alpha = weights[t].to(high)
            d_energies = alpha * (d_weights - (alpha * d_weights).sum(-1, keepdim=True))
            d_low = d_energies.to(low)
            d_energy += d_low.view(-1) @ sigmoids[t].view(-1, units) - d_low.sum(dtype=high) / 2
            torch.mul(d_low.unsqueeze(-1), slope, out=inner)
            torch.ops.aten.sigmoid_backward.grad_input(inner, sigmoids[t], grad_input=inner)
            d_keys += inner
            torch.sum(inner, 1, out=d_gates[t, :, :units])
            carry += d_gates[t, :, : units + 3 * hidden] @ along
        d_recurrent = d_gates.flatten(0, 1)[:, : units + 3 * hidden]  # (T * B, A + 3H)
        d_input = d_gates[..., units + hidden :]  # (T, B, 3H)
        d_weight = (d_recurrent.t() @ trace.states[:-1].to(low).flatten(0, 1)).to(high)
        d_context_weight = (d_input.flatten(0, 1).t() @ contexts.flatten(0, 1)).to(high)
        d_annotations = torch.bmm(weights.permute(1, 2, 0), d_context.transpose(0, 1))  # sum over t of alpha_t d c_t
        return (
            d_input,
            carry,
            d_keys.mul_(2).to(low),
            d_annotations,
            None,
            _candidate_last(d_weight[units:], 0),
            _candidate_last(d_recurrent[:, units:].sum(0, dtype=high), 0),
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
        gates: W E y_{i-1} with its bias, (T, B, 3H).
        initial: s_0, (B, H).
        keys: U_a h_j with its bias, (B, S, A).
        annotations: h_j, (B, S, C).
        mask: (B, S), True on real tokens.
        recurrent: U, (3H, H).
        bias: that of U, (3H,).
        query: W_a, (A, H).
        energy: v_a, (A,).
        context: C, (3H, C).

    Returns:
        states s_i (T, B, H), contexts c_i (T, B, C), weights alpha_ij (T, B, S). The weights carry no gradient.
    """
    low = gates.dtype
    with torch.autocast(gates.device.type, enabled=False):
        result: tuple[Tensor, Tensor, Tensor] = _AttendingSequence.apply(  # type: ignore[no-untyped-call]
            gates, initial, keys.to(low), annotations.to(low), mask, recurrent, bias, query, energy, context
        )
        return result
