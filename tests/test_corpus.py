"""Reading parallel text: what a line is, every kind of corpus, and the errors of one that cannot be used."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import pytest
from pydantic import TypeAdapter

from nmt.config.schema import AnyCorpus
from nmt.data.corpus import Pair, corpus_digest, decode_lines, read_lines, read_pairs
from nmt.errors import DataError, NmtError


def lines_of(content: bytes) -> list[str]:
    return list(decode_lines(io.BytesIO(content), "text"))


def corpus_of(**keys: Any) -> AnyCorpus:
    made: AnyCorpus = TypeAdapter(AnyCorpus).validate_python(keys)
    return made


def pairs_of(**keys: Any) -> list[Pair]:
    return list(read_pairs(corpus_of(**keys), "en", "fr"))


def problems_of(kind: type[NmtError], action: Callable[..., Any], *arguments: Any, **keys: Any) -> list[str]:
    """Those of the error that this call raises."""
    with pytest.raises(kind) as caught:
        action(*arguments, **keys)
    return list(caught.value.problems)


def error_of(action: Callable[..., Any], *arguments: Any, **keys: Any) -> str:
    return "\n".join(problems_of(DataError, action, *arguments, **keys))


Write = Callable[[str, bytes | str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


# --- lines ------------------------------------------------------------------------------------------------------------


def test_lines_by_hand() -> None:
    assert lines_of(b"a\r\nb\r\r\n\r\nc\r") == ["a", "b\r", "", "c\r"]
    assert lines_of(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == ["a", "\ufeffb"]
    odd = "\r\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\x00\x00\x1b\u2028"
    assert lines_of(f"{odd}\nc\n".encode()) == [odd, "c"]
    assert lines_of(b"") == []


def test_a_line_comes_as_soon_as_it_has_arrived() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as source:
        lines = decode_lines(stream, "pipe")
        source.write(b"first\n")
        assert next(lines) == "first"  # a reader that waits for more than a line would hang here
        source.write(b"second\n")
        assert next(lines) == "second"


def test_what_is_not_utf8_is_named_by_line_byte_and_column() -> None:
    """Latin-1, a byte after a byte-order mark, a character that is cut short."""
    assert error_of(lines_of, b"fine\nca\xe9\n").startswith("text:2: not UTF-8 (byte 0xe9 at column 3)")
    assert error_of(lines_of, b"\xef\xbb\xbfa\x80\n").startswith("text:1: not UTF-8 (byte 0x80 at column 5)")
    assert error_of(lines_of, b"a\n\xc3\n").startswith("text:2: not UTF-8 (byte 0xc3 at column 1)")


def test_utf16_is_recognized() -> None:
    assert error_of(lines_of, "Кот и пёс спят.\n".encode("utf-16")).endswith("iconv -f UTF-16 -t UTF-8")


def test_documents_and_archives_are_refused(write: Write) -> None:
    document = io.BytesIO()
    with zipfile.ZipFile(document, "w") as archive:
        archive.writestr("word/document.xml", "<w:t>A cat.</w:t>")
    pdf, packed = b"%PDF-1.7\n%\xe2\xe3\n", (gzip.compress(b"a\n"), lzma.compress(b"a\n"), bz2.compress(b"a\n"))
    for content in (document.getvalue(), pdf, *packed):
        path = write("train.en", content)
        assert re.match(rf"{path}:\d+: not UTF-8 .*; must be plain text in UTF-8", error_of(list, read_lines(path)))


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_named(write: Write, tmp_path: Path) -> None:
    missing, pipe, below_a_file = tmp_path / "missing", tmp_path / "pipe", Path(write("file", "a\n")) / "a"
    os.mkfifo(pipe)
    for path, problem in {
        missing: "no such file",
        tmp_path: "a directory; must be a file",
        below_a_file: "cannot be read: Not a directory",
    }.items():
        assert error_of(list, read_lines(path)) == f"{path}: {problem}"
        corpus = corpus_of(source=str(tmp_path / "file"), target=str(path))
        assert error_of(corpus_digest, corpus, "en", "fr") == f"{path}: {problem}"
    assert error_of(corpus_digest, corpus_of(tsv=str(pipe)), "en", "fr").startswith(f"{pipe}: a pipe can be read only")


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(write: Write, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    assert list(read_lines(write(f"a{suffix}", compress("é\nb\u2028c\n".encode())))) == ["é", "b\u2028c"]
    whole = compress(b"".join(b"line %d\n" % number for number in range(5000)))
    flipped = bytearray(whole)
    flipped[len(flipped) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], b"not compressed\n", bytes(flipped)):
        path = write(f"damaged{suffix}", content)
        assert error_of(list, read_lines(path)).startswith(f"{path}: not a {suffix} file, or damaged: ")


def test_pairs_of_aligned_files(write: Write) -> None:
    files = {"source": write("a.en", "one\n\n three \n"), "target": write("a.fr", "un\ndeux\n\n")}
    assert pairs_of(**files) == [Pair("one", "un"), Pair("", "deux"), Pair(" three ", "")]
    assert pairs_of(**files, limit=2) == [Pair("one", "un"), Pair("", "deux")]


def test_line_counts_that_differ_are_named_and_a_corpus_without_a_pair_is_refused(write: Write) -> None:
    empty, other = write("empty", b""), write("a.fr", "y\n" * 1498)
    for source, count in ((write("a.en", "x\n" * 1500), "1,500"), (empty, "0")):
        said = error_of(pairs_of, source=source, target=other)
        assert said.startswith(f"{source} has {count} lines and {other} has 1,498")
    assert error_of(pairs_of, source=empty, target=empty) == f"{empty}, {empty}: contains no pairs"
    assert error_of(pairs_of, jsonl=empty) == f"{empty}: contains no pairs"


# --- TSV and JSON lines -----------------------------------------------------------------------------------------------


def test_tsv_columns(write: Write) -> None:
    path = write("a.tsv", "id\tun\tone\nid\tdeux\u2028\ttwo\tmore\n")
    assert pairs_of(tsv=path, source_column=2, target_column=1) == [Pair("one", "un"), Pair("two", "deux\u2028")]
    said = error_of(pairs_of, tsv=path, target_column=3)
    assert said.startswith(f"{path}:1: 3 ") and "column 3 does not exist" in said


def test_json_lines_with_plain_and_dotted_keys(write: Write) -> None:
    rows = [{"en": "one", "translation": {"fr": "un"}}, {"en": "two\nlines", "translation": {"fr": "deux\r\nlignes"}}]
    path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert pairs_of(jsonl=path, target_key="translation.fr") == [Pair("one", "un"), Pair("two lines", "deux lignes")]


def test_a_bad_json_line_is_named(write: Write) -> None:
    for row, message in {
        '{"en": "a",': "not JSON: ",
        "[" * 100_000: "not JSON: ",
        '{"en": "a", "de": {"text": "b", "id": 1}}': "no key 'fr'; the keys are: en, de.text, de.id",
        '{"en": 3, "fr": "b"}': "key 'en' holds int, not text",
        '{"en": "a", "fr": "b\\ud800"}': "key 'fr': unpaired surrogate at character 2",
    }.items():
        path = write("a.jsonl", f'{{"en": "one", "fr": "un"}}\n{row}\n')
        assert error_of(pairs_of, jsonl=path).startswith(f"{path}:2: {message}")


# --- hub --------------------------------------------------------------------------------------------------------------


def test_a_hub_dataset_is_asked_for_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"translation": {"en": "one", "fr": "un"}}]
    load = Mock(side_effect=lambda *_, **__: datasets.Dataset.from_list(rows))
    monkeypatch.setattr(datasets, "load_dataset", load)
    name = {"hub": "some/corpus", "split": "train", "subset": "en-fr", "revision": "abc"}
    assert pairs_of(**name, source_key="translation.en", target_key="translation.fr") == [Pair("one", "un")]
    load.assert_called_once_with("some/corpus", name="en-fr", split="train", revision="abc")
    digest = corpus_digest(corpus_of(**name), "en", "fr")
    rows *= 2
    assert corpus_digest(corpus_of(**name), "en", "fr") != digest
    said = error_of(pairs_of, **name)
    assert "'some/corpus'" in said and "row 1: no key 'en'; the keys are: translation.en, translation.fr" in said


def test_a_hub_dataset_that_cannot_be_loaded_names_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("Dataset scripts are no longer supported\nmore")
    monkeypatch.setattr(datasets, "load_dataset", Mock(side_effect=error))
    message = error_of(corpus_digest, corpus_of(hub="some/corpus", split="x"), "en", "fr")
    problem = "cannot be loaded: RuntimeError: Dataset scripts are no longer supported; to use local files instead: "
    assert message == f"hub dataset 'some/corpus', split 'x': {problem}{{source: FILE, target: FILE}}"


def test_what_is_no_name_of_a_dataset_is_not_looked_for_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``datasets`` before 5.0 would read ./train.pkl, a pickle, for ``pandas``."""
    monkeypatch.chdir(tmp_path)
    Path("own/corpus").mkdir(parents=True)
    for name in ("pandas", "../folder", "a/b/c", "own/corpus"):
        assert error_of(pairs_of, hub=name, split="train").endswith(
            "not a dataset of the hub; must be OWNER/NAME, and no path here"
        )


def test_the_digest_follows_content_and_options_not_names(write: Write) -> None:
    def digest(source: str, target: str, limit: int | None = None, languages: tuple[str, str] = ("en", "fr")) -> str:
        corpus = corpus_of(source=write(source, source[0]), target=write(target, target[0]), limit=limit)
        return corpus_digest(corpus, *languages)

    first = digest("a1", "b1")
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert digest("a2", "b2") == first
    others = [digest("a", "c"), digest("b", "a"), digest("a", "b", 1), digest("a", "b", languages=("en", "de"))]
    assert len({first, *others}) == 5
