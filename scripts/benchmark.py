"""Measure training and decoding, and compare them with the matrix products of the machine.

Without options: training steps of the reference shape on the CPU, of the usual systems in every precision.
With --config: training on the corpus of a configuration, with data loading. With --decode: translation of a file by a
trained model. The tables of docs/performance.md come from here.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.decoding import DecodingRow, measure_decoding
from benchmarks.measuring import alone, hardware
from benchmarks.systems import GROUPS, VARIANTS
from benchmarks.training import Case, TrainingRow, measure, measure_config
from command_line import command, whole
from nmt.cli.files import require_writable, writing
from nmt.cli.terminal import say
from nmt.config import load_config, load_run_config
from nmt.data.corpus import read_test_set
from nmt.data.lines import read_lines
from nmt.device import multiplies_bf16, resolve_device
from nmt.errors import ConfigError
from nmt.evaluation.figures.files import markdown
from nmt.evaluation.metrics import bleu
from nmt.evaluation.writing import tokenizer_of_run

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
        help="may be repeated; default: fp32, and bf16 where the hardware has instructions for it",
    )
    arguments.add_argument(
        "--kernels",
        choices=["auto", "plain"],
        action="append",
        help="may be repeated; default: auto; with --decode and on a GPU: both",
    )
    arguments.add_argument(
        "--shape",
        type=shape,
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
        default=REPEATS,
        metavar="N",
        help="repeat each measurement N times and report the median",
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
        "--updates", type=whole(1), default=UPDATES, metavar="N", help="with --config: number of updates"
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


def shape(text: str) -> tuple[int, int, int]:
    """Parse a shape such as ``64x15x14``."""
    numbers = text.split("x")
    if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"found {text!r}; give three numbers of at least 1, like {SHAPES[0]}")
    sentences, source, target = map(int, numbers)
    return sentences, source, target


def cases(options: argparse.Namespace) -> list[Case]:
    """Return the steps of the reference shape that the options select."""
    device = options.device or "cpu"
    resolved = resolve_device(device)
    gpu = resolved.type == "cuda"
    return [
        Case(variant, kernels, precision, device, each, options.repeats)
        for each in options.shape or map(shape, GPU_SHAPES if gpu else SHAPES)
        for precision in options.precision or precisions(resolved)
        for kernels in options.kernels or (["plain", "auto"] if gpu else ["auto"])
        for name in options.variant or ["usual"]
        for variant in GROUPS.get(name, [name])
    ]


def precisions(device: torch.device) -> list[str]:
    """Return the precisions that the hardware has instructions for."""
    return ["bf16", "fp32"] if multiplies_bf16(device) else ["fp32"]


def training(options: argparse.Namespace) -> list[TrainingRow]:
    """Measure every case in a process of its own."""
    rows = []
    for case in cases(options):
        rows.append(alone(measure, case))
        say("  ".join(rows[-1].cells().values()))
    return rows


def real_training(options: argparse.Namespace) -> list[TrainingRow]:
    """Measure every configuration in a process of its own."""
    settings = options.overrides, options.device, options.updates
    return [alone(measure_config, path, *settings) for path in options.config]


def decoding(options: argparse.Namespace) -> list[DecodingRow]:
    """Measure every setting of decoding in a process of its own."""
    device, lines = options.device or "cpu", list(read_lines(options.input))
    rows = []
    for beam in options.beam_size or [1, 5]:
        for precision in options.precision or precisions(resolve_device(device)):
            for kernels in options.kernels or ["plain", "auto"]:
                if (precision, kernels) != ("int8", "plain"):
                    settings = beam, kernels, precision, device, options.repeats
                    rows.append(alone(measure_decoding, options.decode, lines, *settings))
                    say("  ".join(rows[-1].cells({}).values()))
    return rows


@command(parser)
def main(options: argparse.Namespace) -> None:
    """Measure and print."""
    if options.decode and not options.input:
        raise ConfigError("--decode needs --input, a file to translate")
    references: list[str] = []
    if options.json:  # fail now, not after minutes
        require_writable(options.json)
    if options.reference:
        _, references = read_test_set(options.input, options.reference)
    where = options.device or "cpu"
    if options.config:
        config = load_config(Path(options.config[0]), options.overrides)
        where = options.device or config.device
        torch.set_num_threads(config.threads or torch.get_num_threads())
    print(f"{hardware(resolve_device(where))}\n")
    written: list[dict[str, Any]]
    if options.decode:
        decoded = decoding(options)
        plain = {(row.beam_size, row.precision): row.hypotheses for row in decoded if row.kernels == "plain"}
        cells, written = [row.cells(plain) for row in decoded], [asdict(row) for row in decoded]
        if references:
            tokenizer = tokenizer_of_run(load_run_config(options.decode), references).tokenizer
            for cell, each in zip(cells, written, strict=True):
                each["bleu"] = bleu(each["hypotheses"], references, tokenizer).value
                cell["BLEU"] = f"{each['bleu']:.2f}"
    else:
        rows = real_training(options) if options.config else training(options)
        cells, written = [row.cells() for row in rows], [asdict(row) for row in rows]
    print(markdown(cells))
    if options.json:
        with writing(options.json):
            Path(options.json).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
