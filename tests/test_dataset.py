"""Preparation: what is encoded, dropped, counted and cached."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest

from nmt.config import Config
from nmt.data.cache import cache_folder, try_cache
from nmt.data.corpus import Pair
from nmt.data.dataset import prepare
from nmt.data.encoded import EncodedCorpus
from nmt.data.report import describe
from nmt.data.tokenizer import Tokenizers
from nmt.errors import DataError
from tests.test_language_id import demo_pairs

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
VALIDATION = [Pair("a b c", "x y z"), Pair(" ", "x"), Pair("b c", "x"), Pair("q a a a a a a", "x"), Pair("b c", "")]
TEST = [Pair("c " * 40, "z")]


class Corpora:
    """A small project in a folder: its files, and configurations that name them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, pairs in {"train": TRAIN, "validation": VALIDATION, "test": TEST}.items():
            self.write(name, pairs)

    def write(self, name: str, pairs: list[Pair]) -> None:
        for side in Pair._fields:
            text = "".join(getattr(pair, side) + "\n" for pair in pairs)
            (self.folder / f"{name}.{side}").write_text(text, newline="\n")

    def config(self, tokenizer: dict[str, Any] | None = None, **data: Any) -> Config:
        files = {
            name: {side: str(self.folder / f"{name}.{side}") for side in Pair._fields}
            for name in ("train", "validation", "test")
        }
        languages = {"source_language": "en", "target_language": "fr"}
        options = {**files, **languages, "cache": str(self.folder / "cache"), "filter": {"max_words": 20}, **data}
        return Config.model_validate(
            {
                "data": options,
                "tokenizer": tokenizer or {"type": "word", "vocabulary": 50},
                "model": {"attention": {"type": "none"}},
                "training": {"updates": 1},
            }
        )

    def cached(self) -> list[str]:
        return sorted(path.name.split("-")[0] for path in (self.folder / "cache").iterdir() if path.is_dir())


@pytest.fixture
def corpora(tmp_path: Path) -> Corpora:
    return Corpora(tmp_path)


def texts(corpus: EncodedCorpus, tokenizers: Tokenizers) -> list[Pair]:
    sources, targets = corpus.rows(range(len(corpus)))
    return [
        Pair(tokenizers.source.decode(source.tolist()), tokenizers.target.decode(target.tolist()))
        for source, target in zip(sources, targets, strict=True)
    ]


def error_of(config: Config) -> str:
    with pytest.raises(DataError) as caught:
        prepare(config)
    return str(caught.value)


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_training_pairs_are_filtered_and_the_others_are_not(corpora: Corpora) -> None:
    prepared = prepare(corpora.config(filter={"max_words": 20, "max_ratio": 4.0}))
    kept = [TRAIN[0], TRAIN[4], TRAIN[7]]
    assert texts(prepared.train, prepared.tokenizers) == kept
    assert prepared.report["splits"]["train"]["dropped"] == {
        "empty": 3,
        "too_long_words": 1,
        "too_long_pieces": 0,
        "ratio": 1,
        "copy": 0,
        "duplicate": 0,
    }
    assert prepared.validation_pairs == [VALIDATION[0], VALIDATION[2], VALIDATION[3]]
    assert prepared.report["splits"]["validation"]["dropped"]["empty"] == 2
    assert len(prepared.validation) == 3
    assert prepared.test_pairs == TEST
    sources, targets = prepared.validation.rows([2, 0])
    for row, pair in ((0, VALIDATION[3]), (1, VALIDATION[0])):
        assert sources[row].tolist() == prepared.tokenizers.source.encode([pair.source])[0]
        assert targets[row].tolist() == prepared.tokenizers.target.encode([pair.target])[0]


def test_a_test_set_stays_as_it_is_blank_lines_included(corpora: Corpora) -> None:
    corpora.write("test", [Pair("", ""), *VALIDATION, Pair("", "x")])
    files = {side: str(corpora.folder / f"train.{side}") for side in Pair._fields}
    prepared = prepare(corpora.config(train={**files, "limit": 1}))
    assert prepared.test_pairs == [Pair("", ""), *VALIDATION, Pair("", "x")]
    report = prepared.report["splits"]["test"]
    assert (report["read"], report["kept"], report["dropped"]["empty"]) == (7, 7, 0)
    assert report["source_length_histogram"] == [{"low": 1, "high": 10, "pairs": 4}]
    assert texts(prepared.train, prepared.tokenizers) == TRAIN[:1] and prepared.report["splits"]["train"]["read"] == 1
    without = prepare(corpora.config(test=None))
    assert without.test_pairs == [] and list(without.report["splits"]) == ["train", "validation"]


