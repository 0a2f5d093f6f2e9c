"""Word links: spread over pieces, and padded in batches."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt.data.batching import Batch, Specials, collate
from nmt.data.links import piece_links
from nmt.training.gradients import POSITIONS, SENTENCES, filled_up

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
