"""The toolkits that are compared: how each one trains and translates the task of configs/benchmark/reference.yaml.

The task is Multi30k, German to English, with SentencePiece BPE of 8,000 pieces a side: a bidirectional GRU encoder, a
GRU decoder of 512 units, additive attention, embeddings of 256, dropout 0.2; batches of 2,000 tokens, Adam with a peak
rate of 1e-3 after 300 updates and the inverse square root from there. Each toolkit does it as closely as it can.
"""

import re
import string
import sys
from dataclasses import dataclass, field
from pathlib import Path

from peers.processes import Command

ROOT = Path(__file__).parent.parent.parent
EVERY = 250
"""Updates between two validations."""
BEAMS = (1, 5)


@dataclass(frozen=True)
class Toolkit:
    """One way to train and to translate. Commands run in a folder ``work`` that has the task beside it."""

    name: str
    packages: tuple[str, ...]
    """What pip installs into its environment beside PyTorch; nothing: the environment of this script is used."""
    rate: re.Pattern[str]
    """Finds the target tokens a second in a line that its training prints."""
    bleu: re.Pattern[str]
    """Finds the BLEU of a validation in such a line."""

    def python(self, work: Path) -> Path:
        """The interpreter of its environment; its commands are beside it."""
        return work / "environment/bin/python" if self.packages else Path(sys.executable)

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """The command that trains."""
        raise NotImplementedError

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Command:
        """The command that translates a file with the last checkpoint."""
        raise NotImplementedError


@dataclass(frozen=True)
class Nmt(Toolkit):
    """This toolkit."""

    name: str = "nmt"
    packages: tuple[str, ...] = ()
    rate: re.Pattern[str] = re.compile(r"training: .* ([\d,]+) tokens/s")
    bleu: re.Pattern[str] = re.compile(r"^validation(?: +[\d.,]+){4} +([\d.]+) ")
    precision: str = field(kw_only=True)
    """That of training and of translation."""

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """``nmt-train``."""
        settings = {"output": "run", "precision": self.precision, "threads": threads, "training.updates": updates}
        settings["training.validation.every"] = EVERY
        for part, name in (("train", "train"), ("validation", "val"), ("test", "test2016")):
            settings[f"data.{part}"] = f"{{source: ../task/{name}.de, target: ../task/{name}.en}}"
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        config = str(ROOT / "configs/benchmark/reference.yaml")
        return Command([str(self.python(work).parent / "nmt-train"), "--config", config, "--overwrite", *options])

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Command:
        """``nmt-translate``."""
        program = str(self.python(work).parent / "nmt-translate")
        files = ["--input", str(source), "--output", str(output)]
        return Command([program, "--model", "run", *files, "--beam-size", str(beam), "--precision", self.precision])


@dataclass(frozen=True)
class JoeyNMT(Toolkit):
    """JoeyNMT. importlib-metadata is missing among its requirements, and it needs a SentencePiece older than 0.2.2."""

    name: str = "joeynmt"
    packages: tuple[str, ...] = ("joeynmt==2.3.0", "importlib-metadata", "sentencepiece==0.2.1")
    rate: re.Pattern[str] = re.compile(r"Tokens per Sec: +(\d+)")
    bleu: re.Pattern[str] = re.compile(r"Evaluation result \(.*bleu: +([\d.]+)")

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """``python -m joeynmt train``; writes the configurations of translation, too."""
        _write(work, "joeynmt.yaml", "train.yaml", updates=updates, beam=1, checkpoint="null")
        for beam in BEAMS:
            _write(
                work, "joeynmt.yaml", f"beam-{beam}.yaml", updates=updates, beam=beam, checkpoint="model/latest.ckpt"
            )
        return Command([str(self.python(work)), "-m", "joeynmt", "train", "train.yaml", "--skip-test"])

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Command:
        """``python -m joeynmt translate``, from standard input to standard output."""
        return Command([str(self.python(work)), "-m", "joeynmt", "translate", f"beam-{beam}.yaml"], source, output)


@dataclass(frozen=True)
class Eole(Toolkit):
    """Eole. aiohttp is missing among its requirements: without it no command starts."""

    name: str = "eole"
    packages: tuple[str, ...] = ("eole==0.6.4", "aiohttp")
    rate: re.Pattern[str] = re.compile(r"\d+/ *(\d+) tok/s")
    bleu: re.Pattern[str] = re.compile(r"validation BLEU: ([\d.]+)")

    def training(self, work: Path, updates: int, threads: int) -> Command:
        """``eole train``."""
        _write(work, "eole.yaml", "train.yaml", updates=updates)
        return Command([str(self.python(work).parent / "eole"), "train", "--config", "train.yaml"])

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Command:
        """``eole predict``."""
        options = ["--beam_size", str(beam), "--batch_size", "64", "--max_length", "100", "--length_penalty", "avg"]
        files = ["--model_path", "model", "--src", str(source), "--output", str(output)]
        return Command([str(self.python(work).parent / "eole"), "predict", *files, *options])


TOOLKITS: dict[str, Toolkit] = {
    "nmt": Nmt(precision="auto"),
    "nmt-fp32": Nmt(precision="fp32"),
    "joeynmt": JoeyNMT(),
    "eole": Eole(),
}


def _write(work: Path, template: str, name: str, **values: int | str) -> None:
    """Write the configuration of a toolkit from its template beside this file."""
    text = string.Template(Path(__file__).with_name(template).read_text("utf-8"))
    (work / name).write_text(text.substitute(values, every=EVERY), encoding="utf-8")
