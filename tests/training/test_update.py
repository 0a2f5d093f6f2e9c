"""The arithmetic of an update, the course of many, and what happens where one fails."""

import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmt.config import Config
from nmt.data.batching import Batch, Position
from nmt.errors import NmtError, Stopped
from nmt.messages import shown_on
from nmt.runs.directory import RunDirectory
from nmt.training import dry_run
from nmt.training.gradients import GraphedGradients
from nmt.training.progress import Progress, Update
from nmt.training.trainer import SKIPS
from tests import graphs_on_cpu
from tests.models import NO_DROPOUT
from tests.recorded_steps import Recorder
from tests.small_run import config, metrics, train
from tests.training.conftest import (
    KINDS,
    NO_MEMORY,
    Make,
    batch_of,
    cramp,
    not_finite,
    parameters,
    poison,
    results,
    spoil,
    update,
)

SGD = {"type": "sgd", "learning_rate": 1.0}


def test_an_update_follows_the_gradient_of_the_smoothed_loss_per_token(make: Make) -> None:
    """Of all batches together; and reports the loss without smoothing."""
    trainer = make(dropout=NO_DROPOUT, optimizer=SGD, label_smoothing=0.2, clip=None)
    lengths = trainer.prepared.train.target_lengths
    by_length = np.argsort(lengths, kind="stable")
    short, long = by_length[:3].tolist(), by_length[-5:].tolist()
    assert lengths[short].max() < lengths[long].min()  # so that a mean of means would be another number
    batches = [batch_of(trainer, short), batch_of(trainer, long)]

    def per_token(smoothing: float) -> Tensor:
        logits, targets = [], []
        for batch in batches:
            found, _ = trainer.model(batch.source, batch.source_lengths, batch.target_input)
            logits.append(found[batch.target_mask])
            targets.append(batch.target_output[batch.target_mask])
        return functional.cross_entropy(torch.cat(logits), torch.cat(targets), label_smoothing=smoothing)

    nll, before = per_token(0.0).item(), parameters(trainer)
    gradients = torch.autograd.grad(per_token(0.2), list(trainer.model.parameters()))
    gradient = torch.cat([each.flatten() for each in gradients])
    made = update(trainer, batches)
    torch.testing.assert_close(parameters(trainer), before - gradient, rtol=1e-7, atol=1e-9)
    assert made.gradient_norm == pytest.approx(gradient.norm().item(), rel=1e-6)
    assert made.loss == pytest.approx(nll, rel=1e-6)
    assert made.tokens == int(lengths[short + long].sum()) + 8  # EOS


def test_bf16_is_near_fp32_and_saves_fp32(folder: Path, tmp_path: Path) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        values = config(folder, log_every=1).model_dump()
        train(Config.model_validate(values | {"precision": precision, "output": str(tmp_path / precision)}))
        losses[precision] = [line["loss"] for line in metrics(tmp_path / precision) if "loss" in line]
        for checkpoint in ("best", "last"):
            weights = RunDirectory(tmp_path / precision).weights(checkpoint)
            assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.01)
    assert losses["bf16"] != losses["fp32"]


def test_the_gradient_is_clipped_to_its_norm(make: Make) -> None:
    trainer = make(dropout=NO_DROPOUT, optimizer=SGD, clip=0.01)
    before = parameters(trainer)
    made = update(trainer, [batch_of(trainer, [1, 2, 3])])
    assert made.gradient_norm > 0.01  # that before clipping is reported
    assert (parameters(trainer) - before).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_an_update_is_smaller_after_a_plateau(make: Make) -> None:
    plateau = {"type": "plateau", "patience": 0, "factor": 0.5}
    fresh, slowed = (make(dropout=NO_DROPOUT, optimizer=SGD, schedule=plateau, clip=None) for _ in range(2))
    slowed.validator = results(1.0, 2.0, 2.0)  # type: ignore[assignment]
    for _ in range(3):
        slowed.validate()
    moved, rates = [], []
    for trainer in (fresh, slowed):
        before = parameters(trainer)
        rates.append(update(trainer, [batch_of(trainer, [1, 2, 3])]).learning_rate)
        moved.append(parameters(trainer) - before)
    assert rates == [1.0, 0.25]
    torch.testing.assert_close(4 * moved[1], moved[0], rtol=1e-6, atol=1e-12)
    assert moved[0].abs().max() > 1e-3


