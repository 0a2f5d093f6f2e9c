"""The training loop: its arithmetic, and what it writes down."""

import gc
import html
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import markdown  # type: ignore[import-untyped]
import numpy as np
import pytest
import sacrebleu
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional

from nmt.cli.train import main as nmt_train
from nmt.config import Config
from nmt.data.batching import Batch, Position, collate
from nmt.data.dataset import prepare
from nmt.data.lines import read_lines
from nmt.errors import CheckpointError, ConfigError, Stopped
from nmt.evaluation.diagnosis import BITS, entropy
from nmt.evaluation.links import alignment_report, read_gold
from nmt.foundation.device import resolve_device
from nmt.foundation.messages import Detail, duration, shown_on
from nmt.model import build_model
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.metrics import last_progress
from nmt.training import reports
from nmt.training import trainer as trainer_module
from nmt.training.ending import final_lines, final_metrics
from nmt.training.log import Log
from nmt.training.progress import Candidate, Progress
from nmt.training.reports import Update
from nmt.training.trainer import Trainer
from nmt.training.validation import ValidationResult, Validator, _plain, entropy_sum
from nmt.translation.forced import word_attention
from nmt.translation.options import SearchOptions
from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.translator import CheckStop, Translator, never_stop
from tests.recorded_steps import Recorder
from tests.small_run import config, metrics, pickles, train, translate
from tests.torture.numbers import KINDS, NO_MEMORY, Faulty, cramped
from tests.torture.numbers import poison as poisoned
from tests.torture.text import NASTY


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and its cache; each test names a run of its own."""
    return tmp_path_factory.mktemp("training")


Make = Callable[..., Trainer]


@pytest.fixture
def make(folder: Path, tmp_path: Path) -> Iterator[Make]:
    """Trainers in double precision that have not begun; what they say is in ``said``."""
    logs: list[Log] = []

    def make(said: list[str] | None = None, sections: dict[str, Any] | None = None, **training: Any) -> Trainer:
        configuration = config(folder, **training)
        if sections:
            configuration = Config.model_validate(configuration.model_dump() | sections)
        prepared = prepare(configuration)
        torch.manual_seed(1)
        sizes = prepared.tokenizers.source.size, prepared.tokenizers.target.size
        model = build_model(configuration.model, *sizes).double()
        run = RunDirectory(tmp_path / f"run-{len(logs)}")
        run.path.mkdir()
        logs.append(Log(run, (said if said is not None else []).append))
        return Trainer(configuration, prepared, model, run, logs[-1], resolve_device("cpu"))

    yield make
    for log in logs:
        log.close()


NO_DROPOUT = {"embedding": 0.0, "annotation": 0.0, "readout": 0.0}


def without_dropout(make: Make, folder: Path, said: list[str] | None = None, **training: Any) -> Trainer:
    model = config(folder).model.model_dump() | {"dropout": NO_DROPOUT}
    return make(said, sections={"model": model}, **training)


def batch_of(trainer: Trainer, rows: list[int]) -> Batch:
    return collate(*trainer.prepared.train.rows(rows), trainer.specials)


def parameters(trainer: Trainer) -> Tensor:
    return torch.cat([each.detach().flatten() for each in trainer.model.parameters()])


# --- one update -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_two_batches_accumulated_are_one_batch(make: Make, folder: Path, smoothing: float) -> None:
    sgd = {"type": "sgd", "learning_rate": 30.0}
    whole, parts = (
        without_dropout(make, folder, optimizer=sgd, label_smoothing=smoothing, clip=None) for _ in range(2)
    )
    lengths = whole.prepared.train.target_lengths
    by_length = np.argsort(lengths, kind="stable")
    short, long = by_length[:3].tolist(), by_length[-5:].tolist()
    assert lengths[short].max() < lengths[long].min()  # so that a mean of means would be another number
    before = parameters(whole)
    one = whole.update([batch_of(whole, short + long)], Position(0, 1))
    two = parts.update([batch_of(parts, short), batch_of(parts, long)], Position(0, 2))
    torch.testing.assert_close(parameters(parts), parameters(whole), rtol=1e-9, atol=1e-12)
    assert (parameters(whole) - before).abs().max() > 1e-3
    assert asdict(two) == pytest.approx(asdict(one))
    assert one.tokens == int(lengths[short + long].sum()) + 8  # EOS


def test_an_update_follows_the_gradient_of_the_smoothed_loss_per_token(make: Make, folder: Path) -> None:
    """And reports the loss without smoothing."""
    sgd = {"type": "sgd", "learning_rate": 1.0}
    trainer = without_dropout(make, folder, optimizer=sgd, label_smoothing=0.2, clip=None)
    batches = [batch_of(trainer, [1, 2, 3]), batch_of(trainer, [4, 5, 6, 7, 8])]

    def per_token(smoothing: float) -> Tensor:
        logits, targets = [], []
        for batch in batches:
            found, _ = trainer.model(batch.source, batch.source_lengths, batch.target_input)
            logits.append(found[batch.target_mask])
            targets.append(batch.target_output[batch.target_mask])
        return functional.cross_entropy(torch.cat(logits), torch.cat(targets), label_smoothing=smoothing)

    likelihood, before = per_token(0.0).item(), parameters(trainer)
    gradients = torch.autograd.grad(per_token(0.2), list(trainer.model.parameters()))
    gradient = torch.cat([each.flatten() for each in gradients])
    update = trainer.update(batches, Position(0, 2))
    torch.testing.assert_close(parameters(trainer), before - gradient, rtol=1e-7, atol=1e-9)
    assert update.gradient_norm == pytest.approx(gradient.norm().item(), rel=1e-6)
    assert update.loss == pytest.approx(likelihood, rel=1e-6)


def test_kernels_and_plain_path_make_the_same_update(make: Make, folder: Path) -> None:
    model = config(folder).model.model_dump() | {"dropout": NO_DROPOUT}
    fused, plain = (make(sections={"model": model, "kernels": kernels}) for kernels in ("auto", "plain"))
    for trainer in (fused, plain):
        trainer.update([batch_of(trainer, list(range(9)))], Position(0, 1))
    torch.testing.assert_close(parameters(fused), parameters(plain), rtol=1e-7, atol=1e-9)


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


def test_the_gradient_is_clipped_to_its_norm(make: Make, folder: Path) -> None:
    trainer = without_dropout(make, folder, optimizer={"type": "sgd", "learning_rate": 1.0}, clip=0.01)
    before = parameters(trainer)
    update = trainer.update([batch_of(trainer, [1, 2, 3])], Position(0, 1))
    assert update.gradient_norm > 0.01  # that before clipping is reported
    assert (parameters(trainer) - before).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_the_schedule_is_followed(make: Make) -> None:
    trainer = make(
        schedule={"type": "inverse_square_root", "warmup": 2}, optimizer={"type": "adam", "learning_rate": 1e-2}
    )
    rates = [trainer.update([batch_of(trainer, [1])], Position(0, 1)).learning_rate for _ in range(3)]
    assert rates == pytest.approx([5e-3, 1e-2, 1e-2 * math.sqrt(2 / 3)])


def test_an_update_is_smaller_after_a_plateau(make: Make, folder: Path) -> None:
    sgd = {"type": "sgd", "learning_rate": 1.0}
    plateau = {"type": "plateau", "patience": 0, "factor": 0.5}
    fresh, slowed = (without_dropout(make, folder, optimizer=sgd, schedule=plateau, clip=None) for _ in range(2))
    slowed.validator = results(1.0, 2.0, 2.0)  # type: ignore[assignment]
    for _ in range(3):
        slowed.validate()
    moved, rates = [], []
    for trainer in (fresh, slowed):
        before = parameters(trainer)
        rates.append(trainer.update([batch_of(trainer, [1, 2, 3])], Position(0, 1)).learning_rate)
        moved.append(parameters(trainer) - before)
    assert rates == [1.0, 0.25]
    torch.testing.assert_close(4 * moved[1], moved[0], rtol=1e-6, atol=1e-12)
    assert moved[0].abs().max() > 1e-3


def poison(trainer: Trainer) -> None:
    with torch.no_grad():
        trainer.model.output.bias[5] = math.inf


def test_an_update_without_a_finite_gradient_changes_nothing_and_is_counted(make: Make) -> None:
    said: list[str] = []
    trainer = make(said)
    poison(trainer)
    before = parameters(trainer)
    trainer.update([batch_of(trainer, [1, 2])], Position(0, 1))
    assert torch.equal(parameters(trainer), before)
    assert trainer.progress.skipped == 1 and trainer.progress.update == 1
    assert trainer.progress.position == Position(0, 1), "the batch is not tried again"
    assert said == ["update 1 (epoch 1, batch 1): the gradient is not finite; the update is skipped"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_progress_is_of_the_updates_whose_loss_is_a_number(make: Make, kind: str) -> None:
    trainer = make(updates=5, log_every=2, validation={"every": 5})
    trainer.gradients = Faulty(trainer.gradients, trainer.model, poisoned(kind, {1, 3, 4}.__contains__, seed=1))
    trainer.fit()
    losses = [record["loss"] for record in metrics(trainer.checkpointing.run.path, "train")]
    if kind == KINDS[0]:
        assert losses[1] is None, "of 3 and 4 there is none"
    assert all(0 < loss < 10 for loss in losses if loss is not None) and losses[0] and losses[2]


def test_a_loss_that_is_not_finite_is_skipped_whatever_its_gradient(make: Make) -> None:
    trainer = make()

    def infinite(number: int, batch: Batch, gradients: list[Tensor], likelihood: Tensor) -> Tensor:
        return likelihood * math.inf

    trainer.gradients = Faulty(trainer.gradients, trainer.model, infinite)
    before = parameters(trainer)
    assert math.isfinite(trainer.update([batch_of(trainer, [1])], Position(0, 1)).gradient_norm)
    assert torch.equal(parameters(trainer), before) and trainer.progress.skipped == 1


def recorded(trainer: Trainer) -> list[tuple[int, Update]]:
    """Of each update that the trainer will make, its number of batches and what it did."""
    updates: list[tuple[int, Update]] = []
    whole = trainer.update

    def update(batches: Sequence[Batch], after: Position) -> Update:
        updates.append((len(batches), whole(batches, after)))
        return updates[-1][1]

    trainer.update = update  # type: ignore[method-assign]
    return updates


def test_a_line_of_progress_has_the_loss_per_token_of_its_updates(make: Make) -> None:
    trainer = make(updates=4, log_every=2, validation={"every": 4})
    trainer.validator = results(1.0)  # type: ignore[assignment]
    updates = recorded(trainer)
    trainer.fit()
    assert len({update.tokens for _, update in updates}) > 1, "or a mean of means would be the same"
    for line, group in zip(metrics(trainer.checkpointing.run.path, "train"), (updates[:2], updates[2:]), strict=True):
        tokens = sum(update.tokens for _, update in group)
        assert line["loss"] == pytest.approx(sum(update.loss * update.tokens for _, update in group) / tokens)


def test_an_update_takes_as_many_batches_as_are_accumulated(make: Make) -> None:
    trainer = make(updates=2, accumulation=3, validation={"every": 2})
    trainer.validator = results(1.0)  # type: ignore[assignment]
    updates = recorded(trainer)
    trainer.fit()
    assert [batches for batches, _ in updates] == [3, 3]
    assert trainer.progress.position == Position(0, 6)


def test_the_seed_decides_the_order_of_the_data(make: Make) -> None:
    def first_batches(seed: int) -> list[list[list[int]]]:
        return [batch.source.tolist() for _, batch in islice(make(sections={"seed": seed}).batches(), 5)]

    assert first_batches(3) == first_batches(3) != first_batches(4)


def test_training_that_only_fails_is_ended(make: Make) -> None:
    trainer = make(updates=100, log_every=1, save_every=1, validation={"every": 4})
    poison(trainer)
    with pytest.raises(CheckpointError, match=r"^10 updates in a row had no finite gradient \(the last is 10\)"):
        trainer.fit()
    assert not trainer.checkpointing.run.has("last"), "nothing is saved between the bad ones"
    for line in trainer.checkpointing.run.metrics.read_text().splitlines():  # JSON knows no NaN
        record = json.loads(line, parse_constant=pytest.fail)
        assert record["split"] == "validation" or (record["loss"] is None and record["gradient_norm"] is None)


def test_skips_are_counted_across_a_resumption(make: Make) -> None:
    stopped, resumed = make(), make()
    poison(stopped)
    for _ in range(trainer_module.SKIPS - 1):
        stopped.update([batch_of(stopped, [1])], Position(0, 1))
    resumed.checkpointing = replace(resumed.checkpointing, run=stopped.checkpointing.run)
    with torch.no_grad():
        stopped.model.output.bias[5] = 0.0  # infinite weights would not be saved
    stopped.save()
    resumed.resume("last")
    poison(resumed)
    with pytest.raises(CheckpointError, match=r"^10 updates in a row had no finite gradient"):
        resumed.update([batch_of(resumed, [1])], Position(0, 1))


def test_one_good_update_forgives_the_bad_ones(make: Make) -> None:
    trainer = make()
    bias = trainer.model.output.bias
    for _ in range(3):
        good = bias[5].item()
        poison(trainer)
        for _ in range(trainer_module.SKIPS - 1):
            trainer.update([batch_of(trainer, [1])], Position(0, 1))
        with torch.no_grad():
            bias[5] = good
        trainer.update([batch_of(trainer, [1])], Position(0, 1))
    assert trainer.progress.skipped == 3 * (trainer_module.SKIPS - 1)


def cramp(trainer: Trainer, pairs: int, error: Exception = NO_MEMORY[0]) -> None:
    """Memory for a limited number of pairs at once."""
    trainer.gradients = Faulty(trainer.gradients, trainer.model, cramped(pairs, error))


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_a_batch_too_large_for_memory_is_halved(make: Make, folder: Path, error: Exception) -> None:
    said: list[str] = []
    sgd = {"type": "sgd", "learning_rate": 1.0}
    roomy, little = (without_dropout(make, folder, lines, optimizer=sgd) for lines in (None, said))
    cramp(little, 2, error)
    results = [trainer.update([batch_of(trainer, [*range(7)])], Position(0, 1)) for trainer in (roomy, little)]
    assert results[1].loss == pytest.approx(results[0].loss, rel=1e-12)
    assert results[1].gradient_norm == pytest.approx(results[0].gradient_norm, rel=1e-9)
    torch.testing.assert_close(parameters(little), parameters(roomy), rtol=1e-9, atol=1e-12)
    assert (little.progress.halved, little.progress.update) == (1, 1)
    assert [line.partition(";")[0] for line in said] == [
        f"update 1 (epoch 1, batch 1): out of memory with {pairs} pairs" for pairs in (7, 4)
    ]


def test_two_pairs_are_halved_too(make: Make) -> None:
    trainer = make()
    cramp(trainer, 1)
    trainer.update([batch_of(trainer, [1, 2])], Position(0, 1))
    assert (trainer.progress.halved, trainer.progress.update) == (1, 1)


def test_a_pair_too_large_for_memory_ends_training(make: Make) -> None:
    trainer = make()
    cramp(trainer, 0)
    with pytest.raises(CheckpointError, match=r"^update 1 \(epoch 1, batch 1\): out of memory with a single pair"):
        trainer.update([batch_of(trainer, [1, 2, 3])], Position(0, 1))


def test_other_errors_are_none_of_memory(make: Make) -> None:
    trainer = make()
    cramp(trainer, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        trainer.update([batch_of(trainer, [1, 2, 3])], Position(0, 1))


# --- validation -------------------------------------------------------------------------------------------------------


def test_validation_measures_every_real_token_once_and_leaves_the_model_training(make: Make) -> None:
    trainer = make(label_smoothing=0.3)
    random = torch.get_rng_state()
    result = trainer.validator(0)
    assert trainer.model.training
    assert torch.equal(torch.get_rng_state(), random)  # a validation more or less changes no training
    trainer.model.eval()
    total, tokens = 0.0, 0
    for row in range(len(trainer.prepared.validation)):  # one by one: no padding, no batches
        batch = collate(*trainer.prepared.validation.rows([row]), trainer.specials)
        logits, _ = trainer.model(batch.source, batch.source_lengths, batch.target_input)
        gold = logits.log_softmax(-1).gather(-1, batch.target_output.unsqueeze(-1))
        total, tokens = total - gold.sum().item(), tokens + batch.target_tokens
    assert result.loss == pytest.approx(total / tokens)
    assert result.perplexity == pytest.approx(math.exp(total / tokens))


def results(*losses: float, seconds: float = 0.0) -> Callable[..., ValidationResult]:
    """In the place of a validator: these losses, one a call; BLEU falls as they rise."""
    left = iter(losses)

    def validate(update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        loss = next(left)
        return ValidationResult(loss, math.exp(loss), -loss, seconds)

    return validate


def oracle(translator: Translator, lines: Iterable[str], options: SearchOptions, **how: Any) -> Iterator[Translation]:
    """In the place of a translator's search: right, but for lines of one word, which become three."""
    for line in lines:
        text = translate(line) if " " in line else f"{translate(line)} OAK ELM"
        yield Translation(line, [], [TranslatedHypothesis(text, 0.0, 0.0, [])])


