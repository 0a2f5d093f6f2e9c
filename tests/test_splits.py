"""Splits in the cache: several processes, kills, memory; the filters for noisy corpora; remembered digests."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nmt.data.cache
import nmt.data.encoded
import nmt.data.report
import nmt.data.splits
from nmt.config import Config
from nmt.config.schema import FileCorpus, Filter
from nmt.data.cache import Digests
from nmt.data.corpus import Pair
from nmt.data.dataset import prepare
from nmt.data.encoded import EncodedCorpus, MappedTable
from nmt.data.encoding import Recipe, text_reason
from nmt.data.lines import file_sha256
from nmt.data.report import REASONS, repeated
from nmt.data.splits import Text, encode_split
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
import nmt.data.splits
from nmt.config import Config
from nmt.data.dataset import prepare

nmt.data.splits.UNIT, encode_rows = 20, nmt.data.splits.encode_rows

def slowly(*arguments):
    time.sleep(0.2)
    print("encoding", flush=True)
    return encode_rows(*arguments)

nmt.data.splits.encode_rows = slowly
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
    monkeypatch.setattr(nmt.data.splits, "UNIT", 20)
    prepare(configured(tmp_path, "one", processes=1))
    two = configured(tmp_path, "two", processes=2)
    path = tmp_path / "killed.json"
    path.write_text(two.model_dump_json())
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"encoding\n"
        process.kill()
    assert list((tmp_path / "two").glob("building-corpus-*/entry/train/*.arrow"))
    deadline = time.monotonic() + 30
    while running("killed.json") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running("killed.json") == [], "its workers have ended, too"
    prepare(two)
    assert content(tmp_path / "two") == content(tmp_path / "one")


def dying(*arguments: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.splits, "UNIT", 50)
    config = configured(tmp_path, processes=2)
    with monkeypatch.context() as patch:
        patch.setattr(nmt.data.splits, "encode_rows", dying)
        with pytest.raises(DataError, match=r"^data\.processes: a process that encodes was killed"):
            prepare(config)
    assert len(prepare(config).train) == 300
    assert "train/pairs.arrow" in content(tmp_path / "cache")


def test_steps_count_every_pair_and_know_how_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.splits, "UNIT", 100)
    display = Recorder()
    with shown_on(display):
        prepare(configured(tmp_path, processes=2, filter={"duplicates": True}))
    assert [step.what for step in display.steps if step.ended] == [
        "reading the corpora",
        "reading text for the tokenizer",
        "learning the tokenizer of the source side",
        "learning the tokenizer of the target side",
        "looking for repeated pairs",
        "encoding train",
        "encoding validation",
        "encoding test",
    ]
    encoding = display.named("encoding train")
    assert (encoding.counts, encoding.unit, encoding.totals[-1]) == ([100, 200, 300], "pairs", 300)
    assert display.named("reading text for the tokenizer").done == 300


# --- memory -----------------------------------------------------------------------------------------------------------


def resident(kind: str) -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(f"{kind}:")) * 1024


def test_pages_that_were_read_do_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 MB of ids, read in random order."""
    pairs, pieces = 100_000, 100
    ids = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(pairs * pieces, dtype=np.int32)), pieces)
    ids = ids.cast(pa.list_(pa.int32()))
    table = pa.table({"source": ids, "target": ids})
    with pa.OSFile(str(tmp_path / "0.arrow"), "wb") as written, pa.ipc.new_stream(written, table.schema) as stream:
        stream.write_table(table)
    order = np.random.default_rng(1).permutation(pairs)

    def growth(released: int) -> int:
        monkeypatch.setattr(nmt.data.encoded, "RELEASED", released)
        with (tmp_path / "0.arrow").open("rb") as file:
            mapped = MappedTable(file)
        before = resident("RssFile")
        corpus = EncodedCorpus(mapped.table, mapped.release)
        for rows in np.array_split(order, pairs // 50):
            sources, targets = corpus.rows(rows)
            assert sources[3][7] == targets[3][7] == 100 * rows[3] + 7
        after = resident("RssFile")
        mapped.release()
        return after - before

    assert growth(10**9) > 60_000_000
    assert growth(100) < 20_000_000


def test_memory_does_not_grow_with_the_pairs_that_are_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.splits, "UNIT", 200)
    monkeypatch.setattr(nmt.data.splits, "HEAD", 100)
    monkeypatch.setattr(nmt.data.report, "COMPARED", 200)
    recipe = Recipe(small_tokenizers(), ("en", "fr"), Filter(duplicates=True))
    peaks: list[int] = []
    for size in (400, 400, 4000):  # once to fill caches
        folder = tmp_path / f"{size}-{len(peaks)}"
        folder.mkdir()
        corpus = FileCorpus.model_validate(write_corpus(folder, train=size)["train"])
        tracemalloc.start()
        encode_split(folder / "train", Text(corpus, ("en", "fr")), recipe, 1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]


