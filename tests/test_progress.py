"""The value that decides when to save, slow down, stop: a value after each validation."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import Training
from nmt.config.schema.base import LARGEST
from nmt.data.batching import Position
from nmt.training.progress import Candidate, Progress, Window

numbers, counts = st.floats(allow_nan=False), st.integers(0, LARGEST)
kept = st.builds(Candidate, counts, st.tuples(numbers, numbers))
seconds = st.floats(0, allow_nan=False, allow_infinity=False)
progresses = st.builds(
    Progress,
    **dict.fromkeys(("update", "target_tokens", "skipped", "skipped_in_a_row", "waited", "plateau"), counts),
    position=st.builds(Position, counts, counts),
    seconds=seconds,
    window=st.builds(Window, numbers, counts, seconds),
    best=st.none() | kept,
    scale=numbers,
    kept=st.lists(kept).map(tuple),
)


def training(**options: Any) -> Training:
    return Training.model_validate({"updates": 100, **options})


def history(merits: Sequence[float | tuple[float, float]], config: Training) -> list[Progress]:
    """The progress after each of these validations, at updates 10, 20, ...; beside a score alone the loss is 1."""
    progress, path = Progress(), []
    for number, merit in enumerate(merits, 1):
        both = merit if isinstance(merit, tuple) else (merit, -1.0)
        progress = replace(progress, update=10 * number).judged(both, config)
        path.append(progress)
    return path


@given(progresses)
def test_progress_survives_json(progress: Progress) -> None:
    assert Progress.from_json(json.loads(json.dumps(asdict(progress)))) == progress


FRESH = asdict(Progress())


@pytest.mark.parametrize(
    "value",
    [
        {**FRESH, "unknown": 1},
        {**FRESH, "best": {"update": 1, "merit": [0.5, 0.5], "unknown": 1}},
        {name: value for name, value in FRESH.items() if name != "update"},
        [],
        {**FRESH, "position": {"epoch": -1, "batch": 0}},
        {**FRESH, "kept": [{"update": "7/../../..", "merit": [0.5, 0.5]}]},
        {**FRESH, "waited": 0.5},
    ],
)
def test_what_is_not_progress_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        Progress.from_json(value)


def test_the_best_has_the_highest_merit_then_the_lowest_loss_and_of_equals_is_the_first() -> None:
    path = history([(1.0, -9.0), (3.0, -2.0), (2.0, -1.0), (3.0, -3.0), (3.0, -2.0), (3.0, -1.0)], training())
    assert [progress.best.update for progress in path if progress.best] == [10, 20, 20, 20, 20, 60]
    assert [progress.waited for progress in path] == [0, 0, 1, 2, 3, 0]


def test_training_ends_with_its_updates_or_its_patience() -> None:
    impatient = training(validation={"patience": 2})
    path = history([2.0, 1.0, 3.0, 3.0, 2.0], impatient)
    assert [progress.finished(impatient) for progress in path] == [False, False, False, False, True]
    assert not path[-1].finished(training())
    assert not Progress(update=99).finished(training()) and Progress(update=100).finished(training())


def test_a_validation_is_due_once() -> None:
    config = training(validation={"every": 10})
    due = [Progress(update=update).validation_due(config) for update in (0, 9, 10, 11, 20, 99, 100)]
    assert due == [False, False, True, False, True, False, True]
    assert not Progress(update=10).judged((1.0, -1.0), config).validation_due(config)
    early = training(validation={"every": 10, "first": 3})
    assert [update for update in range(1, 21) if Progress(update=update).validation_due(early)] == [3, 10, 20]
    assert not Progress(update=3).judged((1.0, -1.0), early).validation_due(early)
    odd = training(updates=7, validation={"every": 10})
    last = Progress(update=7)
    assert last.validation_due(odd) and not last.judged((1.0, -1.0), odd).validation_due(odd)


def test_the_rate_falls_after_more_validations_without_improvement_than_patience() -> None:
    config = training(schedule={"type": "plateau", "factor": 0.5, "patience": 1})
    path = history([1.0, 2.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0], config)
    assert [progress.scale for progress in path] == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert history([2.0] + [1.0] * 9, training())[-1].scale == 1.0, "of another schedule"


@given(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=12), st.integers(1, 5))
def test_the_best_k_are_kept_best_first_and_of_equals_the_earlier(scores: list[float], count: int) -> None:
    last = history(scores, training(average=count))[-1]
    ranked = sorted(((-score, 10 * number) for number, score in enumerate(scores, 1)))[:count]
    assert last.kept == tuple(Candidate(update, (-score, -1.0)) for score, update in ranked)
    assert last.best == last.kept[0]
