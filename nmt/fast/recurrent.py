"""Fast twins of recurrent parts, and all steps of a layer at once.

Parts are looked up by their exact type; custom parts and layer normalization have no twin.

Shapes: T steps, D directions, B sentences, I input, H hidden, G rows of the input gates, W state.
"""

from collections.abc import Container, Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from nmt.fast.kernels.recurrence import Walked, cell_sequence, separate_steps
from nmt.model.cells import Cell, GruCell, LstmCell, ResetBeforeGruCell, SsruCell
from nmt.model.decoders import Decoder, Layer, RecurrentDecoder
from nmt.model.encoders import Direction, Encoder, RecurrentEncoder

WALKED: dict[type[Cell], Walked] = {GruCell: "gru", LstmCell: "lstm"}
"""Cells whose sequences training walks in one operation."""
STEPPED = {GruCell, LstmCell, ResetBeforeGruCell, SsruCell}
"""Cells whose steps search takes with the products given."""


def reads(encoder: Encoder, cells: Container[type[Cell]]) -> TypeGuard[RecurrentEncoder]:
    """Whether an encoder is exactly the built-in one, with cells of these types."""
    return type(encoder) is RecurrentEncoder and all(
        type(way) is Direction and _exactly(way.cell, cells) for ways in encoder.directions for way in ways
    )


def writes(decoder: Decoder, cells: Container[type[Cell]]) -> TypeGuard[RecurrentDecoder]:
    """Whether a recurrent decoder has exactly the built-in layers, with cells of these types."""
    if not isinstance(decoder, RecurrentDecoder) or not _exactly(decoder.cell, cells):
        return False
    return all(type(layer) is Layer and _exactly(layer.cell, cells) for layer in decoder.above)


def _exactly(cell: Cell, cells: Container[type[Cell]]) -> bool:
    return type(cell) in cells and not cell.normalized


def recurrent_of(cell: Cell) -> tuple[Tensor, Tensor]:
    """Return U, which multiplies the output of a state, (P, H), and its bias (P,); of the SSRU without rows."""
    if isinstance(cell, GruCell | LstmCell | ResetBeforeGruCell):
        return cell.recurrent.weight, cell.recurrent.bias
    return torch.empty(0, cell.hidden), torch.empty(0)


def gates_of(inputs: Tensor, ways: Sequence[nn.Linear]) -> Tensor:
    """Compute W x of all steps: inputs (T, D, B, I), layers of D directions -> gates (T, D, G, B)."""
    steps, directions, sentences, _ = inputs.shape
    rows = inputs.transpose(0, 1).reshape(directions, steps * sentences, -1)  # (D, T * B, I)
    weight, bias = _side_by_side([way.weight for way in ways]), _side_by_side([way.bias for way in ways])
    if directions == 1:
        products = torch.addmm(bias.T, weight[0], rows[0].T).unsqueeze(0)
    else:
        products = torch.baddbmm(bias.unsqueeze(-1), weight, rows.mT)  # (D, G, T * B)
    return separate_steps(products, steps)


def outputs_of(
    gates: Tensor, cells: Sequence[Cell], initial: Tensor | None = None, padding: Tensor | None = None
) -> Tensor:
    """Take all steps of a layer: gates (T, D, G, B) -> outputs (T, D, H, B).

    The first state (D, W, B) is zero unless it is given; where padding (T, D, B) is True, a state stays what it was.
    """
    first = cells[0]
    weight, bias = (_side_by_side(each) for each in zip(*map(recurrent_of, cells), strict=True))
    if initial is None:
        initial = gates.new_zeros(len(cells), first.width * first.hidden, gates.size(-1))
    return cell_sequence(WALKED[type(first)], gates, initial, weight, bias, padding)


def _side_by_side(each: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(each)) if len(each) > 1 else each[0].unsqueeze(0)
