"""Training measured: steps of the reference shape, and updates of a configuration on its own corpus."""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.utils import clip_grad_norm_

from nmt.batching import training_batches
from nmt.benchmark.machine import peak_memory, product_rate, seconds, synchronise
from nmt.checkpoint import RunDirectory
from nmt.config import load_config, schema
from nmt.dataset import prepare
from nmt.device import autocast, keep_freed_memory, resolve_device, resolve_precision
from nmt.model import build_model
from nmt.model.work import work
from nmt.training.log import Log
from nmt.training.loss import batch_loss
from nmt.training.optimiser import build_optimiser
from nmt.training.trainer import Trainer

VOCABULARY = 8000
WARM = 5
"""Updates of real training that are not counted."""
VARIANTS: dict[str, dict[str, object]] = {
    "none": {"type": "none"},
    "bahdanau": {"type": "bahdanau", "hidden": 512},
    "luong": {"type": "luong", "input_feeding": False},
    "luong-feeding": {"type": "luong", "input_feeding": True},
}
"""With the reference sizes: embeddings 256, hidden 512, alignment units 512, vocabularies 8,000."""


@dataclass(frozen=True)
class Case:
    """What one process measures."""

    variant: str
    kernels: str
    precision: str
    device: str
    shape: tuple[int, int, int]
    """Sentences, source and target pieces of each."""
    repeats: int


@dataclass(frozen=True)
class Row:
    """What came out."""

    variant: str
    kernels: str
    precision: str
    device: str
    shape: str
    target_tokens_per_second: float
    milliseconds_per_step: float
    flops_per_second: float
    product_flops_per_second: float
    share: float
    padding: float
    peak_memory_bytes: int


def reference(variant: str) -> schema.Model:
    """The network of the reference shape."""
    sizes = {"embeddings": {"size": 256}, "encoder": {"hidden": 512}, "decoder": {"hidden": 512, "readout": 512}}
    dropout = {"embedding": 0.2, "annotation": 0.2, "readout": 0.2}
    return schema.Model.model_validate({"attention": VARIANTS[variant], "dropout": dropout, **sizes})


Lap = Callable[[str], None]
"""Told when a part of a step is done, and its name."""


def ignore(part: str) -> None:
    """Nobody asked."""


def reference_step(case: Case) -> Callable[..., None]:
    """One training step of the reference shape, ``step(lap)``: forward, backward, clipping, Adam."""
    device, precision = resolve_device(case.device), resolve_precision(case.precision, resolve_device(case.device))
    torch.manual_seed(0)
    fused = case.kernels == "auto"
    model = build_model(reference(case.variant), VOCABULARY, VOCABULARY, fused=fused).to(device).train()
    optimiser = build_optimiser(model.parameters(), schema.Adam(type="adam"))
    sentences, source_length, target_length = case.shape
    source = torch.randint(VOCABULARY, (sentences, source_length), device=device)
    target = torch.randint(VOCABULARY, (sentences, target_length + 1), device=device)
    lengths = torch.full((sentences,), source_length)
    mask = torch.ones(sentences, target_length, dtype=torch.bool, device=device)

    def step(lap: Lap = ignore) -> None:
        with autocast(device, precision):
            memory = model.encode(source, lengths)
            lap("encoder, forward")
            readouts = model.unroll(target[:, :-1], memory)[0]
            lap("decoder, forward")
            loss = batch_loss(readouts, model.output, target[:, 1:], mask, 0.0, fused=fused)
            lap("output layer and loss, forward and (fused) backward")
        (loss.objective / loss.tokens).backward()
        lap("backward of the rest")
        clip_grad_norm_(model.parameters(), 1.0)
        lap("clipping")
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        lap("Adam")

    for parameter in model.parameters():  # Adam's moments are there before memory is measured
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return step


