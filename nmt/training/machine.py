"""The machine that a run trains on: its device, threads and precision, and a trial of the fast kernels on a GPU."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmt.config.schema import AnyAttention, Kernels, Training
from nmt.data.batching import Batch, Specials, collate
from nmt.data.dataset import PreparedData
from nmt.device import (
    MARGIN,
    format_of,
    keep_freed_memory,
    name_of,
    out_of_memory,
    product_rate,
    resolve_device,
    resolve_precision,
)
from nmt.messages import Caution, Say, step
from nmt.model import Seq2Seq
from nmt.model.dropout import Dropout
from nmt.training.gradients import SENTENCES, gradients_on
from nmt.training.objective import objective_of
from nmt.training.world import ONE_PROCESS, World

FP32, BF16 = torch.float32, torch.bfloat16


@dataclass(frozen=True)
class Machine:
    """Where and how a run computes."""

    device: torch.device
    precision: torch.dtype = FP32
    """The type of matrix products."""
    kernels: Kernels = "auto"
    world: World = ONE_PROCESS


def set_up(name: str, threads: int | None) -> torch.device:
    """Set up the process for training, and return its device."""
    device = resolve_device(name)
    if device.type == "cpu":
        keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    return device


def settled_precision(name: str, device: torch.device, world: World, say: Say, manifest: Mapping[str, Any]) -> str:
    """Replace ``auto`` by bf16 or fp32, the same in all processes.

    A GPU that multiplies bf16 matrices uses it. A processor that does so uses it if its products of large matrices are
    clearly faster than in fp32, which takes half a second to measure. A run that goes on keeps the precision that its
    ``manifest`` has for this device: another measurement might end otherwise. A new run has an empty one.
    """
    if name != "auto":
        return name
    chosen, measured = format_of(resolve_precision(name, device)), ""
    if manifest and manifest.get("device") == name_of(device):
        chosen = manifest.get("precision", chosen)
    elif chosen == "bf16" and device.type == "cpu":
        fp32, bf16 = (product_rate(device, precision) / 1e9 for precision in (FP32, BF16))
        chosen = "bf16" if bf16 > MARGIN * fp32 else "fp32"
        measured = f"by measurement: matrix products at {fp32:,.0f} GFLOP/s in fp32, {bf16:,.0f} in bf16"
    agreed = "fp32" if "fp32" in world.gather(chosen) else "bf16"
    if measured:
        say(f"precision: {agreed}, {measured}{'' if agreed == chosen else '; another process is faster in fp32'}")
    return agreed


# --- a trial of the fast kernels --------------------------------------------------------------------------------------

TRIED = ("cuda",)
"""Types of devices with a trial; the kernels of CPUs are tested wherever the tests run."""
TOLERANCES = {torch.float32: (1e-4, 1e-3), torch.bfloat16: (0.02, 0.5)}
"""Largest relative errors of the loss and of the gradient of a parameter; those of correct kernels in bf16 reach 0.25
in tiny networks."""
SMALL = 1e-3
"""The share of the norm of all gradients that the error of a smaller gradient is measured against."""

Computed = tuple[float, dict[str, Tensor]]
"""The negative log-likelihood, and gradients by name of the parameter."""


def trusted(
    machine: Machine, model: Seq2Seq, attention: AnyAttention, training: Training, prepared: PreparedData, say: Say
) -> Machine:
    """Choose the plain kernels, with a warning, if the fast ones fail on the device of any process.

    A lack of memory is no failure: the plain kernels need more than the fast ones, and training halves its batches. No
    random number of this process is drawn.
    """
    device, problem = machine.device, None
    if machine.kernels == "auto" and device.type in TRIED:
        with (
            step("trying the fast kernels", None, "batches"),
            torch.random.fork_rng([device] if device.type == "cuda" else []),
        ):
            try:
                problem = disagreement(machine, model, attention, training, prepared)
            except (RuntimeError, MemoryError) as error:
                if out_of_memory(error):
                    say(Caution("warning: kernels: out of memory in the trial of the fast ones; they are used untried"))
                else:  # as Triton reports it, over several lines
                    problem = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    problems = [each for each in machine.world.gather(problem, patiently=True) if each]
    if not problems:
        return machine
    say(
        Caution(
            f"warning: kernels: a batch by the fast ones is not that by the plain ones ({'; '.join(problems)}); "
            "training takes the plain ones, which are slower; with kernels: plain translation does, too"
        )
    )
    return replace(machine, kernels="plain")


def disagreement(
    machine: Machine, model: Seq2Seq, attention: AnyAttention, training: Training, prepared: PreparedData
) -> str | None:
    """Compute the loss and all gradients of one batch by both paths, in fp32, which shows small mistakes, and in the
    precision of training; return what differs most from the plain path in fp32, or None if it is only rounding."""
    model, specials = _without_zeros(model), Specials.of(prepared.tokenizers)
    # scheduled sampling chooses words by the network's own outputs, of which rounding may change one
    training = training.model_copy(update={"scheduled_sampling": None})
    batches = _batches(prepared, specials, training.batch_tokens)

    def computed(precision: torch.dtype, kernels: Kernels) -> Computed:
        copy, likelihood = deepcopy(model).to(machine.device), torch.zeros(())
        objective = objective_of(attention, training, copy, specials)
        gradients = gradients_on(copy, objective, machine.device, precision, specials, kernels)
        for batch in batches:
            gradients.reset()
            torch.manual_seed(1)  # the same noise on both paths
            likelihood = gradients(gradients.prepared(batch), batch.target_tokens)
        return likelihood.item(), {
            name: each.grad.double() for name, each in copy.named_parameters() if each.grad is not None
        }

    exact = computed(FP32, "plain")
    for precision in dict.fromkeys((FP32, machine.precision)):
        if (problem := judge(exact, computed(precision, "auto"), precision)) is not None:
            return problem
    return None


def _without_zeros(model: Seq2Seq) -> Seq2Seq:
    """A copy without dropout, and with noise on its parameters: a zero, such as the first bias, would hide mistakes."""
    model = deepcopy(model).train()
    with torch.no_grad():
        for parameter in model.parameters():
            bound = 1 / max(parameter.shape[-1:], default=1) ** 0.5
            parameter.add_(torch.empty_like(parameter).uniform_(-bound, bound))
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase):
            module.dropout = 0.0
    return model


def _batches(prepared: PreparedData, specials: Specials, batch_tokens: int) -> Sequence[Batch]:
    """A batch of pairs of all lengths, the longest among them, so that there is padding; before it, twice another one
    of the same shape: the first is computed eagerly, and a CUDA graph is recorded with the second."""
    pairs = prepared.train
    longest = np.maximum(pairs.source_lengths, pairs.target_lengths) + 1
    order = np.argsort(longest, kind="stable")
    count = min(len(order), SENTENCES, max(2, batch_tokens // int(longest.max())))
    rows = order[np.linspace(len(order) - 1, 0, count).round().astype(np.int64)]
    batch = collate(*pairs.rows(rows), specials, pairs.links(rows))
    other = batch.map(lambda tensor: tensor[:1].expand_as(tensor).contiguous())
    return other, other, batch


def judge(exact: Computed, found: Computed, precision: torch.dtype) -> str | None:
    """Return the first value whose error is beyond its tolerance; None if all are close."""
    of_loss, of_gradient = TOLERANCES[precision]
    errors = [("the loss", abs(found[0] - exact[0]) / abs(exact[0]), of_loss)]
    smallest = SMALL * float(torch.stack([gradient.norm() for gradient in exact[1].values()]).norm())
    for name, gradient in exact[1].items():
        difference = gradient - found[1].get(name, torch.zeros_like(gradient))
        error = float(difference.norm()) / max(float(gradient.norm()), smallest)
        errors.append((f"the gradient of {name}", error, of_gradient))
    for name, error, tolerance in errors:
        if not error <= tolerance:  # nor NaN
            return f"in {format_of(precision)} {name} has a relative error of {error:.2g}, more than {tolerance:g}"
    return None