def test_validation_scores_its_first_sentences_with_a_beam_of_its_own(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make(validation={"sentences": 7, "beam_size": 3})
    monkeypatch.setattr(Translator, "stream", oracle)
    result = trainer.validator(0, samples=False)
    assert trainer.validator.options.beam_size == 3
    sources, targets = (list(read_lines(folder / f"validation.{side}"))[:7] for side in ("low", "up"))
    hypotheses = [each.text for each in oracle(trainer.validator.translator, sources, trainer.validator.options)]
    assert hypotheses != targets
    assert result.bleu == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [targets]).score)


def test_a_model_that_cannot_translate_has_no_bleu_and_training_goes_on(make: Make) -> None:
    said: list[str] = []
    trainer = make(said, updates=1, log_every=9, validation={"samples": 1})
    with torch.no_grad():
        trainer.model.output.bias.fill_(math.nan)
    trainer.fit()
    [*_, problem, heading, row, unsaved] = said
    assert unsaved == "update 1: the weights are not finite and are not saved"
    assert problem.startswith("validation at update 1: the model gives no finite probability to any translation")
    assert heading.split() == ["validation", "update", "epochs", "loss", "perplexity", "BLEU", "time"]
    assert row.split()[:2] + row.split()[3:6] + row.split()[-1:] == ["validation", "1", "nan", "nan", "0.00", "best"]


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_early_stopping_and_the_best_checkpoint(make: Make, metric: str) -> None:
    said: list[str] = []
    trainer = make(said, updates=20, validation={"every": 2, "patience": 2, "metric": metric}, log_every=2)
    trainer.validator = results(3.0, 1.0, 2.0, 1.0)  # type: ignore[assignment]
    trainer.fit()
    name = {"bleu": "BLEU", "loss": "loss"}[metric]
    assert said[-1] == (
        f"stopped early after update 8: the validation {name} has not improved in 2 validations "
        "(training.validation.patience); the best is that of update 4"
    )
    assert trainer.progress.update == 8 and trainer.progress.best == Candidate(4, -1.0)
    assert [line["best"] for line in metrics(trainer.checkpointing.run.path, "validation")] == [
        True,
        True,
        False,
        False,
    ]
    saved, last = trainer.checkpointing.run.weights("best"), trainer.checkpointing.run.weights("last")
    assert not torch.equal(saved["output.weight"], last["output.weight"])


