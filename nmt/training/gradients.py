"""The gradients of a batch, computed eagerly or on a GPU by replaying a recorded CUDA graph; their sum over an update.

A small network keeps a GPU waiting for the CPU to start its kernels, thousands a batch. A CUDA graph starts them all at
once, but repeats exactly what was recorded: the same shapes, in the same memory. So batches are filled up to few
shapes, and each shape that comes a second time is recorded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt import fast
from nmt.data.batching import ROWS, Batch, Specials
from nmt.device import autocast, out_of_memory, release_freed_memory
from nmt.errors import NmtError
from nmt.messages import Caution, Say
from nmt.model import Seq2Seq
from nmt.training.objective import Loss, Objective
from nmt.training.progress import Progress
from nmt.training.world import Machine

SENTENCES = ROWS
"""Batches are filled up with empty sentences to a multiple of this number."""
POSITIONS = 8
"""Their sentences are filled up to a multiple of this number of pieces."""
MOST_GRAPHS = 512
"""The largest number of recorded shapes; others are computed eagerly."""
GIVE_BACK = 50
"""Updates after which freed memory goes back to the system, on a CPU: batches of all shapes leave gaps, which would add
up. More often costs time, because the next updates ask for much of it again."""


class EagerGradients:
    """Adds the gradients of a batch to the parameters' own, operation by operation."""

    def __init__(self, model: Seq2Seq, objective: Objective, machine: Machine) -> None:
        self.model = model
        self.network = fast.training(model, machine.kernels, attention_gradients=objective.attention_gradients)
        self.objective = objective
        self.device = machine.device
        self.precision = machine.precision
        self._resets = 0

    def loss(self, batch: Batch, updates_before: int = 0) -> Loss:
        """Compute the objective of a batch that is on the device."""
        with autocast(self.device, self.precision):
            return self.objective(self.network, batch, updates_before)

    def __call__(self, batch: Batch, tokens: int, updates_before: int = 0) -> Tensor:
        """Add gradients, divided by the real target ``tokens`` of an update; -> negative log-likelihood, summed."""
        loss = self.loss(batch.to(self.device), updates_before)
        (loss.objective / tokens).backward()
        return loss.nll

    def reset(self) -> None:
        """Zero the gradients."""
        self.model.zero_grad(set_to_none=True)
        self._resets += 1
        if self.device.type == "cpu" and self._resets % GIVE_BACK == 0:
            release_freed_memory()

    def prepared(self, batch: Batch) -> Batch:
        """Prepare a batch ahead of time, in another thread: pin its memory, so that a GPU copies it asynchronously."""
        return batch.map(Tensor.pin_memory) if self.device.type == "cuda" else batch


@dataclass(frozen=True)
class _Recording:
    """One shape: where its batch is put, and what comes out where."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    tokens: Tensor
    nll: Tensor


class GraphedGradients:
    """The same gradients by CUDA graphs, which share their memory; the gradients are outside that memory."""

    def __init__(self, eager: EagerGradients, specials: Specials) -> None:
        self.eager = eager
        self.specials = specials
        self.recordings: dict[tuple[int, int, int], _Recording] = {}
        self.seen: set[tuple[int, int, int]] = set()
        self.pool = torch.cuda.graph_pool_handle()
        # All computations use it, eager ones too: autograd's nodes for the parameters belong to the stream that made
        # them, may outlive their batch, and a recording may not wait for another stream.
        self.stream = torch.cuda.Stream(eager.device)
        for parameter in eager.model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def __call__(self, batch: Batch, tokens: int, updates_before: int = 0) -> Tensor:
        """See ``EagerGradients``; what is recorded is the same at every update. Out of memory, forget all recordings:
        the next batches need the memory that these hold."""
        outside = torch.cuda.current_stream(self.eager.device)
        self.stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self.stream):
                return self._computed(batch, tokens)
        except (RuntimeError, MemoryError) as error:
            if out_of_memory(error):
                self.recordings.clear()
                self.pool = torch.cuda.graph_pool_handle()  # the old one may be freed only in part
            raise
        finally:
            outside.wait_stream(self.stream)

    def _computed(self, batch: Batch, tokens: int) -> Tensor:
        """Replay the recording of the batch's shape, record it, or compute it eagerly."""
        if len(batch.source) < SENTENCES:  # halved after running out of memory; do not pad it again
            return self.eager(_placed(batch, self.eager.device), tokens)
        batch = filled_up(batch, self.specials)
        shape = (*batch.source.shape, batch.target_input.size(1))
        if shape not in self.recordings:
            if shape not in self.seen or len(self.recordings) == MOST_GRAPHS:
                self.seen.add(shape)
                return self.eager(_placed(batch, self.eager.device), tokens)
            self.recordings[shape] = self._record(batch)
        recording = self.recordings[shape]
        for field in fields(Batch):
            value = getattr(batch, field.name)
            if isinstance(value, Tensor):
                getattr(recording.batch, field.name).copy_(value, non_blocking=True)
        recording.tokens.fill_(tokens)
        recording.graph.replay()
        return recording.nll.clone()

    def reset(self) -> None:
        """Zero the gradients; the memory stays, for the recordings add to it."""
        self.eager.model.zero_grad(set_to_none=False)

    def prepared(self, batch: Batch) -> Batch:
        """See ``EagerGradients``; the batch is filled up first."""
        return self.eager.prepared(filled_up(batch, self.specials))

    def _record(self, batch: Batch) -> _Recording:
        """Record a shape that was computed before, so that every kernel is compiled."""
        eager, device = self.eager, self.eager.device
        place = _placed(batch, device)
        tokens = torch.ones((), device=device)
        graph = torch.cuda.CUDAGraph()
        # another thread pins batches meanwhile
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            loss = eager.loss(place)
            parameters = list(eager.model.parameters())
            found = torch.autograd.grad(loss.objective / tokens, parameters, allow_unused=True)
            for parameter, gradient in zip(parameters, found, strict=True):
                if parameter.grad is not None and gradient is not None:
                    parameter.grad += gradient
        return _Recording(graph, place, tokens, loss.nll)


