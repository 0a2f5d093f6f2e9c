"""Compare the engine of `nmt-export`, in Node, with the toolkit: equal translations, and rates."""

import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from machine import provenance
from nmt.cli.command import Command
from nmt.cli.options import InputFile, OutputFile, RunPath
from nmt.cli.terminal import say
from nmt.data.corpus import read_lines, read_test_set
from nmt.errors import ConfigError
from nmt.evaluation.figures.files import markdown
from nmt.evaluation.metrics import Evidence, bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.files import write_json
from nmt.pages.web.exporting import export_web
from nmt.runs.loading import load_run
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

SCRIPT = Path(__file__).with_name("engine.mjs")
BEAMS = (1, 5)
WARM = 10
"""Sentences before a rate is measured."""
SCRIPTS = ((0x370, 0x400), (0x400, 0x530), (0x600, 0x700), (0x4E00, 0xA000))
"""Greek, Cyrillic, Arabic, CJK, in Unicode's tables."""
MARKS = (0x300, 0x370)
"""Combining marks there."""
Count = Annotated[int, Field(ge=WARM + 1)]


def measure_web(
    run: RunPath,
    *,
    input: InputFile,
    reference: InputFile,
    sentences: Count = 500,
    pieces: list[InputFile] | None = None,
    json: OutputFile | None = None,
    about: str | None = None,
) -> None:
    """Compare the engine of nmt-export, in Node, with the toolkit on one thread.

    Rates are sentences per second of processor time, which other programs change less than time on the clock.

    Args:
        run: run directory
        input: source text
        reference: its translation, to compute BLEU
        sentences: translate the first N lines
        pieces: also compare the pieces of all lines of these files, and of as many made of the characters of four
            scripts, with those of SentencePiece
        json: also write the rows, with the machine and the commit, into this file
        about: how the run was trained and what it translates, for this file
    """
    torch.set_num_threads(1)
    sources, references = (lines[:sentences] for lines in read_test_set(input, reference))
    loaded = load_run(Path(run), torch.device("cpu"))
    tokenizer = tokenizer_of_run(loaded.config)
    translator = Translator.of([loaded], torch.device("cpu"), torch.float32)
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        export_web(run, folder)
        for beam in BEAMS:
            expected, taken = timed(translator, sources, beam)
            found = ask("measure", folder=scratch, lines=sources, beam=beam, warm=WARM)
            same = compared(expected, found["translations"])
            size = {"weights, MB": (folder / "weights.safetensors").stat().st_size / 1e6}
            written = [each["text"] for each in found["translations"]]
            for system, texts, seconds, more in (
                ("toolkit, one at a time", [each.text for each in expected], taken, {}),
                ("engine", written, found["seconds"], size | same),
            ):
                score, rate = bleu(Evidence(texts, references, tokenizer)).value, (len(sources) - WARM) / seconds
                rows.append({"system": system, "beam": beam, **more, "BLEU": score, "sentences/s": rate})
                say("  ".join(cells(rows[-1]).values()))
        lines = [line for file in pieces or () for line in read_lines(file)]
        lines += random_lines(len(lines))
        engine = ask("pieces", model=str(folder / "source.model"), lines=lines)
        tokenized = zip(engine, loaded.tokenizers.source.encode(lines), strict=True)
        unequal = sum(each["ids"] != ids for each, ids in tokenized)
    print(markdown([cells(row) for row in rows]))
    if pieces:
        print(f"\nlines whose pieces differ from SentencePiece's: {unequal} of {len(lines)}")
    if json:
        parameters = sum(each.numel() for each in loaded.model.parameters())
        node = subprocess.run([node_program(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
        measured = {
            **provenance(),
            "versions": {"node": node, "python": platform.python_version()},
            **({"configuration": about} if about else {}),
            "system": {"parameters": parameters, "sentences": len(sources)},
            **({"pieces": {"lines": len(lines), "unequal": unequal}} if pieces else {}),
            "rows": rows,
        }
        write_json(Path(json), measured)


def random_lines(count: int, seed: int = 1) -> list[str]:
    """Lines of 1 to 20 words of 1 to 8 characters of a script; a tenth of the characters bear a combining mark."""
    random = Random(seed)

    def word() -> str:
        script = random.choice(SCRIPTS)
        return "".join(
            chr(random.randrange(*script)) + (chr(random.randrange(*MARKS)) if random.random() < 0.1 else "")
            for _ in range(random.randint(1, 8))
        )

    return [" ".join(word() for _ in range(random.randint(1, 20))) for _ in range(count)]


def timed(translator: Translator, lines: Sequence[str], beam: int) -> tuple[list[Translation], float]:
    """Translate line by line; return the translations, and the seconds of processor time after the first ``WARM``."""
    found, start = list[Translation](), 0.0
    for number, line in enumerate(lines):
        if number == WARM:
            start = time.process_time()
        found.append(translator.translate(line, beam_size=beam))
    return found, time.process_time() - start


def compared(expected: Sequence[Translation], found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The share of equal translations, and how far the log-probabilities of these differ, in nats."""
    equal = [(a, b) for a, b in zip(expected, found, strict=True) if a.pieces == b["pieces"]]
    differences = [abs(a.hypotheses[0].log_probability - b["logProb"]) for a, b in equal]
    return {
        "equal, %": 100 * len(equal) / len(expected),
        "mean difference": float(np.mean(differences)),
        "largest difference": float(np.max(differences)),
    }


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Cells of the table; the toolkit has no size and no difference."""
    form = {"weights, MB": ".2f", "beam": "d", "equal, %": ".1f", "BLEU": ".2f", "sentences/s": ".1f"}
    shown = {"system": row["system"]}
    for name in (*form, "mean difference", "largest difference"):
        shown[name] = format(row[name], form.get(name, ".4f")) if name in row else "–"
    return shown


def ask(task: str, **request: Any) -> Any:
    """The engine's answer, from Node."""
    asked = json.dumps({"task": task, **request})
    ended = subprocess.run([node_program(), SCRIPT], input=asked, capture_output=True, text=True, check=False)
    assert not ended.returncode, ended.stderr
    return json.loads(ended.stdout)


def node_program() -> str:
    """Find Node, or raise ConfigError."""
    if node := shutil.which("node"):
        return node
    raise ConfigError("node is not installed; use apt install nodejs")


main = Command(measure_web, "measure_web.py")

if __name__ == "__main__":
    sys.exit(main())