def test_the_validation_loss_reads_no_more_of_a_pair_than_decoding(make: Make) -> None:
    said: list[str] = []
    trainer = make(said, sections={"decoding": {"max_source": 2}})
    sources, targets = trainer.prepared.validation.rows(range(20))
    assert max(map(len, sources)) > 2
    cut = collate([row[:2] for row in sources], [row[:2] for row in targets], trainer.specials)
    for place, target in enumerate(targets):
        cut.target_output[place, len(target[:2])] = target[2] if len(target) > 2 else trainer.specials.target_eos
    with torch.inference_mode():
        logits, _ = trainer.model.eval()(cut.source, cut.source_lengths, cut.target_input)
    expected = -logits.log_softmax(-1).gather(2, cut.target_output.unsqueeze(2)).squeeze(2)[cut.target_mask].mean()
    assert trainer.validator.loss()[0] == pytest.approx(expected.item())
    longer = sum(len(row) > 2 for row in sources)
    assert said == [
        f"validation set: {longer} of 20 pairs are longer than decoding.max_source; only their first 2 pieces are read"
    ]


def test_a_loss_that_is_no_number_is_the_worst(make: Make) -> None:
    trainer = make(updates=6, validation={"every": 2, "metric": "loss"})
    trainer.validator = results(math.nan, 3.0, math.nan)  # type: ignore[assignment]
    trainer.fit()
    assert trainer.progress.best == Candidate(4, -3.0)


