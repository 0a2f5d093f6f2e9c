"""Records of tensors: every field is changed, whatever it is made of; a state shares the memory of its sentences."""

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from nmt.model import Memory, State
from nmt.records import Record


@dataclass(frozen=True)
class Inner(Record):
    tensor: Tensor


@dataclass(frozen=True)
class Outer(Record):
    tensor: Tensor
    inner: Inner
    several: tuple[Tensor, Inner]
    number: int = 3
    nothing: Tensor | None = None


@dataclass(frozen=True)
class Carrying(State):
    carried: Outer


ROWS = torch.arange(8).view(4, 2)


def outer(rows: Tensor) -> Outer:
    return Outer(rows, Inner(rows + 10), (rows + 20, Inner(rows + 30)))


def same(found: Outer, rows: Tensor) -> bool:
    """Whether a record is ``outer(rows)``."""
    tensors = found.tensor, found.inner.tensor, found.several[0], found.several[1].tensor
    alike = all(torch.equal(tensor, rows + 10 * place) for place, tensor in enumerate(tensors))
    return alike and (found.number, found.nothing) == (3, None)


def test_every_field_is_selected_expanded_and_mapped() -> None:
    record, rows = outer(ROWS), torch.tensor([2, 0, 2])
    assert same(record.select(rows), ROWS[rows])
    assert same(record.expand(3), ROWS[[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]])
    doubled = record.map(lambda tensor: 2 * tensor)
    assert torch.equal(doubled.tensor, 2 * ROWS) and torch.equal(doubled.several[1].tensor, 2 * (ROWS + 30))
    assert same(record, ROWS), "a record is a value"


def test_a_record_is_freed_when_its_last_reference_goes() -> None:
    gc.disable()  # only a reference cycle would need the collector
    try:
        before = outer(ROWS.clone())
        tensor = weakref.ref(before.tensor)
        after = before.select(torch.tensor([1, 0]))
        del before
        assert tensor() is None and after.number == 3
    finally:
        gc.enable()


def state(sentences: int = 3) -> Carrying:
    numbers = torch.arange(float(sentences))
    mask = torch.ones(sentences, 4, dtype=torch.bool)
    memory = Memory(numbers.view(-1, 1, 1).expand(-1, 4, 5), numbers.view(-1, 1), mask, keys=numbers.view(-1, 1, 1))
    return Carrying(memory, 0, 1, outer(torch.arange(2 * sentences).view(-1, 2)))


def test_an_expanded_state_has_hypotheses_and_shares_its_memory() -> None:
    start = state()
    once = start.expand(2)
    assert (once.hypotheses, once.memory) == (2, start.memory)
    assert same(once.carried, start.carried.tensor[[0, 0, 1, 1, 2, 2]])
    twice = once.expand(3)
    assert twice.hypotheses == 6
    assert same(twice.carried, start.carried.tensor.repeat_interleave(6, 0))


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        ([1, 0, 2, 2, 5, 4], [0, 1, 2]),  # inside their sentences
        ([4, 5], [2]),
        ([0, 1, 5, 4, 2, 2], [0, 2, 1]),  # as many sentences, the first at its place
        ([3, 2, 0, 0], [1, 0]),
    ],
)
def test_a_selected_state_has_the_memory_of_its_sentences(rows: list[int], sentences: list[int]) -> None:
    before = state().expand(2)
    after = before.select(torch.tensor(rows))
    assert same(after.carried, before.carried.tensor[rows])
    assert after.hypotheses == 2
    found = (after.memory.summary, after.memory.annotations[:, 0], after.memory.keys)
    assert [each.flatten()[:: each[0].numel()].tolist() for each in found if each is not None] == [sentences] * 3
    assert len(after.memory.source_mask) == len(sentences)
    assert (after.memory is before.memory) == (sentences == [0, 1, 2]), "what is not copied costs nothing"


def test_a_list_in_a_record_is_refused_rather_than_left_in_its_old_order() -> None:
    @dataclass(frozen=True)
    class Cache(Record):
        steps: list[Tensor]

    with pytest.raises(TypeError, match="Cache: a list in a record; use a tuple"):
        Cache([torch.zeros(2)]).select(torch.tensor([0]))
