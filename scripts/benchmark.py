"""Measure training and decoding, and compare them with the matrix products of the machine.

Without options: training steps of the reference shape on the CPU, of the usual systems in every precision.
With --config: training on the corpus of a configuration, with data loading. With --decode: translation of a file by a
trained model. The tables of docs/performance.md come from here.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.decoding import DecodingRow, measure_decoding
from benchmarks.measuring import alone, hardware
from benchmarks.neighbor import NeighborRow, measure_beside
from benchmarks.profiling import measure_profile
from benchmarks.systems import GROUPS, VARIANTS
from benchmarks.tables import decoding_cells, neighbor_cells, profile_cells, training_cells
from benchmarks.training import Case, TrainingRow, measure, measure_config, measure_parts
from nmt.cli.common import command, say
from nmt.cli.files import refuse_unwritable, writing
from nmt.cli.signature import whole
from nmt.config import load_config, load_run_config
from nmt.data.corpus import read_test_set
from nmt.data.lines import read_lines
from nmt.device import format_of, multiplies_bf16, resolve_device
from nmt.errors import ConfigError
from nmt.evaluation.metrics import bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.fast.inference import native
from nmt.plots.files import markdown

SHAPES = ("64x15x14", "64x40x40")
"""The reference shape and a long one: sentences x source pieces x target pieces."""
GPU_SHAPES = ("128x30x30", "256x30x30", "512x30x30")
REPEATS = 9
UPDATES = 40


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="benchmark.py", description=__doc__)
    arguments.add_argument(
        "--variant",
        choices=[*GROUPS, *VARIANTS],
        action="append",
        help="system, or group of systems: usual; fast, the others with fast twins; plain, those with a part that runs "
        "step by step; may be repeated; default: usual",
    )
    arguments.add_argument(
        "--precision",
        choices=["fp32", "bf16", "int8"],
        action="append",
        help="may be repeated; default: all that the hardware has instructions for",
    )
    arguments.add_argument(
        "--kernels",
        choices=["auto", "plain"],
        action="append",
        help="may be repeated; default: auto; with --decode and on a GPU: both",
    )
    arguments.add_argument(
        "--shape",
        metavar="BxSxT",
        action="append",
        help=f"sentences x source pieces x target pieces; may be repeated; default: {' and '.join(SHAPES)}",
    )
    arguments.add_argument(
        "--device", metavar="NAME", help="default: cpu; with --config, the device of the configuration"
    )
    arguments.add_argument(
        "--repeats",
        type=whole(1),
        metavar="N",
        help="repeat each measurement N times and report the median; default: 9",
    )
    arguments.add_argument("--parts", action="store_true", help="measure the parts of a training step, on the CPU")
    arguments.add_argument(
        "--profile", action="store_true", help="list the operations of a training step, on the CPU, the longest first"
    )
    arguments.add_argument(
        "--neighbor",
        action="store_true",
        help="measure a training step alone and beside a program that keeps every core busy, in alternation",
    )
    arguments.add_argument(
        "--ranks",
        type=whole(2),
        metavar="N",
        help="with --neighbor: share the sentences among N processes of one thread; default: one process with a thread "
        "for each core",
    )
    arguments.add_argument(
        "--config", metavar="FILE", action="append", help="measure training with this configuration; may be repeated"
    )
    arguments.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="override an option of --config; may be repeated",
    )
    arguments.add_argument(
        "--updates", type=whole(1), metavar="N", help="with --config: number of updates; default: 40"
    )
    arguments.add_argument("--decode", metavar="RUN", help="measure translation with this run directory")
    arguments.add_argument("--input", metavar="FILE", help="with --decode: the file to translate")
    arguments.add_argument("--reference", metavar="FILE", help="with --decode: reference translations, to compute BLEU")
    arguments.add_argument(
        "--beam-size",
        type=whole(1),
        metavar="N",
        action="append",
        help="with --decode: beam size; may be repeated; default: 1 and 5",
    )
    arguments.add_argument("--json", metavar="FILE", help="also write the rows to FILE, as JSON")
    return arguments


STEPS = "single steps"
OPTIONS_OF = {
    STEPS: {"variant", "precision", "kernels", "shape", "device", "repeats", "json"},
    "--parts": {"parts", "variant", "precision", "kernels", "shape", "repeats"},
    "--profile": {"profile", "variant", "precision", "kernels", "shape", "repeats"},
    "--neighbor": {"neighbor", "ranks", "variant", "precision", "kernels", "shape", "repeats", "json"},
    "--config": {"config", "overrides", "device", "updates", "json"},
    "--decode": {"decode", "input", "reference", "beam_size", "precision", "kernels", "device", "repeats", "json"},
}
"""The options that each kind of measurement takes."""
KINDS = ("parts", "profile", "neighbor", "config", "decode")
"""The options that choose a kind, in the order in which they are looked for."""


def measured(options: argparse.Namespace) -> str:
    """Return the kind of measurement. Raises ConfigError for options that it does not take, and for contradictions."""
    kind = next((f"--{name}" for name in KINDS if getattr(options, name)), STEPS)
    problems = []
    for name, value in vars(options).items():
        if value and name not in OPTIONS_OF[kind] and any(name in names for names in OPTIONS_OF.values()):
            option = "--set" if name == "overrides" else f"--{name.replace('_', '-')}"
            wanted = " or ".join(other for other, names in OPTIONS_OF.items() if name in names)
            if name in KINDS:
                problems.append(f"{option}: cannot be combined with {kind}; give one of them")
            else:
                problems.append(f"{option}: is for {wanted}, not for {kind}")
    if kind == "--decode" and not options.input:
        problems.append("--decode needs --input, a file to translate")
    if kind in (STEPS, "--parts", "--profile", "--neighbor") and "int8" in (options.precision or []):
        problems.append("--precision int8: is for --decode only; training is in bf16 or fp32")
    if options.precision == ["int8"] and options.kernels == ["plain"]:
        problems.append("--precision int8: the plain path computes in fp32 or bf16; leave --kernels plain out")
    if problems:
        raise ConfigError(*problems)
    return kind


def shape(text: str) -> tuple[int, int, int]:
    """Parse a shape such as ``64x15x14``. Raises ConfigError."""
    numbers = text.split("x")
    if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers):
        raise ConfigError(
            f"--shape {text}: must be sentences x source pieces x target pieces, each at least 1, like {SHAPES[0]}"
        )
    sentences, source, target = map(int, numbers)
    return sentences, source, target


def cases(options: argparse.Namespace) -> list[Case]:
    """Return the steps of the reference shape that the options select. Raises ConfigError."""
    device = options.device or "cpu"
    resolved = resolve_device(device)
    gpu = resolved.type == "cuda"
    shapes = list(map(shape, options.shape or (GPU_SHAPES if gpu else SHAPES)))
    problems = [
        f"--ranks {options.ranks}: must divide the {sentences} sentences of a step"
        for sentences, *_ in shapes
        if sentences % (options.ranks or 1)
    ]
    if problems:
        raise ConfigError(*problems)
    return [
        Case(variant, kernels, precision, device, each, options.repeats or REPEATS)
        for each in shapes
        for precision in options.precision or (["bf16", "fp32"] if multiplies_bf16(resolved) else ["fp32"])
        for kernels in options.kernels or (["plain", "auto"] if gpu else ["auto"])
        for name in options.variant or ["usual"]
        for variant in GROUPS.get(name, [name])
    ]


def training(options: argparse.Namespace) -> list[TrainingRow]:
    """Measure every case in a process of its own."""
    rows = []
    for case in cases(options):
        rows.append(alone(measure, case))
        say("  ".join(training_cells(rows[-1]).values()))
    return rows


def real_training(options: argparse.Namespace) -> list[TrainingRow]:
    """Measure every configuration in a process of its own."""
    settings = options.overrides, options.device, options.updates or UPDATES
    return [alone(measure_config, path, *settings) for path in options.config]


def beside(options: argparse.Namespace) -> list[NeighborRow]:
    """Measure every case beside a busy program, each in a process of its own."""
    rows = []
    for case in cases(options):
        rows.append(alone(measure_beside, case, options.ranks))
        say("  ".join(neighbor_cells(rows[-1]).values()))
    return rows


def parts(options: argparse.Namespace) -> list[dict[str, str]]:
    """Measure the parts of a step and format a row for each case."""
    rows = []
    for case in cases(options):
        taken = alone(measure_parts, case)
        name = {"variant": case.variant, "kernels": case.kernels, "precision": case.precision}
        times = {f"{part}, ms": f"{time:.1f}" for part, time in taken.items()}
        rows.append(name | {"shape": "x".join(map(str, case.shape))} | times)
    return rows


def profiles(options: argparse.Namespace) -> str:
    """Profile a step of each case and format a table of it."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler of PyTorch says when it starts
    texts = []
    for case in cases(options):
        rows = [profile_cells(spent) for spent in alone(measure_profile, case)]
        name = f"{case.variant}, {case.kernels}, {case.precision}, {'x'.join(map(str, case.shape))}"
        texts.append(f"{name}\n\n{markdown(rows)}")
    return "\n\n".join(texts)


