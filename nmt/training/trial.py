"""A trial of the fast kernels on a GPU: one batch by them and by the plain path, before training begins.

Both compute the loss and the gradient of every parameter, in fp32, which shows small mistakes, and in the precision of
training. The plain path in fp32 is the yardstick.
"""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.config.schema import Kernels
from nmt.data.batching import Batch, Specials, collate
from nmt.data.dataset import PreparedData
from nmt.device import format_of, out_of_memory, resolve_precision
from nmt.messages import Caution, Say, step
from nmt.model import Seq2Seq
from nmt.model.dropout import Dropout
from nmt.training.gradients import SENTENCES, gradients_on
from nmt.training.objective import objective_of
from nmt.training.world import World

TRIED = ("cuda",)
"""Types of devices with a trial; the kernels of CPUs are tested wherever the tests run."""
TOLERANCES = {torch.float32: (1e-4, 1e-3), torch.bfloat16: (0.02, 0.5)}
"""Largest relative errors of the loss and of the gradient of a parameter; those of correct kernels in bf16 reach 0.25
in tiny networks."""
SMALL = 1e-3
"""The share of the norm of all gradients that the error of a smaller gradient is measured against."""

Computed = tuple[float, dict[str, Tensor]]
"""The negative log-likelihood, and gradients by name of the parameter."""


def trusted_kernels(
    config: Config, model: Seq2Seq, prepared: PreparedData, device: torch.device, world: World, say: Say
) -> Kernels:
    """Choose the plain kernels, with a warning, if the fast ones fail on the device of any process.

    A lack of memory is no failure: the plain kernels need more than the fast ones, and training halves its batches. No
    random number of this process is drawn.
    """
    problem = None
    if config.kernels == "auto" and device.type in TRIED:
        with (
            step("trying the fast kernels", None, "batches"),
            torch.random.fork_rng([device] if device.type == "cuda" else []),
        ):
            try:
                problem = disagreement(config, model, prepared, device)
            except (RuntimeError, MemoryError) as error:
                if out_of_memory(error):
                    say(Caution("warning: kernels: out of memory in the trial of the fast ones; they are used untried"))
                else:  # as Triton reports it, over several lines
                    problem = next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
    problems = [each for each in world.gather(problem, patiently=True) if each]
    if not problems:
        return config.kernels
    say(
        Caution(
            f"warning: kernels: a batch by the fast ones is not that by the plain ones ({'; '.join(problems)}); "
            "training takes the plain ones, which are slower; with kernels: plain translation does, too"
        )
    )
    return "plain"


def disagreement(config: Config, model: Seq2Seq, prepared: PreparedData, device: torch.device) -> str | None:
    """Compute one batch by both paths; return what differs most, or None if nothing differs by more than rounding."""
    model, specials = _without_zeros(model), Specials.of(prepared.tokenizers)
    # scheduled sampling chooses words by the network's own outputs, of which rounding may change one
    config = config.model_copy(update={"training": config.training.model_copy(update={"scheduled_sampling": None})})
    batches = _batches(prepared, specials, config.training.batch_tokens)

    def computed(precision: torch.dtype, kernels: Kernels) -> Computed:
        copy, likelihood = deepcopy(model).to(device), torch.zeros(())
        objective = objective_of(config, copy, specials)
        gradients = gradients_on(copy, objective, device, precision, specials, kernels)
        for batch in batches:
            gradients.reset()
            torch.manual_seed(config.seed)
            likelihood = gradients(gradients.prepared(batch), batch.target_tokens)
        return likelihood.item(), {
            name: each.grad.double() for name, each in copy.named_parameters() if each.grad is not None
        }

    exact = computed(torch.float32, "plain")
    for precision in dict.fromkeys((torch.float32, resolve_precision(config.precision, device))):
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
