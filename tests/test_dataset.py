"""Preparation: what is encoded, dropped, counted and cached."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nmt.config import Config
from nmt.data.corpus import Pair
from nmt.data.dataset import cache_folder, prepare, try_cache
from nmt.data.encoded import EncodedCorpus
from nmt.data.report import table
from nmt.data.tokenizer import Tokenizers
from tests.test_corpus import error_of
from tests.test_epochs import WORD, configuration, pairs_of

TRAIN = [
    Pair("a b c", "x y z"),
    Pair("", "x"),
    Pair("a", " "),
    Pair("a a a a a a", "x"),
    Pair("a b c", "x y z"),
    Pair("a " * 30 + "b", "x " * 30),
    Pair("\u2028", "y"),
    Pair("b c", "z y"),
]
FEW = {"type": "word", "vocabulary": 6}
VALIDATION = [Pair("a b c", "x y z"), Pair(" ", "x"), Pair("b c", "x"), Pair("q a a a a a a", "x"), Pair("b c", "")]
TEST = [Pair("c " * 40, "z")]


def write(folder: Path, **splits: Sequence[Pair]) -> None:
    for name, pairs in splits.items():
        for side, lines in zip(("low", "up"), zip(*pairs, strict=True), strict=True):
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines), newline="\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the three splits."""
    write(tmp_path, train=TRAIN, validation=VALIDATION, test=TEST)
    return tmp_path


def config(folder: Path, tokenizer: dict[str, Any] = WORD, **data: Any) -> Config:
    return configuration(folder, tokenizer, data={"filter": {"max_words": 20}, **data})


def cached(folder: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in (folder / "cache").iterdir() if path.is_dir())


def texts(corpus: EncodedCorpus, tokenizers: Tokenizers) -> list[Pair]:
    return [Pair(tokenizers.source.decode(one), tokenizers.target.decode(other)) for one, other in pairs_of(corpus)]


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_training_pairs_are_filtered_and_the_others_are_not(folder: Path) -> None:
    prepared = prepare(config(folder, filter={"max_words": 20, "max_ratio": 4.0}))
    kept = [TRAIN[0], TRAIN[4], TRAIN[7]]
    assert texts(prepared.train, prepared.tokenizers) == kept
    dropped = prepared.report["splits"]["train"]["dropped"]
    counts = {reason: count for reason, count in dropped.items() if count}
    assert counts == {"empty": 3, "too_long_words": 1, "ratio": 1}
    assert prepared.validation_pairs == [VALIDATION[0], VALIDATION[2], VALIDATION[3]]
    assert prepared.report["splits"]["validation"]["dropped"]["empty"] == 2
    assert len(prepared.validation) == 3
    assert prepared.test_pairs == TEST
    sources, targets = prepared.validation.rows([2, 0])
    for row, pair in ((0, VALIDATION[3]), (1, VALIDATION[0])):
        assert sources[row].tolist() == prepared.tokenizers.source.encode([pair.source])[0]
        assert targets[row].tolist() == prepared.tokenizers.target.encode([pair.target])[0]


def test_a_test_set_stays_as_it_is_blank_lines_included(folder: Path) -> None:
    write(folder, test=[Pair("", ""), *VALIDATION, Pair("", "x")])
    files = {"source": f"{folder}/train.low", "target": f"{folder}/train.up", "limit": 1}
    prepared = prepare(config(folder, train=files))
    assert prepared.test_pairs == [Pair("", ""), *VALIDATION, Pair("", "x")]
    report = prepared.report["splits"]["test"]
    assert (report["read"], report["kept"], report["dropped"]["empty"]) == (7, 7, 0)
    assert report["source_length_histogram"] == [{"low": 1, "high": 10, "pairs": 4}]
    assert texts(prepared.train, prepared.tokenizers) == TRAIN[:1] and prepared.report["splits"]["train"]["read"] == 1
    without = prepare(config(folder, test=None))
    assert without.test_pairs == [] and list(without.report["splits"]) == ["train", "validation"]


def test_every_pair_dropped_is_an_error_with_the_reasons(folder: Path) -> None:
    train = f"data.train: {folder}/train.low, {folder}/train.up"
    problem = error_of(prepare, config(folder, filter={"max_words": 1}))
    assert problem.startswith(train) and "3 empty, 5 too_long_words" in problem and "data.filter" in problem
    write(folder, validation=[Pair("a", "")])
    problem = error_of(prepare, config(folder))
    assert problem.startswith(f"data.validation: {folder}/validation.low") and "1 empty" in problem
    assert cached(folder) == ["tokenizer"]  # nothing half-made is left


def test_rows_of_a_table_in_chunks() -> None:
    """Against plain Python lists; with empty, sliced and single-row chunks, whose offsets do not start at zero."""
    generator = np.random.default_rng(0)
    lists = [generator.integers(0, 100, size=generator.integers(1, 9)).tolist() for _ in range(50)]
    whole = pa.array(lists, type=pa.list_(pa.int32()))
    chunked = pa.chunked_array([whole.slice(low, high - low) for low, high in pairwise([0, 7, 7, 8, 30, 50])])
    corpus = EncodedCorpus(pa.table({"source": chunked, "target": pa.chunked_array([whole])}))
    wanted = generator.permutation(50)[:30]
    sources, targets = corpus.rows(wanted)
    assert [row.tolist() for row in sources] == [row.tolist() for row in targets] == [lists[row] for row in wanted]
    assert {row.dtype for row in sources} == {np.dtype(np.int32)}
    assert corpus.source_lengths.dtype == np.int32
    assert corpus.source_lengths.tolist() == corpus.target_lengths.tolist() == [len(row) for row in lists]
    assert len(corpus) == 50
    assert corpus.rows([]) == ([], [])
    for outside in (-1, 50):
        with pytest.raises(IndexError):
            corpus.rows([0, outside])