def _placed(batch: Batch, device: torch.device) -> Batch:
    """A copy on the device, its lengths too."""
    return batch.map(lambda tensor: tensor.to(device, non_blocking=True, copy=True))


def filled_up(batch: Batch, specials: Specials) -> Batch:
    """A batch with padding up to the next multiples of ``SENTENCES`` and ``POSITIONS``: the same loss and gradients."""
    sentences = -len(batch.source) % SENTENCES
    source, target = (-rows.size(1) % POSITIONS for rows in (batch.source, batch.target_input))
    if not sentences and not source and not target:
        return batch

    def pad(rows: Tensor, positions: int, fill: int | bool) -> Tensor:
        return functional.pad(rows, (0, positions, 0, sentences), value=fill)

    return Batch(
        pad(batch.source, source, specials.source_pad),
        functional.pad(batch.source_lengths, (0, sentences), value=1),
        pad(batch.target_input, target, specials.target_pad),
        pad(batch.target_output, target, specials.target_pad),
        pad(batch.target_mask, target, False),
        batch.target_tokens,
        None if batch.links is None else functional.pad(batch.links, (0, source, 0, target, 0, sentences)),
    )


Gradients = EagerGradients | GraphedGradients


def gradients_on(model: Seq2Seq, objective: Objective, specials: Specials, machine: Machine) -> Gradients:
    """Choose CUDA graphs where the objective, the kernels and the device allow them."""
    eager = EagerGradients(model, objective, machine)
    recorded = objective.capturable and eager.network.capturable and machine.device.type == "cuda"
    return GraphedGradients(eager, specials) if recorded else eager


class Accumulation:
    """Adds up what the batches of an update, in all processes, change in a model: gradients, and moving averages.

    Gradients in fp32 are summed in float64: sums in fp32 depend on their order, so on the number of processes, and Adam
    enlarges the difference where a gradient is small. Those of narrower types are summed in fp32, which the parameters
    of a single process do themselves; a single batch needs no sum.

    ``DistributedDataParallel`` wraps one forward pass and cannot repeat a batch that one process had no memory for.
    """

    def __init__(self, model: nn.Module, machine: Machine, batches: int = 1) -> None:
        self.parameters = list(model.parameters())
        self.averages = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        """The tensors that a batch changes beside gradients: the moving average of REINFORCE's rewards."""
        self.world = machine.world
        exact = machine.precision != torch.bfloat16
        self.total: Tensor | None = None
        """One parameter after another; allocated once, so that no update runs out of memory here."""
        if self.world.size > 1 or (batches > 1 and exact):
            size, device = sum(map(torch.numel, self.parameters)), self.parameters[0].device
            self.total = torch.zeros(size, dtype=torch.float64 if exact else torch.float32, device=device)
        self._before: list[Tensor] = []

    def forward_backward(
        self, gradients: Gradients, batches: Sequence[Batch], tokens: int, progress: Progress, say: Say
    ) -> tuple[Tensor, bool]:
        """Add up the gradients of the batches of all processes, divided by ``tokens``; while a process has too little
        memory for its own batches, begin again with their halves, in all processes.

        Halved batches have the same gradients but for dropout, which is sampled again. Returns the negative
        log-likelihood of all batches, and whether they were halved. Raises NmtError if one pair is too large.
        """
        halved = False
        self.begin()
        while True:
            nll, fits = torch.zeros((), dtype=torch.float64), True
            try:
                for batch in batches:
                    nll = nll + gradients(batch, tokens, progress.update)
                    self.add()
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                fits = False
            if not self.world.any(not fits):
                self.finish()
                return self.world.sum(nll), halved
            gradients.reset()
            self.undo()
            torch.cuda.empty_cache()
            largest = max(self.world.gather(max(len(batch.source) for batch in batches)))
            if largest == 1:
                remedy = "start again with a lower data.filter.max_pieces or a smaller model"
                raise NmtError(f"{progress.place}: out of memory with a single pair; {remedy}")
            batches, halved = [half for batch in batches for half in batch.halves()], True
            problem = f"{progress.place}: out of memory with {largest} pairs; retrying in halves"
            say(Caution(f"{problem} (a smaller training.batch_tokens avoids this)"))

    def begin(self) -> None:
        """Begin an update."""
        self._before = [average.clone() for average in self.averages]

    def add(self) -> None:
        """Move the gradients of a batch into the sum."""
        for parameter, part in self._parts():
            if parameter.grad is not None:
                part.add_(parameter.grad.flatten())
                parameter.grad.zero_()

    def undo(self) -> None:
        """Forget all batches since :meth:`begin`; the parameters' own gradients are left to ``Gradients.reset``."""
        if self.total is not None:
            self.total.zero_()
        for average, old in zip(self.averages, self._before, strict=True):
            average.copy_(old)

    def finish(self) -> None:
        """Write the sum over all processes into the parameters' gradients, and change averages by the mean change."""
        if self.world.size > 1:
            for average, old in zip(self.averages, self._before, strict=True):
                average.copy_(old + self.world.sum(average - old) / self.world.size)
        if self.total is not None:
            self.world.sum(self.total)
            for parameter, part in self._parts():
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(part.view_as(parameter))
            self.total.zero_()

    def _parts(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        if self.total is None:
            return iter(())
        return zip(self.parameters, self.total.split([each.numel() for each in self.parameters]), strict=True)
