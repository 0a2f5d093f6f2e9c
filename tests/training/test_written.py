"""What training writes down."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import sacrebleu
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from nmt import fast
from nmt.config import Config
from nmt.data.corpus import read_lines
from nmt.device import resolve_device
from nmt.errors import FileError
from nmt.evaluation.alignment import alignment_report, read_gold
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.log import last_progress
from nmt.training.progress import Candidate
from nmt.training.validation import Validator
from nmt.translation.forced import word_attention
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import Translator
from tests.small_run import config, metrics, pickles, train
from tests.training.conftest import Make, oracle, results


def test_a_run_leaves_what_its_contract_says(folder: Path) -> None:
    run = folder / "contract"
    said = train(config(folder, output="contract", log_every=2, average=2))
    assert {path.name for path in run.iterdir()} == {
        *("checkpoints", "config.yaml", "data_report.json", "manifest.json", "metrics.jsonl"),
        *("tensorboard", "test.hypotheses.txt", "test.scores.json", "tokenizer"),
    }
    assert pickles(run) == []
    lines = metrics(run)
    written = ["train 2", "validation 2", "train 4", "validation 4", "average 4", "test 4"]
    assert [f"{line['split']} {line['step']}" for line in lines] == written
    fields = {"loss", "perplexity", "target_tokens_per_second", "learning_rate", "gradient_norm", "epoch"}
    assert fields <= lines[0].keys()
    assert {"loss", "perplexity", "bleu", "seconds", "best"} <= lines[1].keys()
    assert lines[0]["perplexity"] == pytest.approx(math.exp(lines[0]["loss"]))
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest.keys() >= {"versions", "seed", "device", "corpus_sha256", "tokenizer_sha256"}
    scores = json.loads((run / "test.scores.json").read_text())
    assert scores["bleu"]["score"] == lines[-1]["bleu"] and scores["bleu"]["signature"] == lines[-1]["signature"]
    assert sum(row["n"] for row in scores["by_length"]) == 20
    progress = [line for line in said if line.startswith("update ")]
    assert progress[-1].startswith("update 4/4  epoch 1  loss ")
    assert progress[-1].endswith(" target tokens/s")


def test_the_test_set_is_scored_with_the_best_checkpoint_in_fp32(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validate, search = results(1.0, 2.0), Mock(wraps=fast.search)
    monkeypatch.setattr(Validator, "__call__", lambda self, update, **how: validate(update, **how))
    monkeypatch.setattr(fast, "search", search)
    sgd = {"type": "sgd", "learning_rate": 30.0}
    values = config(folder, output="scored", optimizer=sgd, validation={"metric": "loss"}).model_dump()
    train(Config.model_validate(values | {"precision": "bf16"}))
    assert [call.args[1] for call in search.call_args_list] == [torch.float32]
    run, sources = folder / "scored", list(read_lines(folder / "test.low"))
    texts = {}
    for checkpoint in ("best", "last"):
        loaded = load_run(run, torch.device("cpu"), checkpoint)
        translator = Translator.of([loaded], torch.device("cpu"), torch.float32)
        options = SearchOptions.from_config(loaded.config.decoding)
        texts[checkpoint] = [each.text for each in translator.stream(sources, options)]
    assert list(read_lines(run / "test.hypotheses.txt")) == texts["best"] != texts["last"]


def test_the_scores_are_of_the_hypotheses_against_the_references(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypotheses stand beside the lines of the test set, blank ones included."""
    monkeypatch.setattr(Translator, "stream", oracle)
    low, up = folder / "blank.low", folder / "blank.up"
    low.write_text("oak elm fir ash\n\nash\n \n")
    up.write_text("ASH FIR ELM OAK\nFIG\n\n\n")
    values = config(folder, updates=1, output="oracle").model_dump() | {"decoding": {"max_source": 2}}
    values["data"]["test"] = {"source": str(low), "target": str(up)}
    cut = "1 of 4 lines are longer than decoding.max_source; only their first 2 pieces are read"
    assert f"test set: {cut}" in train(Config.model_validate(values))
    run = folder / "oracle"
    hypotheses, references = list(read_lines(run / "test.hypotheses.txt")), list(read_lines(up))
    scores = json.loads((run / "test.scores.json").read_text())
    expected = sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores["bleu"]["score"] == pytest.approx(expected)
    assert expected != pytest.approx(sacrebleu.corpus_bleu(references, [hypotheses]).score)
    assert len(hypotheses) == 4 == sum(row["n"] for row in scores["by_length"])


