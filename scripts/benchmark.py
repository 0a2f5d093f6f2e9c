"""How fast training and decoding are, held against what the machine multiplies: the tables of ``docs/performance.md``.

Without options: training on the CPU at the reference shape, every variant and precision. With ``--config``: training as
it really goes, data loading included. With ``--decode``: translation of a file by a trained model.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch
from torch.nn.utils import clip_grad_norm_

from nmt.batching import training_batches
from nmt.checkpoint import RunDirectory
from nmt.cli.common import command
from nmt.config import load_config, schema
from nmt.corpus import read_lines
from nmt.dataset import prepare
from nmt.device import autocast, keep_freed_memory, multiplies_bf16, resolve_device, resolve_precision
from nmt.errors import ConfigError
from nmt.evaluation.metrics import bleu
from nmt.model import build_model
from nmt.model.work import work
from nmt.training.log import Log
from nmt.training.loss import batch_loss
from nmt.training.optimiser import build_optimiser
from nmt.training.trainer import Trainer
from nmt.translator import SearchOptions, Translator

VOCABULARY = 8000
SHAPES = ("64x15x14", "64x40x40")
"""The reference shape and a long one: sentences x source pieces x target pieces."""
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


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The median time of several runs, after two that are not counted."""
    times = []
    for _ in range(repeats + 2):
        synchronise(device)
        started = time.perf_counter()
        work()
        synchronise(device)
        times.append(time.perf_counter() - started)
    return statistics.median(times[2:])


def product_rate(device: torch.device, precision: torch.dtype) -> float:
    """FLOP/s of PyTorch's own product of large square matrices."""
    size = 8192 if device.type == "cuda" else 2048
    left, right, out = (torch.randn(size, size, device=device, dtype=precision) for _ in range(3))
    return 2 * size**3 / seconds(lambda: torch.mm(left, right, out=out), device, 9)


@contextmanager
def peak_memory(device: torch.device, out: list[int]) -> Iterator[None]:
    """Append what was occupied at most beyond what was before; on a CPU, of resident memory (Linux alone)."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield
        out.append(torch.cuda.max_memory_allocated(device) - before)
        return
    marks = Path("/proc/self/clear_refs")
    if not marks.exists():
        yield
        out.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    marks.write_text("5")  # the high-water mark becomes what is resident now
    before = _resident("VmRSS")
    yield
    out.append(_resident("VmHWM") - before)


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def measure(case: Case) -> Row:
    """One training step of the reference shape: forward, backward, clipping, Adam."""
    device, precision = resolve_device(case.device), resolve_precision(case.precision, resolve_device(case.device))
    torch.manual_seed(0)
    config = reference(case.variant)
    fused = case.kernels == "auto"
    model = build_model(config, VOCABULARY, VOCABULARY, fused=fused).to(device).train()
    optimiser = build_optimiser(model.parameters(), schema.Adam(type="adam"))
    sentences, source_length, target_length = case.shape
    source = torch.randint(VOCABULARY, (sentences, source_length), device=device)
    target = torch.randint(VOCABULARY, (sentences, target_length + 1), device=device)
    lengths = torch.full((sentences,), source_length)
    mask = torch.ones(sentences, target_length, dtype=torch.bool, device=device)

    def step() -> None:
        with autocast(device, precision):
            readouts, _ = model.readouts(source, lengths, target[:, :-1])
            loss = batch_loss(readouts, model.output, target[:, 1:], mask, 0.0, fused=fused)
        (loss.objective / loss.tokens).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    for parameter in model.parameters():  # Adam's moments are there before memory is measured
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    memory: list[int] = []
    with peak_memory(device, memory):
        step()
    if device.type == "cpu":
        keep_freed_memory()
    before = product_rate(device, precision)
    taken = seconds(step, device, case.repeats)
    rate = statistics.mean((before, product_rate(device, precision)))
    tokens = sentences * target_length
    flops = work(config, VOCABULARY).training_flops(
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


def measure_config(path: str, device_name: str, updates: int) -> Row:
    """Training as a configuration has it: its corpus, its batches, loading included, validation not."""
    config = load_config(Path(path))
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
        str(precision).removeprefix("torch."),
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


@dataclass(frozen=True)
class Decoding:
    """How fast a file was translated."""

    run: str
    beam_size: int
    kernels: str
    precision: str
    device: str
    sentences: int
    sentences_per_second: float
    target_tokens_per_second: float
    hypotheses: list[str]


def measure_decoding(
    path: str, lines: list[str], beam_size: int, kernels: str, precision: str, device: str, repeats: int
) -> Decoding:
    """Translate the lines, tokenization included, the loading of the model not."""
    translator = Translator.load(path, device, precision, kernels)
    if translator.device.type == "cpu":
        keep_freed_memory()
    options = SearchOptions.from_config(translator.decoding, beam_size=beam_size)
    found = list(translator.translate(lines, options))  # not counted: it warms up
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = list(translator.translate(lines, options))
        taken.append(time.perf_counter() - started)
    pieces = sum(len(each.hypotheses[0].pieces) for each in found)
    seconds = statistics.median(taken)
    return Decoding(
        path,
        beam_size,
        kernels,
        precision,
        str(translator.device),
        len(lines),
        len(lines) / seconds,
        pieces / seconds,
        [each.text for each in found],
    )


T = TypeVar("T")


def alone(task: Callable[..., T], *arguments: object) -> T:
    """In a process of its own: what another has left in memory disturbs neither its time nor its peak."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def table(rows: Sequence[dict[str, str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
    return "\n".join(lines + ["| " + " | ".join(row.values()) + " |" for row in rows])


