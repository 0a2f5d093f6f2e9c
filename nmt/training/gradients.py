"""The gradients of a batch, computed eagerly or on a GPU by replaying a recorded CUDA graph; the precision and the
kernels that compute them, chosen by a trial.

A small network keeps a GPU waiting for the CPU to start its kernels, thousands a batch. A CUDA graph starts them all at
once, but repeats exactly what was recorded: the same shapes, in the same memory. So batches are filled up to few
shapes, and each shape that comes a second time is recorded.
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nmt import fast
from nmt.config import Config
from nmt.data.batching import ROWS, Batch, Position, Specials, training_batches
from nmt.data.dataset import PreparedData
from nmt.device import FORMATS, autocast, format_of, name_of, out_of_memory, release_freed_memory, timed
from nmt.messages import Caution, Say, progress_bar
from nmt.model import Seq2Seq
from nmt.training.objective import Loss, Objective, objective_of
from nmt.training.world import FP32, Machine

SENTENCES = ROWS
"""Batches are filled up with empty sentences to a multiple of this number."""
POSITIONS = 8
"""Their sentences are filled up to a multiple of this number of pieces."""
MOST_GRAPHS = 128
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

    def loss(self, batch: Batch, update: int = 0) -> Loss:
        """Compute the objective of a batch that is on the device."""
        with autocast(self.device, self.precision):
            return self.objective(self.network, batch, update)

    def __call__(self, batch: Batch, tokens: int, update: int = 0) -> Tensor:
        """Divide them by ``tokens``, the real target tokens of the whole update; -> negative log-likelihood, a sum.

        ``update``: the number of updates made before.
        """
        loss = self.loss(batch.to(self.device), update)
        (loss.objective / tokens).backward()
        return loss.likelihood

    def reset(self) -> None:
        """Zero the gradients."""
        self.model.zero_grad(set_to_none=True)
        self._resets += 1
        if self.device.type == "cpu" and self._resets % GIVE_BACK == 0:
            release_freed_memory()

    def prepared(self, batch: Batch) -> Batch:
        """Prepare a batch ahead of time, in another thread."""
        return batch.pinned() if self.device.type == "cuda" else batch


@dataclass(frozen=True)
class _Recording:
    """One shape: where its batch is put, and what comes out where."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    tokens: Tensor
    likelihood: Tensor


class GraphedGradients:
    """The same gradients by CUDA graphs, which share their memory; the gradients are outside that memory."""

    def __init__(self, eager: EagerGradients, specials: Specials) -> None:
        self.eager = eager
        self.specials = specials
        self.recordings: dict[tuple[int, int, int], _Recording] = {}
        self.seen: set[tuple[int, int, int]] = set()
        self.pool = torch.cuda.graph_pool_handle()
        for parameter in eager.model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def __call__(self, batch: Batch, tokens: int, update: int = 0) -> Tensor:
        """See ``EagerGradients``; what is recorded is the same at every update. Out of memory, forget all recordings:
        the next batches need the memory that these hold."""
        try:
            return self._computed(batch, tokens)
        except (RuntimeError, MemoryError) as error:
            if out_of_memory(error):
                self.recordings.clear()
                self.pool = torch.cuda.graph_pool_handle()  # the old one may be freed only in part
            raise

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
        return recording.likelihood.clone()

    def reset(self) -> None:
        """Zero the gradients; the memory stays, for the recordings add to it."""
        self.eager.model.zero_grad(set_to_none=False)

    def prepared(self, batch: Batch) -> Batch:
        """See ``EagerGradients``; the batch is filled up first."""
        return filled_up(batch, self.specials).pinned()

    def _record(self, batch: Batch) -> _Recording:
        """Record a shape that was computed before, so that every kernel is compiled."""
        eager, device = self.eager, self.eager.device
        place = _placed(batch, device)
        tokens = torch.ones((), device=device)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        with (
            torch.cuda.stream(torch.cuda.current_stream(device)),  # returns to it even where ending the capture fails
            torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"),  # another thread pins batches
        ):
            loss = eager.loss(place)
            parameters = list(eager.model.parameters())
            found = torch.autograd.grad(loss.objective / tokens, parameters, allow_unused=True)
            for parameter, gradient in zip(parameters, found, strict=True):
                if parameter.grad is not None and gradient is not None:
                    parameter.grad += gradient
        return _Recording(graph, place, tokens, loss.likelihood)


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
    recorded = objective.recordable and fast.records_graphs(eager.network, machine.device)
    return GraphedGradients(eager, specials) if recorded else eager


# --- the choice of precision and kernels by a trial of training steps -------------------------------------------------

BF16 = torch.bfloat16
MARGIN = 1.1
"""How many times as fast as in fp32 a step in bf16 must be: brief measurements are off by some per cent."""
TRIED = ("cuda",)
"""Types of devices whose fast kernels are tried; those of CPUs are tested wherever the tests run."""
TOLERANCES = {FP32: 1e-3, BF16: 0.5}
"""Largest relative errors of the loss and of the gradient of a parameter; those of correct kernels in bf16 reach 0.25
in tiny networks."""
SMALL = 1e-4
"""The share of the norm of all values that the error of a smaller one is measured against."""

Values = dict[str, Tensor]
"""The loss per token, and the gradient of each parameter."""


