"""Compare this toolkit with others that train recurrent translation: JoeyNMT and Eole, each installed into an
environment of its own. All train the same network on Multi30k, German to English, with the same text, subwords, batches
and schedule, as closely as their options allow (scripts/peers/toolkits.py), and translate test2016.

Results are kept in the folder, and a command that is repeated goes on where it stopped. Measure on an idle machine.

examples:
  scripts/compare_peers.py --folder build/peers
  scripts/compare_peers.py --folder build/peers --only joeynmt --minutes 30
"""

import argparse
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import sentencepiece

from machine import commit, machine
from nmt.cli.common import command, say
from nmt.cli.options import whole
from nmt.data.lines import read_lines
from nmt.errors import DataError
from nmt.evaluation.metrics import bleu
from nmt.foundation.files import read_json, write_json
from nmt.plots.files import markdown
from peers.processes import matches, run
from peers.toolkits import BEAMS, ROOT, TOOLKITS, Toolkit

GOAL = 30.0
"""BLEU on the validation set, of the time to it."""
PIECES = 8000


@dataclass(frozen=True)
class Trained:
    """What training took."""

    tokens_per_second: float
    """The median of what the toolkit printed, the first time left out."""
    seconds_to_goal: float | None
    """From the start of the command to the first validation of GOAL BLEU, as the toolkit computes it."""
    best_bleu: float
    seconds: float
    peak_mb: float
    stopped: bool
    machine: str
    commit: str
    date: str


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


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="compare_peers.py", description=__doc__)
    arguments.add_argument("--folder", default="build/peers", metavar="DIR", help="environments, runs and results")
    arguments.add_argument("--data", default="data/downloads/multi30k", metavar="DIR", help="the folder of Multi30k")
    arguments.add_argument("--only", action="append", choices=list(TOOLKITS), help="this toolkit; may be repeated")
    arguments.add_argument("--updates", type=whole(1, 100_000), default=1500, metavar="N", help="updates of training")
    arguments.add_argument("--threads", type=whole(1, 256), default=2, metavar="N", help="threads of each toolkit")
    arguments.add_argument(
        "--minutes", type=whole(1, 600), default=60, metavar="N", help="training is stopped after them"
    )
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Measure what has no result yet, and print the table."""
    folder = Path(arguments.folder).absolute()
    write_task(folder / "task", Path(arguments.data))
    rows = []
    for name in arguments.only or TOOLKITS:
        toolkit, work = TOOLKITS[name], folder / name
        work.mkdir(exist_ok=True)
        install(toolkit, work)
        trained = train(toolkit, work, arguments.updates, arguments.threads, 60.0 * arguments.minutes)
        translations = [translate(toolkit, work, folder / "task", beam, arguments.threads) for beam in BEAMS]
        rows.append(row(name, trained, translations))
    print(markdown(rows))


def write_task(task: Path, data: Path) -> None:
    """Write the corpus as plain text, its SentencePiece models and their pieces."""
    if (task / "done").exists():
        return
    task.mkdir(parents=True, exist_ok=True)
    for language in ("de", "en"):
        for name, suffix in (("train", ".xz"), ("val", ""), ("test2016", "")):
            text = "".join(f"{line}\n" for line in read_lines(data / f"{name}.{language}{suffix}"))
            (task / f"{name}.{language}").write_text(text, encoding="utf-8")
        text, prefix = str(task / f"train.{language}"), str(task / f"spm.{language}")
        learn = sentencepiece.SentencePieceTrainer.train
        learn(
            input=text, model_prefix=prefix, vocab_size=PIECES, model_type="bpe", character_coverage=1.0, minloglevel=2
        )
        pieces = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
        names = [
            pieces.id_to_piece(n) for n in range(len(pieces)) if not (pieces.is_control(n) or pieces.is_unknown(n))
        ]
        (task / f"vocabulary.{language}").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    (task / "done").touch()


def install(toolkit: Toolkit, work: Path) -> None:
    """Make a toolkit's environment, with the PyTorch that this one uses."""
    done = work / "installed"
    if not toolkit.packages or done.exists():
        return
    say(f"{toolkit.name}: installing {', '.join(toolkit.packages)}")
    constraints = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    torch = next(line for line in constraints if line.startswith("torch=="))
    subprocess.run([sys.executable, "-m", "venv", str(work / "environment")], check=True)
    pip = [str(toolkit.python(work)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, torch, *toolkit.packages], check=True)
    done.touch()