def test_the_mean_of_the_best_becomes_best_where_it_is_better(make: Make) -> None:
    for mean_loss, chosen in ((0.5, True), (1.5, False)):
        trainer = make(updates=8, average=2, validation={"every": 2, "metric": "loss"})
        trainer.validator = results(2.0, 1.0, 3.0, 2.5, mean_loss)  # type: ignore[assignment]
        trainer.fit()
        assert sorted(path.name for path in trainer.checkpointing.run.checkpoints.iterdir()) == [
            "best",
            "last",
            "previous",
            "update-2",
            "update-4",
        ]
        before = trainer.checkpointing.run.weights("best")
        trainer.average_best()
        two, four = trainer.checkpointing.run.weights("update-2"), trainer.checkpointing.run.weights("update-4")
        for name, tensor in trainer.checkpointing.run.weights("best").items():
            expected = (two[name] + four[name]) / 2 if chosen else before[name]
            torch.testing.assert_close(tensor.double(), expected.double(), rtol=1e-6, atol=1e-8)
        [line] = metrics(trainer.checkpointing.run.path, "average")
        assert line["best"] == chosen and line["updates"] == [2, 4] and line["loss"] == mean_loss


@pytest.mark.parametrize(("mean_loss", "chosen"), [(0.5, True), (1.5, False)])
def test_the_mean_of_the_last_becomes_best_where_it_is_better(make: Make, mean_loss: float, chosen: bool) -> None:
    """The best checkpoint is kept beside them: it is ``best`` again if the mean is not."""
    trainer = make(updates=8, average=2, average_of="last", validation={"every": 2, "metric": "loss"})
    trainer.validator = results(2.0, 1.0, 3.0, 2.5, mean_loss)  # type: ignore[assignment]
    trainer.fit()
    run = trainer.checkpointing.run
    names = {path.name for path in run.checkpoints.iterdir()}
    assert names == {"best", "last", "previous", "update-4", "update-6", "update-8"}
    trainer.average_best()
    four, six, eight = (run.weights(f"update-{update}") for update in (4, 6, 8))
    for name, tensor in run.weights("best").items():
        expected = (six[name] + eight[name]) / 2 if chosen else four[name]
        torch.testing.assert_close(tensor.double(), expected.double(), rtol=1e-6, atol=1e-8)
    [line] = metrics(run.path, "average")
    assert line["best"] == chosen and line["updates"] == [6, 8] and line["loss"] == mean_loss