def test_every_pair_dropped_is_an_error_with_the_reasons(corpora: Corpora) -> None:
    train = f"data.train: {corpora.folder}/train.source, {corpora.folder}/train.target"
    problem = error_of(corpora.config(filter={"max_words": 1}))
    assert problem.startswith(train) and "3 empty, 5 too_long_words" in problem and "data.filter" in problem
    corpora.write("validation", [Pair("a", "")])
    problem = error_of(corpora.config())
    assert problem.startswith(f"data.validation: {corpora.folder}/validation.source") and "1 empty" in problem
    assert corpora.cached() == ["tokenizer"]  # nothing half-made is left


def test_a_missing_file_is_named_before_anything_is_made(corpora: Corpora) -> None:
    (corpora.folder / "test.target").unlink()
    assert error_of(corpora.config()) == f"data.test: {corpora.folder}/test.target: no such file"
    assert not (corpora.folder / "cache").exists()


# --- rows -------------------------------------------------------------------------------------------------------------


def test_rows_of_a_table_in_chunks() -> None:
    """Against plain Python lists; with empty, sliced and single-row chunks, whose offsets do not start at zero."""
    generator = np.random.default_rng(0)
    lists = [generator.integers(0, 100, size=generator.integers(1, 9)).tolist() for _ in range(50)]
    kind = pa.list_(pa.int32())
    whole = pa.array(lists, type=kind)
    edges = [0, 7, 7, 8, 30, 50]
    chunked = pa.chunked_array([whole.slice(low, high - low) for low, high in pairwise(edges)])
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


# --- report -----------------------------------------------------------------------------------------------------------


def test_the_report_counts_by_hand(corpora: Corpora) -> None:
    prepared = prepare(corpora.config())
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
    table = [line.split() for line in describe(prepared.report).splitlines()]
    assert table[0] == ["train", "validation", "test"]
    assert [row[-2:] for row in table if row[:3] == ["pairs", "also", "in"]] == [["1", "0"]]
    assert ["dropped:", "too", "long", "words", "1", "0", "0"] in table
    assert ["source", "pieces", "unknown", "0.00%", "8.33%", "0.00%"] in table


# --- cache ------------------------------------------------------------------------------------------------------------


def lines_said(config: Config) -> list[str]:
    said: list[str] = []
    prepare(config, said.append)
    return [line.split(":")[0] for line in said]


ENCODING = ["encoding train", "encoding validation", "encoding test"]
LEARNING = ["learning the word tokenizer"]
FOUND = ["encoded corpus"]


def test_the_work_is_done_once(corpora: Corpora) -> None:
    config = corpora.config()
    assert lines_said(config) == [*LEARNING, *ENCODING, *FOUND]
    assert lines_said(config) == lines_said(corpora.config(reverse_source=True)) == FOUND
    assert corpora.cached() == ["corpus", "tokenizer"]
    assert lines_said(corpora.config(filter={"max_words": 5})) == [*ENCODING, *FOUND]
    assert lines_said(corpora.config({"type": "word", "vocabulary": 6})) == [*LEARNING, *ENCODING, *FOUND]
    corpora.write("validation", VALIDATION[:1])
    assert lines_said(config) == [*ENCODING, *FOUND]
    corpora.write("train", TRAIN[:1])
    assert lines_said(config) == [*LEARNING, *ENCODING, *FOUND]
    assert lines_said(config) == FOUND