def train(toolkit: Toolkit, work: Path, updates: int, threads: int, limit: float) -> Trained:
    """Train, or read what an earlier training took.

    Raises:
        DataError: training fails, or prints neither rates nor BLEU.
    """
    kept, log = work / "training.json", work / "training.log"
    if kept.exists():
        return Trained(**read_json(kept))
    say(f"{toolkit.name}: training")
    finished = run(toolkit.training(work, updates, threads), work, log, threads, limit)
    rates = [rate for _, rate in matches(log, toolkit.rate)][1:]
    validations = matches(log, toolkit.bleu)
    if not rates or not validations:
        raise DataError(f"{log}: {toolkit.name} printed {len(rates)} rates and {len(validations)} values of BLEU")
    reached = next((seconds for seconds, bleu in validations if bleu >= GOAL), None)
    best = max(bleu for _, bleu in validations)
    trained = Trained(
        tokens_per_second=statistics.median(rates),
        seconds_to_goal=reached,
        best_bleu=best,
        seconds=finished.seconds,
        peak_mb=finished.peak_mb,
        stopped=finished.stopped,
        machine=machine(),
        commit=commit(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )
    write_json(kept, asdict(trained))
    return trained


def translate(toolkit: Toolkit, work: Path, task: Path, beam: int, threads: int) -> Translated:
    """Translate test2016 and its first line, or read what an earlier translation took."""
    kept = work / f"translation-{beam}.json"
    if kept.exists():
        return Translated(**read_json(kept))
    say(f"{toolkit.name}: translating, beam {beam}")
    source = task / "test2016.de"
    lines = list(read_lines(source))
    single, output = work / "first.de", work / f"test2016.{beam}.en"
    single.write_text(f"{lines[0]}\n", encoding="utf-8")
    jobs = ((single, work / "first.en"), (source, output))
    log = work / f"translation-{beam}.log"
    one, every = (run(toolkit.translation(work, *files, beam), work, log, threads, 3600.0) for files in jobs)
    hypotheses = list(read_lines(output))
    references = list(read_lines(task / "test2016.en"))
    if len(hypotheses) != len(references):
        raise DataError(f"{output}: {len(hypotheses):,} lines; {source} has {len(references):,}")
    rate = (len(lines) - 1) / (every.seconds - one.seconds)
    translated = Translated(beam, rate, one.seconds, bleu(hypotheses, references, "13a").value, every.peak_mb)
    write_json(kept, asdict(translated))
    return translated


def row(name: str, trained: Trained, translations: list[Translated]) -> dict[str, str]:
    """A row of the table."""
    reached = (
        f"{trained.seconds_to_goal:,.0f} s" if trained.seconds_to_goal else f"never (best {trained.best_bleu:.1f})"
    )
    columns = {"toolkit": name, "target tokens/s": f"{trained.tokens_per_second:,.0f}", f"to {GOAL:.0f} BLEU": reached}
    columns["MB, training"] = f"{trained.peak_mb:,.0f}"
    for each in translations:
        columns[f"sentences/s, beam {each.beam}"] = f"{each.sentences_per_second:.1f}"
        columns[f"BLEU, beam {each.beam}"] = f"{each.bleu:.2f}"
    columns["MB, translation"] = f"{translations[-1].peak_mb:,.0f}"
    columns["seconds to one line"] = f"{translations[-1].first:.1f}"
    columns["measured"] = f"{trained.commit}, {trained.date}"
    return columns


if __name__ == "__main__":
    sys.exit(main())
