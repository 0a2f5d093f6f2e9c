"""The steps of ``nmt.fast.kernels.torch_steps`` on a GPU: one Triton kernel for each step, and one for its gradient.

A step of the recurrence is so little work that a GPU spends most of it starting kernels. Here the gates of a step are
one, and so are scores, softmax and contexts: a program for each sentence reads its keys and annotations once and keeps
nothing of the size (B, S, A). Sums are taken in fp32 or finer ("high"), and rounded to the type of products ("low")
where they are stored for one.

Shapes: T steps, B sentences, S source positions, H hidden, A alignment units, C context.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.fast.kernels import torch_steps as plain

ELEMENTS = 1024
"""Values that one program of the gates' kernels computes."""
TILE = 4096
"""Numbers of a (positions, units) block that a program of the attention's kernels holds at a time."""


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _advance(
    input_gates, recurrent_gates, state, gates, candidate, next_state, low_state, count, inner, BLOCK: tl.constexpr
):
    """count = D * H * B states of D directions; inner = H * B: how far apart the three gates of a direction lie."""
    HIGH: tl.constexpr = state.dtype.element_ty
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    within = i < count
    at = i // inner * 3 * inner + i % inner
    x_r = tl.load(input_gates + at, mask=within).to(HIGH)
    x_z = tl.load(input_gates + at + inner, mask=within).to(HIGH)
    x_n = tl.load(input_gates + at + 2 * inner, mask=within).to(HIGH)
    u_r = tl.load(recurrent_gates + at, mask=within).to(HIGH)
    u_z = tl.load(recurrent_gates + at + inner, mask=within).to(HIGH)
    u_n = tl.load(recurrent_gates + at + 2 * inner, mask=within).to(HIGH)
    s = tl.load(state + i, mask=within)
    r = tl.sigmoid(x_r + u_r)
    z = tl.sigmoid(x_z + u_z)
    n = _tanh(x_n + r * u_n)
    s = z * s + (1 - z) * n
    tl.store(gates + at, r, mask=within)
    tl.store(gates + at + inner, z, mask=within)
    tl.store(gates + at + 2 * inner, u_n, mask=within)
    tl.store(candidate + i, n, mask=within)
    tl.store(next_state + i, s, mask=within)
    tl.store(low_state + i, s, mask=within)


@triton.jit
def _advance_back(carry, d_state, gates, candidate, state, d_gates, next_carry, count, inner, BLOCK: tl.constexpr):
    """Sizes as in ``_advance``."""
    HIGH: tl.constexpr = state.dtype.element_ty
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    within = i < count
    at = i // inner * 3 * inner + i % inner
    d = tl.load(carry + i, mask=within) + tl.load(d_state + i, mask=within).to(HIGH)
    r = tl.load(gates + at, mask=within)
    z = tl.load(gates + at + inner, mask=within)
    u_n = tl.load(gates + at + 2 * inner, mask=within)
    n = tl.load(candidate + i, mask=within)
    s = tl.load(state + i, mask=within)
    d_n = d * (1 - z) * (1 - n * n)
    out = d_gates + i // inner * 4 * inner + i % inner
    tl.store(out, d_n * r, mask=within)
    tl.store(out + inner, d_n * u_n * r * (1 - r), mask=within)
    tl.store(out + 2 * inner, d * (s - n) * z * (1 - z), mask=within)
    tl.store(out + 3 * inner, d_n, mask=within)
    tl.store(next_carry + i, d * z, mask=within)


