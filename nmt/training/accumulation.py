"""The gradients of an update: summed over its batches and all processes, in halves where memory is short.

``DistributedDataParallel`` wraps the forward pass of one module and cannot repeat a batch that one process had no
memory for; here every process takes part in every sum, whatever became of its batches, and all agree afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from nmt.data.batching import Batch
from nmt.device import out_of_memory
from nmt.errors import CheckpointError
from nmt.messages import Caution, Say
from nmt.training.gradients import Gradients
from nmt.training.world import World


class GradientSum:
    """Adds up the gradients of the parameters over the batches of an update and over all processes.

    Gradients in fp32 are summed in float64: sums in fp32 depend on their order, so on the number of processes, and Adam
    enlarges the difference where a gradient is small. Those of narrower types are summed in fp32, which the parameters
    of a single process do themselves; a single batch needs no sum.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], world: World, batches: int = 1, precision: torch.dtype = torch.float32
    ) -> None:
        self.parameters = list(parameters)
        self.world = world
        exact = precision == torch.float32
        self.total: Tensor | None = None
        """One parameter after another; allocated once, so that no update runs out of memory here."""
        if world.size > 1 or (batches > 1 and exact):
            size, device = sum(map(torch.numel, self.parameters)), self.parameters[0].device
            self.total = torch.zeros(size, dtype=torch.float64 if exact else torch.float32, device=device)

    def add(self) -> None:
        """Move the gradients of a batch into the sum."""
        for parameter, part in self._parts():
            if parameter.grad is not None:
                part.add_(parameter.grad.flatten())
                parameter.grad.zero_()

    def finish(self) -> None:
        """Sum over all processes, write the sum into the parameters' gradients, and begin at zero."""
        if self.total is None:
            return
        self.world.sum(self.total)
        for parameter, part in self._parts():
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(part.view_as(parameter))
        self.total.zero_()

    def _parts(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter with its part of the sum."""
        if self.total is None:
            return iter(())
        return zip(self.parameters, self.total.split([each.numel() for each in self.parameters]), strict=True)


class Accumulation:
    """Adds up the gradients of an update; batches that memory is too small for are halved.

    Halved batches have the same gradients except for dropout, which is sampled again.
    """

    def __init__(self, model: nn.Module, world: World, batches: int, precision: torch.dtype, say: Say) -> None:
        self.model = model
        self.world = world
        self.say = say
        self.sum = GradientSum(model.parameters(), world, batches, precision)

    def __call__(
        self, gradients: Gradients, batches: Sequence[Batch], tokens: int, made: int, where: str
    ) -> tuple[Tensor, bool]:
        """Compute the gradients of the batches of all processes, divided by ``tokens``; return the negative
        log-likelihood, and whether batches had to be halved.

        ``made`` is the number of updates before, ``where`` names this one in messages. Raises CheckpointError if memory
        is too small for single pairs.
        """
        halved, before = False, changing_buffers(self.model)
        while self.world.any((likelihood := self._try(gradients, batches, tokens, made)) is None):
            gradients.reset()  # some batches may have been added
            for name, value in before.items():
                self.model.get_buffer(name).copy_(value)
            torch.cuda.empty_cache()
            largest = max(self.world.gather(max(len(batch.source) for batch in batches)))
            if largest == 1:
                raise CheckpointError(
                    f"{where}: out of memory with a single pair; start again with a lower data.filter.max_pieces or a "
                    "smaller model"
                )
            batches, halved = [half for batch in batches for half in batch.halves()], True
            self.say(
                Caution(
                    f"{where}: out of memory with {largest} pairs; retrying in halves (a smaller training.batch_tokens "
                    "avoids this)"
                )
            )
        assert likelihood is not None
        if self.world.size > 1:  # each process has changed them by its own batches: take the mean change
            for name, old in before.items():
                buffer = self.model.get_buffer(name)
                buffer.copy_(old + self.world.sum(buffer - old) / self.world.size)
        return self.world.sum(likelihood), halved

    def _try(self, gradients: Gradients, batches: Sequence[Batch], tokens: int, made: int) -> Tensor | None:
        """Return the negative log-likelihood of the batches of this process; None if it has no memory for them.

        It takes part in the sum over all processes in either case.
        """
        device = next(self.model.parameters()).device
        likelihood, enough = torch.zeros((), dtype=torch.float64, device=device), True
        try:
            for batch in batches:
                likelihood += gradients(batch, tokens, made)
                self.sum.add()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            enough = False
        self.sum.finish()
        return likelihood if enough else None


def changing_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Copy what a batch changes in a model beside gradients, such as the moving average of REINFORCE's rewards."""
    return {name: buffer.clone() for name, buffer in model.named_buffers() if buffer.is_floating_point()}
