"""The toolkits that are compared: how each one trains and translates the task of configs/benchmark/reference.yaml.

The task is Multi30k, German to English, with SentencePiece BPE of 8,000 pieces a side: a bidirectional GRU encoder, a
GRU decoder of 512 units, additive attention, embeddings of 256, dropout 0.2, weights uniform in +-0.1 at first;
batches of 2,000 tokens, Adam with a peak rate of 1e-3 after 300 updates and the inverse square root from there. Each
toolkit does it as closely as it can.
"""

import re
import string
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from peers.processes import Command

ROOT = Path(__file__).parent.parent.parent
EVERY = 250
"""Updates between two validations."""
BEAMS = (1, 5)


class Toolkit(ABC):
    """Something that trains, and then translates with its last checkpoint; this toolkit with its best one. Its commands
    run in a folder ``work`` of its own, beside which are the task and the environments."""

    packages: ClassVar[tuple[str, ...]] = ()
    """What pip installs into its environment; nothing: the environment of this script is used."""
    rate: ClassVar[re.Pattern[str]]
    """Finds the target tokens a second in a line that its training prints."""
    bleu: ClassVar[re.Pattern[str]]
    """Finds the BLEU of a validation in such a line."""

    def environment(self, work: Path) -> Path:
        """The virtual environment; its commands are in ``bin``."""
        return work.parent / f"environment-{type(self).__name__}" if self.packages else Path(sys.prefix)

    @abstractmethod
    def training(self, work: Path, updates: int, seed: int, threads: int) -> Command:
        """The command that trains."""

    @abstractmethod
    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """The command that translates a file."""


# --- this toolkit -----------------------------------------------------------------------------------------------------


EOLES: Mapping[str, int | str] = {
    "model.encoder.hidden": 256,
    "model.attention": "{type: luong, score: {type: concat, hidden: 512}, input_feeding: true}",
    "model.dropout.annotation": 0,
    "training.batch_tokens": 2400,
    "training.schedule": "{type: constant}",
}
"""What Eole computes: an encoder half as wide, Luong's decoder, whose readout in Eole has no tanh, no dropout of
annotations, 134 pairs an update, and no warm-up: the peak rate for 300 updates, three quarters of it at the 500th."""


@dataclass(frozen=True)
class Nmt(Toolkit):
    """This toolkit, trained in a precision; ``auto`` translates in bf16."""

    rate = re.compile(r"training: .* ([\d,]+) tokens/s")
    bleu = re.compile(r"^validation(?: +[\d.,]+){4} +([\d.]+) ")
    precision: str
    network: Mapping[str, int | str] = field(default_factory=dict)
    """Options that differ from the reference configuration."""

    def training(self, work: Path, updates: int, seed: int, threads: int) -> Command:
        """``nmt-train``."""
        settings: dict[str, str | int] = {"output": "run", "precision": self.precision, "threads": threads}
        settings |= self.network
        settings |= {"seed": seed, "training.updates": updates, "training.validation.every": EVERY}
        for part, name in (("train", "train"), ("validation", "val"), ("test", "test2016")):
            settings[f"data.{part}"] = f"{{source: ../task/{name}.de, target: ../task/{name}.en}}"
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        config = str(ROOT / "configs/benchmark/reference.yaml")
        return Command([str(self.environment(work) / "bin/nmt-train"), "--config", config, "--overwrite", *options])

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``nmt-translate``."""
        files = ["--model", "run", "--input", str(source), "--output", str(output)]
        options = ["--beam-size", str(beam), "--precision", "fp32" if self.precision == "fp32" else "bf16"]
        return Command([str(self.environment(work) / "bin/nmt-translate"), *files, *options])


# --- others -----------------------------------------------------------------------------------------------------------


class JoeyNMT(Toolkit):
    """JoeyNMT. importlib-metadata is missing among its requirements, and it needs a SentencePiece older than 0.2.2."""

    packages = ("joeynmt==2.3.0", "importlib-metadata", "sentencepiece==0.2.1")
    rate = re.compile(r"Tokens per Sec: +(\d+)")
    bleu = re.compile(r"Evaluation result \(.*bleu: +([\d.]+)")

    def training(self, work: Path, updates: int, seed: int, threads: int) -> Command:
        """``python -m joeynmt train``; writes the configurations of translation, too."""
        _write(work, "joeynmt.yaml", "train.yaml", updates=updates, seed=seed, beam=1, checkpoint="null")
        for beam in BEAMS:
            name, checkpoint = f"beam-{beam}.yaml", "model/latest.ckpt"
            _write(work, "joeynmt.yaml", name, updates=updates, seed=seed, beam=beam, checkpoint=checkpoint)
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

    def training(self, work: Path, updates: int, seed: int, threads: int) -> Command:
        """``eole train``."""
        _write(work, "eole.yaml", "train.yaml", updates=updates, seed=seed)
        return Command([str(self.environment(work) / "bin/eole"), "train", "--config", "train.yaml"])

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        """``eole predict``."""
        options = ["--beam_size", str(beam), "--batch_size", "64", "--max_length", "100", "--length_penalty", "avg"]
        files = ["--model_path", "model", "--src", str(source), "--output", str(output)]
        return Command([str(self.environment(work) / "bin/eole"), "predict", *files, *options])


TOOLKITS: dict[str, Toolkit] = {
    "nmt": Nmt("auto"),
    "nmt-fp32": Nmt("fp32"),
    "nmt-eole": Nmt("fp32", EOLES),
    "joeynmt": JoeyNMT(),
    "eole": Eole(),
}


def _write(work: Path, template: str, name: str, **values: int | str) -> None:
    """Write the configuration of a toolkit from its template beside this file."""
    text = string.Template(Path(__file__).with_name(template).read_text("utf-8"))
    (work / name).write_text(text.substitute(values, every=EVERY), encoding="utf-8")