def test_whatever_takes_long_can_be_stopped(make: Make) -> None:
    def stop() -> None:
        raise Stopped

    trainer = make(updates=4, average=2, validation={"every": 2, "metric": "loss"})
    with pytest.raises(Stopped):
        trainer.validator.loss(stop)
    trainer.fit()
    before = trainer.checkpointing.run.weights("best"), metrics(trainer.checkpointing.run.path)
    with pytest.raises(Stopped):
        trainer.average_best(stop)
    assert all(
        torch.equal(tensor, before[0][name]) for name, tensor in trainer.checkpointing.run.weights("best").items()
    )
    assert metrics(trainer.checkpointing.run.path) == before[1]


def test_the_mean_of_a_shorter_run_is_not_the_best_of_a_longer_one(make: Make) -> None:
    loss = {"every": 2, "metric": "loss"}
    short, longer = (make(updates=updates, average=2, validation=loss) for updates in (4, 6))
    short.validator = results(2.0, 1.0, 0.5)  # type: ignore[assignment]
    short.fit()
    short.average_best()
    longer.checkpointing = replace(longer.checkpointing, run=short.checkpointing.run)
    longer.resume("last")
    longer.validator = results(1.5, 3.0)  # type: ignore[assignment]
    longer.fit()
    longer.average_best()
    best, four = longer.checkpointing.run.weights("best"), longer.checkpointing.run.weights("update-4")
    assert all(torch.equal(best[name], four[name]) for name in four)


# --- what is written down ---------------------------------------------------------------------------------------------


def test_a_run_leaves_what_its_contract_says(folder: Path) -> None:
    run = folder / "contract"
    said = train(config(folder, output="contract", log_every=2, average=2))
    assert {path.name for path in run.iterdir()} == {
        *("checkpoints", "config.yaml", "data_report.json", "language_id.json", "manifest.json", "metrics.jsonl"),
        *("tensorboard", "test.hypotheses.txt", "test.scores.json", "tokenizer"),
    }
    assert pickles(run) == []
    lines = metrics(run)
    assert [(line["step"], line["split"]) for line in lines] == [
        (2, "train"),
        (2, "validation"),
        (4, "train"),
        (4, "validation"),
        (4, "average"),
        (4, "test"),
    ]
    fields = {"loss", "perplexity", "target_tokens_per_second", "learning_rate", "gradient_norm", "epoch"}
    assert fields <= lines[0].keys()
    assert {"loss", "perplexity", "bleu", "seconds", "best"} <= lines[1].keys()
    assert lines[0]["perplexity"] == pytest.approx(math.exp(lines[0]["loss"]))
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest.keys() >= {"versions", "seed", "device", "corpus_sha256", "tokenizer_sha256"}
    hypotheses = (run / "test.hypotheses.txt").read_text().split("\n")
    assert len(hypotheses) == 21 and hypotheses[-1] == ""
    scores = json.loads((run / "test.scores.json").read_text())
    assert scores["BLEU"]["score"] == lines[-1]["bleu"] and scores["BLEU"]["signature"] == lines[-1]["signature"]
    assert sum(row["n"] for row in scores["by_length"]) == 20
    progress = [line for line in said if line.startswith("update ")]
    assert progress[-1].startswith("update 4/4  epoch 1  loss ")
    assert re.search(r"target tokens/s \(\d+\.\d% of the matrix rate\)  \d+s left$", progress[-1])


def test_an_early_validation_comes_once(make: Make) -> None:
    trainer = make(updates=8, validation={"every": 4, "first": 1})
    trainer.fit()
    assert [line["step"] for line in metrics(trainer.checkpointing.run.path, "validation")] == [1, 4, 8]
    assert [line["epoch"] for line in metrics(trainer.checkpointing.run.path, "train")] == [trainer.progress.epoch]


def test_the_expected_time_is_said_after_a_few_seconds_and_written_down_nowhere(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "FIRST_LINE", 0.0)
    monkeypatch.setattr(reports, "FIRST_UPDATES", 2)
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


def test_validations_are_said_not_to_be_counted_until_one_was_timed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "FIRST_LINE", 0.0)
    monkeypatch.setattr(reports, "FIRST_UPDATES", 3)
    said: list[str] = []
    trainer = make(said, updates=4, log_every=1, validation={"every": 2})
    trainer.validator = results(3.0, 2.0, seconds=36000.0)  # type: ignore[assignment]
    trainer.fit()
    ends = [line.rpartition("  ")[2] for line in said if line.startswith("update ")]
    assert ends == ["0s left, not counting 2 validations"] * 2 + ["10h 00m left"] * 2
    [expected] = [line for line in said if line.startswith("expected time: ")]
    assert expected.startswith("expected time: 10h 00m for 1 more update and 1 validation, at ")


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
    trainer = make(updates=None, epochs=2, log_every=1)
    trainer.fit()
    epochs = [line["epoch"] for line in metrics(trainer.checkpointing.run.path, "train")]
    assert epochs == [1] * trainer.extent.batches + [2] * trainer.extent.batches
    assert Progress().epoch == 1