@triton.jit
def _attend(
    queries,
    keys,
    annotations,
    mask,
    energy,
    kept,
    weights,
    contexts,
    sentences,
    positions,
    UNITS: tl.constexpr,
    WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One sentence b: queries (A, B), keys (B, S, A), annotations (B, S, C) -> weights (B, S), contexts (B, C).

    The queries are kept for the way back as (B, A). POSITIONS is the power of two from ``positions`` on; BLOCK is how
    many units, or columns of the annotations, are looked at together.
    """
    HIGH: tl.constexpr = energy.dtype.element_ty
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, POSITIONS)
    inside = j < positions
    real = tl.load(mask + b * positions + j, mask=inside, other=0) != 0
    e = tl.zeros((POSITIONS,), HIGH)
    for start in range(0, UNITS, BLOCK):
        a = start + tl.arange(0, BLOCK)
        q = tl.load(queries + a * sentences + b, mask=a < UNITS, other=0.0)
        tl.store(kept + b * UNITS + a, q, mask=a < UNITS)
        both = real[:, None] & (a < UNITS)[None, :]
        k = tl.load(keys + (b * positions + j[:, None]) * UNITS + a[None, :], mask=both, other=0.0).to(HIGH)
        v = tl.load(energy + a, mask=a < UNITS, other=0.0).to(HIGH)
        e += tl.sum(_tanh(k + q.to(HIGH)[None, :]) * v[None, :], 1)
    e = tl.where(real, e, float("-inf"))
    e = tl.exp(e - tl.max(e, 0))
    alpha = (e / tl.sum(e, 0)).to(weights.dtype.element_ty)
    tl.store(weights + b * positions + j, alpha, mask=inside)
    for start in range(0, WIDTH, BLOCK):
        c = start + tl.arange(0, BLOCK)
        both = real[:, None] & (c < WIDTH)[None, :]
        h = tl.load(annotations + (b * positions + j[:, None]) * WIDTH + c[None, :], mask=both, other=0.0).to(HIGH)
        tl.store(contexts + b * WIDTH + c, tl.sum(alpha.to(HIGH)[:, None] * h, 0), mask=c < WIDTH)


@triton.jit
def _attend_back(
    d_contexts,
    kept,
    keys,
    annotations,
    mask,
    energy,
    weights,
    d_queries,
    d_keys,
    d_energy,
    sentences,
    positions,
    UNITS: tl.constexpr,
    WIDTH: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One sentence b: d_contexts (B, C) -> d_queries (A, B); d_keys (B, S, A) and d_energy (B, A) are added to."""
    HIGH: tl.constexpr = energy.dtype.element_ty
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, POSITIONS)
    inside = j < positions
    real = tl.load(mask + b * positions + j, mask=inside, other=0) != 0
    alpha = tl.load(weights + b * positions + j, mask=real, other=0.0).to(HIGH)
    d_alpha = tl.zeros((POSITIONS,), HIGH)
    for start in range(0, WIDTH, BLOCK):
        c = start + tl.arange(0, BLOCK)
        both = real[:, None] & (c < WIDTH)[None, :]
        h = tl.load(annotations + (b * positions + j[:, None]) * WIDTH + c[None, :], mask=both, other=0.0).to(HIGH)
        d_c = tl.load(d_contexts + b * WIDTH + c, mask=c < WIDTH, other=0.0).to(HIGH)
        d_alpha += tl.sum(h * d_c[None, :], 1)
    d_e = alpha * (d_alpha - tl.sum(alpha * d_alpha, 0))
    for start in range(0, UNITS, BLOCK):
        a = start + tl.arange(0, BLOCK)
        both = real[:, None] & (a < UNITS)[None, :]
        at = (b * positions + j[:, None]) * UNITS + a[None, :]
        q = tl.load(kept + b * UNITS + a, mask=a < UNITS, other=0.0).to(HIGH)
        k = tl.load(keys + at, mask=both, other=0.0).to(HIGH)
        v = tl.load(energy + a, mask=a < UNITS, other=0.0).to(HIGH)
        hidden = _tanh(k + q[None, :])
        inner = d_e[:, None] * v[None, :] * (1 - hidden * hidden)
        tl.store(d_keys + at, tl.load(d_keys + at, mask=both, other=0.0) + inner, mask=both)
        tl.store(d_queries + a * sentences + b, tl.sum(inner, 0), mask=a < UNITS)
        summed = tl.load(d_energy + b * UNITS + a, mask=a < UNITS, other=0.0) + tl.sum(d_e[:, None] * hidden, 0)
        tl.store(d_energy + b * UNITS + a, summed, mask=a < UNITS)


