"""Plans by property, batches by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batching import Position, Specials, ahead, collate, plan_by_length, plan_epoch, training_batches
from nmt.data.encoded import NUMBERS, Recipe, TrainingSet
from nmt.data.tokenizer import Ids
from nmt.errors import DataError
from nmt.training.gradients import POSITIONS, SENTENCES, filled_up
from tests.small_translator import TOKENIZERS

SPECIALS = Specials(source_pad=0, source_eos=3, target_pad=9, target_bos=7, target_eos=8)
REVERSED = replace(SPECIALS, reverse_source=True)

Lengths = tuple[Ids, Ids]
both = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60)
lengths = both.map(lambda pairs: (np.array([s for s, _ in pairs], np.int32), np.array([t for _, t in pairs], np.int32)))


def corpus_of(source_lengths: Ids, target_lengths: Ids) -> TrainingSet:
    """Pairs whose ids tell which pair they belong to: source all i, target all 100 + i."""
    sides = {"source": (0, source_lengths), "target": (100, target_lengths)}
    rows = {side: [[first + i] * n for i, n in enumerate(lengths)] for side, (first, lengths) in sides.items()}
    return TrainingSet(pa.table(rows, pa.schema([(side, NUMBERS) for side in sides])), Recipe(TOKENIZERS))


def ids(*rows: Sequence[int]) -> list[Ids]:
    return [np.array(row, np.int32) for row in rows]


# --- plans ------------------------------------------------------------------------------------------------------------


@given(lengths, st.integers(1, 200), st.integers(0, 5), st.integers(0, 5))
def test_every_pair_stands_once_in_batches_of_the_budget(lengths: Lengths, budget: int, seed: int, epoch: int) -> None:
    source, target = lengths
    for plan in (plan_epoch(source, target, budget, seed=seed, epoch=epoch), plan_by_length(source, target, budget)):
        assert sorted(np.concatenate(plan).tolist()) == list(range(len(source)))
        for rows in plan:
            longest = max(int(source[rows].max()), int(target[rows].max())) + 1
            assert len(rows) * longest <= budget or len(rows) == 1
    np.random.seed(epoch)  # nothing global is to matter
    plan = plan_epoch(source, target, budget, seed=seed, epoch=epoch)
    again = plan_epoch(source, target, budget, seed=seed, epoch=epoch)
    assert [rows.tolist() for rows in plan] == [rows.tolist() for rows in again]
    cells = [len(rows) * int(source[rows].max() + 1) * int(target[rows].max() + 1) for rows in plan]
    assert cells[0] == max(cells), "the largest batch comes first"


def test_pairs_of_like_length_stand_together_in_other_company_each_epoch() -> None:
    source = np.random.default_rng(1).permutation(np.repeat(np.arange(1, 11, dtype=np.int32), 30))
    plan = plan_epoch(source, source, 66, seed=1, epoch=0)
    cells = sum(len(rows) * int(source[rows].max() + 1) for rows in plan)
    assert cells < 1.1 * int((source + 1).sum())  # less than a tenth is padding
    longest = [int(source[rows].max()) for rows in plan[1:]]
    assert longest not in (sorted(longest), sorted(longest, reverse=True)), "in random order after the largest"
    for seed, epoch in ((1, 1), (2, 0)):
        other = plan_epoch(source, source, 66, seed=seed, epoch=epoch)
        assert {frozenset(rows.tolist()) for rows in plan} != {frozenset(rows.tolist()) for rows in other}


def test_a_plan_by_hand() -> None:
    # longest sides, EOS included: 2, 5, 3, 3, 9; in order of target, then source: rows 0, 2, 3, 1, 4
    source, target = np.array([1, 4, 2, 2, 8], np.int32), np.array([1, 3, 2, 2, 8], np.int32)
    plan = plan_by_length(source, target, 9)
    # 0, 2 and 3: 3 rows of 3; 1 with 4 would be 2 x 9
    assert [rows.tolist() for rows in plan] == [[0, 2, 3], [1], [4]]
    assert [rows.tolist() for rows in plan_by_length(source, target, 8)] == [[0, 2], [3], [1], [4]]
    short = np.ones(40, np.int32)
    assert [len(rows) for rows in plan_by_length(short, short, 60)] == [16, 24]  # 30 would fit in each
    crossed = np.array([2, 1], np.int32), np.array([1, 2], np.int32)
    assert [rows.tolist() for rows in plan_by_length(*crossed, 3)] == [[0], [1]]


# --- batches ----------------------------------------------------------------------------------------------------------


def test_collate_by_hand() -> None:
    batch = collate(ids([4, 5], [6]), ids([14], [15, 16, 17]), SPECIALS)
    assert batch.source.tolist() == [[4, 5, 3], [6, 3, 0]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_input.tolist() == [[7, 14, 8, 9], [7, 15, 16, 17]]
    assert batch.target_output.tolist() == [[14, 8, 9, 9], [15, 16, 17, 8]]
    assert batch.target_mask.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert batch.target_tokens == 6
    assert batch.source.dtype == batch.target_input.dtype == batch.target_output.dtype == torch.long


def test_a_reversed_source_by_hand() -> None:
    plain = collate(ids([4, 5, 6], [7], []), ids([14], [15], [16]), SPECIALS)
    batch = collate(ids([4, 5, 6], [7], []), ids([14], [15], [16]), REVERSED)
    assert batch.source.tolist() == [[6, 5, 4, 3], [7, 3, 0, 0], [3, 0, 0, 0]]
    for name in ("source_lengths", "target_input", "target_output", "target_mask"):
        assert torch.equal(getattr(batch, name), getattr(plain, name))
    assert REVERSED.order(4).tolist() == [2, 1, 0, 3] and REVERSED.order(1).tolist() == [0]


def test_links_in_a_batch_by_hand() -> None:
    """EOS and padding have none, and each link is where the network reads the source piece."""
    links = ids([0, 0, 1, 1, 2, 1], [0, 0])
    for specials, first in ((SPECIALS, [[1, 0, 0, 0], [0, 0.5, 0.5, 0]]), (REVERSED, [[0, 0, 1, 0], [0.5, 0.5, 0, 0]])):
        batch = collate(ids([4, 5, 6], [7]), ids([14, 15], [16]), specials, links)
        assert batch.links is not None and batch.links.dtype == torch.float32
        assert batch.links.tolist() == [[*first, [0] * 4], [[1, 0, 0, 0], [0] * 4, [0] * 4]]


# --- the stream of training -------------------------------------------------------------------------------------------


@given(lengths, st.integers(20, 100), st.integers(0, 7))
def test_a_position_is_all_it_takes_to_resume(lengths: Lengths, budget: int, count: int) -> None:
    corpus = corpus_of(*lengths)
    whole = list(islice(training_batches(corpus, SPECIALS, budget, seed=3, position=Position()), count + 5))
    position = whole[count - 1][0] if count else Position()
    rest = islice(training_batches(corpus, SPECIALS, budget, seed=3, position=position), 5)
    for (after, batch), (expected_after, expected) in zip(rest, whole[count:], strict=True):
        assert after == expected_after and torch.equal(batch.source, expected.source)
        assert torch.equal(batch.target_output, expected.target_output)


def dealt(rank: int, size: int, count: int) -> list[tuple[Position, list[list[int]]]]:
    """The first batches of a process, of a corpus with three batches an epoch."""
    corpus = corpus_of(np.full(6, 3, np.int32), np.full(6, 3, np.int32))
    batches = training_batches(corpus, SPECIALS, 8, seed=1, position=Position(), rank=rank, size=size)
    return [(after, batch.source.tolist()) for after, batch in islice(batches, count)]


def test_processes_share_each_epoch() -> None:
    """Two processes deal out its three batches and go on with the next epoch; four take more than an epoch."""
    alone = dealt(0, 1, 12)
    assert [after for after, _ in alone[:4]] == [Position(0, 1), Position(0, 2), Position(1, 0), Position(1, 1)]
    assert [after.of for after, _ in alone[:3]] == [3, 3, 1], "batches of the epoch"
    for first in (0, 3):
        assert sorted(row[0] for _, rows in alone[first : first + 3] for row in rows) == list(range(6))
    for size in (2, 3, 4):
        for rank in range(size):
            rounds = [alone[index : index + size] for index in range(0, 12, size)]
            assert dealt(rank, size, 12 // size) == [(each[-1][0], each[rank][1]) for each in rounds]
    assert [after for after, _ in dealt(1, 2, 3)] == [Position(0, 2), Position(1, 1), Position(2, 0)]


def test_items_made_ahead_come_in_order_and_no_more_than_asked_for() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1, 10):
            made.append(number)
            yield number
        raise DataError("broken")

    waiting = ahead(items(), 3)
    assert [next(waiting) for _ in range(9)] == list(range(1, 10))
    with pytest.raises(DataError, match="broken"):
        next(waiting)
    made.clear()
    waiting = ahead(items(), 3)
    assert next(waiting) == 1
    waiting.close()  # type: ignore[attr-defined]
    assert len(made) <= 4
    assert list(ahead(iter("abc"))) == ["a", "b", "c"]


def test_a_batch_moves_whole_and_its_lengths_stay() -> None:
    whole = collate(ids([4, 5, 6], [7]), ids([14, 15], [16]), SPECIALS, ids([0, 0], [0, 0]))
    one, other = whole.halves()
    assert (one.target_tokens, other.target_tokens) == (3, 2) and other.halves() == [other]
    moved, filled = whole.to(torch.device("meta")), filled_up(whole, SPECIALS)
    for name in ("source", "target_input", "target_output", "target_mask", "links"):
        whole_of = getattr(whole, name)
        assert torch.equal(torch.cat((getattr(one, name), getattr(other, name))), whole_of)
        assert torch.equal(getattr(filled, name)[*map(slice, whole_of.shape)], whole_of)
        assert getattr(moved, name).device.type == "meta"
    assert filled.source.shape == filled.target_input.shape == (SENTENCES, POSITIONS)
    assert filled_up(filled, SPECIALS) is filled
    assert moved.source_lengths.device.type == "cpu" and moved.target_tokens == whole.target_tokens
