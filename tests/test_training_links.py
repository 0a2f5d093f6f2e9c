"""Word links of the training set: read, checked, stored, spread over pieces, padded."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.batching import Batch, Position, Specials, collate, training_batches
from nmt.data.dataset import corpus_sha256, prepare
from nmt.data.links import piece_links, piece_words
from nmt.errors import DataError
from nmt.training.gradients import POSITIONS, SENTENCES, filled_up
from tests.small_run import options, write_corpus

SPECIALS = Specials(source_pad=0, source_eos=3, target_pad=9, target_bos=7, target_eos=8)
REVERSED = replace(SPECIALS, reverse_source=True)
BPE = {"type": "bpe", "vocabulary": 40}


def array(*links: tuple[int, int]) -> "np.ndarray[Any, np.dtype[np.int32]]":
    return np.array(links, np.int32).reshape(-1, 2)


# --- from words to pieces ---------------------------------------------------------------------------------------------


def test_links_of_pieces_by_hand() -> None:
    """Source words of 2, 1 and 1 pieces, target words of 1, 2 and 1; the last target word has no link."""
    weights = piece_links(array((0, 0), (0, 1), (2, 1)), [0, 0, 1, 2], [0, 1, 1, 2])
    third = 1 / 3
    expected = [[0.5, 0.5, 0.0, 0.0], [third, third, 0.0, third], [third, third, 0.0, third], [0.0] * 4]
    np.testing.assert_allclose(weights, np.array(expected), rtol=1e-6)
    assert weights.dtype == np.float32
    assert piece_links(array(), [0, 0], [0]).tolist() == [[0, 0]]


# --- batches ----------------------------------------------------------------------------------------------------------

SOURCES = [np.array([4, 5, 6], np.int32), np.array([7], np.int32)]
TARGETS = [np.array([14, 15], np.int32), np.array([16], np.int32)]
LINKS = [np.array([[1, 0, 0], [0, 0.5, 0.5]], np.float32), np.array([[1]], np.float32)]


def batch(specials: Specials = SPECIALS) -> Batch:
    return collate(SOURCES, TARGETS, specials, LINKS)


def linked(of: Batch) -> Tensor:
    assert of.links is not None
    return of.links


def test_links_in_a_batch_by_hand() -> None:
    """(B, T, S), both ends included; EOS and padding have none."""
    links = linked(batch())
    assert (links.shape, links.dtype) == ((2, 3, 4), torch.float32)
    assert links.tolist() == [
        [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 0]],
        [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert linked(batch(REVERSED))[0].tolist() == [[0, 0, 1, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0]]
    assert linked(batch(REVERSED))[1].tolist() == links[1].tolist()
    assert collate(SOURCES, TARGETS, SPECIALS).links is None


def test_links_go_with_their_pairs() -> None:
    whole = batch()
    first, second = whole.halves()
    assert torch.equal(torch.cat((linked(first), linked(second))), linked(whole))
    assert torch.equal(linked(whole.select(torch.tensor([1, 0]))), linked(whole).flip(0))
    assert linked(whole.to(torch.device("meta"))).device.type == "meta"
    for without in collate(SOURCES, TARGETS, SPECIALS).halves():
        assert without.links is None


def test_a_batch_that_is_filled_up_keeps_its_links() -> None:
    full = linked(filled_up(batch(), SPECIALS))
    assert full.shape == (SENTENCES, POSITIONS, POSITIONS)
    assert torch.equal(full[:2, :3, :4], linked(batch()))
    assert full.sum() == linked(batch()).sum()
    assert filled_up(collate(SOURCES, TARGETS, SPECIALS), SPECIALS).links is None


# --- from the file ----------------------------------------------------------------------------------------------------


GUIDED: dict[str, Any] = {"guided_attention": {"type": "links"}}


def write_links(folder: Path, name: str = "train.links") -> Path:
    """The links of the corpus of ``small_run``, whose translations have the words in reverse order."""
    lines = []
    for line in (folder / "train.low").read_text("utf-8").splitlines():
        count = len(line.split())
        lines.append(" ".join(f"{i}{'-p'[i % 2]}{count - 1 - i}" for i in range(count)))
    (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder / name


def configuration(folder: Path, *, tokenizer: dict[str, Any] = BPE, **data: Any) -> Config:
    if not (folder / "train.links").exists():
        write_corpus(folder)
        write_links(folder)
    chosen = options(folder) | {"tokenizer": tokenizer}
    chosen["data"]["train"] = chosen["data"]["train"] | {"links": str(folder / "train.links")} | data.pop("train", {})
    chosen["data"] |= data
    return Config.model_validate(chosen)


@pytest.mark.parametrize("reverse_source", [False, True])
@pytest.mark.parametrize("sampling", [None, {"alpha": 0.4}])
def test_links_lead_from_word_to_word_in_training(
    tmp_path: Path, sampling: dict[str, Any] | None, reverse_source: bool
) -> None:
    """Each target piece is linked to all pieces of its word's counterpart, however the words are cut."""
    tokenizer = BPE | ({} if sampling is None else {"sampling": sampling})
    prepared = prepare(configuration(tmp_path, tokenizer=tokenizer, reverse_source=reverse_source))
    source, target = prepared.tokenizers.source, prepared.tokenizers.target
    batches = training_batches(prepared.train, Specials.of(prepared.tokenizers), 150, seed=1, position=Position())
    seen = 0
    while seen < len(prepared.train):
        _, found = next(batches)
        links = linked(found)
        assert links.shape == (*found.target_output.shape, found.source.size(1))
        for row, length in enumerate(found.source_lengths.tolist()):
            read = found.source[row, : length - 1].tolist()
            pieces = source.pieces(read[::-1] if reverse_source else read)
            source_words = piece_words(pieces, source.decode(read[::-1] if reverse_source else read))
            written = found.target_output[row][found.target_mask[row]].tolist()[:-1]
            target_words = piece_words(target.pieces(written), target.decode(written))
            weights = links[row].numpy().copy()
            if reverse_source:
                weights[:, : length - 1] = weights[:, : length - 1][:, ::-1]
            last = source_words[-1]
            for piece, j in enumerate(target_words):
                wanted = [float(i == last - j) for i in source_words]
                np.testing.assert_allclose(weights[piece, : length - 1], np.array(wanted) / sum(wanted), rtol=1e-6)
            assert weights[len(written) :].sum() == 0 and weights[:, length - 1 :].sum() == 0
            seen += 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # a process with threads, from Python 3.12 on