def test_an_update_takes_as_many_batches_as_are_accumulated_and_a_line_of_progress_all_updates(make: Make) -> None:
    trainer = make(updates=4, accumulation=3, log_every=2, validation={"every": 4})
    trainer.validator = results(1.0)  # type: ignore[assignment]
    updates: list[Update] = []
    whole = trainer.update

    def recorded(batches: Sequence[Batch]) -> Update:
        assert len(batches) == 3
        updates.append(whole(batches))
        return updates[-1]

    trainer.update = recorded  # type: ignore[method-assign]
    trainer.fit()
    assert trainer.progress.position == Position(0, 12)
    assert len({each.tokens for each in updates}) > 1, "or a mean of means would be the same"
    before = 0.0
    for line, group in zip(metrics(trainer.checkpointing.run.path, "train"), (updates[:2], updates[2:]), strict=True):
        tokens = sum(each.tokens for each in group)
        assert line["loss"] == pytest.approx(sum(each.loss * each.tokens for each in group) / tokens)
        assert line["target_tokens_per_second"] * (line["seconds"] - before) == pytest.approx(tokens)
        before = line["seconds"]


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
    trainer = make(updates=5, log_every=2, validation={"every": 2, "first": 1})
    with shown_on(display):
        trainer.fit()
    shown = display.named("training")
    assert (shown.total, shown.done, shown.ended) == (5, 5, True)
    assert shown.counts == [1, 2, 3, 4, 5] and shown.notes[-1].startswith("loss ")
    assert [step.what for step in display.steps].count("validation: translating") == 4
    assert [line["step"] for line in metrics(trainer.checkpointing.run.path, "validation")] == [1, 2, 4, 5]


# --- updates that are skipped -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_without_a_finite_gradient_only_counts(make: Make, kind: str) -> None:
    said: list[str] = []
    trainer, reference = (make(lines, dropout=NO_DROPOUT) for lines in (said, None))
    spoil(trainer, not_finite(kind), [2])
    for rows in ([3, 4], [1, 2]):
        update(trainer, [batch_of(trainer, rows)])
    update(reference, [batch_of(reference, [3, 4])])
    assert torch.equal(parameters(trainer), parameters(reference)), "Adam's moments would move them"
    assert trainer.progress.skipped == 1 and trainer.progress.update == 2
    assert len(said) == 1 and said[0].startswith("update 2 (epoch 1, batch 2): ") and said[0].endswith(" is skipped")
    for each in (trainer, reference):
        update(each, [batch_of(each, [5])])
    assert torch.equal(parameters(trainer), parameters(reference)), "the optimizer is as it was"


def test_a_line_of_progress_is_of_the_updates_whose_loss_is_a_number(make: Make) -> None:
    trainer = make(updates=5, log_every=2, validation={"every": 5})
    updates = spoil(trainer, not_finite(KINDS[0]), {1, 3, 4})
    trainer.fit()
    assert updates == [0, 1, 2, 3, 4], "which scheduled sampling and the weight of an objective depend on"
    [first, none, last] = [record["loss"] for record in metrics(trainer.checkpointing.run.path, "train")]
    assert none is None, "of 3 and 4 there is none"
    assert 0 < first < 10 and 0 < last < 10


