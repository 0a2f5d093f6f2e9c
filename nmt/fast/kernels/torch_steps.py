"""The steps of a recurrence in PyTorch's operations: the gates of a GRU and Bahdanau's attention, forward and backward.

``triton_steps`` has twins of both classes for GPUs. Products with weights are not part of a step: the walks of
``recurrence`` compute them. "Low" is the type that products are computed in, "high" fp32 or finer.

Shapes: T steps, B sentences, S source positions, H hidden, A alignment units, C context.
"""

from typing import Protocol

import torch
from torch import Tensor


class GateSlopes(Protocol):
    """The backward steps of the gates."""

    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """Compute the gradient of state t.

        ``carry`` is that of state t + 1 by later steps, shaped as a state; ``d_output`` that of its output,
        (..., H, B), by its readers. Fills the gradient of the gates (..., 4H, B): its first rows are the recurrent
        gates', its last rows the input's, so that both are slices of one tensor. In a GRU (U_n s, reset, update, x_n)
        stand one below the other: three and three. -> the gradient of state t without that of the recurrent product.
        """


class Steps(Protocol):
    """The forward steps of a cell, and what its backward steps need of them."""

    states: Tensor
    """State 0 ... T, (T + 1, ..., W, B), high; the first H of the W rows are the output."""

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        """Compute state t + 1 from gates (..., G, B); may overwrite the recurrent ones -> its output, low."""

    def slopes(self) -> GateSlopes:
        """Return the backward steps."""


class AttentionSlopes(Protocol):
    """The backward steps of the attention."""

    def back(self, t: int, d_context: Tensor, d_queries: Tensor) -> None:
        """Fill the gradient of the queries (A, B) from that of the contexts (B, C)."""

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return, after all steps, the gradients of the keys (B, S, A) and of the energy (A,)."""


class GruSteps:
    """The gates of T steps, and the values that the backward steps need.

    Args:
        steps: T.
        initial: s_0, (..., H, B), high.
        low: the type of products.
    """

    states: Tensor
    """s_0 ... s_T, (T + 1, ..., H, B), high"""
    gates: Tensor
    """r, z, and U_n s, to which the reset gate is applied, (T, ..., 3H, B), high"""
    candidate: Tensor
    """s', (T, ..., H, B), high"""

    def __init__(self, steps: int, initial: Tensor, low: torch.dtype) -> None:
        *directions, hidden, sentences = initial.shape
        self.low = low
        self.states = initial.new_empty(steps + 1, *initial.shape)
        self.states[0] = initial
        self.gates = initial.new_empty(steps, *directions, 3 * hidden, sentences)
        self.candidate = initial.new_empty(steps, *initial.shape)

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        """s_{t+1}, low, from gates (..., 3H, B); overwrites the latter."""
        hidden = self.states.size(-2)
        gates = self.gates[t]
        recurrent_gates[..., : 2 * hidden, :] += input_gates[..., : 2 * hidden, :]
        gates.copy_(recurrent_gates)
        gates[..., : 2 * hidden, :].sigmoid_()
        reset, update, recurrent = gates.chunk(3, -2)
        candidate = self.candidate[t].copy_(input_gates[..., 2 * hidden :, :])
        candidate.addcmul_(reset, recurrent).tanh_()
        return torch.lerp(candidate, self.states[t], update, out=self.states[t + 1]).to(self.low)

    def slopes(self) -> GateSlopes:
        """Compute the derivatives of all steps at once, so that the backward steps only multiply."""
        (r, z, recurrent), n = self.gates.chunk(3, -2), self.candidate
        *outer, hidden, sentences = n.shape
        slopes = n.new_empty(*outer, 4, hidden, sentences, dtype=self.low)
        by_recurrent, by_reset, by_update, by_candidate = slopes.unbind(-3)
        rest = 1 - z
        by_update.copy_((self.states[:-1] - n).mul_(z).mul_(rest))
        rest.addcmul_(rest * n, n, value=-1)  # (1 - z) (1 - n^2)
        by_candidate.copy_(rest)
        by_recurrent.copy_(rest.mul_(r))
        by_reset.copy_(rest.mul_(recurrent).addcmul_(rest, r, value=-1))
        return _GateSlopes(slopes, z)