class GruSteps(plain.GruSteps):
    """As ``nmt.fast.kernels.torch_steps.GruSteps``, with one kernel for each step."""

    def __init__(self, steps: int, initial: Tensor, low: torch.dtype) -> None:
        super().__init__(steps, initial, low)
        hidden, sentences = initial.shape[-2:]
        self.count, self.inner = initial.numel(), hidden * sentences
        self.programs = (triton.cdiv(self.count, ELEMENTS),)

    def advance(self, t: int, input_gates: Tensor, recurrent_gates: Tensor) -> Tensor:
        low = self.states.new_empty(self.states.shape[1:], dtype=self.low)
        _advance[self.programs](
            input_gates.contiguous(),
            recurrent_gates.contiguous(),
            self.states[t],
            self.gates[t],
            self.candidate[t],
            self.states[t + 1],
            low,
            self.count,
            self.inner,
            BLOCK=ELEMENTS,
        )
        return low

    def prepare(self) -> None:
        """Nothing: a kernel computes the slopes of its step."""

    def back(self, t: int, carry: Tensor, d_output: Tensor, d_gates: Tensor) -> Tensor:
        """Compute the gradient of state t and fill that of the gates, which is contiguous."""
        result = torch.empty_like(self.candidate[t])
        _advance_back[self.programs](
            carry.contiguous(),
            d_output.contiguous(),
            self.gates[t],
            self.candidate[t],
            self.states[t],
            d_gates,
            result,
            self.count,
            self.inner,
            BLOCK=ELEMENTS,
        )
        return result


class AttentionSteps:
    """As ``nmt.fast.kernels.torch_steps.AttentionSteps``; keys and values are contiguous."""

    def __init__(self, steps: int, keys: Tensor, values: Tensor, mask: Tensor, energy: Tensor, learns: bool) -> None:
        sentences, positions, units = keys.shape
        self.keys, self.values = keys, values
        self.energy = energy.to(torch.promote_types(keys.dtype, torch.float32)).contiguous()
        self.mask = mask.to(torch.int8).contiguous()
        self.queries = keys.new_empty(steps if learns else 1, sentences, units).expand(steps, -1, -1)
        self.weights = keys.new_empty(steps, sentences, positions)
        self.contexts = keys.new_empty(steps, sentences, values.size(-1))
        block = triton.next_power_of_2(positions)
        self.sizes = {
            "UNITS": units,
            "WIDTH": values.size(-1),
            "POSITIONS": block,
            "BLOCK": min(max(16, TILE // block), triton.next_power_of_2(max(units, values.size(-1)))),
            "num_warps": 8 if block >= 128 else 4,
        }

    def attend(self, t: int, queries: Tensor) -> Tensor:
        """Compute the contexts of step t, (B, C), from its queries (A, B), which are contiguous."""
        sentences, positions = self.mask.shape
        _attend[(sentences,)](
            queries,
            self.keys,
            self.values,
            self.mask,
            self.energy,
            self.queries[t],
            self.weights[t],
            self.contexts[t],
            sentences,
            positions,
            **self.sizes,
        )
        return self.contexts[t]

    def prepare(self) -> None:
        """Make room for the gradients."""
        high = torch.promote_types(self.keys.dtype, torch.float32)
        self.d_keys = torch.zeros_like(self.keys, dtype=high)
        self.d_energy = torch.zeros_like(self.queries[0], dtype=high)

    def back(self, t: int, d_context: Tensor, d_queries: Tensor) -> None:
        """Fill the gradient of the queries (A, B) from that of the contexts (B, C); both are contiguous."""
        sentences, positions = self.mask.shape
        _attend_back[(sentences,)](
            d_context,
            self.queries[t],
            self.keys,
            self.values,
            self.mask,
            self.energy,
            self.weights[t],
            d_queries,
            self.d_keys,
            self.d_energy,
            sentences,
            positions,
            **self.sizes,
        )

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Return, after all steps, the gradients of the keys (B, S, A) and of the energy (A,)."""
        return self.d_keys.to(self.keys.dtype), self.d_energy.sum(0)
