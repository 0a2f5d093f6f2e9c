"""Corpora of several files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from nmt.config.schema import AnyCorpus
from nmt.data.corpus import Pair, corpus_digest, corpus_files, links_digest, read_pairs
from nmt.data.links import linked_pairs
from nmt.errors import DataError

SHARDS = [["a b", "c"], ["d"], ["e f"]]


def corpus_of(**keys: Any) -> AnyCorpus:
    made: AnyCorpus = TypeAdapter(AnyCorpus).validate_python(keys)
    return made


def pairs_of(corpus: AnyCorpus) -> list[Pair]:
    return list(read_pairs(corpus, "en", "fr", corpus_digest(corpus, "en", "fr")))


def error_of(corpus: AnyCorpus) -> str:
    with pytest.raises(DataError) as caught:
        pairs_of(corpus)
    return str(caught.value)


def write(folder: Path, kinds: tuple[str, ...] = ("en", "fr")) -> None:
    """Shards part-1, part-2 and part-10 of each side; the last one is compressed."""
    for name, lines in zip((1, 2, 10), SHARDS, strict=True):
        for kind in kinds:
            text = "".join(f"{line.upper() if kind == 'fr' else line}\n" for line in lines).encode()
            path = folder / f"part-{name}.{kind}"
            path.write_bytes(text)
            if name == 10:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text))


WHOLE = [Pair("a b", "A B"), Pair("e f", "E F"), Pair("c", "C"), Pair("d", "D")]


def test_files_of_a_pattern_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path)
    corpus = corpus_of(source=f"{tmp_path}/part-*.en", target=f"{tmp_path}/part-*.fr")
    assert [pair.source for pair in pairs_of(corpus)] == ["a b", "c", "e f", "d"]  # 1, 10, 2
    assert all(pair.target == pair.source.upper() for pair in pairs_of(corpus))
    names = [Path(path).name for path in corpus_files(corpus)]
    assert names == ["part-1.en", "part-1.fr", "part-10.en", "part-10.fr", "part-2.en", "part-2.fr"]
    assert [pair.source for pair in pairs_of(corpus.model_copy(update={"limit": 3}))] == ["a b", "c", "e f"]
    packed = corpus_of(source=f"{tmp_path}/part-*.en.gz", target=f"{tmp_path}/part-??.fr.gz")
    assert pairs_of(packed) == [Pair("e f", "E F")]


def test_patterns_of_one_file_formats(tmp_path: Path) -> None:
    for number, lines in enumerate(SHARDS):
        (tmp_path / f"{number}.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
        rows = (json.dumps({"en": line, "fr": line.upper()}) for line in lines)
        (tmp_path / f"{number}.jsonl").write_text("".join(f"{row}\n" for row in rows))
    expected = [Pair(line, line.upper()) for lines in SHARDS for line in lines]
    for kind in ("tsv", "jsonl"):
        assert pairs_of(corpus_of(**{kind: f"{tmp_path}/[0-9].{kind}"})) == expected
    (tmp_path / "1.tsv").write_text("no tab\n")
    assert error_of(corpus_of(tsv=f"{tmp_path}/*.tsv")).startswith(f"{tmp_path}/1.tsv:1: 1 tab-separated column(s)")
    (tmp_path / "2.jsonl").write_text("{\n")
    assert error_of(corpus_of(jsonl=f"{tmp_path}/*.jsonl")).startswith(f"{tmp_path}/2.jsonl:1: not JSON: ")


def test_links_of_several_files(tmp_path: Path) -> None:
    write(tmp_path)
    for name, line in (("1", "0-0\n\n"), ("10", "1-1\n"), ("2", "0-0\n")):
        (tmp_path / f"part-{name}.links").write_text(line)
    links = f"{tmp_path}/part-*.links"
    corpus = corpus_of(source=f"{tmp_path}/part-*.en", target=f"{tmp_path}/part-*.fr", links=links)
    found = list(linked_pairs(pairs_of(corpus), corpus, links, links_digest(links)))
    assert [each for _, each in found] == [[(0, 0)], [], [(1, 1)], [(0, 0)]]
    (tmp_path / "part-10.links").write_text("2-0\n")
    with pytest.raises(DataError, match=r"part-10\.links:1: 2-0 links a missing word"):
        list(linked_pairs(pairs_of(corpus), corpus, links, links_digest(links)))


def test_a_name_with_wildcards_that_exists_is_that_file(tmp_path: Path) -> None:
    for side in ("en", "fr"):
        (tmp_path / f"[1].{side}").write_text("x\n")
        (tmp_path / f"1.{side}").write_text("y\n")
    assert pairs_of(corpus_of(source=f"{tmp_path}/[1].en", target=f"{tmp_path}/[1].fr")) == [Pair("x", "x")]


def test_sides_that_do_not_match_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    corpus = corpus_of(source=f"{tmp_path}/part-*.en", target=f"{tmp_path}/part-*.fr")
    (tmp_path / "part-2.fr").rename(tmp_path / "part-3.fr")
    stands = f"{tmp_path}/part-*.en stands for 3 files and {tmp_path}/part-*.fr for"
    order = "file n of one must be the translation of file n of the other, in the order of their names"
    alone = f"without a counterpart: {tmp_path}/part-2.en"
    assert error_of(corpus) == f"{stands} 3: {order}; {alone}, {tmp_path}/part-3.fr"
    (tmp_path / "part-3.fr").unlink()
    assert error_of(corpus) == f"{stands} 2: {order}; {alone}"
    other = corpus_of(source=f"{tmp_path}/part-*.en", target=f"{tmp_path}/none-*.fr")
    assert error_of(other) == f"{tmp_path}/none-*.fr: no file matches"


def test_shards_of_different_length_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "part-10.fr").write_text("E F\nG\n")
    corpus = corpus_of(source=f"{tmp_path}/part-*.en", target=f"{tmp_path}/part-*.fr")
    assert error_of(corpus) == (
        f"{tmp_path}/part-10.en has 1 lines and {tmp_path}/part-10.fr has 2: "
        "line n of one must be the translation of line n of the other"
    )


def test_the_digest_knows_where_files_end(tmp_path: Path) -> None:
    write(tmp_path)
    corpus = corpus_of(source=f"{tmp_path}/part-*.en", target=f"{tmp_path}/part-*.fr")
    before = corpus_digest(corpus, "en", "fr")
    for side, moved in (("en", "c"), ("fr", "C")):  # the same pairs in the same order, cut elsewhere
        first, second = tmp_path / f"part-1.{side}", tmp_path / f"part-10.{side}"
        first.write_text(first.read_text().replace(f"{moved}\n", ""))
        second.write_text(f"{moved}\n{second.read_text()}")
    assert corpus_digest(corpus, "en", "fr") != before
