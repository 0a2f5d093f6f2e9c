"""What an update does where memory is too small for its batches, or where its gradient is not finite."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.data.batching import Batch
from nmt.device import out_of_memory
from nmt.errors import CheckpointError
from nmt.messages import Caution, Say
from nmt.training.world import World

SKIPS = 10
"""Consecutive updates without a finite gradient after which training fails."""
Passes = Callable[[Sequence[Batch]], Tensor]
"""The forward and backward passes of batches: returns the sum of their negative log-likelihoods."""


def in_halves(
    passes: Passes, batches: Sequence[Batch], undo: Callable[[], None], world: World, where: str, say: Say
) -> tuple[Tensor, bool]:
    """Run the passes of this process's batches; while a process has too little memory for its own, ``undo`` them and
    run those of their halves, in all processes. Return the result, and whether batches were halved.

    Halved batches have the same gradients except for dropout, which is sampled again. ``where`` names the update in
    messages. Raises CheckpointError if memory is too small for single pairs.
    """
    halved = False
    while world.any((nll := _unless_out_of_memory(passes, batches)) is None):
        undo()
        torch.cuda.empty_cache()
        largest = max(world.gather(max(len(batch.source) for batch in batches)))
        if largest == 1:
            raise CheckpointError(
                f"{where}: out of memory with a single pair; start again with a lower data.filter.max_pieces or a "
                "smaller model"
            )
        batches, halved = [half for batch in batches for half in batch.halves()], True
        say(
            Caution(
                f"{where}: out of memory with {largest} pairs; retrying in halves (a smaller training.batch_tokens "
                "avoids this)"
            )
        )
    assert nll is not None
    return nll, halved


def _unless_out_of_memory(passes: Passes, batches: Sequence[Batch]) -> Tensor | None:
    try:
        return passes(batches)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return None


def skip_update(update: int, skipped_before: int, where: str, last: Path, say: Say) -> None:
    """Report that an update is skipped. Raises CheckpointError if ``skipped_before`` makes too many in a row."""
    say(Caution(f"{where}: the gradient is not finite; the update is skipped"))
    if skipped_before + 1 >= SKIPS:
        raise CheckpointError(
            f"{SKIPS} updates in a row had no finite gradient (the last is {update}); {last} has the weights from "
            "before them. Resume with a lower training.optimizer.learning_rate, or start again with training.clip"
        )
