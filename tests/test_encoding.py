"""Encoding of a split: several processes, kills, memory; the filters for noisy corpora."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nmt.data.encoding
from nmt.config import Config
from nmt.config.schema import FileCorpus, Filter
from nmt.data.corpus import Pair
from nmt.data.dataset import prepare
from nmt.data.encoding import Recipe, _repeats, encode_split, reason
from nmt.data.report import REASONS
from nmt.errors import DataError
from nmt.messages import shown_on
from tests.recorded_steps import Recorder
from tests.small_run import options, write_corpus
from tests.small_translator import small_tokenizers

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # processes with threads, from Python 3.12


def configured(folder: Path, cache: str = "cache", **data: Any) -> Config:
    """300 training pairs."""
    chosen = options(folder)
    chosen["data"] |= {"cache": str(folder / cache), **data}
    return Config.model_validate(chosen)


def content(cache: Path) -> dict[str, bytes]:
    """The files of the only corpus in a cache; nothing unfinished is beside it."""
    assert list(cache.glob("building-*")) == []
    [entry] = cache.glob("corpus-*")
    return {str(path.relative_to(entry)): path.read_bytes() for path in entry.rglob("*") if path.is_file()}


# --- processes and kills ----------------------------------------------------------------------------------------------

PROGRAM = """
import pathlib, sys, time
import nmt.data.encoding
from nmt.config import Config
from nmt.data.dataset import prepare

nmt.data.encoding.UNIT, encode = 20, nmt.data.encoding.encode

def slowly(*arguments):
    time.sleep(0.2)
    print("encoding", flush=True)
    return encode(*arguments)

nmt.data.encoding.encode = slowly
prepare(Config.model_validate_json(pathlib.Path(sys.argv[1]).read_text()))
"""


def running(name: str) -> list[str]:
    """The processes that have a name among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if name.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def test_any_number_of_processes_gives_the_same_bytes_also_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nmt.data.encoding, "UNIT", 20)
    prepare(configured(tmp_path, "one", processes=1))
    two = configured(tmp_path, "two", processes=2)
    path = tmp_path / "killed.json"
    path.write_text(two.model_dump_json())
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"encoding\n"
        process.kill()
    assert list((tmp_path / "two").glob("building-corpus-*/train/*.arrow"))
    deadline = time.monotonic() + 30
    while running("killed.json") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running("killed.json") == [], "its workers have ended, too"
    prepare(two)
    assert content(tmp_path / "two") == content(tmp_path / "one")


def dying(*arguments: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.encoding, "encode", dying)
    with pytest.raises(DataError, match=r"^data\.processes: "):
        prepare(configured(tmp_path, processes=2))
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir() and "corpus" in path.name] == []


def test_steps_count_every_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.encoding, "UNIT", 100)
    display = Recorder()
    with shown_on(display):
        prepare(configured(tmp_path, processes=2, filter={"duplicates": True}))
    assert {
        "reading text for the tokenizer",
        "learning the tokenizer of the source side",
        "looking for repeated pairs",
        "encoding validation",
    } < {step.what for step in display.steps if step.ended}
    encoding = display.named("encoding train")
    assert (encoding.counts, encoding.unit) == ([100, 200, 300], "pairs")
    assert display.named("reading text for the tokenizer").done == 300


def test_memory_does_not_grow_with_the_text_that_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.encoding, "UNIT", 200)
    peaks: list[int] = []
    for size in (400, 400, 4000):  # once to fill caches
        folder = tmp_path / f"{size}-{len(peaks)}"
        folder.mkdir()
        corpus = FileCorpus.model_validate(write_corpus(folder, train=size)["train"])
        tracemalloc.start()
        encode_split(folder / "train", corpus, ("en", "fr"), Recipe(small_tokenizers(), Filter()), 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "pieces", "expected"),
    [
        ((5, 5), (10, 10), "kept"),
        ((0, 5), (0, 10), "empty"),
        ((5, 5), (10, 0), "empty"),
        ((6, 5), (10, 10), "too_long_words"),
        ((5, 6), (11, 10), "too_long_words"),
        ((5, 5), (10, 11), "too_long_pieces"),
        ((2, 5), (1, 1), "kept"),
        ((5, 1), (1, 1), "ratio"),
        ((1, 5), (1, 1), "ratio"),
    ],
)
def test_the_bounds_of_the_filter_are_included(words: tuple[int, int], pieces: tuple[int, int], expected: str) -> None:
    pair = Pair("a", "b")
    rule = Filter(max_words=5, max_pieces=10, max_ratio=2.5)
    assert reason(pair, words, pieces, repeats=True, rule=rule) == expected
    assert reason(pair, words, pieces, repeats=True, rule=None) == ("empty" if expected == "empty" else "kept")


NOISY = [
    Pair("oak elm", "ELM OAK"),
    Pair("ash fir", "Ash  Fir"),  # a copy
    Pair("oak elm", "ELM OAK"),  # a duplicate
    Pair("oak elm", "ELM"),
    Pair("oak elm", "ELM"),  # a duplicate
    Pair("", ""),
]


def test_noise_is_dropped_and_counted_by_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.encoding, "UNIT", 2)
    chosen = options(tmp_path)
    for place, side in enumerate(("low", "up")):
        (tmp_path / f"train.{side}").write_text("".join(f"{pair[place]}\n" for pair in NOISY), "utf-8")
    nothing = dict.fromkeys(REASONS[1:], 0)
    for rule, dropped in (
        ({}, {}),
        ({"copies": True}, {"copy": 1}),
        ({"duplicates": True}, {"duplicate": 2}),
        # of the reasons that apply, the first counts: one pair is left to repeat another
        ({"copies": True, "duplicates": True, "max_ratio": 1.5}, {"copy": 1, "ratio": 2, "duplicate": 1}),
    ):
        chosen["data"]["filter"] = rule
        report = prepare(Config.model_validate(chosen)).report["splits"]["train"]
        expected = nothing | {"empty": 1} | dropped
        assert report["dropped"] == expected
        assert report["kept"] == report["read"] - sum(expected.values())
        assert (report["repeated_pairs"] == 0) == ("duplicates" in rule)


@given(st.lists(st.integers(0, 5), max_size=40))
def test_repeated_pairs_against_a_plain_set(numbers: list[int]) -> None:
    pairs = [Pair(f"{number}", f"{number % 2}") for number in numbers]
    assert _repeats(pairs).tolist() == [pair in pairs[:place] for place, pair in enumerate(pairs)]
