"""The precision and the kernels of a training, chosen by a trial of training steps before the first update."""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.batching import Batch, Position, Specials, training_batches
from nmt.data.dataset import PreparedData
from nmt.device import FORMATS, format_of, name_of, out_of_memory, release_freed_memory, timed
from nmt.messages import Caution, Say, progress_bar
from nmt.model import Seq2Seq
from nmt.training.gradients import filled_up, gradients_on
from nmt.training.objective import objective_of
from nmt.training.world import FP32, Machine

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
        self.model, self.specials, self.corpus = model, Specials.of(prepared.tokenizers), prepared.train
        self.training = config.training.model_copy(update={"scheduled_sampling": None})
        self.objective = partial(objective_of, config.model.attention, self.training)

    @cached_property
    def batch(self) -> Batch:
        """The first one of training, filled up as for a CUDA graph, so that all draw the same noise. It takes time to
        plan, and many runs need no trial."""
        size = self.training.batch_tokens
        _, first = next(training_batches(self.corpus, self.specials, size, seed=1, position=Position()))
        return filled_up(first, self.specials)

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
        return {name: each.detach() for name, each in values.items()}, seconds

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
    exact = {name: value.double() for name, value in exact.items()}
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
        fp32, bf16 = (trial.step(replace(machine, precision=precision))[1] for precision in (FP32, BF16))
        release_freed_memory()  # training does not fit into the gaps that both networks leave
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
