"""Compare translation by this toolkit and by CTranslate2, with the same Transformer and pieces."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ctranslate2
import sentencepiece
import torch

from machine import provenance
from nmt.cli.command import Command
from nmt.cli.options import InputFile, OutputFile, RunPath
from nmt.cli.terminal import say
from nmt.config.schema import Size
from nmt.data.corpus import read_test_set
from nmt.device import keep_freed_memory
from nmt.evaluation.figures.files import markdown
from nmt.evaluation.metrics import Evidence, bleu
from nmt.files import write_json
from nmt.translation.ctranslate2 import export_ctranslate2
from nmt.translation.translator import Translator

BEAMS = (1, 5)
Translate = Callable[[Sequence[str], int], list[str]]
"""Translates lines with a beam."""


@dataclass(frozen=True)
class Toolkit:
    """This toolkit."""

    run: str
    precision: str
    threads: int

    def __str__(self) -> str:
        return f"this toolkit, {self.precision}"

    def load(self) -> Translate:
        """Load the run."""
        torch.set_num_threads(self.threads)
        keep_freed_memory()
        translator = Translator.load(self.run, "cpu", self.precision)
        return lambda lines, beam: [each.text for each in translator.translate(lines, beam_size=beam, attention=False)]


@dataclass(frozen=True)
class CTranslate2:
    """CTranslate2: workers with some threads each, which translate batches of sentences of like length."""

    folder: str
    precision: str
    workers: int
    threads: int
    batch: int

    def __str__(self) -> str:
        how = f"inter_threads={self.workers}, intra_threads={self.threads}, max_batch_size={self.batch}"
        return f"CTranslate2 {ctranslate2.__version__}, {self.precision}, {how}"

    def load(self) -> Translate:
        """Load the exported model."""
        model, how = Path(self.folder), {"inter_threads": self.workers, "intra_threads": self.threads}
        read, write = (
            sentencepiece.SentencePieceProcessor(model_file=str(model / f"{side}.model"))
            for side in ("source", "target")
        )
        translator = ctranslate2.Translator(self.folder, compute_type=self.precision, **how)

        def translate(lines: Sequence[str], beam: int) -> list[str]:
            results = translator.translate_batch(
                [read.encode(line, out_type=str) for line in lines],
                beam_size=beam,
                max_batch_size=self.batch,
                length_penalty=1.0,
                max_decoding_length=256,
            )
            return [write.decode(result.hypotheses[0]) for result in results]

        return translate


@cache
def loaded(system: Toolkit | CTranslate2) -> Translate:
    """Load a system once in a process."""
    return system.load()


def measured(system: Toolkit | CTranslate2, lines: Sequence[str], beam: int) -> tuple[float, float, list[str]]:
    """Translate -> seconds on the clock, seconds of the processor, translations."""
    translate = loaded(system)
    clock, processor = time.perf_counter(), time.process_time()
    found = translate(lines, beam)
    return time.perf_counter() - clock, time.process_time() - processor, found


def measure_ctranslate2(
    run: RunPath,
    *,
    input: InputFile,
    reference: InputFile,
    threads: Size = 2,
    repeats: Size = 3,
    json: OutputFile | None = None,
) -> None:
    """Compare translation by this toolkit and by CTranslate2, with the same Transformer and pieces, without start-up.

    CTranslate2 has its workers' threads and batches in four settings. The systems take turns; the least time of each
    counts. Sentences per second are of the clock, and of processor time, which other programs change less.

    Args:
        run: run directory of a Transformer
        input: source text
        reference: its translation, to compute BLEU
        threads: threads of each system
        repeats: how often each system translates the text, after one time that does not count
        json: also write the rows, with the machine and the commit, into this file

    examples:
      scripts/measure_ctranslate2.py runs/transformer --input test2016.en --reference test2016.de
    """
    lines, references = read_test_set(input, reference)
    taken: dict[tuple[Any, int], list[tuple[float, float, list[str]]]] = {}
    with TemporaryDirectory() as folder:
        export_ctranslate2(run, Path(folder))
        settings = [(threads, 1, 64), (threads, 1, 32), (threads, 1, 128), (1, threads, 64)]
        systems: list[Toolkit | CTranslate2] = [Toolkit(run, precision, threads) for precision in ("fp32", "bf16")]
        systems += [CTranslate2(folder, each, *setting) for each in ("float32", "int8") for setting in settings]
        pools = {system: ProcessPoolExecutor(1, mp_context=get_context("spawn")) for system in systems}
        for turn in range(repeats + 1):
            for beam in BEAMS:
                for system, pool in pools.items():
                    result = pool.submit(measured, system, lines, beam).result()
                    if turn:
                        taken.setdefault((system, beam), []).append(result)
                    say(
                        f"{turn} of {repeats}, beam {beam}, {system}: {result[0]:.2f} s, of processor {result[1]:.2f} s"
                    )
        for pool in pools.values():
            pool.shutdown()
    rows = [
        {
            "system": str(system),
            "beam": beam,
            "sentences/s": round(len(lines) / min(clock for clock, _, _ in found), 1),
            "sentences/s of processor time": round(len(lines) / min(processor for _, processor, _ in found), 1),
            "BLEU": round(bleu(Evidence(found[-1][2], references, "13a")).value, 2),
        }
        for (system, beam), found in taken.items()
    ]
    print(markdown([{name: str(cell) for name, cell in row.items()} for row in rows]))
    if json:
        origin = provenance() | {"threads": str(threads), "text": f"{len(lines)} lines of {input}"}
        write_json(Path(json), origin | {"rows": rows})


main = Command(measure_ctranslate2, "measure_ctranslate2.py")

if __name__ == "__main__":
    sys.exit(main())
