"""The gradients of an update, also where memory is too small for its batches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.data.batching import Batch
from nmt.device import out_of_memory
from nmt.errors import CheckpointError
from nmt.messages import Caution, Say
from nmt.training.gradients import Accumulation, Gradients


def accumulate(
    gradients: Gradients,
    total: Accumulation,
    batches: Sequence[Batch],
    tokens: int,
    update: int,
    *,
    where: str,
    say: Say,
) -> tuple[Tensor, bool]:
    """Add up the gradients of the batches of all processes, divided by ``tokens``; while a process has too little
    memory for its own batches, begin again with their halves, in all processes.

    Halved batches have the same gradients except for dropout, which is sampled again. ``where`` names the update in
    messages. Returns the negative log-likelihood of all batches, and whether they were halved. Raises CheckpointError
    if memory is too small for single pairs.
    """
    world, halved = total.world, False
    total.begin()
    while world.any((nll := _passes(gradients, total, batches, tokens, update)) is None):
        gradients.reset()
        total.undo()
        torch.cuda.empty_cache()
        largest = max(world.gather(max(len(batch.source) for batch in batches)))
        if largest == 1:
            raise CheckpointError(
                f"{where}: out of memory with a single pair; start again with a lower data.filter.max_pieces or a "
                "smaller model"
            )
        batches, halved = [half for batch in batches for half in batch.halves()], True
        problem = f"{where}: out of memory with {largest} pairs; retrying in halves"
        say(Caution(f"{problem} (a smaller training.batch_tokens avoids this)"))
    total.finish()
    assert nll is not None
    return world.sum(nll), halved


def _passes(
    gradients: Gradients, total: Accumulation, batches: Sequence[Batch], tokens: int, update: int
) -> Tensor | None:
    """Add up the gradients of this process's batches; return their negative log-likelihood, None out of memory."""
    nll = torch.zeros((), dtype=torch.float64)
    try:
        for batch in batches:
            nll = nll + gradients(batch, tokens, update)
            total.add()
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return None
    return nll