class Trial:
    """Training steps with copies of the untrained network, on the first batch of training.

    The copies have no dropout, and noise on their parameters: a zero, such as the first bias, would hide mistakes.
    Scheduled sampling is left out: it chooses words by the network's own outputs, of which rounding may change one.
    """

    def __init__(self, model: Seq2Seq, config: Config, prepared: PreparedData) -> None:
        self.model, self.specials = model, Specials.of(prepared.tokenizers)
        training = config.training.model_copy(update={"scheduled_sampling": None})
        batches = training_batches(prepared.train, self.specials, training.batch_tokens, seed=1, position=Position())
        _, self.batch = next(batches)
        self.objective = partial(objective_of, config.model.attention, training)

    def step(self, machine: Machine) -> tuple[Values, float]:
        """Make a step; return its values and the seconds that it takes. No random number of this process is drawn."""
        device, tokens = machine.device, self.batch.target_tokens
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(1)
            model = deepcopy(self.model).eval().to(device)
            with torch.no_grad():
                for parameter in model.parameters():
                    bound = 1 / max(parameter.shape[-1:], default=1) ** 0.5
                    parameter.add_(torch.empty(parameter.shape).uniform_(-bound, bound).to(device))
            compute = gradients_on(model, self.objective(model, self.specials), self.specials, machine)
            found, seconds = list[Tensor](), math.inf

            def one_step(batch: Batch) -> None:
                found.append(compute(batch, tokens))

            # the first is computed eagerly, a CUDA graph is recorded with the second and replayed with the last
            other = self.batch.map(lambda tensor: tensor[:1].expand_as(tensor).contiguous())
            for batch in map(compute.prepared, (other, other, self.batch)):
                compute.reset()
                torch.manual_seed(1)  # the same noise for all machines
                seconds = min(seconds, timed(partial(one_step, batch), device))
        values = {"the loss": found[-1] / tokens}
        values |= {f"the gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
        return {name: each.detach().double() for name, each in values.items()}, seconds

    def disagreement(self, machine: Machine) -> str | None:
        """Compare the fast kernels, in fp32, which shows small mistakes, and in the precision of training, with the
        plain ones in fp32; return what differs by more than rounding."""
        exact, _ = self.step(replace(machine, precision=FP32, kernels="plain"))
        for precision in dict.fromkeys((FP32, machine.precision)):
            found, _ = self.step(replace(machine, precision=precision))
            if (problem := judge(exact, found, precision)) is not None:
                return problem
        return None


def judge(exact: Values, found: Values, precision: torch.dtype) -> str | None:
    """Return the first value whose error is beyond the tolerance; None if all are close."""
    whole = torch.stack([value.norm() for value in exact.values()]).norm()
    for name, value in exact.items():
        error = float((found.get(name, 0.0) - value).norm() / torch.maximum(value.norm(), SMALL * whole))
        if not error <= TOLERANCES[precision]:  # nor NaN
            most = f"more than {TOLERANCES[precision]:g}"
            return f"in {format_of(precision)} {name} has a relative error of {error:.2g}, {most}"
    return None


def choose_precision(name: str, machine: Machine, begun: Mapping[str, Any], trial: Trial, say: Say) -> Machine:
    """Choose the precision of this ``name``, the same in all processes.

    ``auto`` is bf16 on a GPU that multiplies bf16 matrices, and on a processor that does if a training step is clearly
    faster than in fp32. A run that continues keeps the precision with which it was ``begun``, by its manifest, on this
    device: another measurement might end otherwise. A new run has an empty manifest.
    """
    measured = ""
    if name == "auto" and begun.get("device") == name_of(machine.device):
        machine = replace(machine, precision=FORMATS.get(begun.get("precision", ""), machine.precision))
    elif name == "auto" and machine.precision == BF16 and machine.device.type == "cpu":
        (_, fp32), (_, bf16) = (trial.step(replace(machine, precision=precision)) for precision in (FP32, BF16))
        machine = replace(machine, precision=BF16 if fp32 > MARGIN * bf16 else FP32)
        measured = f", by measurement: a training step takes {fp32:.3f} s in fp32, {bf16:.3f} s in bf16"
    if name == "auto" and machine.world.any(machine.precision == FP32):
        machine = replace(machine, precision=FP32)
    if measured:
        say(f"precision: {format_of(machine.precision)}{measured}")
    return machine


def choose_kernels(machine: Machine, trial: Trial, say: Say) -> Machine:
    """Choose the plain kernels, with a warning, if the fast ones fail on the device of any process.

    A lack of memory is no failure: the plain kernels need more than the fast ones, and training halves its batches.
    """
    problem = None
    if machine.kernels == "auto" and machine.device.type in TRIED:
        with progress_bar("trying the fast kernels", None, "batches"):
            try:
                problem = trial.disagreement(machine)
            except (RuntimeError, MemoryError) as error:
                if out_of_memory(error):
                    say(Caution("warning: kernels: out of memory in the trial of the fast ones; they are used untried"))
                else:  # as Triton reports it, over several lines
                    problem = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    problems = [each for each in machine.world.gather(problem, patiently=True) if each]
    if not problems:
        return machine
    problem = f"a batch by the fast ones is not that by the plain ones ({'; '.join(problems)})"
    result = "training takes the plain ones, which are slower; with kernels: plain translation does, too"
    say(Caution(f"warning: kernels: {problem}; {result}"))
    return replace(machine, kernels="plain")
