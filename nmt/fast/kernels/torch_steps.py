"""The steps of the recurrences in PyTorch's operations: the gates of a cell and two attentions, forward and backward.

``triton_steps`` has twins of ``GruSteps`` and ``AttentionSteps`` for GPUs. Products with weights are no part of a step:
``recurrence`` and ``attending`` compute them. "Low" is the type that products are computed in, "high" fp32 or finer.

Shapes: T steps, B sentences, S source positions, H hidden, W state, G rows of gates (3H or 4H), A alignment units, C
context.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

_by_sigmoid = torch.ops.aten.sigmoid_backward  # d, sigmoid(x) -> d sigmoid'(x)
_by_tanh = torch.ops.aten.tanh_backward


class Steps(ABC):
    """The steps of a cell, and the values that the backward steps need.

    Args:
        steps: T.
        initial: the first state, (..., W, B), high.
        low: the type of products.
    """

    rolled: ClassVar[int]
    """Blocks of H rows by which the gradient of the recurrent gates is rolled against PyTorch's order."""
    states: Tensor
    """State 0 ... T, (T + 1, ..., W, B), high; the first H of the W rows are the output."""

    def __init__(self, steps: int, initial: Tensor, low: torch.dtype) -> None:
        self.low = low
        self.states = initial.new_empty(steps + 1, *initial.shape)
        self.states[0] = initial

    @abstractmethod
    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        """Compute state t + 1 from gates (..., G, B); may overwrite the recurrent ones -> its output, low."""

    @abstractmethod
    def prepare(self) -> None:
        """Compute the derivatives of all steps at once, so that the backward steps only multiply."""

    @abstractmethod
    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """Compute the gradient of state t.

        ``carry`` is that of state t + 1 by later steps, shaped as a state; ``d_output`` that of its output,
        (..., H, B), by its readers. Fills the gradient of the gates (..., 4H, B): its first rows are the recurrent
        gates', its last rows the input's, so that both are slices of one tensor. In a GRU (U_n s, reset, update, x_n)
        stand one below the other: three and three. -> the gradient of state t without that of the recurrent product.
        """


class GruSteps(Steps):
    """The gates of a GRU; a state is s, (..., H, B)."""

    rolled = 1  # the candidate's come first
    gates: Tensor
    """r, z, and U_n s, to which the reset gate is applied, (T, ..., 3H, B), high"""
    candidate: Tensor
    """n, (T, ..., H, B), high"""
    slopes: Tensor
    """Derivatives of s_{t+1} by each pre-activation, (T, ..., 4, H, B), low"""

    def __init__(self, steps: int, initial: Tensor, low: torch.dtype) -> None:
        super().__init__(steps, initial, low)
        *directions, hidden, sentences = initial.shape
        self.gates = initial.new_empty(steps, *directions, 3 * hidden, sentences)
        self.candidate = initial.new_empty(steps, *initial.shape)

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        both = 2 * self.states.size(-2)
        gates = self.gates[t]
        recurrent_gates[..., :both, :] += input_gates[..., :both, :]
        gates.copy_(recurrent_gates)
        gates[..., :both, :].sigmoid_()
        reset, update, recurrent = gates.chunk(3, -2)
        candidate = self.candidate[t].copy_(input_gates[..., both:, :])
        candidate.addcmul_(reset, recurrent).tanh_()
        return torch.lerp(candidate, self.states[t], update, out=self.states[t + 1]).to(self.low)

    def prepare(self) -> None:
        (r, z, recurrent), n = self.gates.chunk(3, -2), self.candidate
        *outer, hidden, sentences = n.shape
        self.slopes = n.new_empty(*outer, 4, hidden, sentences, dtype=self.low)
        by_recurrent, by_reset, by_update, by_candidate = self.slopes.unbind(-3)
        rest = 1 - z
        by_update.copy_((self.states[:-1] - n).mul_(z).mul_(rest))
        rest.addcmul_(rest * n, n, value=-1)  # (1 - z) (1 - n^2)
        by_candidate.copy_(rest)
        by_recurrent.copy_(rest.mul_(r))
        by_reset.copy_(rest.mul_(recurrent).addcmul_(rest, r, value=-1))

    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """Compute the gradient of state t by products with the slopes."""
        d_state = carry + d_output
        low = d_state.to(d_gates.dtype).unsqueeze(-3)
        torch.mul(self.slopes[t], low, out=d_gates.unflatten(-2, (4, -1)))
        return d_state * self.gates[t].chunk(3, -2)[1]