def measure_parts(case: Case) -> dict[str, float]:
    """Milliseconds of each part of a step on a CPU, medians."""
    step = reference_step(case)
    keep_freed_memory()
    times: dict[str, list[float]] = {}
    last = 0.0

    def lap(part: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times.setdefault(part, []).append(1e3 * (now - last))
        last = now

    for _ in range(case.repeats + WARM):
        last = time.perf_counter()
        step(lap)
    return {part: statistics.median(each[WARM:]) for part, each in times.items()}


def measure(case: Case) -> Row:
    """The step of the reference shape: its time, its memory, and what it is of the machine's own speed."""
    device, precision = resolve_device(case.device), resolve_precision(case.precision, resolve_device(case.device))
    sentences, source_length, target_length = case.shape
    step = reference_step(case)
    memory: list[int] = []
    with peak_memory(device, memory):
        step()
    if device.type == "cpu":
        keep_freed_memory()
    before = product_rate(device, precision)
    taken = seconds(step, device, case.repeats)
    rate = statistics.mean((before, product_rate(device, precision)))
    tokens = sentences * target_length
    flops = work(reference(case.variant), VOCABULARY).training_flops(
        sentences, sentences * source_length, tokens, tokens * source_length
    )
    return Row(
        case.variant,
        case.kernels,
        case.precision,
        str(device),
        f"{sentences} x {source_length} -> {target_length}",
        tokens / taken,
        1e3 * taken,
        flops / taken,
        rate,
        flops / taken / rate,
        0.0,
        memory[0],
    )


def measure_config(path: str, overrides: Sequence[str], device_name: str, updates: int) -> Row:
    """Training as a configuration has it: its corpus, its batches, loading included, validation not."""
    config = load_config(Path(path), overrides)
    device = resolve_device(device_name)
    if device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(config.seed)
    prepared = prepare(config)
    sizes = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    fused = config.kernels == "auto"
    model = build_model(config.model, *sizes, fused=fused).to(device).train()
    precision = resolve_precision(config.precision, device)
    with tempfile.TemporaryDirectory() as scratch:
        run = RunDirectory(scratch)
        trainer = Trainer(config, prepared, model, run, Log(run, lambda line: None), device)
        position, budget = trainer.progress.position, config.training.batch_tokens
        batches = training_batches(prepared.train, trainer.specials, budget, seed=config.seed, position=position)
        sums = {"sentences": 0, "source": 0, "target": 0, "pairs": 0, "cells": 0}
        memory: list[int] = []
        rate = product_rate(device, precision)
        with peak_memory(device, memory):
            for number in range(-WARM, updates):
                if number == 0:
                    sums = dict.fromkeys(sums, 0)
                    synchronise(device)
                    started = time.perf_counter()
                after, batch = next(batches)
                trainer.update([batch], after)
                target_lengths = batch.target_mask.sum(1)
                sums["sentences"] += len(target_lengths)
                sums["source"] += int(batch.source_lengths.sum())
                sums["target"] += batch.target_tokens
                sums["pairs"] += int((batch.source_lengths * target_lengths).sum())
                sums["cells"] += batch.source.numel() + batch.target_mask.numel()
            synchronise(device)
            taken = time.perf_counter() - started
    rate = statistics.mean((rate, product_rate(device, precision)))
    flops = work(config.model, sizes[1]).training_flops(
        sums["sentences"], sums["source"], sums["target"], sums["pairs"]
    )
    count = sums["sentences"]
    return Row(
        config.model.attention.type,
        config.kernels,
        {torch.float32: "fp32", torch.bfloat16: "bf16"}[precision],
        str(device),
        f"{path}: {count / updates:.0f} x {sums['source'] / count:.1f} -> {sums['target'] / count:.1f}",
        sums["target"] / taken,
        1e3 * taken / updates,
        flops / taken,
        rate,
        flops / taken / rate,
        1 - (sums["source"] + sums["target"]) / sums["cells"],
        memory[0],
    )
