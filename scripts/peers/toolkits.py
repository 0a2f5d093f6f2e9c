"""The toolkits that are compared: how each one trains and translates the task of configs/benchmark/reference.yaml.

The task is Multi30k, German to English, with SentencePiece BPE of 8,000 pieces a side: a bidirectional GRU encoder, a
GRU decoder of 512 units, additive attention, embeddings of 256, dropout 0.2, weights uniform in +-0.1 at first;
batches of 2,000 tokens, Adam with a peak rate of 1e-3 after 300 updates and the inverse square root from there. Each
toolkit does it as closely as it can.
"""

import re
import shutil
import string
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from peers.processes import Command

ROOT = Path(__file__).parent.parent.parent
EVERY = 250
"""Updates between two validations."""
BEAMS = (1, 5)


class Translator(ABC):
    """Something that translates. Its commands run in a folder ``work`` of its own, beside which are the task and the
    environments."""

    packages: ClassVar[tuple[str, ...]] = ()
    """What pip installs into its environment; nothing: the environment of this script is used."""

    def environment(self, work: Path) -> Path:
        """The virtual environment; its commands are in ``bin``."""
        return work.parent / f"environment-{type(self).__name__}" if self.packages else Path(sys.prefix)

    def preparation(self, work: Path) -> Command | None:
        """What has to be run before the first translation."""
        return None

    @abstractmethod
    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """The command that translates a file."""


class Toolkit(Translator):
    """Something that trains, and then translates with its last checkpoint; this toolkit with its best one."""

    rate: ClassVar[re.Pattern[str]]
    """Finds the target tokens a second in a line that its training prints."""
    bleu: ClassVar[re.Pattern[str]]
    """Finds the BLEU of a validation in such a line."""

    @abstractmethod
    def training(self, work: Path, updates: int, threads: int) -> Command:
        """The command that trains."""


# --- this toolkit -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NmtRun(Translator):
    """This toolkit with a run that is there."""

    precision: str
    run: Path

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``nmt-translate``."""
        files = ["--model", str(self.run), "--input", str(source), "--output", str(output)]
        options = ["--beam-size", str(beam), "--precision", self.precision]
        return Command([str(self.environment(work) / "bin/nmt-translate"), *files, *options])


@dataclass(frozen=True)
class Nmt(Toolkit):
    """This toolkit, trained in a precision; ``auto`` translates in bf16."""

    rate = re.compile(r"training: .* ([\d,]+) tokens/s")
    bleu = re.compile(r"^validation(?: +[\d.,]+){4} +([\d.]+) ")
    precision: str

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """``nmt-train``."""
        settings: dict[str, str | int] = {"output": "run", "precision": self.precision, "threads": threads}
        settings |= {"training.updates": updates, "training.validation.every": EVERY}
        for part, name in (("train", "train"), ("validation", "val"), ("test", "test2016")):
            settings[f"data.{part}"] = f"{{source: ../task/{name}.de, target: ../task/{name}.en}}"
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        config = str(ROOT / "configs/benchmark/reference.yaml")
        return Command([str(self.environment(work) / "bin/nmt-train"), "--config", config, "--overwrite", *options])

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``nmt-translate``."""
        precision = "fp32" if self.precision == "fp32" else "bf16"
        return NmtRun(precision, Path("run")).translation(work, source, output, beam, threads)


# --- others -----------------------------------------------------------------------------------------------------------


class JoeyNMT(Toolkit):
    """JoeyNMT. importlib-metadata is missing among its requirements, and it needs a SentencePiece older than 0.2.2."""

    packages = ("joeynmt==2.3.0", "importlib-metadata", "sentencepiece==0.2.1")
    rate = re.compile(r"Tokens per Sec: +(\d+)")
    bleu = re.compile(r"Evaluation result \(.*bleu: +([\d.]+)")

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """``python -m joeynmt train``; writes the configurations of translation, too."""
        _write(work, "joeynmt.yaml", "train.yaml", updates=updates, beam=1, checkpoint="null")
        for beam in BEAMS:
            name, checkpoint = f"beam-{beam}.yaml", "model/latest.ckpt"
            _write(work, "joeynmt.yaml", name, updates=updates, beam=beam, checkpoint=checkpoint)
        return Command(
            [str(self.environment(work) / "bin/python"), "-m", "joeynmt", "train", "train.yaml", "--skip-test"]
        )

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``python -m joeynmt translate``, from standard input to standard output."""
        return Command(
            [str(self.environment(work) / "bin/python"), "-m", "joeynmt", "translate", f"beam-{beam}.yaml"],
            source,
            output,
        )


class Eole(Toolkit):
    """Eole. aiohttp is missing among its requirements: without it no command starts."""

    packages = ("eole==0.6.4", "aiohttp")
    rate = re.compile(r"\d+/ *(\d+) tok/s")
    bleu = re.compile(r"validation BLEU: ([\d.]+)")

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """``eole train``."""
        _write(work, "eole.yaml", "train.yaml", updates=updates)
        return Command([str(self.environment(work) / "bin/eole"), "train", "--config", "train.yaml"])

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``eole predict``."""
        options = ["--beam_size", str(beam), "--batch_size", "64", "--max_length", "100", "--length_penalty", "avg"]
        files = ["--model_path", "model", "--src", str(source), "--output", str(output)]
        return Command([str(self.environment(work) / "bin/eole"), "predict", *files, *options])


@dataclass(frozen=True)
class CTranslate2(Translator):
    """CTranslate2 with the weights of a Transformer that this toolkit trained; its workers share the threads."""

    packages = ("ctranslate2==4.8.5", "sentencepiece")
    precision: str
    run: Path
    workers: int

    def preparation(self, work: Path) -> Command:
        """``nmt-export``, again for each comparison."""
        shutil.rmtree(work / "model", ignore_errors=True)
        return Command([str(Path(sys.prefix, "bin/nmt-export")), "--ctranslate2", str(self.run), "model"])

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``translate_batch`` of its Python interface."""
        words = [Path(__file__).with_name("ctranslate2_program.py"), "model", source, output, beam, self.precision]
        words += [self.workers, max(1, threads // self.workers)]
        return Command([str(self.environment(work) / "bin/python"), *map(str, words)])


TOOLKITS: dict[str, Toolkit] = {
    "nmt": Nmt("auto"),
    "nmt-fp32": Nmt("fp32"),
    "joeynmt": JoeyNMT(),
    "eole": Eole(),
}


def decoders(run: Path) -> dict[str, Translator]:
    """What translates with a Transformer of this toolkit."""
    here: dict[str, Translator] = {f"transformer-{precision}": NmtRun(precision, run) for precision in ("fp32", "bf16")}
    return here | {
        f"ctranslate2-{precision}-{workers}-workers": CTranslate2(precision, run, workers)
        for precision in ("float32", "int8")
        for workers in (1, 2)
    }


def _write(work: Path, template: str, name: str, **values: int | str) -> None:
    """Write the configuration of a toolkit from its template beside this file."""
    text = string.Template(Path(__file__).with_name(template).read_text("utf-8"))
    (work / name).write_text(text.substitute(values, every=EVERY), encoding="utf-8")
