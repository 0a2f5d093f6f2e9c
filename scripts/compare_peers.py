"""Compare this toolkit with Eole, which also trains recurrent systems."""

import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import sentencepiece

from machine import commit, provenance
from nmt.cli.command import Command
from nmt.cli.options import OutputFile
from nmt.cli.terminal import say
from nmt.config.schema import Size
from nmt.data.corpus import read_lines
from nmt.errors import DataError
from nmt.evaluation.metrics import Evidence, bleu
from nmt.files import read_json, write_json, write_text
from peers.processes import run
from peers.toolkits import BEAMS, PIECES, ROOT, TOOLKITS, Toolkit

DATA = Path("data/downloads/multi30k")
THREADS = 2
TIMES = 3
"""How often the test set is in the text to translate."""
GERMAN_ENGLISH = ("de", "en")


@dataclass(frozen=True)
class Trained:
    """What training took."""

    tokens_per_second: float
    """The median of what the toolkit printed, the first time left out."""
    seconds: float
    peak_mb: float
    stopped: bool
    """Whether it was stopped at the time limit."""
    measured: str
    """The commit of this toolkit, and the date."""


@dataclass(frozen=True)
class Translated:
    """What translation took with one beam."""

    beam: int
    sentences_per_second: float
    """All lines but one, over the difference of the times of all lines and of one."""
    first: float
    """Seconds of the whole command for one line."""
    bleu: float
    peak_mb: float
    measured: str
    """The commit of this toolkit, and the date."""


Result = TypeVar("Result", Trained, Translated)


def compare_peers(
    *,
    folder: str = "runs/peers",
    updates: Size = 400,
    seeds: Size = 2,
    minutes: Size = 30,
    json: OutputFile | None = None,
) -> None:
    """Compare this toolkit with Eole, which also trains recurrent systems.

    Eole is installed into an environment of its own. Both train the same network in fp32 on Multi30k, German to
    English, with the same text, subwords, batches and schedule, as closely as their options allow
    (scripts/peers/toolkits.py), and translate test2016. With several seeds they take turns, a seed each.

    Each has two threads. Results are kept in the folder, and a command that is repeated goes on where it stopped; name
    another folder for another time limit or run. Measure on an idle machine.

    Args:
        folder: environments, runs and results
        updates: updates of training
        seeds: train this often, with seeds 1, 2, ...
        minutes: longest time of a training
        json: also write the results to this file, as JSON
    """
    place = Path(folder).absolute()
    task = place / "task"
    write_task(task)
    results: dict[str, list[dict[str, Any]]] = {}
    for seed in range(1, seeds + 1):
        for name, toolkit in TOOLKITS.items():
            work = prepared(toolkit, place / f"{name}-{seed}")
            trained = train(toolkit, work, updates, seed, 60.0 * minutes)
            speeds = [translate(toolkit, work, task, beam) for beam in BEAMS]
            result = {"training": asdict(trained), "translation": [asdict(speed) for speed in speeds]}
            results.setdefault(name, []).append(result)
    if json:
        write_json(Path(json), provenance() | {"threads": str(THREADS), "results": results})


main = Command(compare_peers, "compare_peers.py")


def said(name: str, result: Result) -> Result:
    """Say a result, and return it."""
    say(f"{name}: {result}")
    return result


def now() -> str:
    """The commit and the date of a measurement."""
    return f"{commit()}, {datetime.now(UTC):%Y-%m-%d}"


def write_task(task: Path) -> None:
    """Write the corpus as plain text, its SentencePiece models and their pieces, unless that is done."""
    done = task / "done"
    if done.exists():
        return
    task.mkdir(parents=True, exist_ok=True)
    for language in GERMAN_ENGLISH:
        for name, suffix in (("train", ".xz"), ("val", ""), ("test2016", "")):
            content = "".join(f"{line}\n" for line in read_lines(DATA / f"{name}.{language}{suffix}"))
            write_text(task / f"{name}.{language}", content)
        text, prefix = str(task / f"train.{language}"), str(task / f"spm.{language}")
        learn = sentencepiece.SentencePieceTrainer.train
        learn(
            input=text, model_prefix=prefix, vocab_size=PIECES, model_type="bpe", character_coverage=1.0, minloglevel=2
        )
        pieces = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
        names = [
            pieces.id_to_piece(n) for n in range(len(pieces)) if not (pieces.is_control(n) or pieces.is_unknown(n))
        ]
        write_text(task / f"vocabulary.{language}", "".join(f"{name}\n" for name in names))
    done.touch()


def prepared(toolkit: Toolkit, work: Path) -> Path:
    """Make the folder of a toolkit and its environment, with the PyTorch that this one uses; returns the folder."""
    work.mkdir(exist_ok=True)
    environment = toolkit.environment(work)
    done = environment / "installed"
    if toolkit.packages and not done.exists():
        constraints = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        packages = [*(line for line in constraints if line.startswith("torch==")), *toolkit.packages]
        say(f"{work.name}: installing {', '.join(packages)}")
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *packages], check=True)
        done.touch()
    return work


def train(toolkit: Toolkit, work: Path, updates: int, seed: int, limit: float) -> Trained:
    """Train, or read what an earlier training took.

    Raises:
        DataError: training fails, or prints fewer than two rates.
    """
    kept, log = work / f"training-{updates}-updates.json", work / "training.log"
    if kept.exists():
        return said(work.name, Trained(**read_json(kept)))
    say(f"{work.name}: training")
    for stale in (*work.glob("training-*.json"), *work.glob("translation-*.json")):  # of an earlier network
        stale.unlink()
    finished = run(toolkit.training(work, updates, seed, THREADS), work, log, THREADS, limit)
    rates = toolkit.rates(log.read_text("utf-8", "replace"))[1:]
    if not rates:
        raise DataError(f"{log}: {work.name} printed fewer than two rates")
    trained = Trained(statistics.median(rates), finished.seconds, finished.peak_mb, finished.stopped, now())
    write_json(kept, asdict(trained))
    return said(work.name, trained)


def translate(toolkit: Toolkit, work: Path, task: Path, beam: int) -> Translated:
    """Translate test2016, TIMES times in one file, and its first line; or read what an earlier translation took.

    Raises:
        DataError: translation fails, or has another number of lines.
    """
    kept, log = work / f"translation-{beam}.json", work / f"translation-{beam}.log"
    if kept.exists():
        return said(work.name, Translated(**read_json(kept)))
    say(f"{work.name}: translating, beam {beam}")
    source, reference = (task / f"test2016.{language}" for language in GERMAN_ENGLISH)
    lines, references = list(read_lines(source)), list(read_lines(reference))
    single, several, output = work / "first.source", work / "test2016.source", work / f"test2016.{beam}.hypotheses"
    write_text(single, f"{lines[0]}\n")
    write_text(several, "".join(f"{line}\n" for line in TIMES * lines))
    jobs = ((single, work / "first.hypothesis"), (several, output))
    one, every = (run(toolkit.translation(work, *files, beam), work, log, THREADS, 3600.0) for files in jobs)
    hypotheses = list(read_lines(output))
    if len(hypotheses) != TIMES * len(references):
        raise DataError(f"{output}: {len(hypotheses):,} lines; {several} has {TIMES * len(references):,}")
    rate = (TIMES * len(lines) - 1) / (every.seconds - one.seconds)
    score = bleu(Evidence(hypotheses[: len(references)], references, "13a")).value
    translated = Translated(beam, rate, one.seconds, score, every.peak_mb, now())
    write_json(kept, asdict(translated))
    return said(work.name, translated)


if __name__ == "__main__":
    sys.exit(main())