def test_training_that_only_fails_is_ended(make: Make) -> None:
    trainer = make(updates=100, log_every=1, save_every=1, validation={"every": 4})
    poison(trainer)
    with pytest.raises(NmtError, match=r"^10 updates in a row had no finite gradient \(the last is 10\)"):
        trainer.fit()
    assert not trainer.checkpointing.run.has("last"), "nothing is saved between the bad ones"
    for line in trainer.checkpointing.run.metrics.read_text().splitlines():  # JSON knows no NaN
        record = json.loads(line, parse_constant=pytest.fail)
        assert record["split"] == "validation" or (record["loss"] is None and record["gradient_norm"] is None)


def test_a_stop_between_skipped_updates_keeps_the_last_that_trains(make: Make) -> None:
    trainer = make(updates=9, save_every=1, validation={"every": 9})
    spoil(trainer, not_finite(KINDS[1]), range(4, 10))
    with pytest.raises(Stopped):
        trainer.fit(Mock(side_effect=[None] * 6 + [Stopped]))
    assert trainer.progress.update == 6 and trainer.checkpointing.run.training("last").state["update"] == 3
    trainer.fit()
    assert trainer.checkpointing.run.training("last").state["update"] == 9, "a finished run is complete"


def test_one_good_update_forgives_the_bad_ones(make: Make) -> None:
    trainer = make()
    bias = trainer.model.output.bias
    for _ in range(3):
        good = bias[5].item()
        poison(trainer)
        for _ in range(SKIPS - 1):
            update(trainer, [batch_of(trainer, [1])])
        with torch.no_grad():
            bias[5] = good
        update(trainer, [batch_of(trainer, [1])])
    assert trainer.progress.skipped == 3 * (SKIPS - 1)


# --- too little memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "accumulation"), [*zip(NO_MEMORY, (1, 2, 2), strict=True)])
def test_a_batch_too_large_for_memory_is_halved(make: Make, error: Exception, accumulation: int) -> None:
    """Gradients of the failed try, in the parameters or in a sum, do not count."""
    said: list[str] = []
    training = {"optimizer": SGD, "accumulation": accumulation}
    roomy, little = (make(lines, dropout=NO_DROPOUT, **training) for lines in (None, said))
    cramp(little, 2, error)
    one, other = (update(each, [batch_of(each, [8]), batch_of(each, [*range(7)])]) for each in (roomy, little))
    assert other.loss == pytest.approx(one.loss, rel=1e-12)
    assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-9)
    torch.testing.assert_close(parameters(little), parameters(roomy), rtol=1e-9, atol=1e-12)
    assert (little.progress.halved, little.progress.update) == (1, 1)
    named = [f"update 1 (epoch 1, batch 1): out of memory with {pairs} pairs" for pairs in (7, 4)]
    assert [line.partition(";")[0] for line in said] == named


def test_a_pair_too_large_for_memory_ends_training_and_other_errors_are_raised(make: Make) -> None:
    trainer, other = make(), make()
    cramp(trainer, 0)
    with pytest.raises(NmtError, match=r"^update 1 \(epoch 1, batch 1\): out of memory with a single pair"):
        trainer.update([batch_of(trainer, [1, 2, 3])])
    cramp(other, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        other.update([batch_of(other, [1, 2, 3])])


def test_the_speed_of_a_gpu_is_that_of_recorded_updates(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(accumulation=2)
    graphs_on_cpu.install(monkeypatch)
    eager: Any = trainer.gradients
    trainer.gradients = GraphedGradients(eager, trainer.specials)

    def timed(task: Callable[[], None], device: torch.device) -> float:
        with monkeypatch.context() as patch:
            patch.setattr(eager, "loss", None)  # neither computes nor records
            task()
        return 0.5

    monkeypatch.setattr(dry_run, "timed", timed)
    batches = [batch for group, _ in islice(trainer.groups(), dry_run.TIMED) for batch in group]
    assert dry_run.speed(trainer, dry_run.WARM_UPS) == 2 * sum(batch.target_tokens for batch in batches)