def test_the_report_counts_by_hand(folder: Path) -> None:
    prepared = prepare(config(folder))
    train, validation, test = (prepared.report["splits"][name] for name in ("train", "validation", "test"))
    assert (train["read"], train["kept"], train["repeated_pairs"]) == (8, 4, 1)
    # kept: "a b c" twice, six times "a", and "b c"
    assert train["source"] == {"words": 14, "pieces": 14, "unknown_rate": 0.0}
    assert train["target"] == {"words": 9, "pieces": 9, "unknown_rate": 0.0}
    assert train["source_length_histogram"] == [{"low": 1, "high": 10, "pairs": 4}]
    # kept: "a b c" (also in train), "b c" (in train with another translation), "q a a a a a a" (q unknown)
    assert (validation["read"], validation["kept"]) == (5, 3)
    assert (validation["pairs_in_train"], validation["sources_in_train"]) == (1, 2)
    assert validation["source"] == {"words": 12, "pieces": 12, "unknown_rate": 1 / 12}
    assert [row["pairs"] for row in test["source_length_histogram"]] == [0, 0, 0, 1]
    assert test["source_length_histogram"][3] == {"low": 31, "high": 40, "pairs": 1}
    assert prepared.report["vocabulary"] == {"source": 7, "target": 7}
    rows = [line.split() for line in table(prepared.report).splitlines()]
    assert rows[0] == ["train", "validation", "test"]
    assert ["source", "pieces", "unknown", "0.00%", "8.33%", "0.00%"] in rows
    said, problem = list[str](), "data.train: 21% of the source and 33% of the target pieces are unknown; only a"
    prepare(config(folder, FEW), said.append)
    assert f"{problem} tokenizer learned from such text can read it" in said


# --- cache ------------------------------------------------------------------------------------------------------------


def lines_said(config: Config) -> list[str]:
    said: list[str] = []
    prepare(config, said.append)
    return [line.split(":")[0] for line in said]


ENCODING = ["encoding train", "encoding validation", "encoding test"]
LEARNING = ["learning the word tokenizer"]
FOUND = ["encoded corpus"]


def test_the_work_is_done_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, unknown = config(folder), ["data.train", "data.validation", "data.test"]
    assert lines_said(chosen) == [*LEARNING, *ENCODING, *FOUND]
    assert lines_said(chosen) == lines_said(config(folder, reverse_source=True)) == FOUND
    assert cached(folder) == ["corpus", "tokenizer"]
    assert lines_said(config(folder, filter={"max_words": 5})) == [*ENCODING, *FOUND]
    assert lines_said(config(folder, FEW)) == [*LEARNING, *ENCODING, *FOUND, *unknown]
    write(folder, validation=VALIDATION[:1])
    assert lines_said(chosen) == [*ENCODING, *FOUND]
    write(folder, train=TRAIN[:1])
    assert lines_said(chosen) == [*LEARNING, *ENCODING, *FOUND]
    assert lines_said(chosen) == FOUND
    monkeypatch.setattr("nmt.data.dataset.CACHE_FORMAT", 0)
    assert lines_said(chosen) == [*LEARNING, *ENCODING, *FOUND]


def test_a_damaged_entry_is_built_again(folder: Path) -> None:
    chosen = config(folder)
    whole = prepare(chosen)
    for damage in ("corpus-*/report.json", "corpus-*/train.arrow", "tokenizer-*/target.model"):
        (path,) = (folder / "cache").glob(damage)
        content = path.read_bytes()
        for left in (None, content[: len(content) // 2]):
            path.unlink()
            if left is not None:
                path.write_bytes(left)
            said: list[str] = []
            again = prepare(chosen, said.append)
            assert texts(again.train, again.tokenizers) == texts(whole.train, whole.tokenizers)
            assert again.report == whole.report
            assert f"{path.parent}: damaged; building it again" in said
            assert lines_said(chosen) == FOUND


def test_two_at_once_leave_one_whole_entry(folder: Path) -> None:
    chosen = config(folder)
    with ThreadPoolExecutor(2) as pool:
        lines = list(pool.map(lines_said, [chosen] * 2))
    assert sum(line == "encoding train" for each in lines for line in each) == 1
    assert lines_said(chosen) == FOUND
    assert cached(folder) == ["corpus", "tokenizer"]


def test_the_cache_follows_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_CACHE", str(folder / "elsewhere"))
    assert cache_folder(None) == folder / "elsewhere"
    monkeypatch.delenv("NMT_CACHE")
    monkeypatch.setenv("HOME", str(folder))
    assert cache_folder(None) == folder / ".cache/nmt"


def test_a_cache_is_tried_without_a_trace_and_named_if_it_cannot_be_written(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    try_cache(config(folder, cache=str(folder / "a" / "b")).data)
    assert sorted(folder.rglob("*")) == before
    chosen = config(folder, cache=f"{folder}/train.low/cache")
    problem = f"data.cache: {folder}/train.low/cache: cannot be written: "
    assert error_of(prepare, chosen).startswith(f"{problem}Not a directory")
    assert error_of(try_cache, chosen.data).startswith(problem)
