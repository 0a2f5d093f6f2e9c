"""The simpler simple recurrent unit (SSRU) over a sequence as a single autograd function (Kim et al. 2019).

f_t = sigmoid(W_f x_t + b), c_t = f_t c_{t-1} + (1 - f_t) W x_t: no matrix is multiplied by a state, so the products of
all steps are one, and a step is a weighted mean. The closed form, c_t = P_t (c_0 + sum_k (1 - f_k) W x_k / P_k) with
P_t = f_1 ... f_t, is no faster, and P_t underflows: in fp32 with f = 0.1 after 38 steps.

Shapes: T steps, D directions, B sentences, H hidden.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.fast.kernels.recurrence import high


class _SsruSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, initial: Tensor, padding: Tensor | None) -> Tensor:
        low, finer = gates.dtype, high(gates.dtype)
        forget, inputs = gates.to(finer).chunk(2, -2)
        forget = forget.sigmoid()
        if padding is not None:
            forget.masked_fill_(padding.unsqueeze(-2), 1)
        states = inputs.new_empty(len(gates) + 1, *initial.shape)
        states[0] = initial
        for t in range(len(gates)):
            torch.lerp(inputs[t], states[t], forget[t], out=states[t + 1])
        ctx.low = low
        ctx.save_for_backward(forget, inputs, states)
        return states[1:].to(low)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        forget, inputs, states = ctx.saved_tensors
        d_all = d_states.to(states.dtype, copy=True)
        for t in reversed(range(len(d_all) - 1)):
            d_all[t].addcmul_(forget[t + 1], d_all[t + 1])
        *outer, hidden, sentences = d_all.shape
        d_gates = d_all.new_empty(*outer, 2, hidden, sentences, dtype=ctx.low)
        d_forget, d_inputs = d_gates.unbind(-3)
        d_forget.copy_(torch.ops.aten.sigmoid_backward((states[:-1] - inputs).mul_(d_all), forget))
        d_inputs.copy_(torch.addcmul(d_all, d_all, forget, value=-1))
        return d_gates.flatten(-3, -2), d_all[0] * forget[0], None


def ssru_sequence(gates: Tensor, initial: Tensor, padding: Tensor | None = None) -> Tensor:
    """Run D SSRUs side by side over T steps: gates (T, D, 2H, B), W_f x + b above W x, and c_0 (D, H, B).

    Where padding (T, D, B) is True, a state stays what it was. -> states c_t (T, D, H, B); an output is relu(c_t).
    """
    with torch.autocast(gates.device.type, enabled=False):
        states: Tensor = _SsruSequence.apply(gates, initial, padding)  # type: ignore[no-untyped-call]
        return states
