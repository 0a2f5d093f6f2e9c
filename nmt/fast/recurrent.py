"""Recurrent layers as the fast twins read them: the weights of any cell, and the kernel that takes all of its steps.

Cells are looked up by their exact type. A cell with layer normalization and a deep transition have no kernel.

Shapes: T steps, D directions, B sentences, I input, H hidden, G rows of the input gates, P rows of the recurrent
product, W state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import torch
from torch import Tensor, nn

from nmt.fast.kernels import recurrence
from nmt.fast.kernels.gru_before import gru_before_sequence
from nmt.fast.kernels.recurrence import GRU, LSTM, cell_sequence, high, input_gates
from nmt.model.cells import Cell, GruCell, LstmCell, ResetBeforeGruCell, SsruCell
from nmt.model.decoders import Layer, RecurrentDecoder
from nmt.model.encoders import Direction, Encoder, RecurrentEncoder


@dataclass(frozen=True)
class Weights:
    """The weights of one layer in one direction."""

    cell: type[Cell]
    from_input: Tensor
    """W, (G, I)."""
    input_bias: Tensor
    """(G,)."""
    recurrent: Tensor
    """U, (P, H); of the GRU with its reset gate before the product, U_r, U_z and U_n; of the SSRU without rows."""
    recurrent_bias: Tensor
    """(P,)."""


# --- cells ------------------------------------------------------------------------------------------------------------


class AllSteps(Protocol):
    """Takes all steps of a cell in D directions side by side."""

    def __call__(self, gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None) -> Tensor:
        """Gates (T, D, G, B), first state (D, W, B), weight (D, P, H), bias (D, P), padding -> outputs (T, D, H, B).

        Where padding (T, D, B) is True, a state stays what it was.
        """


def _gru(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None) -> Tensor:
    return cell_sequence(GRU, gates, initial, weight, bias, padding)[0]


def _lstm(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None) -> Tensor:
    return cell_sequence(LSTM, gates, initial, weight, bias, padding)[0]


def _ssru(gates: Tensor, initial: Tensor, weight: Tensor, bias: Tensor, padding: Tensor | None) -> Tensor:
    """The plain steps: no product depends on a state, so there is nothing to gain, and there is no weight."""
    keep, candidates = gates.to(high(gates.dtype)).chunk(2, -2)
    keep = keep.sigmoid()
    if padding is not None:
        keep = keep.masked_fill(padding.unsqueeze(-2), 1)
    state, states = initial.to(keep.dtype), []
    for candidate, kept in zip(candidates.unbind(), keep.unbind(), strict=True):
        state = torch.lerp(candidate, state, kept)
        states.append(state)
    return torch.stack(states).relu().to(gates.dtype)


ALL_STEPS: dict[type[Cell], AllSteps] = {
    GruCell: _gru,
    LstmCell: _lstm,
    ResetBeforeGruCell: gru_before_sequence,
    SsruCell: _ssru,
}
WALKED: dict[type[Cell], recurrence.Walked] = {GruCell: GRU, LstmCell: LSTM}
"""Cells that the kernels walk together with an attention."""


def has_kernel(cell: Cell) -> bool:
    """Whether a kernel takes all steps of a cell."""
    return type(cell) in ALL_STEPS and not cell.normalized


def weights_of(inputs: nn.Linear, cell: Cell) -> Weights:
    """Collect the weights of a layer whose cell has a kernel."""
    recurrent, bias = inputs.weight.new_empty(0, cell.hidden), inputs.bias.new_empty(0)
    if isinstance(cell, GruCell | LstmCell):
        recurrent, bias = cell.recurrent.weight, cell.recurrent.bias
    elif isinstance(cell, ResetBeforeGruCell):
        recurrent = torch.cat((cell.recurrent.weight, cell.candidate_recurrent.weight))
        bias = torch.cat((cell.recurrent.bias, cell.candidate_recurrent.bias))
    return Weights(type(cell), inputs.weight, inputs.bias, recurrent, bias)


def gates_of(inputs: Tensor, ways: Sequence[Weights]) -> Tensor:
    """Compute W x of all steps: inputs (T, D, B, I), the weights of D directions -> gates (T, D, G, B)."""
    return input_gates(inputs, _side_by_side([w.from_input for w in ways]), _side_by_side([w.input_bias for w in ways]))


def outputs_of(
    gates: Tensor, ways: Sequence[Weights], initial: Tensor | None = None, padding: Tensor | None = None
) -> Tensor:
    """Take all steps of a layer: gates (T, D, G, B) -> outputs (T, D, H, B).

    The first state (D, W, B) is zero unless it is given; where padding (T, D, B) is True, a state stays what it was.
    """
    cell = ways[0].cell
    weight, bias = _side_by_side([w.recurrent for w in ways]), _side_by_side([w.recurrent_bias for w in ways])
    if initial is None:
        initial = gates.new_zeros(len(ways), cell.width * weight.size(-1), gates.size(-1))
    return ALL_STEPS[cell](gates, initial, weight, bias, padding)


def _side_by_side(each: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(each)) if len(each) > 1 else each[0].unsqueeze(0)


def of_layer(ways: Sequence[Direction]) -> list[Weights]:
    """Collect the weights of the directions of a layer of an encoder."""
    return [weights_of(way.input_gates, way.cell) for way in ways]


def reads_by_kernels(encoder: Encoder) -> TypeGuard[RecurrentEncoder]:
    """Whether an encoder is exactly the built-in one, and kernels take all steps of its cells."""
    return type(encoder) is RecurrentEncoder and all(
        type(way) is Direction and has_kernel(way.cell) for ways in encoder.directions for way in ways
    )


def has_kernels(decoder: RecurrentDecoder) -> bool:
    """Whether kernels take all steps of the cells of a decoder, none of which is a part of one's own."""
    exact = all(type(layer) is Layer for layer in decoder.above)
    return exact and all(map(has_kernel, (decoder.cell, *(layer.cell for layer in decoder.above))))
