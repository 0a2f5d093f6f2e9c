"""The course of training: epochs, validations, and the time that is left."""

import re
from dataclasses import replace

import pytest

from nmt.data.epochs import Position
from nmt.messages import Detail, duration, shown_on
from nmt.training import reports
from nmt.training.progress import Progress
from tests.recorded_steps import Recorder
from tests.small_run import metrics
from tests.training.trainers import Make, results


def test_an_early_validation_comes_once(make: Make) -> None:
    trainer = make(updates=8, validation={"every": 4, "first": 1})
    trainer.fit()
    assert [line["step"] for line in metrics(trainer.checkpointing.run.path, "validation")] == [1, 4, 8]
    assert [line["epoch"] for line in metrics(trainer.checkpointing.run.path, "train")] == [trainer.progress.epoch]


def expect_after(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    """Say the expected time after so many updates, however little time they took."""
    monkeypatch.setattr(reports, "FIRST_LINE", 0.0)
    monkeypatch.setattr(reports, "FIRST_UPDATES", updates)


def test_the_expected_time_is_said_after_a_few_seconds_and_written_down_nowhere(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_after(monkeypatch, 2)
    said: list[str] = []
    trainer = make(said, updates=6, log_every=4)
    trainer.fit()
    lines = [line for line in said if line.startswith(("update ", "expected "))]
    assert [line.partition("  ")[0] for line in lines][1:] == ["update 4/6", "update 6/6"]
    assert re.fullmatch(
        r"expected time: .+ for 4 more updates, not counting 3 validations, at [\d,]+ target tokens/s; "
        r"\d+\.\d GB of memory so far",
        lines[0],
    )
    assert re.fullmatch(r"update 4/6  epoch 1  loss \d\.\d+  [\d,]+ target tokens/s  .* left", lines[1])
    assert [type(line) for line in lines] == [str, Detail, Detail]
    assert [line["step"] for line in metrics(trainer.checkpointing.run.path, "train")] == [4, 6]
    quiet: list[str] = []
    silent = make(quiet, updates=2, log_every=4)
    monkeypatch.setattr(reports, "FIRST_LINE", 60.0)
    silent.fit()
    assert [line.partition("  ")[0] for line in quiet if line.startswith(("update ", "expected "))] == ["update 2/2"]


def test_the_time_left_counts_validations(make: Make) -> None:
    said: list[str] = []
    trainer = make(said, updates=4, log_every=3, validation={"every": 2})
    trainer.validator = results(3.0, 2.0, seconds=36000.0)  # type: ignore[assignment]
    trainer.fit()
    [line] = [line for line in said if line.startswith("update 3/4 ")]
    assert line.endswith("  10h 00m left"), "one validation is left, which takes as long as the one that was made"


@pytest.mark.parametrize(
    ("every", "first", "updates"),
    [(1, None, 3), (2, None, 8), (3, None, 8), (3, 2, 8), (3, 3, 8), (5, 8, 8), (9, 1, 8)],
)
def test_validations_made_and_left_are_those_that_come(make: Make, every: int, first: int | None, updates: int) -> None:
    trainer = make(updates=updates, validation={"every": every, "first": first})
    config, progress = trainer.config, Progress()
    due = []
    for update in range(1, updates + 1):
        progress = replace(progress, update=update)
        if progress.validation_due(config):
            due.append(update)
    for validated in (0, *due):
        progress = Progress(update=validated, validated=validated)
        made = sum(update <= validated for update in due)
        assert trainer.extent.validations(config, progress) == (made, len(due) - made)


def test_the_last_update_of_an_epoch_belongs_to_it(make: Make) -> None:
    """Two epochs, whose every pair is read once in each."""
    batches = make(updates=1).extent.batches
    trainer = make(updates=2 * batches, log_every=1)
    trainer.fit()
    epochs = [line["epoch"] for line in metrics(trainer.checkpointing.run.path, "train")]
    assert epochs == [1] * batches + [2] * batches
    assert Progress().epoch == 1 and trainer.progress.position == Position(2, 0)
    tokens = int(trainer.prepared.train.target_lengths.sum()) + len(trainer.prepared.train)
    assert trainer.progress.target_tokens == 2 * tokens == 2 * trainer.extent.tokens


def test_training_is_a_step_that_ends_when_it_ends(make: Make) -> None:
    display = Recorder()
    trainer = make(updates=5, log_every=2, validation={"every": 2})
    with shown_on(display):
        trainer.fit()
    training = display.named("training")
    assert (training.total, training.done, training.ended) == (5, 5, True)
    assert training.counts == [1, 2, 3, 4, 5] and training.notes[-1].startswith("loss ")
    assert [step.what for step in display.steps].count("validation: translating") == 3


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (725, "12m 05s"), (12000, "3h 20m")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
