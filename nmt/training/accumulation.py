"""The gradients of an update: summed over its batches and all processes, in halves where memory is short.

``DistributedDataParallel`` wraps the forward pass of one module and cannot repeat a batch that one process had no
memory for; here every process takes part in every sum, whatever became of its batches, and all agree afterwards.

Gradients in fp32 are summed in float64. Sums in fp32 depend on their order, so on the number of processes, and Adam
enlarges the difference where a gradient is small.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.data.batching import Batch
from nmt.device import out_of_memory
from nmt.errors import CheckpointError
from nmt.messages import Caution
from nmt.training.gradients import Gradients
from nmt.training.log import Log
from nmt.training.world import Wait, World

BUCKET = 8 << 20
"""Bytes that are summed at a time: large enough for the bandwidth, small enough to begin early."""


@dataclass
class _Bucket:
    """Parameters whose gradients are summed as one tensor."""

    parameters: list[nn.Parameter]
    missing: set[nn.Parameter]
    """Those whose gradient the backward pass has not computed yet."""
    total: Tensor
    """The sum of their gradients so far, one parameter after another; allocated once, so that no update runs out of
    memory here."""
    wait: Wait | None = None

    def parts(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter with its part of ``total``."""
        sizes = [parameter.numel() for parameter in self.parameters]
        return zip(self.parameters, self.total.split(sizes), strict=True)


class GradientSum:
    """Adds up the gradients of the parameters over the batches of an update and over all processes, once an update.

    Args:
        parameters: All parameters of the model, in fp32.
        world: The processes.
        batches: Batches of one process in an update.
        precision: In which the gradients are computed: float32, or a narrower type, whose sums are in float32. The
            parameters of a single process add these up themselves, and a single batch needs no sum.
        bucket_bytes: Bytes of gradients that are summed at a time.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        world: World,
        batches: int = 1,
        precision: torch.dtype = torch.float32,
        bucket_bytes: int = BUCKET,
    ) -> None:
        self.world = world
        self.buckets: list[_Bucket] = []
        self._of: dict[nn.Parameter, _Bucket] = {}
        self._open = False
        dtype = torch.float64 if precision == torch.float32 else torch.float32
        if world.size == 1 and (batches == 1 or dtype == torch.float32):
            return
        groups, room = list[list[nn.Parameter]](), 0
        for parameter in reversed(list(parameters)):  # the backward pass reaches the last ones first
            size = parameter.numel() * parameter.element_size()
            if size > room:
                groups.append([])
                room = bucket_bytes
            room -= size
            groups[-1].append(parameter)
        for group in groups:
            total = torch.zeros(sum(map(torch.numel, group)), dtype=dtype, device=group[0].device)
            self.buckets.append(_Bucket(group, set(), total))
            for parameter in group:
                self._of[parameter] = self.buckets[-1]
                parameter.register_post_accumulate_grad_hook(self._ready)

    def add(self) -> None:
        """Move the gradients of a batch that is not the update's last into the sums."""
        for bucket in self.buckets:
            self._add(bucket)

    @contextmanager
    def overlapping(self) -> Iterator[None]:
        """The last backward pass of an update is inside: sums begin as soon as gradients are complete."""
        for bucket in self.buckets:
            bucket.missing = set(bucket.parameters)
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def finish(self) -> None:
        """Begin the sums that have not begun, wait for all, and write them into the parameters' gradients."""
        for bucket in self.buckets:
            if bucket.wait is None:
                self._begin(bucket)
        for bucket in self.buckets:
            assert bucket.wait is not None
            bucket.wait()
            bucket.wait = None
            for parameter, part in bucket.parts():
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(part.view_as(parameter))
            bucket.total.zero_()

    def _ready(self, parameter: Tensor) -> None:
        """Begin the sums of complete buckets, in the same order in all processes."""
        if not self._open:
            return
        assert isinstance(parameter, nn.Parameter)
        self._of[parameter].missing.discard(parameter)
        for bucket in self.buckets:
            if bucket.missing:
                return
            if bucket.wait is None:
                self._begin(bucket)

    def _begin(self, bucket: _Bucket) -> None:
        self._add(bucket)
        bucket.wait = self.world.sum_later(bucket.total)

    def _add(self, bucket: _Bucket) -> None:
        for parameter, part in bucket.parts():
            if parameter.grad is not None:
                part.add_(parameter.grad.flatten())
                parameter.grad.zero_()


class Accumulation:
    """Adds up the gradients of an update; batches that memory is too small for are halved.

    Halved batches have the same gradients except for dropout, which is sampled again.
    """

    def __init__(self, model: nn.Module, world: World, batches: int, precision: torch.dtype, log: Log) -> None:
        self.model = model
        self.world = world
        self.log = log
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
            largest = max(self.world.gather(max((len(batch.source) for batch in batches), default=0)))
            if largest == 1:
                raise CheckpointError(
                    f"{where}: out of memory with a single pair; start again with a lower data.filter.max_pieces or a "
                    "smaller model"
                )
            batches, halved = [half for batch in batches for half in batch.halves()], True
            self.log.say(
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
            for left in reversed(range(len(batches))):
                with nullcontext() if left else self.sum.overlapping():
                    likelihood += gradients(batches[-1 - left], tokens, made)
                if left:
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
