"""A task that is learned in seconds, and training runs of it."""

import json
import math
import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from nmt.config import Config
from nmt.errors import Stopped
from nmt.training.train import train as train_run
from nmt.training.trainer import Trainer
from tests.comparison import differences

WORDS = ["oak", "elm", "ash", "fir", "yew", "box", "bay", "fig"]
ATTENTIONS: dict[str, dict[str, Any]] = {
    "none": {"type": "none"},
    "bahdanau": {"type": "bahdanau", "score": {"hidden": 32}},
    "luong": {"type": "luong"},
    "transformer": {"type": "transformer"},
}
TRANSFORMER = {"type": "transformer", "hidden": 32, "layers": 2, "heads": 4, "feedforward": 64}


def translate(line: str) -> str:
    """Translate into the language to be learned: the words in reverse order, in capitals."""
    return " ".join(reversed(line.upper().split()))


def write_corpus(
    folder: Path, train: int = 300, validation: int = 20, test: int = 20, longest: int = 4, seed: int = 1
) -> dict[str, dict[str, str]]:
    """Write so many pairs of up to ``longest`` words; return the files by split and side, as the data section does."""
    generator = random.Random(seed)
    corpora = {}
    for split, size in (("train", train), ("validation", validation), ("test", test)):
        lines = [" ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(size)]
        source, target = (folder / f"{split}.{side}" for side in ("low", "up"))
        source.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        target.write_text("".join(f"{translate(line)}\n" for line in lines), "utf-8")
        corpora[split] = {"source": str(source), "target": str(target)}
    return corpora


def options(
    folder: Path, attention: str = "bahdanau", dropout: Mapping[str, Any] = MappingProxyType({}), **training: Any
) -> dict[str, Any]:
    """The configuration of a tiny training run on the corpus in ``folder``, which is written if it is missing."""
    if not (folder / "train.low").exists():
        write_corpus(folder)
    splits = ("train", "validation", "test")
    validation = {"every": 2, "sentences": 5, "samples": 0} | training.pop("validation", {})
    corpora = {name: {"source": str(folder / f"{name}.low"), "target": str(folder / f"{name}.up")} for name in splits}
    return {
        "output": str(folder / "run"),
        "device": "cpu",
        "precision": "fp32",
        "data": {"source_language": "low", "target_language": "up", "cache": str(folder / "cache"), **corpora},
        "tokenizer": {"type": "word", "vocabulary": 50},
        "model": {
            "attention": ATTENTIONS[attention],
            "embeddings": {"size": 32},
            "encoder": TRANSFORMER if attention == "transformer" else {"hidden": 32},
            "decoder": TRANSFORMER if attention == "transformer" else {"hidden": 48},
            "dropout": {"embedding": 0.1, "annotation": 0.1, "readout": 0.1, **dropout},
        },
        "training": {"updates": 4, "batch_tokens": 100, **training, "validation": validation},
        "decoding": {"beam_size": 2},
        "evaluation": {"bins": [2], "bootstrap": 10},
    }


def config(folder: Path, attention: str = "bahdanau", output: str = "run", **training: Any) -> Config:
    """:func:`options`, with the run at ``folder / output``."""
    return Config.model_validate(options(folder, attention, **training) | {"output": str(folder / output)})


class Stop:
    """Requests a stop, as a signal does, after ``updates`` updates or after ``asked`` questions whether to stop."""

    def __init__(self, updates: float = math.inf, asked: float = math.inf) -> None:
        self.updates, self.asked = updates, asked
        self.made = self.answered = 0

    def __call__(self) -> None:
        self.answered += 1
        if self.made >= self.updates or self.answered > self.asked:
            raise Stopped

    def counting(self, update: Callable[..., Any]) -> Callable[..., Any]:
        """``Trainer.update``, with a counter."""

        def counted(*arguments: Any) -> Any:
            self.made += 1
            return update(*arguments)

        return counted


def train(configuration: Config, stop_after: int | None = None, stop: Stop | None = None, **how: Any) -> list[str]:
    """Train to the end, or until ``stop`` or ``stop_after`` updates stop the run; return the lines that were said."""
    said: list[str] = []
    stop = stop or Stop(math.inf if stop_after is None else stop_after)
    with patch.object(Trainer, "update", stop.counting(Trainer.update)):
        try:
            train_run(configuration, say=said.append, stop_request=nullcontext(stop), **how)
        except Stopped:
            assert stop.made >= stop.updates or stop.answered > stop.asked
        else:
            assert stop.made < stop.updates and stop.answered <= stop.asked
    return said


def metrics(run: Path, split: str | None = None) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``, of one split or of all."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [line for line in lines if split in (None, line["split"])]


def pickles(folder: Path) -> list[Path]:
    """Files that begin like a pickle of protocol 2 or later, or like PyTorch's archive of pickles."""
    beginnings = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
    return [path for path in folder.rglob("*") if path.is_file() and path.read_bytes().startswith(beginnings)]


def train_whole_and_in_parts(configuration: Config, folder: Path, stop_after: int = 3) -> Config:
    """Train at ``folder / "whole"``, and at ``folder / "parts"`` with a stop after some updates, resumed; both must be
    the same. Return the configuration of the first."""
    whole, parts = (configuration.model_copy(update={"output": str(folder / name)}) for name in ("whole", "parts"))
    train(whole)
    train(parts, stop_after=stop_after)
    assert f"resumed after update {stop_after}" in train(parts, resume=True)
    assert differences(folder / "parts", folder / "whole") == []
    return whole
