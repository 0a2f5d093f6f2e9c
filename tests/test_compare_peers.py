"""``scripts/compare_peers.py`` with a toolkit made of two lines of Python; the others' output from their real logs."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from compare_peers import row, train, translate
from nmt.errors import DataError
from peers.processes import Command, matches
from peers.toolkits import TOOLKITS, Toolkit

TRAIN = """
for update in (250, 500, 750):
    print(f"update {update}: {4 * update} tokens/s, BLEU {update / 20}", flush=True)
"""
TRANSLATE = "import sys; open(sys.argv[2], 'w').writelines(line.upper() for line in open(sys.argv[1]))"


@dataclass(frozen=True)
class Fake(Toolkit):
    """Prints rates and BLEU, and translates into capitals."""

    rate = re.compile(r"(\d+) tokens/s")
    bleu = re.compile(r"BLEU ([\d.]+)")
    program: str = TRAIN

    def training(self, work: Path, updates: int, threads: int) -> Command:
        return Command([sys.executable, "-c", self.program])

    def translation(self, work: Path, source: Path, output: Path, beam: int, threads: int) -> Command:
        return Command([sys.executable, "-c", TRANSLATE, str(source), str(output)])


def test_training_and_translation_are_measured_once(tmp_path: Path) -> None:
    task, work = tmp_path / "task", tmp_path / "fake"
    task.mkdir()
    work.mkdir()
    (task / "test2016.de").write_text("ein hund läuft im park .\nzwei katzen schlafen heute .\n", encoding="utf-8")
    (task / "test2016.en").write_text("EIN HUND LÄUFT IM PARK .\nZWEI KATZEN SCHLAFEN HEUTE .\n", encoding="utf-8")
    trained = train(Fake(), work, 750, 1, 60)
    assert trained.tokens_per_second == 2500  # of 2,000 and 3,000: the first is left out
    assert trained.best_bleu == 37.5
    assert trained.seconds_to_goal is not None
    assert not trained.stopped
    fails = Fake(program="raise SystemExit(1)")
    assert train(fails, work, 750, 1, 60) == trained  # read, not made again
    with pytest.raises(DataError, match="failed with status 1"):
        train(fails, work, 800, 1, 60)
    translated = translate(Fake(), work, task, ("de", "en"), 5, 1)
    assert translated.bleu == pytest.approx(100)
    assert translate(Fake(), work, task, ("de", "en"), 5, 1) == translated
    cells = row("fake", trained, translated)
    assert (cells["target tokens/s"], cells["beam 5: BLEU"]) == ("2,500", "100.00")


@pytest.mark.parametrize(
    ("name", "line", "rate", "bleu"),
    [
        ("joeynmt", "Batch Acc: 0.173023, Tokens per Sec:     1437, Lr: 0.000033", 1437, None),
        ("eole", "sents:     603; bsz: 1805/1846/121; 468/478 tok/s;     98 sec;", 478, None),
        ("eole", "[2026-11-23 00:11:39,981 INFO] validation BLEU: 12.5", None, 12.5),
        ("nmt", "2026-11-23 00:08:54  training: 781 of 2,000 updates (39%), 4,407 tokens/s (5.5%)", 4407, None),
        ("nmt", "validation     1,200    4.10   3.144       23.21  22.65       2s  best", None, 22.65),
    ],
)
def test_what_the_toolkits_print_is_found(
    name: str, line: str, rate: float | None, bleu: float | None, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text(f"      1.50\t{line}\n", encoding="utf-8")
    toolkit = TOOLKITS[name]
    assert matches(log, toolkit.rate) == ([] if rate is None else [(1.5, rate)])
    assert matches(log, toolkit.bleu) == ([] if bleu is None else [(1.5, bleu)])
