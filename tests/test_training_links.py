"""Word links of the training set: read, checked, stored, spread over pieces, padded."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.data.batching import Batch, Specials, collate
from nmt.data.dataset import prepare
from nmt.data.epochs import Position, training_batches
from nmt.data.links import piece_links, piece_words
from nmt.training.gradients import POSITIONS, SENTENCES, filled_up
from tests.test_batching import REVERSED, SPECIALS, ids
from tests.test_epochs import BPE, DROPOUT, GUIDED, WORD, error_of, linked, mixed, pairs_of

PAIRS = (ids([4, 5, 6], [7]), ids([14, 15], [16]))
LINKS = [np.array([[1, 0, 0], [0, 0.5, 0.5]], np.float32), np.array([[1]], np.float32)]


def links_of(batch: Batch) -> Tensor:
    assert batch.links is not None
    return batch.links


def test_links_of_pieces_by_hand() -> None:
    """Source words of 2, 1 and 1 pieces, target words of 1, 2 and 1; the last target word has no link."""
    links = np.array([(0, 0), (0, 1), (2, 1)], np.int32)
    weights = piece_links(links, [0, 0, 1, 2], [0, 1, 1, 2])
    third = 1 / 3
    expected = [[0.5, 0.5, 0.0, 0.0], [third, third, 0.0, third], [third, third, 0.0, third], [0.0] * 4]
    np.testing.assert_allclose(weights, np.array(expected), rtol=1e-6)
    assert weights.dtype == np.float32
    assert piece_links(links[:0], [0, 0], [0]).tolist() == [[0, 0]]


def test_links_in_a_batch_by_hand() -> None:
    """(B, T, S), both ends included; EOS and padding have none."""
    links = links_of(collate(*PAIRS, SPECIALS, LINKS))
    assert links.dtype == torch.float32
    assert links.tolist() == [
        [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 0]],
        [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    backwards = links_of(collate(*PAIRS, REVERSED, LINKS))
    assert backwards[0].tolist() == [[0, 0, 1, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0]]
    assert torch.equal(backwards[1], links[1])


def test_a_batch_moves_whole_and_links_go_with_their_pairs() -> None:
    whole, without = collate(*PAIRS, SPECIALS, LINKS), collate(*PAIRS, SPECIALS)
    links = links_of(whole)
    assert torch.equal(torch.cat([links_of(half) for half in whole.halves()]), links)
    assert torch.equal(links_of(whole.select(torch.tensor([1, 0]))), links.flip(0))
    moved = whole.to(torch.device("meta"))
    for name in ("source", "target_input", "target_output", "target_mask", "links"):
        assert getattr(moved, name).device.type == "meta"
    assert moved.source_lengths.device.type == "cpu" and moved.target_tokens == whole.target_tokens
    full = links_of(filled_up(whole, SPECIALS))
    assert full.shape == (SENTENCES, POSITIONS, POSITIONS)
    assert torch.equal(full[:2, :3, :4], links) and full.sum() == links.sum()
    assert all(each.links is None for each in (without, *without.halves(), filled_up(without, SPECIALS)))


# --- from the file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse_source", [False, True])
@pytest.mark.parametrize("tokenizer", [BPE, DROPOUT], ids=["best", "sampled"])
def test_links_lead_from_word_to_word_in_training(
    tmp_path: Path, tokenizer: dict[str, Any], reverse_source: bool
) -> None:
    """Each target piece is linked to all pieces of its word's counterpart, however the words are cut."""
    prepared = prepare(linked(tmp_path, tokenizer, reverse_source=reverse_source))
    source, target = prepared.tokenizers.source, prepared.tokenizers.target
    batches = training_batches(prepared.train, Specials.of(prepared.tokenizers), 150, seed=1, position=Position())
    seen = 0
    while seen < len(prepared.train):
        _, found = next(batches)
        assert found.links is not None
        assert found.links.shape == (*found.target_output.shape, found.source.size(1))
        for row, length in enumerate(found.source_lengths.tolist()):
            read = found.source[row, : length - 1].tolist()
            pieces = source.pieces(read[::-1] if reverse_source else read)
            source_words = piece_words(pieces, source.decode(read[::-1] if reverse_source else read))
            written = found.target_output[row][found.target_mask[row]].tolist()[:-1]
            target_words = piece_words(target.pieces(written), target.decode(written))
            weights = found.links[row].numpy().copy()
            if reverse_source:
                weights[:, : length - 1] = weights[:, : length - 1][:, ::-1]
            last = source_words[-1]
            for piece, j in enumerate(target_words):
                wanted = [float(i == last - j) for i in source_words]
                np.testing.assert_allclose(weights[piece, : length - 1], np.array(wanted) / sum(wanted), rtol=1e-6)
            assert weights[len(written) :].sum() == 0 and weights[:, length - 1 :].sum() == 0
            seen += 1


def test_pairs_that_are_dropped_take_their_links_with_them(tmp_path: Path) -> None:
    for name, lines in {
        "low": ["a b", "", "a b c d e", "c d"],
        "up": ["x y", "z", "x", "w v"],
        "links": ["0-0 1p1", "", "4-0 0-0", "1-0 1-0 0p1"],
    }.items():
        (tmp_path / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        for split in ("validation", "test"):
            (tmp_path / f"{split}.{name}").write_text("a\n", "utf-8")
    links = prepare(linked(tmp_path, WORD, filter={"max_ratio": 2.5})).train.links([1, 0])
    assert links is not None and [each.tolist() for each in links] == [[[0, 1], [1, 0]], [[1, 0], [0, 1]]]


def test_links_of_a_tagged_corpus_leave_the_tag_alone(tmp_path: Path) -> None:
    prepared = prepare(mixed(tmp_path, {"europarl": 1.0, "back": 2.0}, WORD, **GUIDED))
    pairs = prepared.train.in_epoch(0)
    links = pairs.links(range(len(pairs)))
    assert links is not None
    for weights, (source, target) in zip(links, pairs_of(pairs), strict=True):
        tagged = source[0] == prepared.tokenizers.source.piece_id("<bt>")
        expected = np.eye(len(target), len(source) - 1)[::-1] if tagged else np.zeros((len(target), len(source) - 1))
        assert np.array_equal(weights, np.pad(expected, ((0, 0), (1, 0))))


@pytest.mark.parametrize("count", [298, 301])
def test_another_number_of_lines_names_both_files(tmp_path: Path, count: int) -> None:
    made, path = linked(tmp_path), tmp_path / "train.links"
    path.write_text("".join([*path.read_text("utf-8").splitlines(keepends=True), "\n"][:count]), "utf-8")
    said = error_of(made)
    assert f"{tmp_path}/train.up: 300 pairs" in said and f"{path} has {count} lines" in said


def test_links_that_cannot_be_are_named(tmp_path: Path) -> None:
    made, path = linked(tmp_path), tmp_path / "train.links"
    lines = path.read_text("utf-8").splitlines()
    words = len((tmp_path / "train.low").read_text("utf-8").splitlines()[4].split())
    for text, link in ((f"0-0 {words}p0", f"{words}-0 "), (f"0-{words}", f"0-{words} "), ("0-0 1:1", "'1:1' ")):
        path.write_text("".join(f"{line}\n" for line in [*lines[:4], text, *lines[5:]]), "utf-8")
        assert error_of(made).startswith(f"data.train: {path}:5: {link}")
    path.unlink()
    assert error_of(made).startswith(f"data.train.links: {path}: no such file")
    os.mkfifo(path)
    assert error_of(made).startswith(f"data.train.links: {path}: a pipe")