def decoding(options: argparse.Namespace) -> list[DecodingRow]:
    """Measure every setting of decoding in a process of its own."""
    device, lines = options.device or "cpu", list(read_lines(options.input))
    rows = []
    for beam in options.beam_size or [1, 5]:
        for precision in options.precision or map(format_of, native(resolve_device(device))):
            for kernels in options.kernels or ["plain", "auto"]:
                if (precision, kernels) != ("int8", "plain"):
                    settings = beam, kernels, precision, device, options.repeats or REPEATS
                    rows.append(alone(measure_decoding, options.decode, lines, *settings))
                    say("  ".join(decoding_cells(rows[-1], {}).values()))
    return rows


MEASURES: dict[str, tuple[Callable[[argparse.Namespace], Sequence[Any]], Callable[[Any], dict[str, str]]]] = {
    STEPS: (training, training_cells),
    "--config": (real_training, training_cells),
    "--neighbor": (beside, neighbor_cells),
}


@command(parser)
def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    kind = measured(options)
    references: list[str] = []
    if options.json:  # fail now, not after minutes
        refuse_unwritable(options.json)
    if options.reference:
        _, references = read_test_set(options.input, options.reference)
    where = options.device or "cpu"
    if kind == "--config":
        config = load_config(Path(options.config[0]), options.overrides)
        where = options.device or config.device
        torch.set_num_threads(config.threads or torch.get_num_threads())
    elif kind != "--decode":
        cases(options)  # refuses a wrong shape or number of ranks before anything is printed
    print(f"{hardware(resolve_device(where))}\n")
    rows: Sequence[TrainingRow | DecodingRow | NeighborRow]
    scores: list[dict[str, float]] = []
    if kind == "--parts":
        print(markdown(parts(options)))
        return
    if kind == "--profile":
        print(profiles(options))
        return
    if kind == "--decode":
        rows = decoded = decoding(options)
        plain = {(row.beam_size, row.precision): row.hypotheses for row in decoded if row.kernels == "plain"}
        cells = [decoding_cells(row, plain) for row in decoded]
        if references:
            tokenizer = tokenizer_of_run(load_run_config(options.decode), references).tokenizer
            scores = [{"bleu": bleu(row.hypotheses, references, tokenizer).value} for row in decoded]
            for cell, score in zip(cells, scores, strict=True):
                cell["BLEU"] = f"{score['bleu']:.2f}"
    else:
        measure_all, cells_of = MEASURES[kind]
        rows = measure_all(options)
        cells = [cells_of(row) for row in rows]
    print(markdown(cells))
    if options.json:
        written = [asdict(row) for row in rows]
        for each, score in zip(written, scores, strict=False):  # empty without --reference
            each.update(score)
        with writing(options.json):
            Path(options.json).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
