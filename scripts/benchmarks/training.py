"""Measure training: steps of the reference shape."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.utils import clip_grad_norm_

from benchmarks.cost import cost
from benchmarks.measuring import large_product_rate, seconds
from benchmarks.systems import VOCABULARY, reference
from nmt.config import schema
from nmt.config.schema import Kernels
from nmt.data.batching import Batch, Specials
from nmt.device import keep_freed_memory, resolve_device, resolve_precision
from nmt.model import build_model
from nmt.training.gradients import Accumulation, gradients_on
from nmt.training.objective import teacher_forcing
from nmt.training.optimizer import build_optimizer
from nmt.training.world import Machine

SPECIALS = Specials(source_pad=0, source_eos=2, target_pad=0, target_bos=1, target_eos=2)


@dataclass(frozen=True)
class Case:
    """The setting that one process measures."""

    variant: str
    kernels: Kernels
    precision: str
    device: str
    shape: tuple[int, int, int]
    """Number of sentences, of source pieces and of target pieces of each."""
    repeats: int


@dataclass(frozen=True)
class TrainingRow:
    """The speed of training in one setting."""

    variant: str
    kernels: Kernels
    precision: str
    device: str
    shape: str
    target_tokens_per_second: float
    milliseconds_per_step: float
    flops_per_second: float
    product_flops_per_second: float
    share: float

    def cells(self) -> dict[str, str]:
        """Format a row of the table."""
        return {
            "variant": self.variant,
            "kernels": self.kernels,
            "precision": self.precision,
            "shape": self.shape,
            "target tokens/s": f"{self.target_tokens_per_second:,.0f}",
            "ms a step": f"{self.milliseconds_per_step:,.1f}",
            "GFLOP/s": f"{self.flops_per_second / 1e9:,.0f}",
            "product GFLOP/s": f"{self.product_flops_per_second / 1e9:,.0f}",
            "share": f"{self.share:.2f}",
        }


def reference_batch(sentences: int, source: int, target: int) -> Batch:
    """Make a batch of random words, with sentences of equal lengths."""
    sources, targets = (torch.randint(VOCABULARY, (sentences, length)) for length in (source, target + 1))
    mask = torch.ones(sentences, target, dtype=torch.bool)
    lengths = torch.full((sentences,), source)
    return Batch(sources, lengths, targets[:, :-1], targets[:, 1:], mask, sentences * target)


def reference_step(case: Case) -> Callable[[], None]:
    """Return a training step of the reference shape: forward, backward, clipping, Adam."""
    device, precision = resolve_device(case.device), resolve_precision(case.precision, resolve_device(case.device))
    torch.manual_seed(0)
    config = reference(case.variant)
    model = build_model(config, VOCABULARY, VOCABULARY).to(device).train()
    objective = teacher_forcing(config.attention, model, 0.0)
    optimizer = build_optimizer(model.parameters(), schema.Adam(type="adam"))
    batch = reference_batch(*case.shape)
    machine = Machine(device, precision, case.kernels)
    total = Accumulation(model, machine)
    gradients = gradients_on(model, objective, SPECIALS, machine)
    prepared = gradients.prepared(batch)

    def step() -> None:
        total.begin()
        gradients(prepared, batch.target_tokens)
        total.add()
        total.finish()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        gradients.reset()

    return step


def measure(case: Case) -> TrainingRow:
    """Measure the step of the reference shape: its time, and its share of the machine's product rate."""
    device, precision = resolve_device(case.device), resolve_precision(case.precision, resolve_device(case.device))
    sentences, source_length, target_length = case.shape
    step = reference_step(case)
    if device.type == "cpu":
        keep_freed_memory()
    else:
        step()  # computed; the two calls of the warm-up are recorded and replayed
    before = large_product_rate(device, precision)
    taken = seconds(step, device, case.repeats)
    rate = statistics.mean((before, large_product_rate(device, precision)))
    tokens = sentences * target_length
    flops = cost(reference(case.variant), VOCABULARY).training_flops(
        [source_length] * sentences, [target_length] * sentences
    )
    return TrainingRow(
        variant=case.variant,
        kernels=case.kernels,
        precision=case.precision,
        device=str(device),
        shape=f"{sentences} x {source_length} -> {target_length}",
        target_tokens_per_second=tokens / taken,
        milliseconds_per_step=1e3 * taken,
        flops_per_second=flops / taken,
        product_flops_per_second=rate,
        share=flops / taken / rate,
    )