def test_the_metrics_of_the_table_of_runs_are_those_of_the_weights_that_translate(make: Make) -> None:
    for mean_loss, chosen in ((0.5, 0.5), (1.5, 1.0)):
        trainer = make(updates=8, average=2, validation={"every": 2, "metric": "loss"})
        trainer.validator = results(2.0, 1.0, 3.0, 2.5, mean_loss)  # type: ignore[assignment]
        trainer.fit()
        trainer.average_best()
        trainer.log.record(8, "test", bleu=12.0, chrf=34.0, signature="s")
        run = trainer.checkpointing.run
        found = final_metrics(metrics(run.path))
        assert found["best/loss"] == chosen and (found["test/bleu"], found["test/chrf"]) == (12.0, 34.0)
        board = EventAccumulator(str(run.tensorboard)).Reload()
        assert board.Scalars("best/loss")[-1].value == pytest.approx(chosen)
        assert final_lines(run) == [
            "test set: BLEU 12.00  chrF 34.00  s",
            f"best checkpoint: {'the average of those of updates 2, 4' if chosen == 0.5 else 'that of update 4'}: "
            f"{run.folder('best')}",
        ]
    assert final_metrics([]) == {}


def test_the_test_set_is_scored_with_the_best_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validate = results(1.0, 2.0)
    monkeypatch.setattr(Validator, "__call__", lambda self, update, **how: validate(update, **how))
    sgd = {"type": "sgd", "learning_rate": 30.0}
    train(config(folder, output="scored", optimizer=sgd, validation={"metric": "loss"}))
    run = folder / "scored"
    sources = list(read_lines(folder / "test.low"))
    texts = {}
    for checkpoint in ("best", "last"):
        loaded = load_run(run, torch.device("cpu"), checkpoint)
        translator = Translator.of(loaded, torch.device("cpu"), torch.float32)
        options = SearchOptions.from_config(loaded.config.decoding)
        texts[checkpoint] = [each.text for each in translator.translate(sources, options)]
    assert list(read_lines(run / "test.hypotheses.txt")) == texts["best"] != texts["last"]


def test_the_test_set_is_translated_in_fp32_whatever_training_took(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precisions = []

    class Seen(Translator):
        def __init__(self, *arguments: Any, **how: Any) -> None:
            super().__init__(*arguments, **how)
            precisions.append(self.precision)

    monkeypatch.setattr("nmt.training.ending.Translator", Seen)
    values = config(folder, updates=1, output="scored-in-fp32").model_dump()
    train(Config.model_validate(values | {"precision": "bf16"}))
    assert precisions == [torch.float32]


def test_the_scores_are_of_the_hypotheses_against_the_references(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "stream", oracle)
    train(config(folder, updates=1, output="oracle"))
    run = folder / "oracle"
    hypotheses, references = list(read_lines(run / "test.hypotheses.txt")), list(read_lines(folder / "test.up"))
    scores = json.loads((run / "test.scores.json").read_text())
    expected = sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores["BLEU"]["score"] == pytest.approx(expected)
    assert expected != pytest.approx(sacrebleu.corpus_bleu(references, [hypotheses]).score)


def test_the_seed_decides_the_first_weights(folder: Path) -> None:
    weights = []
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        values = config(folder, output=f"seed-{name}").model_dump()
        train(Config.model_validate(values | {"seed": seed}), stop_after=0)
        weights.append(RunDirectory(folder / f"seed-{name}").weights("last")["output.weight"])
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_the_hypotheses_stand_beside_the_lines_of_the_test_set(folder: Path) -> None:
    low, up = folder / "blank.low", folder / "blank.up"
    low.write_text("oak elm\n\nash\n \n")
    up.write_text("ELM OAK\nFIG\n\n\n")
    values = config(folder, updates=1, output="blank").model_dump()
    values["data"]["test"] = {"source": str(low), "target": str(up)}
    train(Config.model_validate(values))
    hypotheses = list(read_lines(folder / "blank" / "test.hypotheses.txt"))
    assert len(hypotheses) == 4 and hypotheses[1] == hypotheses[3] == ""
    scores = json.loads((folder / "blank" / "test.scores.json").read_text())
    assert sum(row["n"] for row in scores["by_length"]) == 4


def test_tensorboard_is_told_of_scalars_samples_and_attention(folder: Path) -> None:
    configuration = config(folder, output="board", updates=3, log_every=1, validation={"samples": 2})
    train(configuration, stop_after=2)
    train(configuration, resume=True)
    board = EventAccumulator(str(folder / "board" / "tensorboard")).Reload()
    assert [event.step for event in board.Scalars("train/loss")] == [1, 2, 3]
    assert [event.step for event in board.Scalars("validation/bleu")] == [2, 3]
    assert [event.step for event in board.Images("validation/attention/1")] == [2, 3]
    assert [event.step for event in board.Images("validation/attention/2")] == [2, 3]
    assert [event.step for event in board.Images("validation/length_curve")] == [2, 3]
    assert [event.step for event in board.Tensors("validation/samples/text_summary")] == [2, 3]


def test_tensorboard_and_files_have_all_that_is_measured(folder: Path) -> None:
    """Perplexity, gradient norm, share of the matrix rate, entropy, BLEU by length, the best so far, and a row of the
    table of runs."""
    configuration = config(folder, output="everything", updates=4, log_every=1, validation={"samples": 1})
    train(configuration)
    board = EventAccumulator(str(folder / "everything" / "tensorboard")).Reload()
    names = {"loss", "perplexity", "learning_rate", "gradient_norm", "target_tokens_per_second", "matrix_share"}
    assert {f"train/{name}" for name in names} <= set(board.Tags()["scalars"])
    bins = [tag for tag in board.Tags()["scalars"] if tag.startswith("validation/bleu_by_length/")]
    assert bins == ["validation/bleu_by_length/1-2", "validation/bleu_by_length/3-4"]
    assert [event.step for event in board.Scalars(bins[0])] == [2, 4]
    recorded = metrics(folder / "everything", "validation")
    entropies = [event.value for event in board.Scalars("validation/attention_entropy_bits")]
    assert entropies == pytest.approx([line["attention_entropy_bits"] for line in recorded])
    assert all(0 < value < math.log2(5) for value in entropies)
    best = max(recorded, key=lambda line: line["bleu"])
    assert board.Scalars("best/bleu")[-1].value == pytest.approx(best["bleu"])
    lines = metrics(folder / "everything", "train")
    assert all(line["matrix_share"] > 0 for line in lines)
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds) and seconds[-1] == last_progress(folder / "everything")["seconds"]
    hparams = board.SummaryMetadata("_hparams_/session_start_info").plugin_data
    assert hparams.plugin_name == "hparams" and b"model.attention.type" in hparams.content
    experiment = board.SummaryMetadata("_hparams_/experiment").plugin_data.content
    assert all(tag in experiment for tag in (b"best/bleu", b"best/loss", b"test/bleu", b"test/chrf"))