# --- repeated pairs ---------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(-5, 5), max_size=9), max_size=5), st.integers(1, 20))
def test_repeated_hashes_against_a_plain_set(parts: list[list[int]], compared: int) -> None:
    arrays = [np.array(part, np.int64) for part in parts]
    before, expected = set(), []
    for value in (value for part in parts for value in part):
        expected.append(value in before)
        before.add(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nmt.data.report, "COMPARED", compared)
        assert repeated(lambda: arrays, len(expected)).tolist() == expected


# --- filters ----------------------------------------------------------------------------------------------------------

NOISY = [
    Pair("oak elm", "ELM OAK"),
    Pair("ash fir", "Ash  Fir"),  # a copy
    Pair("oak elm", "ELM OAK"),  # a duplicate
    Pair("дуб", "OAK"),  # another script
    Pair("oak elm", "ELM"),
    Pair("fir", "12 !"),  # no letters
    Pair("oak elm", "ELM"),  # a duplicate
    Pair("", ""),
]


def noisy(folder: Path, **rule: Any) -> Config:
    chosen = options(folder)
    for place, side in enumerate(("low", "up")):
        (folder / f"train.{side}").write_text("".join(f"{pair[place]}\n" for pair in NOISY), "utf-8")
    chosen["data"] |= {"filter": rule, "source_language": "en", "target_language": "fr"}
    return Config.model_validate(chosen)


def test_noise_is_dropped_and_counted_by_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.splits, "UNIT", 2)
    nothing = dict.fromkeys(REASONS[1:], 0)
    for rule, dropped in (
        ({}, {}),
        ({"copies": True}, {"copy": 1}),
        ({"duplicates": True}, {"duplicate": 2}),
        ({"script": 0.5}, {"script": 1}),
        ({"copies": True, "duplicates": True, "script": 1.0, "max_ratio": 1.5}, {"copy": 1, "script": 1, "ratio": 3}),
    ):
        report = prepare(noisy(tmp_path, **rule)).report["splits"]["train"]
        expected = nothing | {"empty": 1} | dropped
        if "max_ratio" in rule:  # of the reasons that apply, the first counts: one pair is left to repeat another
            expected["duplicate"] = 1
        assert report["dropped"] == expected
        assert report["kept"] == report["read"] - sum(expected.values())
        assert (report["repeated_pairs"] == 0) == ("duplicates" in rule)


def test_reasons_of_the_text_by_hand() -> None:
    languages = ("en", "ru")
    rule = Filter(copies=True, duplicates=True, script=0.75)
    assert text_reason(("a b", "А"), False, rule, languages) == "kept"
    assert text_reason(("A  b", "a B"), True, rule, languages) == "copy"
    assert text_reason(("abc", "ЖЖЖa"), False, rule, languages) == "kept"  # 3 of 4 letters
    assert text_reason(("abc", "ЖЖab"), True, rule, languages) == "script"
    assert text_reason(("abc", "ЖЖЖ"), True, rule, languages) == "duplicate"
    assert text_reason(("abc", "abc"), True, Filter(), languages) == "kept"


# --- remembered digests -----------------------------------------------------------------------------------------------


def test_digests_are_remembered_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.data.cache, "REMEMBERED_FROM", 4)
    read: list[Path] = []

    def reading(path: Path) -> str:
        read.append(path)
        return file_sha256(path)

    monkeypatch.setattr(nmt.data.cache, "file_sha256", reading)
    path, small = tmp_path / "text", tmp_path / "small"
    path.write_bytes(b"four")
    small.write_bytes(b"one")
    digests = Digests(tmp_path / "cache")

    def reads() -> int:
        read.clear()
        assert digests.of(path) == file_sha256(path) and digests.of(small) == file_sha256(small)
        return sum(each == path for each in read)

    assert [reads(), reads()] == [1, 1]  # it has just been written, and could be again within a tick of the clock
    monkeypatch.setattr(nmt.data.cache, "SETTLED", 0)
    assert [reads(), reads()] == [1, 0]
    times = path.stat()
    path.write_bytes(b"five")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the same size and time of modification
    assert [reads(), reads()] == [1, 0]
    for memory in (tmp_path / "cache").rglob("*.json"):
        memory.write_text("{")
    assert [reads(), reads()] == [1, 0]
    (tmp_path / "cache" / "digests").rename(tmp_path / "gone")
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_text("no directory")
    assert [reads(), reads()] == [1, 1]
