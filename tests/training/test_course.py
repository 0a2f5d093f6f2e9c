"""The course of training: epochs, validations, and the step that shows it."""

from nmt.data.epochs import Position
from nmt.messages import shown_on
from nmt.training.progress import Progress
from tests.recorded_steps import Recorder
from tests.small_run import metrics
from tests.training.trainers import Make


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
    """With an early validation, which comes once."""
    display = Recorder()
    trainer = make(updates=5, log_every=2, validation={"every": 2, "first": 1})
    with shown_on(display):
        trainer.fit()
    shown = display.named("training")
    assert (shown.total, shown.done, shown.ended) == (5, 5, True)
    assert shown.counts == [1, 2, 3, 4, 5] and shown.notes[-1].startswith("loss ")
    assert [step.what for step in display.steps].count("validation: translating") == 4
    assert [line["step"] for line in metrics(trainer.checkpointing.run.path, "validation")] == [1, 2, 4, 5]