def test_samples_over_time_are_a_file_that_is_cut_back(folder: Path) -> None:
    configuration = config(folder, output="samples", updates=4, validation={"samples": 2})
    train(configuration)
    path = folder / "samples" / "samples.jsonl"
    whole = path.read_bytes()
    lines = [json.loads(line) for line in whole.splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    sources, references = (list(read_lines(folder / f"validation.{side}"))[:2] for side in ("low", "up"))
    for line in lines:
        assert [each["source"] for each in line["lines"]] == sources
        assert [each["reference"] for each in line["lines"]] == references
        assert all(isinstance(each["hypothesis"], str) for each in line["lines"])
    parts = config(folder, output="samples-in-parts", updates=4, validation={"samples": 2})
    train(parts, stop_after=3)
    with (folder / "samples-in-parts" / "samples.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "lines": []}\n{"step"')  # of a validation after the last checkpoint
    train(parts, resume=True)
    assert (folder / "samples-in-parts" / "samples.jsonl").read_bytes() == whole


def test_the_entropy_of_the_attention_by_hand() -> None:
    """1, 0 and log2(3) / 3 + 2/3 log2(3/2) bits; the fourth token is padding."""
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [1 / 3, 0.0, 2 / 3], [0.2, 0.3, 0.5]]])
    mask = torch.tensor([[True, True, True, False]])
    expected = 1 + 0 + math.log2(3) / 3 + 2 / 3 * math.log2(3 / 2)
    assert entropy_sum(weights, mask).item() == pytest.approx(expected)
    assert entropy(weights[0, :3].numpy()) * BITS == pytest.approx(expected / 3)


EPOCHS = {"updates": None, "epochs": 2, "log_every": 1}


@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_epochs_end_training_after_every_pair(make: Make, accumulation: int) -> None:
    """No update reads two epochs: those of an epoch are its batches over the accumulation, rounded up."""
    trainer = make(**EPOCHS, accumulation=accumulation)
    batches = trainer.extent.batches
    each = math.ceil(batches / accumulation)
    assert trainer.extent.total(trainer.config, Progress()) == 2 * each
    trainer.fit()
    assert trainer.progress.update == 2 * each and trainer.progress.position == Position(2, 0)
    tokens = int(trainer.prepared.train.target_lengths.sum()) + len(trainer.prepared.train)
    assert trainer.progress.target_tokens == 2 * tokens == 2 * trainer.extent.tokens
    assert metrics(trainer.checkpointing.run.path, "validation")[-1]["step"] == 2 * each  # the last is validated
    assert metrics(trainer.checkpointing.run.path, "train")[-1]["step"] == 2 * each


@pytest.mark.parametrize("accumulation", [1, 3])
def test_epochs_resumed_or_extended_are_the_same_epochs(folder: Path, accumulation: int) -> None:
    """Two epochs in one go, with a stop within the second, and as one epoch that is extended to two."""
    schedule = {"type": "inverse_square_root", "warmup": 3}
    same: dict[str, Any] = {"accumulation": accumulation, "schedule": schedule, "validation": {"every": 1000}}

    def state(name: str) -> dict[str, Tensor]:
        run = RunDirectory(folder / f"epochs-{name}-{accumulation}")
        return dict(run.weights("last")) | dict(run.training("last").tensors)

    def run(name: str, epochs: int) -> Config:
        return config(folder, output=f"epochs-{name}-{accumulation}", **same, updates=None, epochs=epochs)

    train(run("whole", 2))
    train(run("parts", 2), stop_after=5)
    train(run("parts", 2), resume=True)
    train(run("extended", 1))
    train(run("extended", 2), resume=True)
    whole = state("whole")
    for name in ("parts", "extended"):
        other = state(name)
        assert other.keys() == whole.keys()
        assert all(torch.equal(other[key], whole[key]) for key in whole), name


def test_a_run_is_not_shortened_by_epochs_either(folder: Path) -> None:
    train(config(folder, output="epochs-short", updates=None, epochs=2, validation={"every": 1000}))
    refused = r"^training\.epochs: 1, but the run has already read "
    with pytest.raises(ConfigError, match=rf"{refused}2; a run can be extended"):
        train(config(folder, output="epochs-short", updates=None, epochs=1, validation={"every": 1000}), resume=True)
    train(config(folder, output="epochs-cut", updates=None, epochs=2, validation={"every": 1000}), stop_after=20)
    with pytest.raises(ConfigError, match=rf"{refused}1 and a part of the next"):
        train(config(folder, output="epochs-cut", updates=None, epochs=1, validation={"every": 1000}), resume=True)


def test_training_is_a_step_that_ends_when_it_ends(make: Make) -> None:
    display = Recorder()
    trainer = make(updates=5, log_every=2, validation={"every": 2})
    with shown_on(display):
        trainer.fit()
    training = display.named("training")
    assert (training.total, training.done, training.ended) == (5, 5, True)
    assert training.counts == [1, 2, 3, 4, 5] and training.notes[-1].startswith("loss ")
    assert [step.what for step in display.steps].count("validation: translating") == 3


BREAKS = ("\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029")


