"""Validation, and which weights are the best."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import sacrebleu
import torch

from nmt.data.batching import collate
from nmt.data.corpus import Pair, read_lines
from nmt.data.protection import Protection
from nmt.errors import Stopped
from nmt.training.progress import Candidate
from nmt.translation.translator import Translator
from tests.comparison import snapshot
from tests.small_run import metrics
from tests.training.conftest import Make, oracle, results


def test_validation_measures_every_real_token_once_and_leaves_the_model_training(make: Make) -> None:
    trainer = make(label_smoothing=0.3, batch_tokens=25)
    assert len(trainer.validator.plan) > 2  # batches of unequal numbers of tokens
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
    assert result.scores["loss"] == pytest.approx(total / tokens)
    assert result.scores["perplexity"] == pytest.approx(math.exp(total / tokens))


def test_validation_scores_its_first_sentences(make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make(validation={"sentences": 7, "beam_size": 3})
    monkeypatch.setattr(Translator, "stream", oracle)
    result = trainer.validator(0, samples=False)
    assert trainer.validator.options.beam_size == 3
    sources, targets = (list(read_lines(folder / f"validation.{side}"))[:7] for side in ("low", "up"))
    hypotheses = [each.text for each in oracle(cast(Any, None), sources, trainer.validator.options)]
    assert hypotheses != targets
    assert result.scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [targets]).score)
    assert result.scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [targets]).score)


def test_validation_scores_the_sentences_of_each_tag(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    trainer = make(said, updates=1)
    monkeypatch.setattr(Translator, "stream", oracle)
    validator = trainer.validator
    validator.tokenizers = replace(validator.tokenizers, protection=Protection(tags=("<a>", "<b>")), to="<b>")
    assert validator(0).by_tag == {}
    tags = ["<a> " * (row % 3 == 0) for row in range(len(validator.pairs))]
    validator.pairs = [Pair(tag + pair.source, pair.target) for tag, pair in zip(tags, validator.pairs, strict=True)]
    parts: dict[str, list[Pair]] = {
        "BLEU <a>": validator.pairs[::3],
        "BLEU <b>": [pair for row, pair in enumerate(validator.pairs) if row % 3],
    }
    trainer.fit()
    shown = [float(cell) for cell in next(line for line in said if "best" in line).split()[7:9]]
    for (name, pairs), score in zip(parts.items(), shown, strict=True):
        hypotheses = [each.text for each in oracle(cast(Any, None), [source for source, _ in pairs], validator.options)]
        expected = sacrebleu.corpus_bleu(hypotheses, [[target for _, target in pairs]]).score
        assert score == pytest.approx(expected, abs=0.01), name
        assert metrics(trainer.log.run.path, "validation")[-1][name] == pytest.approx(expected)


def test_a_model_that_cannot_translate_has_no_bleu_and_training_goes_on(make: Make) -> None:
    said: list[str] = []
    trainer = make(said, updates=1, log_every=9, validation={"samples": 1})
    with torch.no_grad():
        trainer.model.output.bias.fill_(math.nan)
    trainer.fit()
    [*_, problem, heading, row, unsaved] = said
    assert unsaved == "update 1: the weights are not finite and are not saved"
    assert not trainer.checkpointing.run.has("last")
    assert problem.startswith("validation at update 1: the model gives no finite probability to any translation")
    assert heading.split()[:7] == ["validation", "update", "epochs", "loss", "perplexity", "BLEU", "chrF"]
    cells = row.split()
    assert cells[:2] + cells[3:7] + cells[-1:] == ["validation", "1", "nan", "nan", "0.00", "0.00", "best"]


@pytest.mark.parametrize(("metric", "label", "merit"), [("chrf", "chrF", -1.0), ("perplexity", "perplexity", -math.e)])
def test_early_stopping_and_the_best_checkpoint(make: Make, metric: str, label: str, merit: float) -> None:
    """A loss that is no number is the worst."""
    said: list[str] = []
    trainer = make(said, updates=20, validation={"every": 2, "patience": 2, "metric": metric}, log_every=2)
    trainer.validator = results(math.nan, 1.0, math.nan, 1.0)  # type: ignore[assignment]
    trainer.fit()
    why = f"the validation {label} has not improved in 2 validations"
    assert said[-1].startswith(f"stopped early after update 8: {why}")
    assert trainer.progress.update == 8 and trainer.progress.best == Candidate(4, (merit, -1.0))
    run = trainer.checkpointing.run
    assert [line["best"] for line in metrics(run.path, "validation")] == [True, True, False, False]
    saved, last = run.weights("best"), run.weights("last")
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
    assert trainer.validator.loss() == pytest.approx(expected.item())
    longer = sum(len(row) > 2 for row in sources)
    read = "only their first 2 pieces are read"
    assert said == [f"validation set: {longer} of 20 pairs are longer than decoding.max_source; {read}"]


def test_the_mean_of_the_best_becomes_best_where_it_is_better(make: Make) -> None:
    for mean_loss, chosen in ((0.5, True), (1.5, False)):
        trainer = make(updates=8, average=3, validation={"every": 2, "metric": "loss"})
        trainer.validator = results(2.0, 1.0, 3.0, 2.5, mean_loss)  # type: ignore[assignment]
        trainer.fit()
        run = trainer.checkpointing.run
        kept = ["best", "last", "previous", "update-2", "update-4", "update-8"]
        assert sorted(path.name for path in run.checkpoints.iterdir()) == kept
        before = run.weights("best")
        trainer.average_best()
        averaged = [run.weights(f"update-{update}") for update in (2, 4, 8)]
        for name, tensor in run.weights("best").items():
            expected = torch.stack([each[name] for each in averaged]).mean(0).float() if chosen else before[name]
            torch.testing.assert_close(tensor, expected, rtol=1e-6, atol=1e-8)
        [line] = metrics(run.path, "average")
        assert line["best"] == chosen and line["updates"] == [2, 4, 8] and line["loss"] == mean_loss
        best = run.weights("best")
        run.delete("update-4")  # of the best validation
        trainer.validator = results(2.2)  # type: ignore[assignment]
        trainer.average_best()
        assert all(torch.equal(tensor, best[name]) for name, tensor in run.weights("best").items())


def test_whatever_takes_long_can_be_stopped(make: Make) -> None:
    stop = Mock(side_effect=Stopped)
    trainer = make(updates=4, average=2, validation={"every": 2, "metric": "loss"})
    with pytest.raises(Stopped):
        trainer.validator.loss(stop)
    trainer.fit()
    before = snapshot(trainer.checkpointing.run.path)
    with pytest.raises(Stopped):
        trainer.average_best(stop)
    assert snapshot(trainer.checkpointing.run.path) == before


def test_the_mean_of_a_shorter_run_is_not_the_best_of_a_longer_one(make: Make) -> None:
    loss = {"every": 2, "metric": "loss"}
    short, longer = (make(updates=updates, average=2, validation=loss) for updates in (4, 6))
    short.validator = results(2.0, 1.0, 0.5)  # type: ignore[assignment]
    short.fit()
    short.average_best()
    longer.checkpointing = replace(longer.checkpointing, run=short.checkpointing.run)
    longer.progress = longer.checkpointing.restore()
    longer.validator = results(1.5, 3.0)  # type: ignore[assignment]
    longer.fit()
    longer.average_best()
    best, four = longer.checkpointing.run.weights("best"), longer.checkpointing.run.weights("update-4")
    assert all(torch.equal(best[name], four[name]) for name in four)
