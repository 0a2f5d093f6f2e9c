"""The precision and the kernels of a training, chosen by a trial of training steps before the first update."""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch

from nmt.config import Config
from nmt.data.batching import Batch, Position, Specials, training_batches
from nmt.data.dataset import PreparedData
from nmt.device import FORMATS, format_of, name_of, out_of_memory, release_freed_memory, timed
from nmt.messages import Caution, Say, progress_bar
from nmt.model import Seq2Seq
from nmt.training.gradients import gradients_on
from nmt.training.objective import objective_of
from nmt.training.world import FP32, Machine

BF16 = torch.bfloat16
MARGIN = 1.1
"""How many times as fast as in fp32 a step in bf16 must be: brief measurements are off by some per cent."""
TRIED = ("cuda",)
"""Types of devices whose fast kernels are tried; those of CPUs are tested wherever the tests run."""


class Trial:
    """Training steps with copies of the untrained network, without dropout, on the largest batch of an epoch."""

    def __init__(self, model: Seq2Seq, config: Config, prepared: PreparedData) -> None:
        self.model, self.specials, self.corpus = model, Specials.of(prepared.tokenizers), prepared.train
        self.training, self.attention = config.training, config.model.attention

    @cached_property
    def batch(self) -> Batch:
        """The largest one of an epoch. It takes time to plan, and many runs need no trial."""
        size = self.training.batch_tokens
        return next(training_batches(self.corpus, self.specials, size, seed=1, position=Position()))[1]

    def step(self, machine: Machine) -> float:
        """Return the seconds that the gradients of a batch take. No random number of this process is drawn."""
        device, seconds = machine.device, math.inf
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            model = deepcopy(self.model).eval().to(device)
            objective = objective_of(self.attention, self.training, model, self.specials)
            compute = gradients_on(model, objective, self.specials, machine)
            batch = compute.prepared(self.batch)
            for _ in range(3):  # the first is computed eagerly, a CUDA graph is recorded with the second
                compute.reset()
                seconds = min(seconds, timed(partial(compute, batch, batch.target_tokens), device))
        return seconds


def choose_precision(name: str, machine: Machine, begun: Mapping[str, Any], trial: Trial, say: Say) -> Machine:
    """Choose the precision of this ``name``, the same in all processes.

    ``auto`` is bf16 on a GPU that multiplies bf16 matrices, and on a processor that does if a training step is clearly
    faster than in fp32. A run that continues keeps the precision with which it was ``begun``, by its manifest, on a
    device of the same name, because a new measurement could choose differently. A new run has an empty manifest.
    """
    measured = ""
    if name == "auto" and begun.get("device") == name_of(machine.device):
        machine = replace(machine, precision=FORMATS.get(begun.get("precision", ""), machine.precision))
    elif name == "auto" and machine.precision == BF16 and machine.device.type == "cpu":
        fp32, bf16 = (trial.step(replace(machine, precision=precision)) for precision in (FP32, BF16))
        release_freed_memory()  # training does not fit into the gaps that both networks leave
        machine = replace(machine, precision=BF16 if fp32 > MARGIN * bf16 else FP32)
        measured = f", by measurement: the gradients of a batch take {fp32:.3f} s in fp32, {bf16:.3f} s in bf16"
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
                trial.step(machine)
            except Exception as error:  # Triton's are no RuntimeErrors
                if out_of_memory(error):
                    say(Caution("warning: kernels: out of memory in the trial of the fast ones; they are used untried"))
                else:  # as Triton reports it, over several lines
                    problem = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    problems = [each for each in machine.world.gather(problem, patiently=True) if each]
    if not problems:
        return machine
    result = "training uses the plain ones, which are slower; set kernels: plain so that translation uses them, too"
    say(Caution(f"warning: kernels: the fast ones fail ({'; '.join(problems)}); {result}"))
    return replace(machine, kernels="plain")
