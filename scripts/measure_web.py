"""Compare the engine of `nmt-export`, in Node, with the toolkit: equal translations, and rates."""

import json
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from safetensors.torch import save

from machine import provenance
from nmt.cli.command import Command
from nmt.cli.options import InputFile, OutputFile, RunPath
from nmt.cli.terminal import say
from nmt.data.corpus import read_lines, read_test_set
from nmt.errors import ConfigError
from nmt.evaluation.figures.files import markdown
from nmt.evaluation.metrics import Evidence, bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.files import read_json, run_name, write_json
from nmt.pages.web.exporting import compressed, export_web, exported
from nmt.runs.checkpoints import unshared
from nmt.runs.loading import LoadedRun, load_run
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

SCRIPT = Path(__file__).with_name("engine.mjs")
BEAMS = (1, 5)
WEIGHTS = "weights.bin"
WARM = 10
"""Sentences before a rate is measured."""
FORMATS: dict[str, Callable[[LoadedRun], bytes]] = {
    "fp32": lambda run: compressed(save(unshared(run.model.state_dict()))),
    "of nmt-export": lambda run: exported(run)[WEIGHTS],
}
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
    other: InputFile | None = None,
    sentences: Count = 1000,
    pieces: list[InputFile] | None = None,
    formats: list[Literal["fp32", "of nmt-export", "of nmt-report"]] | None = None,
    systems: list[RunPath] | None = None,
    json: OutputFile | None = None,
    name: str | None = None,
    about: str | None = None,
) -> None:
    """Compare the engine of nmt-export, in Node, with the toolkit on one thread.

    Rates are sentences per second of processor time, which other programs change less than time on the clock.

    Args:
        run: run directory
        input: source text
        reference: its translation, to compute BLEU
        other: other source text, whose first N lines stand for the test set of a report: its weights depend on it
            (default: that of --input)
        sentences: translate the first N lines
        pieces: also compare the pieces of all lines of these files, and of as many made of the characters of four
            scripts, with those of SentencePiece
        formats: measure the engine with these weights alone, such as "of nmt-export"; the other rows of an earlier
            entry stay, each with its commit
        systems: also compare greedy translations of these runs, with weights in fp32 and as exported
        json: also write the rows, with the machine and the commit, into this file: in place of an earlier entry of this
            name, beside those of other runs
        name: of the entry (default: that of the run directory)
        about: how the run was trained and what it translates, for the entry
    """
    torch.set_num_threads(1)
    sources, references = (lines[:sentences] for lines in read_test_set(input, reference))
    loaded = load_run(Path(run), torch.device("cpu"))
    tokenizer = tokenizer_of_run(loaded.config)
    translator = Translator.of([loaded], torch.device("cpu"), torch.float32)
    tested = list(islice(read_lines(other or input), sentences))
    forms = FORMATS | {"of nmt-report": partial(of_report, tested)}
    weights = {form: forms[form](loaded) for form in formats or forms}
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        export_web(run, folder)
        for beam in BEAMS:
            expected, batched = timed(translator, [sources[:WARM], sources[WARM:]], beam)
            per_second = len(sources) - WARM
            if not formats:
                _, single = timed(translator, [sources[:WARM], *([line] for line in sources[WARM:])], beam)
                texts = [each.text for each in expected]
                own = {"beam": beam, "BLEU": bleu(Evidence(texts, references, tokenizer)).value}
                rows.append({"system": "toolkit, in batches", **own, "sentences/s": per_second / batched})
                rows.append({"system": "toolkit, one at a time", **own, "sentences/s": per_second / single})
            for form, content in weights.items():
                (folder / WEIGHTS).write_bytes(content)
                found = ask("measure", folder=scratch, lines=sources, beam=beam, warm=WARM)
                same = compared(expected, found["translations"])
                texts = [each["text"] for each in found["translations"]]
                rate = {
                    "BLEU": bleu(Evidence(texts, references, tokenizer)).value,
                    "sentences/s": per_second / found["seconds"],
                }
                size = (folder / WEIGHTS).stat().st_size / 1e6
                rows.append({"system": f"engine, {form}", "weights, MB": size, "beam": beam, **same, **rate})
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
            **provenance(shlex.join(["python", *sys.argv])),
            "versions": {"node": node, "torch": torch.__version__, "python": platform.python_version()},
            **({"configuration": about} if about else {}),
            "system": {"parameters": parameters, "sentences": len(sources)},
            **({"pieces": {"lines": len(lines), "unequal": unequal}} if pieces else {}),
            **({"systems": [row for each in systems for row in equality(each, sources)]} if systems else {}),
            "rows": rows,
        }
        file, name = Path(json), name or run_name(run)
        entries = read_json(file) if file.exists() else {}
        if formats and (earlier := entries.get(name)):
            new = {row["system"] for row in rows}
            kept = [{"commit": earlier["commit"]} | row for row in earlier["rows"] if row["system"] not in new]
            measured = earlier | measured | {"rows": kept + rows}
        write_json(file, entries | {name: measured})


def of_report(texts: list[str], run: LoadedRun) -> bytes:
    """The weights of a run as in a report whose test set has these texts."""
    return exported(run, Translator.of([run], torch.device("cpu"), torch.float32).translate(texts))[WEIGHTS]


def equality(run: str, sources: list[str]) -> list[dict[str, Any]]:
    """How equal the engine's greedy translations are to the toolkit's, with a run's weights in fp32 and as exported."""
    loaded, rows = load_run(run, torch.device("cpu")), []
    expected = Translator.of([loaded], torch.device("cpu"), torch.float32).translate(sources, beam_size=1)
    with TemporaryDirectory() as folder:
        export_web(run, Path(folder))
        for form in ("of nmt-export", "fp32"):
            (Path(folder) / WEIGHTS).write_bytes(FORMATS[form](loaded))
            found = ask("measure", folder=folder, lines=sources, beam=1, warm=0)
            rows.append({"system": run_name(run), "weights": form, **compared(expected, found["translations"])})
    say(f"{rows[0]['system']}: {rows[0]['equal, %']:.1f}, {rows[1]['equal, %']:.1f}% equal")
    return rows


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


def timed(translator: Translator, parts: Sequence[list[str]], beam: int) -> tuple[list[Translation], float]:
    """Translate part by part; return the translations, and the seconds of processor time for all but the first part."""
    found: list[Translation] = []
    start = 0.0
    for number, part in enumerate(parts):
        if number == 1:
            start = time.process_time()
        found += translator.translate(part, beam_size=beam)
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
