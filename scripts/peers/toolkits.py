"""The toolkits that are compared: how each one trains and translates.

The task is Multi30k, German to English, with SentencePiece BPE of 8,000 pieces a side: a bidirectional GRU encoder of
256 units in each direction, a GRU decoder of 512, additive attention, embeddings of 256, dropout 0.2, weights uniform
in +-0.1 at first; 112 pairs an update, Adam with a rate of 1e-3. Two differences remain: our readout has a tanh, and
our decoder starts from a learned function of the encoder's last state, Eole's from that state.
"""

import re
import string
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).parent.parent.parent
EVERY = 200
"""Updates between two validations."""
BEAMS = (1, 5)
EOLE = "0.6.4"
"""The version of the peer."""
PIECES = 8000
"""In the vocabulary of each side."""


class Toolkit(ABC):
    """Something that trains, and then translates with its last checkpoint; this toolkit with its best one. Its commands
    run in a folder ``work`` of its own, beside which are the task and the environments."""

    packages: ClassVar[tuple[str, ...]] = ()
    """What pip installs into its environment; nothing: the environment of this script is used."""
    rate: ClassVar[re.Pattern[str]]
    """Finds the target tokens a second in what its training prints."""

    def environment(self, work: Path) -> Path:
        """The virtual environment; its commands are in ``bin``."""
        return work.parent / f"environment-{type(self).__name__}" if self.packages else Path(sys.prefix)

    def rates(self, log: str) -> list[float]:
        """The target tokens a second in what its training printed."""
        return [float(rate.replace(",", "")) for rate in self.rate.findall(log)]

    @abstractmethod
    def training(self, work: Path, updates: int, seed: int, threads: int) -> Sequence[str]:
        """The command that trains."""

    @abstractmethod
    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Sequence[str]:
        """The command that translates a file."""


class Nmt(Toolkit):
    """This toolkit in fp32, with the network that Eole's options allow, and as many pairs an update."""

    rate = re.compile(r"training: .* ([\d,]+) tokens/s")
    changes: ClassVar[Mapping[str, int | str]] = {
        "precision": "fp32",
        "model.encoder.hidden": 256,
        "model.attention": "{type: luong, score: {type: concat, hidden: 512}, input_feeding: true}",
        "model.dropout.annotation": 0,
        "training.schedule": "{type: constant}",
    }
    """Options that differ from configs/benchmark/reference.yaml."""

    def training(self, work: Path, updates: int, seed: int, threads: int) -> Sequence[str]:
        """``nmt-train``."""
        settings: dict[str, str | int] = {"output": "run", "threads": threads, **self.changes}
        settings |= {"seed": seed, "training.updates": updates, "training.validation.every": EVERY}
        for part, name in (("train", "train"), ("validation", "val"), ("test", "test2016")):
            settings[f"data.{part}"] = f"{{source: ../task/{name}.de, target: ../task/{name}.en}}"
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        config = str(ROOT / "configs/benchmark/reference.yaml")
        return [str(self.environment(work) / "bin/nmt-train"), "--config", config, "--overwrite", *options]

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Sequence[str]:
        """``nmt-translate``."""
        files = ["--model", "run", "--input", str(source), "--output", str(output)]
        options = ["--beam-size", str(beam), "--precision", "fp32"]
        return [str(self.environment(work) / "bin/nmt-translate"), *files, *options]


class Eole(Toolkit):
    """Eole. Its requirements lack aiohttp, without which no command starts."""

    packages = (f"eole=={EOLE}", "aiohttp")
    rate = re.compile(r"\d+/ *(\d+) tok/s")

    def training(self, work: Path, updates: int, seed: int, threads: int) -> Sequence[str]:
        """``eole train``."""
        template = string.Template(Path(__file__).with_name("eole.yaml").read_text("utf-8"))
        settings = template.substitute(updates=updates, seed=seed, every=EVERY, pieces=PIECES)
        (work / "train.yaml").write_text(settings, encoding="utf-8")
        return [str(self.environment(work) / "bin/eole"), "train", "--config", "train.yaml"]

    def translation(self, work: Path, source: Path, output: Path, beam: int) -> Sequence[str]:
        """``eole predict``."""
        options = ["--beam_size", str(beam), "--batch_size", "64", "--max_length", "100", "--length_penalty", "avg"]
        files = ["--model_path", "model", "--src", str(source), "--output", str(output)]
        return [str(self.environment(work) / "bin/eole"), "predict", *files, *options]


TOOLKITS: dict[str, Toolkit] = {"nmt": Nmt(), "eole": Eole()}