def test_the_seed_decides_the_first_weights(folder: Path) -> None:
    weights = []
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        values = config(folder, output=f"seed-{name}").model_dump()
        train(Config.model_validate(values | {"seed": seed}), stop_after=0)
        weights.append(RunDirectory(folder / f"seed-{name}").weights("last")["output.weight"])
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_tensorboard_and_samples_have_all_that_is_measured_also_after_a_stop(folder: Path) -> None:
    """The file of samples is cut back to what the last checkpoint knows."""
    training: dict[str, Any] = {"updates": 4, "log_every": 1, "validation": {"samples": 2}}
    whole, parts = (config(folder, output=name, **training) for name in ("board", "parts"))
    train(whole)
    train(parts, stop_after=3)
    samples = [folder / name / "samples.jsonl" for name in ("board", "parts")]
    with samples[1].open("ab") as file:
        file.write(b'{"step": 4, "lines": []}\n{"step"')  # of a validation after the last checkpoint
    train(parts, resume=True)
    assert samples[0].read_bytes() == samples[1].read_bytes()
    lines = [json.loads(line) for line in samples[0].read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    sources, references = (list(read_lines(folder / f"validation.{side}"))[:2] for side in ("low", "up"))
    for line in lines:
        assert [each["source"] for each in line["lines"]] == sources
        assert [each["reference"] for each in line["lines"]] == references
        assert all(isinstance(each["hypothesis"], str) for each in line["lines"])
    board = EventAccumulator(str(folder / "parts" / "tensorboard")).Reload()
    for name in ("loss", "perplexity", "learning_rate", "gradient_norm", "target_tokens_per_second"):
        assert [event.step for event in board.Scalars(f"train/{name}")] == [1, 2, 3, 4]
    assert [event.step for event in board.Scalars("validation/bleu")] == [2, 4]
    seconds = [line["seconds"] for line in metrics(folder / "parts", "train")]
    assert seconds == sorted(seconds) and seconds[-1] == last_progress(folder / "parts")["seconds"]


def test_attention_is_held_against_gold_links_while_training(folder: Path) -> None:
    files = {"source": folder / "test.low", "target": folder / "test.up", "links": folder / "test.align"}
    lines = list(read_lines(files["source"]))
    reversed_links = [" ".join(f"{len(line.split()) - 1 - j}-{j}" for j in range(len(line.split()))) for line in lines]
    files["links"].write_text("".join(f"{line}\n" for line in reversed_links))
    gold = {"gold": {name: str(path) for name, path in files.items()} | {"limit": 10}}
    for attention in ("bahdanau", "none"):
        values = config(folder, attention, output=f"gold-{attention}").model_dump()
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
        weights = word_attention(
            run.network, run.tokenizers, gold_pairs.pairs, resolve_device("cpu"), run.config.decoding
        )
        report = alignment_report(gold_pairs, weights)
        assert report["likeliest"]["error_rate"] in [pytest.approx(rate) for rate in recorded]


def test_what_a_killed_training_left_over_goes_with_the_next_save(make: Make) -> None:
    trainer = make()
    trainer.checkpointing.run.save("update-7", trainer.model.state_dict())
    trainer.progress = replace(trainer.progress, kept=(Candidate(9, (1.0, 0.0)),))
    trainer.checkpointing.run.save("update-9", trainer.model.state_dict())
    trainer.checkpointing.save(trainer.progress)
    assert sorted(path.name for path in trainer.checkpointing.run.checkpoints.iterdir()) == ["last", "update-9"]


def test_a_damaged_best_is_made_anew(make: Make) -> None:
    """With a ``best`` that is cut short, at update 4 of 6 and after the last: of the second best, or of nothing."""
    said: list[str] = []
    best, second, damaged = Candidate(2, (1.0, 0.0)), Candidate(3, (0.5, 0.0)), []
    for update in (4, 6):
        trainer = make(said, updates=6)
        trainer.checkpointing.run.save("best", {"a": torch.zeros(1)})
        trainer.checkpointing.run.save("update-3", {"a": torch.ones(1)})
        trainer.checkpointing.save(replace(trainer.progress, update=update, best=best, kept=(best, second)))
        (trainer.checkpointing.run.checkpoints / "best" / "model.safetensors").write_bytes(b"cut")
        damaged.append(trainer.checkpointing)
    assert damaged[0].mend().best == second
    for each in damaged:
        each.run.delete("update-3")
        (each.run.checkpoints / "best" / "model.safetensors").write_bytes(b"cut")
    assert damaged[0].mend().best is None
    assert said[-1].endswith("; it is not used")
    with pytest.raises(FileError, match="no other copy of the best weights is left; restore the file"):
        damaged[1].mend()
