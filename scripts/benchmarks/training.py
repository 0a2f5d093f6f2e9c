"""Measure training: steps of the reference shape, and updates of a configuration on its own corpus."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.nn.utils import clip_grad_norm_

from benchmarks.cost import cost
from benchmarks.measuring import large_product_rate, peak_memory, seconds
from benchmarks.systems import VOCABULARY, reference
from nmt.config import load_config, schema
from nmt.config.schema import Kernels
from nmt.data.batching import Batch, Position, Specials
from nmt.data.dataset import prepare
from nmt.device import format_of, keep_freed_memory, resolve_device, resolve_precision, synchronize
from nmt.model import build_model
from nmt.runs.directory import RunDirectory
from nmt.training.gradients import Accumulation, GraphedGradients, filled_up, gradients_on
from nmt.training.objective import teacher_forcing
from nmt.training.optimizer import build_optimizer
from nmt.training.reports import Log
from nmt.training.trainer import Trainer
from nmt.training.validation import Measures
from nmt.training.world import Machine

Groups = Iterator[tuple[list[Batch], Position]]
RUNS = 3
"""How often real training is repeated over the same batches; the median is reported."""
SPECIALS = Specials(source_pad=0, source_eos=2, target_pad=0, target_bos=1, target_eos=2)
WARM = 5
"""Updates of real training that are a warm-up."""
STRETCH, MOST_STRETCHES = 50, 20
"""On a GPU, the warm-up goes on in stretches of STRETCH updates until one records no new CUDA graph, at most
MOST_STRETCHES times."""


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
    """The speed and memory of training in one setting."""

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
    padding: float
    peak_memory_bytes: int | None
    """Peak of one step, beyond the model and its optimizer; None if it was not measured."""

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
            "padding": f"{self.padding:.1%}",
            "peak MB": "-" if self.peak_memory_bytes is None else f"{self.peak_memory_bytes / 2**20:,.0f}",
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

    for parameter in model.parameters():  # allocates Adam's moments before memory is measured
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    gradients.reset()
    return step


def measure(case: Case) -> TrainingRow:
    """Measure the step of the reference shape: its time, its memory, and its share of the machine's product rate."""
    device, precision = resolve_device(case.device), resolve_precision(case.precision, resolve_device(case.device))
    sentences, source_length, target_length = case.shape
    step = reference_step(case)
    memory: list[int | None] = []
    with peak_memory(device, memory):
        for _ in range(1 if device.type == "cpu" else 3):  # computed, recorded, replayed
            step()
    if device.type == "cpu":
        keep_freed_memory()
    before = large_product_rate(device, precision)
    taken = seconds(step, device, case.repeats)
    rate = statistics.mean((before, large_product_rate(device, precision)))
    tokens, cells = sentences * target_length, sentences * (source_length + target_length)
    if device.type == "cuda" and case.kernels == "auto":
        full = filled_up(reference_batch(*case.shape), SPECIALS)
        cells = full.source.numel() + full.target_mask.numel()
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
        padding=1 - (sentences * source_length + tokens) / cells,
        peak_memory_bytes=memory[0],
    )


@dataclass
class _Volume:
    """The volume of some updates of real training, and their time."""

    updates: int = 0
    seconds: float = 0.0
    sources: list[int] = field(default_factory=list)
    """Tokens of each source sentence."""
    targets: list[int] = field(default_factory=list)
    cells: int = 0

    def add(self, batch: Batch) -> None:
        """Add a batch."""
        for source, target in zip(batch.source_lengths.tolist(), batch.target_mask.sum(1).tolist(), strict=True):
            if target:  # empty sentences may fill up a batch
                self.sources.append(source)
                self.targets.append(target)
        self.cells += batch.source.numel() + batch.target_mask.numel()


def measure_config(path: str, overrides: Sequence[str], device_name: str | None, updates: int) -> TrainingRow:
    """Measure training with the corpus and batches of a configuration; with data loading, without validation.

    The same batches are repeated ``RUNS`` times; the row has the median.
    """
    config = load_config(Path(path), overrides)
    device = resolve_device(device_name or config.device)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(config.seed)
    prepared = prepare(config)
    model = build_model(config.model, *prepared.tokenizers.sizes).train()
    precision = resolve_precision(config.precision, device)
    machine = Machine(device, precision, config.kernels)
    with tempfile.TemporaryDirectory() as scratch:
        run = RunDirectory(scratch)
        trainer = Trainer(config, prepared, model, Log(run, lambda _: None), machine, Measures.of(config))
        rate = large_product_rate(device, precision)
        _warm(trainer, trainer.groups(), device)
        start = trainer.progress
        runs = []
        for _ in range(RUNS):
            trainer.progress = start
            runs.append(_updates(trainer, trainer.groups(), updates, device))
    counted = sorted(runs, key=lambda run: run.seconds)[RUNS // 2]
    rate = statistics.mean((rate, large_product_rate(device, precision)))
    flops = cost(config.model, prepared.tokenizers.target.size).training_flops(counted.sources, counted.targets)
    sentences, source, target = len(counted.sources), sum(counted.sources), sum(counted.targets)
    return TrainingRow(
        variant=config.model.attention.type,
        kernels=config.kernels,
        precision=format_of(precision),
        device=str(device),
        shape=f"{path}: {sentences / counted.updates:.0f} x {source / sentences:.1f} -> {target / sentences:.1f}",
        target_tokens_per_second=target / counted.seconds,
        milliseconds_per_step=1e3 * counted.seconds / counted.updates,
        flops_per_second=flops / counted.seconds,
        product_flops_per_second=rate,
        share=flops / counted.seconds / rate,
        padding=1 - (source + target) / counted.cells,
        peak_memory_bytes=None,
    )


def _warm(trainer: Trainer, groups: Groups, device: torch.device) -> None:
    """Make a few updates; on a GPU, make them until most shapes of batches have been recorded."""
    _updates(trainer, groups, WARM, device)
    graphs = trainer.gradients
    if isinstance(graphs, GraphedGradients):
        for _ in range(MOST_STRETCHES):
            before = len(graphs.recordings)
            _updates(trainer, groups, STRETCH, device)
            if before == len(graphs.recordings) > 0:
                return


def _updates(trainer: Trainer, groups: Groups, updates: int, device: torch.device) -> _Volume:
    counted = _Volume(updates)
    synchronize(device)
    started = time.perf_counter()
    for _ in range(updates):
        batches, after = next(groups)
        trainer.progress = trainer.progress.updated(trainer.update(batches), after, 0.0, trainer.training.log_every)
        for batch in batches:
            counted.add(batch)
    synchronize(device)
    counted.seconds = time.perf_counter() - started
    return counted
