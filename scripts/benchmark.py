"""Measure training and decoding, and compare them with the matrix products of the machine."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

from benchmarks.decoding import DecodingRow, measure_decoding
from benchmarks.measuring import alone, hardware
from benchmarks.memory import measure_memory
from benchmarks.systems import USUAL, VARIANTS
from benchmarks.training import Case, TrainingRow, measure
from machine import machine, provenance
from nmt.cli.command import Command
from nmt.cli.options import Device, InputFile, OutputFile, Precision, RunPath, Value
from nmt.cli.terminal import say
from nmt.config import load_run_config
from nmt.config.schema import Kernels, Size
from nmt.data.corpus import read_lines, read_test_set
from nmt.device import multiplies_bf16, resolve_device
from nmt.errors import ConfigError
from nmt.evaluation.figures.files import markdown
from nmt.evaluation.metrics import Evidence, bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.files import write_json

Row = TypeVar("Row", TrainingRow, DecodingRow)
Sizes = tuple[int, int, int]
"""Number of sentences, and of source and target pieces of each."""
REFERENCE: Sizes = 64, 15, 14
ON_A_GPU: Sizes = 128, 30, 30


def sizes(text: str) -> Sizes:
    """Parse a shape such as ``64x15x14``."""
    numbers = text.split("x")
    if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"found {text!r}; give three numbers of at least 1, like 64x15x14")
    sentences, source, target = map(int, numbers)
    return sentences, source, target


def variants(text: str) -> Sequence[str]:
    """Parse the name of a system, or ``usual``."""
    if text not in ("usual", *VARIANTS):
        raise argparse.ArgumentTypeError(f"found {text!r}; choose from usual, {', '.join(VARIANTS)}")
    return list(USUAL) if text == "usual" else [text]


Shape = Annotated[Sizes, Value("BxSxT", parse=sizes)]
Systems = Annotated[Sequence[str], Value("NAME", parse=variants)]


def benchmark(
    *,
    variant: list[Systems] | None = None,
    precision: list[Precision] | None = None,
    kernels: list[Kernels] | None = None,
    shape: list[Shape] | None = None,
    device: Device | None = None,
    repeats: Size = 9,
    updates: Size = 100,
    decode: RunPath | None = None,
    input: InputFile | None = None,
    reference: InputFile | None = None,
    beam_size: list[Size] | None = None,
    memory: RunPath | None = None,
    lines: Size = 10_000,
    json: OutputFile | None = None,
) -> None:
    """Measure training and decoding, and compare them with the matrix products of the machine.

    Without options: training steps on the CPU, of the usual systems in every precision. With --decode: translation of
    a file by a trained model. With --memory: the peak memory of whole commands. docs/performance.md has their tables.

    Args:
        variant: system; usual: no attention, Bahdanau's, Luong's with and without input feeding, and a Transformer
            (default: usual)
        precision: number formats (default: fp32, and bf16 where the hardware has instructions for it)
        kernels: kernels (default: auto; with --decode and on a GPU both)
        shape: sentences x source pieces x target pieces (default: 64x15x14; on a GPU 128x30x30)
        device: device (default: cpu)
        repeats: repeat each measurement N times and report the median
        updates: number of updates with --memory
        decode: measure translation with this run directory
        input: file to translate with --decode and --memory
        reference: reference translations, to compute BLEU with --decode
        beam_size: beam sizes with --decode (default: 1 and 5)
        memory: measure peak memory, of translation with this run directory
        lines: with --memory translate the file repeated up to this many lines
        json: also write the rows to this file, with the machine and the commit
    """
    if (decode or memory) and not input:
        raise ConfigError("--decode and --memory need --input, a file to translate")
    if (decode and memory) or (reference and not decode):
        raise ConfigError("--reference belongs to --decode, and --decode does not go with --memory; leave one out")
    if memory and input:
        peaks = measure_memory(memory, list(read_lines(input)), lines, updates)
        rows = [{"task": task, "peak, MB": peak} for task, peak in peaks.items()]
        show([{name: str(cell) for name, cell in row.items()} for row in rows], rows, json, machine())
        return
    where = device or "cpu"
    resolved = resolve_device(where)
    gpu, formats = resolved.type == "cuda", precision or (["bf16", "fp32"] if multiplies_bf16(resolved) else ["fp32"])
    both: Sequence[Kernels] = ["plain", "auto"]
    print(f"{(measured_on := hardware(resolved))}\n")
    if decode and input:
        cells, rows = decoding(
            [
                (decode, list(read_lines(input)), beam, twin, number, where, repeats)
                for beam in beam_size or [1, 5]
                for number in formats
                for twin in kernels or both
                if (number, twin) != ("int8", "plain")
            ],
            read_test_set(input, reference)[1] if reference else [],
        )
    else:
        cases = [
            Case(name, twin, number, where, each, repeats)
            for each in shape or [ON_A_GPU if gpu else REFERENCE]
            for number in formats
            for twin in kernels or (both if gpu else ["auto"])
            for names in variant or [variants("usual")]
            for name in names
        ]
        found = measured(measure, [(case,) for case in cases])
        cells, rows = [row.cells() for row in found], [asdict(row) for row in found]
    show(cells, rows, json, measured_on)


def show(cells: Sequence[dict[str, str]], rows: Sequence[dict[str, Any]], json: str | None, measured_on: str) -> None:
    """Print the table; write its rows, with what they come from, into a file."""
    print(markdown(cells))
    if json:
        write_json(Path(json), provenance() | {"machine": measured_on, "rows": rows})


def measured(task: Callable[..., Row], calls: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Call ``task`` in a process of its own for each tuple of arguments, and show each row."""
    rows = []
    for call in calls:
        rows.append(alone(task, *call))
        say("  ".join(rows[-1].cells().values()))
    return rows


def decoding(
    calls: Sequence[tuple[Any, ...]], references: Sequence[str]
) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Measure decoding; return the cells of the table and the rows, with BLEU if there are references."""
    found = measured(measure_decoding, calls)
    plain = {(row.beam_size, row.precision): row.hypotheses for row in found if row.kernels == "plain"}
    cells, rows = [row.cells(plain) for row in found], [asdict(row) for row in found]
    if references:
        tokenizer = tokenizer_of_run(load_run_config(found[0].run))
        for cell, row in zip(cells, rows, strict=True):
            row["bleu"] = bleu(Evidence(row["hypotheses"], references, tokenizer)).value
            cell["BLEU"] = f"{row['bleu']:.2f}"
    for row in rows:
        del row["hypotheses"]
    return cells, rows


main = Command(benchmark, "benchmark.py")

if __name__ == "__main__":
    sys.exit(main())