def training_cells(row: Row) -> dict[str, str]:
    """A row of the table of training."""
    return {
        "variant": row.variant,
        "kernels": row.kernels,
        "precision": row.precision,
        "shape": row.shape,
        "target tokens/s": f"{row.target_tokens_per_second:,.0f}",
        "ms a step": f"{row.milliseconds_per_step:,.1f}",
        "GFLOP/s": f"{row.flops_per_second / 1e9:,.0f}",
        "product GFLOP/s": f"{row.product_flops_per_second / 1e9:,.0f}",
        "share": f"{row.share:.2f}",
        "padding": f"{row.padding:.1%}",
        "peak MB": f"{row.peak_memory_bytes / 2**20:,.0f}",
    }


def decoding_cells(row: Decoding, plain: dict[tuple[int, str], list[str]]) -> dict[str, str]:
    """A row of the table of decoding."""
    same = plain.get((row.beam_size, row.precision))
    equal = "" if same is None else f"{sum(map(str.__eq__, same, row.hypotheses))} of {row.sentences}"
    return {
        "beam": str(row.beam_size),
        "kernels": row.kernels,
        "precision": row.precision,
        "sentences/s": f"{row.sentences_per_second:,.0f}",
        "target pieces/s": f"{row.target_tokens_per_second:,.0f}",
        "as the plain path": equal,
    }


def machine(device: torch.device) -> str:
    """What was measured on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    native = "bf16 products in hardware" if multiplies_bf16(device) else "no bf16 products in hardware"
    threads = f"{torch.get_num_threads()} threads on {os.cpu_count()} cores"
    return f"{model}, {threads}, {native}, PyTorch {torch.__version__}"


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="benchmark.py", description=__doc__)
    arguments.add_argument("--variant", choices=list(VARIANTS), action="append")
    arguments.add_argument("--precision", choices=["fp32", "bf16"], action="append")
    arguments.add_argument("--kernels", choices=["auto", "plain"], action="append", help="default auto")
    arguments.add_argument("--shape", metavar="BxSxT", action="append", help=f"default {' and '.join(SHAPES)}")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--repeats", type=int, default=9, metavar="N", help="each figure is the median of so many")
    arguments.add_argument("--config", metavar="FILE", action="append", help="measure training by this instead")
    arguments.add_argument("--updates", type=int, default=100, metavar="N", help="of --config")
    arguments.add_argument("--decode", metavar="RUN", help="measure translation by this run instead")
    arguments.add_argument("--input", metavar="FILE", help="what --decode translates")
    arguments.add_argument("--reference", metavar="FILE", help="score what --decode translates")
    arguments.add_argument("--beam-size", type=int, metavar="N", action="append", help="of --decode; default 1 and 5")
    arguments.add_argument("--json", metavar="FILE", help="write the rows as JSON too")
    return arguments


def shape(text: str) -> tuple[int, int, int]:
    """``64x15x14``. Raises ConfigError."""
    numbers = text.split("x")
    if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers):
        raise ConfigError(f"--shape {text}: must be sentences x source pieces x target pieces, like {SHAPES[0]}")
    sentences, source, target = map(int, numbers)
    return sentences, source, target


def training(options: argparse.Namespace) -> list[Row]:
    """Every case, each alone."""
    if options.config:
        return [alone(measure_config, path, options.device, options.updates) for path in options.config]
    rows = []
    shapes = [shape(each) for each in options.shape or SHAPES]
    for each in shapes:
        for precision in options.precision or ["bf16", "fp32"]:
            for kernels in options.kernels or ["auto"]:
                for variant in options.variant or VARIANTS:
                    case = Case(variant, kernels, precision, options.device, each, options.repeats)
                    rows.append(alone(measure, case))
                    print(json.dumps(training_cells(rows[-1])), file=sys.stderr)
    return rows


def decoding(options: argparse.Namespace) -> list[Decoding]:
    """Every way to translate the file, each alone."""
    if not options.input:
        raise ConfigError("--decode needs --input: a file to translate")
    lines = list(read_lines(options.input))
    return [
        alone(measure_decoding, options.decode, lines, beam, kernels, precision, options.device, options.repeats)
        for beam in options.beam_size or [1, 5]
        for precision in options.precision or ["bf16", "fp32"]
        for kernels in options.kernels or ["plain", "auto"]
    ]


@command(parser)
def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    print(f"{machine(resolve_device(options.device))}\n")
    rows: Sequence[Row | Decoding]
    if options.decode:
        rows = decoded = decoding(options)
        plain = {(row.beam_size, row.precision): row.hypotheses for row in decoded if row.kernels == "plain"}
        cells = [decoding_cells(row, plain) for row in decoded]
        if options.reference:
            references = list(read_lines(options.reference))
            for cell, row in zip(cells, decoded, strict=True):
                cell["BLEU"] = f"{bleu(row.hypotheses, references).value:.2f}"
    else:
        rows = trained = training(options)
        cells = [training_cells(row) for row in trained]
    print(table(cells))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