@pytest.mark.parametrize("processes", [1, 2])
def test_pairs_that_are_dropped_take_their_links_with_them(tmp_path: Path, processes: int) -> None:
    for name, lines in {
        "low": ["a b", "", "a b c d e", "c d"],
        "up": ["x y", "z", "x", "w v"],
        "links": ["0-0 1p1", "", "4-0 0-0", "1-0 1-0 0p1"],
    }.items():
        (tmp_path / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        (tmp_path / f"validation.{name}").write_text("a\n", "utf-8")
        (tmp_path / f"test.{name}").write_text("a\n", "utf-8")
    made = configuration(
        tmp_path, tokenizer={"type": "word", "vocabulary": 50}, filter={"max_ratio": 2.5}, processes=processes
    )
    prepared = prepare(made)
    links = prepared.train.links([1, 0])
    assert links is not None and [each.tolist() for each in links] == [[[0, 1], [1, 0]], [[1, 0], [0, 1]]]


def test_links_change_neither_tokenizer_nor_ids(tmp_path: Path) -> None:
    with_links = configuration(tmp_path)
    one, said = prepare(with_links), list[str]()
    plain = Config.model_validate(options(tmp_path) | {"tokenizer": BPE})
    other = prepare(plain, said.append)
    assert one.tokenizers.sha256 == other.tokenizers.sha256
    assert not any(line.startswith("learning") for line in said)
    everything = range(len(one.train))
    for found, expected in zip(one.train.rows(everything), other.train.rows(everything), strict=True):
        assert all(map(np.array_equal, found, expected))
    assert other.train.links(everything) is None
    assert one.corpus_sha256 == corpus_sha256(with_links.data) != other.corpus_sha256 == corpus_sha256(plain.data)
    assert one.report == other.report


# --- errors -----------------------------------------------------------------------------------------------------------


def error_of(made: Config) -> str:
    with pytest.raises(DataError) as caught:
        prepare(made)
    return str(caught.value)


def with_lines(folder: Path, change: Any) -> Config:
    """The configuration of links whose lines are changed."""
    made = configuration(folder)
    path = folder / "train.links"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("".join(f"{line}\n" for line in change(lines)), "utf-8")
    return made


@pytest.mark.parametrize(("change", "count"), [(lambda lines: lines[:-2], 298), (lambda lines: [*lines, ""], 301)])
def test_another_number_of_lines_names_both_files(tmp_path: Path, change: Any, count: int) -> None:
    said = error_of(with_lines(tmp_path, change))
    assert f"{tmp_path}/train.up: 300 pairs" in said and f"{tmp_path}/train.links has {count} lines" in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0-0 {0}p0", "{0}-0 "),
        ("0-{0}", "0-{0} "),
        ("0-0 1:1", "'1:1' "),
    ],
)
def test_a_link_that_cannot_be_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    write_corpus(tmp_path)
    words = len((tmp_path / "train.low").read_text("utf-8").splitlines()[4].split())
    made = with_lines(tmp_path, lambda lines: [*lines[:4], text.format(words), *lines[5:]])
    assert error_of(made).startswith(f"{tmp_path}/train.links:5: {problem.format(words)}")


def test_links_that_are_not_there(tmp_path: Path) -> None:
    made = configuration(tmp_path)
    (tmp_path / "train.links").unlink()
    assert error_of(made).startswith(f"data.train.links: {tmp_path}/train.links: no such file")
    os.mkfifo(tmp_path / "train.links")
    assert error_of(made).startswith(f"data.train.links: {tmp_path}/train.links: a pipe")