@pytest.mark.parametrize("damage", ["corpus-*/report.json", "corpus-*/train.arrow", "tokenizer-*/target.model"])
@pytest.mark.parametrize("how", ["missing", "cut short"])
def test_a_damaged_entry_is_built_again(corpora: Corpora, damage: str, how: str) -> None:
    config = corpora.config()
    whole = prepare(config)
    (path,) = (corpora.folder / "cache").glob(damage)
    content = path.read_bytes()
    path.unlink()
    if how == "cut short":
        path.write_bytes(content[: len(content) // 2])
    said: list[str] = []
    again = prepare(config, said.append)
    assert texts(again.train, again.tokenizers) == texts(whole.train, whole.tokenizers)
    assert again.report == whole.report
    entry = corpora.folder / "cache" / path.relative_to(corpora.folder / "cache").parts[0]
    assert f"{entry}: damaged; building it again" in said
    assert lines_said(config) == FOUND


def test_two_at_once_leave_one_whole_entry(corpora: Corpora) -> None:
    """One builds, and the other waits; both then have the same."""
    config = corpora.config()
    with ThreadPoolExecutor(2) as pool:
        lines = list(pool.map(lines_said, [config] * 2))
    assert sum(line == "encoding train" for each in lines for line in each) == 1
    assert lines_said(config) == FOUND
    assert corpora.cached() == ["corpus", "tokenizer"]


def test_the_cache_follows_the_environment(corpora: Corpora, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NMT_CACHE", str(corpora.folder / "elsewhere"))
    assert cache_folder(None) == corpora.folder / "elsewhere"
    monkeypatch.delenv("NMT_CACHE")
    monkeypatch.setenv("HOME", str(corpora.folder))
    assert cache_folder(None) == corpora.folder / ".cache/nmt"


def test_a_cache_that_cannot_be_written_is_named(corpora: Corpora) -> None:
    (corpora.folder / "file").write_text("")
    cache = str(corpora.folder / "file/cache")
    assert error_of(corpora.config(cache=cache)).startswith(f"data.cache: {cache}: cannot be written: Not a directory")


def test_the_cache_is_tried_without_a_trace(corpora: Corpora) -> None:
    before = sorted(corpora.folder.rglob("*"))
    try_cache(corpora.config(cache=str(corpora.folder / "a" / "b")).data)
    assert sorted(corpora.folder.rglob("*")) == before
    with pytest.raises(
        DataError, match=r"^data\.cache: .*/train\.source/cache: cannot be written: .* not a directory;"
    ):
        try_cache(corpora.config(cache=str(corpora.folder / "train.source" / "cache")).data)


# --- other corpora and tokenizers -------------------------------------------------------------------------------------


def test_a_corpus_in_json_lines_and_one_from_the_hub(corpora: Corpora, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"en": pair.source, "fr": pair.target} for pair in TRAIN]
    (corpora.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_list(rows))
    expected = prepare(corpora.config())
    for train in ({"jsonl": str(corpora.folder / "train.jsonl")}, {"hub": "some/corpus", "split": "train"}):
        prepared = prepare(corpora.config(train=train))
        assert texts(prepared.train, prepared.tokenizers) == texts(expected.train, expected.tokenizers)
        assert prepared.corpus_sha256 != expected.corpus_sha256


def test_odd_lines(corpora: Corpora) -> None:
    """Control characters stay inside their line, and a line of 100,000 words is dropped, not fatal."""
    odd = [Pair("a\x00b\u2028c", "x\x0by\u0085z\rz"), Pair("a " * 100_000, "x"), Pair("a", "x")]
    corpora.write("train", odd)
    corpora.write("validation", odd)
    prepared = prepare(corpora.config({"type": "character", "vocabulary": 50}, filter={}))
    assert len(prepared.train) == 2
    assert prepared.report["splits"]["train"]["dropped"]["too_long_pieces"] == 1
    assert prepared.validation_pairs == odd
    assert prepared.validation.source_lengths.tolist()[1] == 200_000


# --- swapped sides ----------------------------------------------------------------------------------------------------


def test_swapped_sides_are_told_every_time(corpora: Corpora) -> None:
    corpora.write("train", [Pair(pair.target, pair.source) for pair in demo_pairs(1)])
    corpora.write("validation", list(demo_pairs(2, 50)))
    corpora.write("test", list(demo_pairs(3, 50)))
    for _ in ("made", "found in the cache"):
        said: list[str] = []
        prepared = prepare(corpora.config(), said.append)
        warnings = [line for line in said if line.startswith("warning: ")]
        assert warnings == [f"warning: {line}" for line in prepared.report["warnings"]]
        assert len(warnings) == 1 and warnings[0].startswith("warning: data.train: source and target seem to be")
