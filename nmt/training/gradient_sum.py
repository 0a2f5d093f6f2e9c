"""The sum of the gradients of an update, over its batches and all processes, begun during the last backward pass.

``DistributedDataParallel`` wraps the forward pass of one module and cannot repeat a batch that one process had no
memory for; here every process takes part in every sum, whatever became of its batches, and all agree afterwards.

Gradients in fp32 are summed in float64. Sums in fp32 depend on their order, so on the number of processes, and Adam
enlarges the difference where a gradient is small.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
