"""Rounded weights: fewer bits for each, and translations that stay as they were."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.batching import Specials, collate, plan_by_length
from nmt.messages import counted
from nmt.runs.loading import LoadedRun
from nmt.translation.results import Translation

FINER = ("decoder.attention.", "decoder.combine.")
"""Beginnings of names of matrices whose rounding changes log-probabilities the most: where steps are equal, they have
four times as many."""
CHANGE = 0.007
"""Nats by which rounding with moments may change a log-probability. The report of the demo's three systems may have
6 MB: it has 5.9 MB, and 6.2 MB with 0.005."""
FEWEST = 16
"""Steps in the root mean square of a matrix, at least: also of rows whose gradients are almost zero."""
LOW = 5
"""Fewest bits in the lower part: a code of whole bits wastes less where there are more symbols."""
MOST = 32767
"""Largest multiple of a step."""
DAMPING = 0.1
"""Share of the mean that is added to the mean square gradient of each row and column: one that is small in the
translations at hand may be large in other text."""
BATCH_TOKENS = 400
"""Pieces on either side of a batch: smaller batches give more gradients of the same sentences."""
BLOCK = 64
"""Columns that are rounded between two matrix products."""


class Moments(NamedTuple):
    """Moments of the gradients of a matrix (O, I) by the log-probability of a translation."""

    columns: Tensor
    """Second moments between columns, (I, I)."""
    rows: Tensor
    """Sums of squares, (O,)."""


def rounded(
    weights: Mapping[str, Tensor], steps: float, moments: Mapping[str, Moments] | None = None, change: float = CHANGE
) -> dict[str, Tensor]:
    """Round each matrix to whole multiples of a step, of which ``steps`` are its root mean square; vectors stay.

    A matrix with ``moments``, from :func:`moments_of`, has the steps of :func:`sufficient` instead. If errors were
    independent, they would change the log-probability of a translation by ``change`` nats (root mean square). The
    actual change differs: :func:`compensated` makes errors cancel each other, and ``FEWEST`` makes some steps smaller.

    For a matrix NAME (O, I) the result has the step of each row as NAME.step (O,), the upper 8 bits of the multiples as
    NAME, and the bits below as the upper bits of NAME.low: a row is step (256 NAME + NAME.low). The rows of these two
    are in the order of their steps: rows of similar steps are compressed by one code.
    """
    made, matrices = dict(weights), {name: tensor for name, tensor in weights.items() if tensor.dim() == 2}
    share = change / sum(tensor.numel() for tensor in matrices.values()) ** 0.5
    for name, tensor in matrices.items():
        size = tensor.square().mean().sqrt()
        seen = (moments or {}).get(name)
        equal = size / steps / (4 if name.startswith(FINER) else 1)
        wanted = equal if seen is None else sufficient(seen.rows / tensor.shape[1], share).clamp_max(size / FEWEST)
        step = torch.maximum(wanted, tensor.abs().amax(1) / MOST).clamp_min(torch.finfo(torch.float32).tiny)
        multiples = tensor / step.unsqueeze(1)
        multiples = multiples.round() if seen is None else compensated(multiples, seen.columns)
        whole = multiples[step.argsort(stable=True)].clamp(-MOST, MOST).to(torch.int32)
        below = max(int(whole.abs().max()).bit_length() - 7, LOW)  # bits of NAME.low
        made[name] = (whole >> below).to(torch.int8)
        made[f"{name}.low"] = ((whole << 8 - below) & 255).to(torch.uint8)
        made[f"{name}.step"] = step / 2 ** (8 - below)
    return made


def sufficient(squares: Tensor, change: float) -> Tensor:
    """Return the step of each row, where the gradients of a weight of it have this mean square.

    An error of mean square step² / 12 changes the log-probability by ``change`` in the root mean square. That it is the
    same for every weight takes the fewest bits in all (Gersho & Gray 1992, chapter 8).
    """
    damped = (squares + DAMPING * squares.mean()) / (1 + DAMPING)
    return change * (12 / damped).sqrt()


def compensated(matrix: Tensor, moments: Tensor) -> Tensor:
    """Round (O, I) column by column; later columns make up for the errors of earlier ones (GPTQ, Frantar et al. 2023).

    What errors cost is e M e' for each row e of them, with ``moments`` M (I, I). Where M is U U' with U upper
    triangular, the cost is the sum of squares of e U; each column is rounded so that its own element of e U is least.
    """
    scale = moments.diagonal().mean().clamp_min(torch.finfo(torch.float32).tiny)
    damped = (moments / scale).double() + DAMPING * torch.eye(len(moments), device=moments.device)
    upper = torch.linalg.cholesky(damped.flip(0, 1)).flip(0, 1)
    shares = (upper / upper.diagonal()).float().T.contiguous()  # row c: how far column c makes up for those before it
    rows = matrix.T.contiguous()  # (I, O): the numbers of a column lie together
    errors = torch.zeros_like(rows)
    for start in range(0, len(rows), BLOCK):
        targets = rows[start : start + BLOCK] + shares[start : start + BLOCK, :start] @ errors[:start]
        for column, target in enumerate(targets, start):
            errors[column] = rows[column] - (target + shares[column, start:column] @ errors[start:column]).round()
    return (rows - errors).T.round().contiguous()


def moments_of(run: LoadedRun, translations: Sequence[Translation]) -> dict[str, Moments]:
    """Return the moments of the gradients of each matrix, by name, as means of the translations.

    The gradients are those of the log-probabilities of the best hypotheses. Each batch has one, of a sum in which every
    pair has a random sign: its expected square is the sum of those of the pairs. Only finite moments are returned.
    """
    matrices = {name: each for name, each in run.model.named_parameters() if each.dim() == 2}
    moments = {
        name: Moments(each.new_zeros(each.shape[1], each.shape[1]), each.new_zeros(len(each)))
        for name, each in matrices.items()
    }
    generator, specials = torch.Generator().manual_seed(1), Specials.of(run.tokenizers)
    sources = [np.array(each.source_ids[:-1], np.int32) for each in translations]
    written = ([each for each in one.hypotheses[0].ids if each != specials.target_eos] for one in translations)
    targets = [np.array(ids, np.int32) for ids in written]
    source_lengths, target_lengths = (np.array([len(ids) for ids in side], np.int32) for side in (sources, targets))
    plan = plan_by_length(source_lengths, target_lengths, BATCH_TOKENS)
    for rows in counted(plan, "gradients for rounding", len(plan), "batches"):
        batch = collate([sources[row] for row in rows], [targets[row] for row in rows], specials)
        batch = batch.to(next(iter(matrices.values())).device)
        readouts, _ = run.model.unroll(batch.target_input, run.model.encode(batch.source, batch.source_lengths))
        every = run.model.output(readouts).log_softmax(-1)  # (B, T, V)
        chosen = every.gather(2, batch.target_output.unsqueeze(2)).squeeze(2) * batch.target_mask
        signs = 2 * torch.randint(2, (len(rows), 1), generator=generator).to(chosen.device) - 1
        gradients = torch.autograd.grad((signs * chosen).sum(), list(matrices.values()), allow_unused=True)
        for moment, gradient in zip(moments.values(), gradients, strict=True):
            if gradient is not None:
                moment.columns.addmm_(gradient.T, gradient, alpha=1 / len(sources))
                moment.rows.add_(gradient.square().sum(1), alpha=1 / len(sources))
    return {name: moment for name, moment in moments.items() if moment.columns.isfinite().all()}