class _GateSlopes:
    """Slopes of s_{t+1} by each pre-activation (T, ..., 4, H, B), low, and by s_t directly (T, ..., H, B), high."""

    def __init__(self, gates: Tensor, direct: Tensor) -> None:
        self.gates = gates
        self.direct = direct

    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """Compute the gradient of state t by products with the slopes."""
        d_state = carry + d_output
        low = d_state.to(d_gates.dtype).unsqueeze(-3)
        torch.mul(self.gates[t], low, out=d_gates.unflatten(-2, (4, -1)))
        return d_state * self.direct[t]


class AttentionSteps:
    """Bahdanau's attention over T steps, and the values that the backward steps need.

    The energies v·tanh(x) are taken as 2 v·sigmoid(2x) - v·1: the sigmoid is several times faster than the hyperbolic
    tangent on CPUs. Softmax would not see the constant, but rounding to bf16 does.

    Args:
        steps: T.
        keys: U_a h_j, (B, S, A), low.
        annotations: h_j, (B, S, C), low.
        mask: (B, S), True on real tokens.
        energy: v_a, (A,).
    """

    QUERY_SCALE = 2
    """The caller multiplies queries by this."""
    weights: Tensor
    """alpha_ij, (T, B, S), low"""
    contexts: Tensor
    """c_i, (T, B, C), low"""
    queries: Tensor
    """scaled, (T, B, A), low"""
    stored: Tensor | None
    """The sigmoids of all steps, (T, B, S, A), low, until they are released"""

    def __init__(self, steps: int, keys: Tensor, annotations: Tensor, mask: Tensor, energy: Tensor) -> None:
        self.high = torch.promote_types(keys.dtype, torch.float32)
        self.keys, self.annotations, self.slope = 2 * keys, annotations, (2 * energy).to(keys.dtype)
        self.constant = (self.slope.sum(dtype=self.high) / -2).to(keys.dtype).view(1, 1)
        self.blocked = torch.zeros_like(mask, dtype=self.high).masked_fill_(~mask, -torch.inf)
        self.queries = keys.new_empty(steps, len(keys), keys.size(-1))
        self.stored = keys.new_empty(steps, *keys.shape)
        self.weights = keys.new_empty(steps, *mask.shape)
        self.contexts = keys.new_empty(steps, len(keys), annotations.size(-1))

    def attend(self, t: int, queries: Tensor) -> Tensor:
        """Compute the contexts of step t, (B, C), from its scaled queries W_a s, (A, B)."""
        assert self.stored is not None
        weights, contexts = self.weights[t], self.contexts[t]
        self.queries[t] = queries.T
        sigmoids = self._sigmoids(t, self.stored[t])
        energies = torch.addmm(self.constant, sigmoids.flatten(0, 1), self.slope.unsqueeze(1))
        weights.copy_(energies.view_as(weights).to(self.high).add_(self.blocked).softmax(-1))
        torch.bmm(weights.unsqueeze(1), self.annotations, out=contexts.unsqueeze(1))
        return contexts

    def _sigmoids(self, t: int, out: Tensor) -> Tensor:
        return torch.add(self.keys, self.queries[t].unsqueeze(1), out=out).sigmoid_()

    def sigmoids(self, t: int) -> Tensor:
        """Return those of step t, (B, S, A); after ``release`` they are computed again."""
        return self._sigmoids(t, torch.empty_like(self.keys)) if self.stored is None else self.stored[t]

    def release(self) -> None:
        """Give back the memory of the sigmoids, the largest part of an update's; backward rarely runs twice."""
        self.stored = None

    def slopes(self) -> AttentionSlopes:
        """Return the backward steps."""
        return _AttentionSlopes(self)