class LstmSteps(Steps):
    """The gates of an LSTM, in PyTorch's order; a state is h above c, (..., 2H, B).

    i, f, o = sigmoid(x + U h), g = tanh(x + U h), c_t = f c_{t-1} + i g, h_t = o tanh(c_t). Where ``padding``
    (T, ..., B) is True, a state stays what it was.
    """

    rolled = 0
    gates: Tensor
    """i, f, g, o, (T, ..., 4H, B), high"""
    squashed: Tensor
    """tanh(c_t), (T, ..., H, B), high"""
    slopes: Tensor
    """By each pre-activation, (T, ..., 4, H, B), low: of h_{t+1} by that of o, of c_{t+1} by the others"""
    through: Tensor
    """Derivatives of h_{t+1} by c_{t+1}, (T, ..., H, B), high"""
    direct: Tensor
    """Derivatives of c_{t+1} by c_t, (T, ..., H, B), high"""

    def __init__(self, steps: int, initial: Tensor, low: torch.dtype, padding: Tensor | None) -> None:
        super().__init__(steps, initial, low)
        *directions, both, sentences = initial.shape
        self.padding = None if padding is None else padding.unsqueeze(-2)  # (T, ..., 1, B)
        self.gates = initial.new_empty(steps, *directions, 2 * both, sentences)
        self.squashed = initial.new_empty(steps, *directions, both // 2, sentences)

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
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

    def prepare(self) -> None:
        i, self.direct, g, o = self.gates.chunk(4, -2)
        cells = self.states[:-1].chunk(2, -2)[1]
        *outer, hidden, sentences = i.shape
        self.slopes = i.new_empty(*outer, 4, hidden, sentences, dtype=self.low)
        by_input, by_forget, by_candidate, by_output = self.slopes.unbind(-3)
        by_input.copy_(_by_sigmoid(g, i))
        by_forget.copy_(_by_sigmoid(cells, self.direct))
        by_candidate.copy_(_by_tanh(i, g))
        by_output.copy_(_by_sigmoid(self.squashed, o))
        self.through = _by_tanh(o, self.squashed)
        if self.padding is not None:
            self.slopes.masked_fill_(self.padding.unsqueeze(-2), 0)
            self.through.masked_fill_(self.padding, 0)
            self.direct = self.direct.masked_fill(self.padding, 1)

    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """Compute the gradient of state t; the gates of the state and of the input have one gradient."""
        d_hidden, d_cell = carry.chunk(2, -2)
        d_hidden = d_hidden + d_output
        d_cell = torch.addcmul(d_cell, d_hidden, self.through[t])
        slopes, out = self.slopes[t], d_gates.unflatten(-2, (4, -1))
        torch.mul(slopes[..., :3, :, :], d_cell.to(self.low).unsqueeze(-3), out=out[..., :3, :, :])
        torch.mul(slopes[..., 3, :, :], d_hidden.to(self.low), out=out[..., 3, :, :])
        earlier = torch.zeros_like(carry)
        d_before, d_cell_before = earlier.chunk(2, -2)
        torch.mul(d_cell, self.direct[t], out=d_cell_before)
        if self.padding is not None:
            torch.mul(d_hidden, self.padding[t], out=d_before)
        return earlier


# --- attentions -------------------------------------------------------------------------------------------------------


class AttentionSteps:
    """Bahdanau's attention, and the values that the backward steps need.

    The energies v·tanh(x) are taken as 2 v·sigmoid(2x) - v·1: the sigmoid is several times faster than the hyperbolic
    tangent on CPUs. Softmax would not see the constant, but rounding to bf16 does.

    Args:
        steps: T.
        keys: U_a h_j, (B, S, A), low.
        values: h_j, (B, S, C), low.
        mask: (B, S), True on real tokens.
        energy: v_a, (A,).
        learns: whether a backward pass follows.
    """

    weights: Tensor
    """alpha_ij, (T, B, S), low"""
    contexts: Tensor
    """c_i, (T, B, C), low"""
    sigmoids: Tensor
    """(T, B, S, A), low; the largest part of an update's memory. Without a backward pass all steps share one."""

    def __init__(self, steps: int, keys: Tensor, values: Tensor, mask: Tensor, energy: Tensor, learns: bool) -> None:
        self.high = torch.promote_types(keys.dtype, torch.float32)
        self.keys, self.values, self.slope = 2 * keys, values, (2 * energy).to(keys.dtype)
        self.constant = (self.slope.sum(dtype=self.high) / -2).to(keys.dtype).view(1, 1)
        self.blocked = torch.zeros_like(mask, dtype=self.high).masked_fill_(~mask, -torch.inf)
        self.sigmoids = keys.new_empty(steps if learns else 1, *keys.shape).expand(steps, -1, -1, -1)
        self.weights = keys.new_empty(steps, *mask.shape)
        self.contexts = keys.new_empty(steps, len(keys), values.size(-1))

    def attend(self, t: int, queries: Tensor) -> Tensor:
        """Compute the contexts of step t, (B, C), from its queries W_a s, (A, B)."""
        weights, contexts = self.weights[t], self.contexts[t]
        sigmoids = torch.add(self.keys, (2 * queries.T).unsqueeze(1), out=self.sigmoids[t]).sigmoid_()
        energies = torch.addmm(self.constant, sigmoids.flatten(0, 1), self.slope.unsqueeze(1))
        weights.copy_(energies.view_as(weights).to(self.high).add_(self.blocked).softmax(-1))
        torch.bmm(weights.unsqueeze(1), self.values, out=contexts.unsqueeze(1))
        return contexts

    def prepare(self) -> None:
        """Make room for the gradients."""
        self.d_keys = torch.zeros_like(self.keys, dtype=self.high)
        self.d_slope = torch.zeros_like(self.slope, dtype=self.high)
        self.inner = torch.empty_like(self.keys)

    def back(self, t: int, d_context: Tensor, d_queries: Tensor) -> None:
        """Fill the gradient of the queries (A, B) from that of the contexts (B, C)."""
        inner, sigmoids = self.inner, self.sigmoids[t]
        d_weights = torch.bmm(d_context.unsqueeze(1), self.values.transpose(1, 2)).squeeze(1)
        d_energies = softmax_back(self.weights[t].to(self.high), d_weights).to(inner.dtype)
        self.d_slope += d_energies.view(-1) @ sigmoids.flatten(0, 1) - d_energies.sum(dtype=self.high) / 2
        torch.mul(d_energies.unsqueeze(-1), self.slope, out=inner)
        torch.ops.aten.sigmoid_backward.grad_input(inner, sigmoids, grad_input=inner)
        self.d_keys += inner
        torch.mul(inner.sum(1).T, 2, out=d_queries)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return, after all steps, the gradients of keys (B, S, A) and energy (A,); frees the sigmoids."""
        del self.sigmoids
        return self.d_keys.mul_(2).to(self.inner.dtype), 2 * self.d_slope


class DotAttentionSteps:
    """Attention whose energies are products of queries and keys; otherwise as ``AttentionSteps``.

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

    def prepare(self) -> None:
        """Make room for the gradients."""
        self.d_energies = torch.empty_like(self.weights)

    def back(self, t: int, d_context: Tensor, d_queries: Tensor) -> None:
        """Fill the gradient of the queries (A, B) from that of the contexts (B, C)."""
        d_weights = torch.bmm(d_context.unsqueeze(1), self.values.mT).squeeze(1)
        self.d_energies[t] = softmax_back(self.weights[t].to(self.high), d_weights)
        d_queries.copy_(torch.bmm(self.d_energies[t].unsqueeze(1), self.keys).squeeze(1).T)

    def gradients(self) -> tuple[Tensor, None]:
        """Return, after all steps, the gradient of the keys (B, S, A); there is no energy."""
        return torch.bmm(self.d_energies.permute(1, 2, 0), self.queries.transpose(0, 1)), None


def softmax_back(weights: Tensor, d_weights: Tensor) -> Tensor:
    """The gradient of energies e, by alpha = softmax(e), high: d e = alpha * (d alpha - sum alpha d alpha)."""
    d_weights = d_weights.to(weights.dtype)
    return weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
