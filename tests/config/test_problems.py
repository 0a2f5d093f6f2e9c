"""Problems of a configuration: each is reported with its key, what was found and what would be right."""

from pathlib import Path

import pytest

from tests.config.configurations import MINIMAL, load, problems


@pytest.mark.parametrize(
    ("override", "key", "right"),
    [
        # unknown keys
        ("decoding.beam_sise=3", "decoding.beam_sise", "nearest: beam_size"),
        ("training.precision=fp32", "training.precision", "precision at the top level"),
        ("model.beam_size=3", "model.beam_size", "there is training.validation.beam_size, decoding.beam_size"),
        ("model.decoder.attention=none", "model.decoder.attention", "unknown key; there is model.attention"),
        ("evaluation.colour=red", "evaluation.colour", "the keys here are bleu_tokenizer, bins, bootstrap, gold"),
        ("sead.year=3", "sead", "nearest: seed"),
        # keys of another variant
        ("model.attention={type: transformer, heads: 4}", "model.attention.heads", "only with 'bahdanau' and 'luong'"),
        ("training.optimizer={type: adam, momentum: 0.5}", "training.optimizer.momentum", "only with 'sgd'"),
        ("data.train.split=train", "data.train.split", "with 'source', only with 'hub'"),
        ("model.attention={type: luong, score: {hidden: 8}}", "model.attention.score.hidden", "with 'general'"),
        # types and words
        ("model.attention={type: bahdnau}", "model.attention.type", "nearest: bahdanau"),
        ("model.attention={}", "model.attention.type", "missing"),
        ("model.attention={type:luong}", "model.attention.type", "missing; must be one of bahdanau"),
        ("model.attention={type: luong, score: [dot]}", "model.attention.score", "one of the kinds additive"),
        ("precision=on", "precision", "'on' is not one of auto, fp32, bf16"),
        # values
        ("model.dropout=true", "model.dropout", "found true; must be a section"),
        ("decoding=", "decoding", "found nothing"),
        ("tokenizer.vocabulary=4", "tokenizer.vocabulary", "found 4; must be at least 5"),
        ("tokenizer.shared=yes", "tokenizer.shared", "found 'yes'; must be true or false"),
        ("training.updates=1.0", "training.updates", "found 1.0; must be a whole number"),
        ("training.label_smoothing=.nan", "training.label_smoothing", "found nan"),
        ("training.clip=1e999", "training.clip", "found inf; must be a finite number"),
        ("data.source_language=''", "data.source_language", "found ''; must be not empty"),
        ("data.test=test.en", "data.test", "one of the kinds source, tsv, jsonl, hub"),
        ("evaluation.bins=[5, x]", "evaluation.bins[1]", "found 'x'; must be a whole number"),
        ("evaluation.bins=[5, 5]", "evaluation.bins", "ascending order"),
        ("training.optimizer={type: adam, betas: [0, 0, 0]}", "training.optimizer.betas", "found a list of 3"),
        # overrides that cannot be made
        ("a..b=1", "must be KEY=VALUE, as in training.updates=1000", ""),
        ("seed=[1", "line 1, column 3", "expected ',' or ']'"),
        ("tokenizer.vocabulary.size=3", "tokenizer.vocabulary is 1000, not a section", "as a whole"),
    ],
)
def test_an_override_that_is_wrong_is_named_with_its_key(tmp_path: Path, override: str, key: str, right: str) -> None:
    [problem] = problems(tmp_path, MINIMAL, override)
    assert problem.startswith(f"--set {override}: {key}") and right in problem


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("updates: 100", "update: 100, clip: none").replace("type: bpe", "type: bpee")
    beginnings = [
        "run.yaml: tokenizer.type: 'bpee'",
        "run.yaml: training.updates: missing",
        "run.yaml: training.clip: found 'none'",
        "run.yaml: training.update: unknown key",
        "--set decoding.beam_size=0: decoding.beam_size: found 0",
        "run.yaml: sead: unknown key",
    ]
    for found, beginning in zip(
        problems(tmp_path, f"{text}sead: 3\n", "decoding.beam_size=0"), beginnings, strict=True
    ):
        assert found.startswith(beginning)


def test_a_type_that_does_not_know_the_other_keys_says_how_to_replace_the_section(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, MINIMAL, "model.attention.type=none")
    assert problem.startswith("run.yaml: model.attention.score: has no effect with 'none'")
    assert problem.endswith("to replace the whole section: --set 'model.attention={type: none}'")


def test_a_key_cannot_break_the_line_of_a_message(tmp_path: Path) -> None:
    assert problems(tmp_path, MINIMAL + '"a\\n\\e[31mb": 1\n')[0].startswith("run.yaml: a\\n\\x1b[31mb: unknown key; ")
    load(tmp_path)