class _AttentionSlopes:
    def __init__(self, attention: AttentionSteps) -> None:
        self.attention = attention
        self.d_keys = torch.zeros_like(attention.keys, dtype=attention.high)
        self.d_slope = torch.zeros_like(attention.slope, dtype=attention.high)
        self.inner = torch.empty_like(attention.keys)

    def back(self, t: int, d_context: Tensor, d_queries: Tensor) -> None:
        """Fill the gradient of the queries (A, B) from that of the contexts (B, C)."""
        attention, inner, high = self.attention, self.inner, self.attention.high
        sigmoids, alpha = attention.sigmoids(t), attention.weights[t].to(high)
        d_weights = torch.bmm(d_context.unsqueeze(1), attention.annotations.transpose(1, 2)).squeeze(1)
        d_energies = softmax_back(alpha, d_weights).to(inner.dtype)
        self.d_slope += d_energies.view(-1) @ sigmoids.flatten(0, 1) - d_energies.sum(dtype=high) / 2
        torch.mul(d_energies.unsqueeze(-1), attention.slope, out=inner)
        torch.ops.aten.sigmoid_backward.grad_input(inner, sigmoids, grad_input=inner)
        self.d_keys += inner
        d_queries.copy_(inner.sum(1).T)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return, after all steps, the gradients of keys (B, S, A) and energy (A,); releases the sigmoids."""
        self.attention.release()
        return self.d_keys.mul_(2).to(self.inner.dtype), 2 * self.d_slope


class DotAttentionSteps:
    """Attention over T steps whose energies are products of queries and keys; otherwise as ``AttentionSteps``.

    Energies are high: they have no bound, and rounding large ones to bf16 would change their weights (at 64, the next
    number is 64.5). In a trained network this was the largest error of the gradient.

    Args:
        steps: T.
        keys: (B, S, A), low.
        values: what is weighed, (B, S, C), low.
        mask: (B, S), True on real tokens.
    """

    weights: Tensor
    """alpha_ij, (T, B, S), low"""
    queries: Tensor
    """(T, B, A), low"""

    def __init__(self, steps: int, keys: Tensor, values: Tensor, mask: Tensor) -> None:
        self.high = torch.promote_types(keys.dtype, torch.float32)
        self.keys, self.values, self.high_keys = keys, values, keys.to(self.high)
        self.blocked = torch.zeros_like(mask, dtype=self.high).masked_fill_(~mask, -torch.inf)
        self.weights = keys.new_empty(steps, *mask.shape)
        self.queries = keys.new_empty(steps, len(keys), keys.size(-1))

    def attend(self, t: int, queries: Tensor) -> Tensor:
        """Compute the contexts of step t, (B, C), from its queries, (A, B)."""
        self.queries[t] = queries.T
        energies = torch.bmm(self.queries[t].to(self.high).unsqueeze(1), self.high_keys.mT).squeeze(1)
        self.weights[t] = energies.add_(self.blocked).softmax(-1)
        return torch.bmm(self.weights[t].unsqueeze(1), self.values).squeeze(1)

    def slopes(self) -> "_DotAttentionSlopes":
        """Return the backward steps."""
        return _DotAttentionSlopes(self)


class _DotAttentionSlopes:
    def __init__(self, attention: DotAttentionSteps) -> None:
        self.attention = attention
        self.d_energies = torch.empty_like(attention.weights)

    def back(self, t: int, d_context: Tensor, d_queries: Tensor) -> None:
        """Fill the gradient of the queries (A, B) from that of the contexts (B, C)."""
        attention = self.attention
        d_weights = torch.bmm(d_context.unsqueeze(1), attention.values.mT).squeeze(1)
        self.d_energies[t] = softmax_back(attention.weights[t].to(attention.high), d_weights)
        d_queries.copy_(torch.bmm(self.d_energies[t].unsqueeze(1), attention.keys).squeeze(1).T)

    def gradients(self) -> tuple[Tensor]:
        """Return, after all steps, the gradient of the keys (B, S, A)."""
        return (torch.bmm(self.d_energies.permute(1, 2, 0), self.attention.queries.transpose(0, 1)),)


def softmax_back(weights: Tensor, d_weights: Tensor) -> Tensor:
    """The gradient of energies e, by alpha = softmax(e), high: d e = alpha * (d alpha - sum alpha d alpha)."""
    d_weights = d_weights.to(weights.dtype)
    return weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