@pytest.mark.parametrize("text", [*NASTY, *(f"a{end}{end}**b** ![c](http://d){end}- e{end}" for end in BREAKS), "a\\"])
def test_text_is_text_in_tensorboard_too(text: str) -> None:
    rendered = markdown.markdown(f"source: {_plain(text)}\n\nreference: {_plain('r')}")  # as TensorBoard does
    assert {*re.findall(r"<\s*(\w+)", rendered)} <= {"p"}
    assert len(re.findall("<p>", rendered)) == 2


@pytest.mark.parametrize("text", ["Il n'est pas", "<b>x</b> & &lt; `a` *b* _c_ [d](e) \\f #g | h", "1. <!-- x", "- y"])
def test_tensorboard_shows_a_sample_as_it_is_written(text: str) -> None:
    rendered = markdown.markdown(f"reference: {_plain(text)}")
    assert html.unescape(rendered) == f"<p>reference: {text}</p>"


def test_attention_is_held_against_gold_links_while_training(folder: Path) -> None:
    files = {"source": folder / "test.low", "target": folder / "test.up", "links": folder / "test.align"}
    lines = list(read_lines(files["source"]))
    reversed_links = [" ".join(f"{len(line.split()) - 1 - j}-{j}" for j in range(len(line.split()))) for line in lines]
    files["links"].write_text("".join(f"{line}\n" for line in reversed_links))
    gold = {"gold": {name: str(path) for name, path in files.items()} | {"limit": 10}}
    for attention in ("bahdanau", "none"):
        values = config(
            folder, attention, output=f"gold-{attention}", updates=60, validation={"every": 30}
        ).model_dump()
        values["training"]["optimizer"]["learning_rate"] = 0.01
        said = train(Config.model_validate(values | {"evaluation": values["evaluation"] | gold}))
        recorded = [line.get("aer") for line in metrics(folder / f"gold-{attention}", "validation")]
        if attention == "none":
            assert recorded == [None, None]
            continue
        assert all(rate is not None and 0 <= rate <= 1 for rate in recorded)
        [heading, *rows] = [line.split() for line in said if line.startswith("validation ")]
        assert [row[heading.index("AER")] for row in rows] == [f"{rate:.3f}" for rate in recorded]
        board = EventAccumulator(str(folder / f"gold-{attention}" / "tensorboard")).Reload()
        assert [event.value for event in board.Scalars("validation/aer")] == pytest.approx(recorded)
        run = load_run(folder / f"gold-{attention}", resolve_device("cpu"))
        gold_pairs = read_gold(*files.values(), limit=10)
        report = alignment_report(
            gold_pairs, word_attention(run.network, run.tokenizers, gold_pairs.pairs, resolve_device("cpu"))
        )
        assert report["likeliest"]["error_rate"] in [pytest.approx(rate) for rate in recorded]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (725, "12m 05s"), (12000, "3h 20m")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_that_cannot_be_begun_leaves_no_file_open(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.tensorboard.write_text("no folder")
    with pytest.raises(OSError, match="tensorboard"):
        Log(run, print)
    gc.collect()  # an open file would be a warning, and warnings are errors


def test_what_a_killed_training_left_over_goes_with_the_next_save(make: Make) -> None:
    trainer = make()
    trainer.checkpointing.run.save("update-7", trainer.model.state_dict())
    trainer.progress = replace(trainer.progress, kept=(Candidate(9, 1.0),))
    trainer.checkpointing.run.save("update-9", trainer.model.state_dict())
    trainer.save()
    assert sorted(path.name for path in trainer.checkpointing.run.checkpoints.iterdir()) == ["last", "update-9"]


def test_memory_that_does_not_suffice_is_an_error_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    values = config(folder).model_dump() | {"output": str(tmp_path / "run")}
    (tmp_path / "config.yaml").write_text(json.dumps(values))

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore.")

    monkeypatch.setattr(Validator, "__call__", full)
    assert nmt_train(["--config", str(tmp_path / "config.yaml")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "nmt-train: error: out of memory (CUDA out of memory. Tried to allocate 2 GiB.); "
        "use smaller batches or a smaller model"
    )


def damaged_best(make: Make, said: list[str], **progress: Any) -> Trainer:
    """At update 4 of 6, with nothing kept beside ``last`` and a ``best`` that is cut short."""
    trainer = make(said, updates=6)
    found = {"update": 4, "best": Candidate(2, 1.0), "kept": (Candidate(2, 1.0),), **progress}
    trainer.progress = replace(trainer.progress, **found)
    trainer.checkpointing.run.save("best", {"a": torch.zeros(1)})
    trainer.save()
    (trainer.checkpointing.run.checkpoints / "best" / "model.safetensors").write_bytes(b"cut")
    return trainer


def test_a_damaged_best_is_made_anew(make: Make) -> None:
    said: list[str] = []
    trainer = damaged_best(make, said)
    trainer.progress = trainer.checkpointing.mend(trainer.progress)
    assert trainer.progress.best is None
    assert said[-1].endswith("; the next validation makes another")
    trainer = damaged_best(make, said, best=Candidate(4, 1.0))
    trainer.progress = trainer.checkpointing.mend(trainer.progress)
    assert trainer.progress.best is not None
    assert said[-1].endswith("; last takes its place")
    assert set(trainer.checkpointing.run.weights("best")) == set(trainer.checkpointing.run.weights("last"))
    trainer = damaged_best(make, said, update=6)
    with pytest.raises(CheckpointError, match="no other copy of the best weights is left; restore the file"):
        trainer.progress = trainer.checkpointing.mend(trainer.progress)


def test_infinite_weights_are_not_saved(make: Make) -> None:
    said: list[str] = []
    trainer = make(said)
    trainer.save()
    before = trainer.checkpointing.run.weights("last")
    poison(trainer)
    trainer.save()
    assert said == ["update 0: the weights are not finite and are not saved"]
    after = trainer.checkpointing.run.weights("last")
    assert all(torch.equal(before[name], after[name]) for name in before)
