"""What is wrong in a configuration is told with its key and what would be right."""

from pathlib import Path

import pytest

from nmt.config import load_config, schema
from tests.config.configurations import MINIMAL, problems

SCORES = ", ".join(schema.SCORES.options)
WITH_UNITS = schema.listed(
    [repr(name) for name, kind in schema.SCORES.options.items() if "hidden" in kind.model_fields]
)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("decoding.beam_sise=3", "decoding.beam_sise: unknown key; nearest: beam_size"),
        ("training.precision=fp32", "training.precision: unknown key; there is precision at the top level"),
        (
            "model.beam_size=3",
            "model.beam_size: unknown key; there is training.validation.beam_size, decoding.beam_size",
        ),
        ("model.decoder.attention={}", "model.decoder.attention: unknown key; there is model.attention"),
        ("model.beamsize=3", "model.beamsize: unknown key; there is training.validation.beam_size, decoding.beam_size"),
        (
            "evaluation.colour=red",
            "evaluation.colour: unknown key; the keys here are bleu_tokenizer, bins, bootstrap, gold",
        ),
        ("lerning={}", "lerning: unknown key; nearest: training"),
        ("lr=0.1", "lr: unknown key; use training.optimizer.learning_rate"),
        ("model.dropout=true", "model.dropout: found true; must be a section of keys and values"),
        (
            "training.schedule=plateau",
            "training.schedule: found 'plateau'; must be a section with a type: constant, inverse_square_root, "
            "plateau; write {type: plateau}",
        ),
        (
            "model.attention={type:luong}",
            "model.attention: write a space after the colon: {type: luong}",
        ),
        (
            "model.attention=type:luong",
            "model.attention.type: 'type:luong' is not one of bahdanau, luong, transformer, none; write a space after "
            "the colon: {type: luong}",
        ),
        (
            "decoding={beam_size:5}",
            "decoding.beam_size:5: unknown key; write a space after the colon: {beam_size: 5}",
        ),
        (
            "model.attention={type: bahdnau}",
            "model.attention.type: 'bahdnau' is not one of bahdanau, luong, transformer, none; nearest: bahdanau",
        ),
        ("model.attention.type=[x]", "model.attention.type: a list of 1 is not one of bahdanau, "),
        ("model.attention={}", "model.attention.type: missing; "),
        (
            "model.attention={type: luong, score: additiv}",
            f"model.attention.score.type: 'additiv' is not one of {SCORES}; nearest: additive",
        ),
        (
            "model.attention={type: luong, score: [dot]}",
            f"model.attention.score: found a list of 1; must be a section with a type: {SCORES}",
        ),
        ("model.attention={type: transformer, heads: 4}", "model.attention.heads: has no effect for type "),
        ("training.validation=0.99", "training.validation: found 0.99; must be a section of keys and values"),
        (
            "training.optimizer={type: adam, momentum: 0.5}",
            "training.optimizer.momentum: has no effect for type 'adam'",
        ),
        (
            "data.train.split=train",
            "data.train.split: has no effect for a corpus with the key 'source', only for 'hub'; leave it out",
        ),
        (
            "model.attention={type: luong, score: {hidden: 8}}",
            f"model.attention.score.hidden: has no effect for type 'general', only for {WITH_UNITS}; leave it out",
        ),
        ("precision=fp3", "precision: 'fp3' is not one of auto, fp32, bf16; nearest: fp32"),
        ("precision=on", "precision: 'on' is not one of auto, fp32, bf16"),
        (
            "tokenizer.vocabulary=4",
            "tokenizer.vocabulary: found 4; must be a whole number of at least 5 and up to 250000 or null",
        ),
        ("tokenizer.shared=yes", "tokenizer.shared: found 'yes'; must be true or false"),
        ("training.updates=ten", "training.updates: found 'ten'; must be a whole number of at least 1 or null"),
        ("training.updates=1.0", "training.updates: found 1.0; "),
        ("training.updates=true", "training.updates: found true; "),
        ("training.updates=1_000", "training.updates: found '1_000'; "),
        ("training.updates=0", "training.updates: found 0; "),
        ("training.updates={}", "training.updates: found a section; "),
        ("training.label_smoothing=1", "training.label_smoothing: found 1; must be a number of at least 0 and below 1"),
        ("training.label_smoothing=.nan", "training.label_smoothing: found nan; "),
        ("training.clip=-1e-3", "training.clip: found -0.001; must be a number above 0 or null"),
        ("training.clip=1e31", "training.clip: 1e+31 is more than 1e+30, beyond which fp32 would overflow"),
        ("training.clip=1e999", "training.clip: found inf; must be a number above 0 or null"),
        ("decoding=", "decoding: found nothing; must be a section of keys and values"),
        (
            "data.source_language=7",
            "data.source_language: found 7; must be text that is not empty; write '7', in quotes",
        ),
        ("data.source_language=''", "data.source_language: found ''; must be text that is not empty"),
        (
            "data.test=test.en",
            "data.test: found 'test.en'; must be a section with one of the keys source, tsv, jsonl, hub",
        ),
        ("evaluation.bins=[5, x]", "evaluation.bins[1]: found 'x'; must be a whole number of at least 1"),
        (
            "evaluation.bins=[]",
            "evaluation.bins: found a list of 0; must be a list of one or more, each a whole number of at least 1",
        ),
        ("evaluation.bins=[5, 5]", "evaluation.bins: found [5, 5]; must be in ascending order without repetitions"),
        (
            "training.optimizer={type: adam, betas: [0, 0, 0]}",
            "training.optimizer.betas: found a list of 3; must be a list of 2, each a number of at least 0 and below 1",
        ),
    ],
)
def test_an_override_that_is_wrong_is_named_with_its_key(tmp_path: Path, override: str, said: str) -> None:
    [problem] = problems(tmp_path, MINIMAL, override)
    assert problem.startswith(f"--set {override}: {said}")


def test_training_ends_after_updates_or_after_epochs(tmp_path: Path) -> None:
    """Either alone; a key that is null counts as left out."""
    both = "found 100, but training.epochs is 3 and only one of them can end training; leave one out, or set it to null"
    assert problems(tmp_path, MINIMAL.replace("100}", "100, epochs: 3}")) == [f"run.yaml: training.updates: {both}"]
    assert problems(tmp_path, MINIMAL, "training={updates: 100, epochs: 3}") == [
        f"--set training={{updates: 100, epochs: 3}}: training.updates: {both}"
    ]
    missing = "missing; must be a whole number of at least 1, unless training.epochs is given"
    assert problems(tmp_path, MINIMAL, "training.updates=null") == [
        f"--set training.updates=null: training.updates: {missing}"
    ]
    path = tmp_path / "run.yaml"
    path.write_text(MINIMAL, "utf-8")
    assert load_config(path).training.epochs is None
    for overrides, ends in (
        (["training.epochs=3"], (3, None)),
        (["training.updates=null", " training.epochs =3"], (3, None)),
        (["training.epochs=3", "training.updates=null"], (3, None)),
        (["training.epochs=3", "training.updates=7"], (None, 7)),
        (["training.epochs=null"], (None, 100)),
    ):
        training = load_config(path, overrides).training
        assert (training.epochs, training.updates) == ends, overrides


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("updates: 100", "update: 100, clip: none").replace("type: bpe", "type: bpee")
    assert problems(tmp_path, f"{text}sead: 3\n", "decoding.beam_size=0") == [
        "run.yaml: tokenizer.type: 'bpee' is not one of bpe, unigram, word, character, given; nearest: bpe",
        "run.yaml: training.updates: missing; must be a whole number of at least 1, unless training.epochs is given",
        "run.yaml: training.clip: found 'none'; must be a number above 0 or null",
        "run.yaml: training.update: unknown key; nearest: updates",
        "--set decoding.beam_size=0: decoding.beam_size: found 0; must be a whole number of at least 1 and up to 1000",
        "run.yaml: sead: unknown key; nearest: seed",
    ]


def test_a_type_that_does_not_know_the_other_keys_says_how_to_replace_the_section(tmp_path: Path) -> None:
    assert problems(tmp_path, MINIMAL, "model.attention.type=none") == [
        "run.yaml: model.attention.score: has no effect for type 'none', only for 'bahdanau' and 'luong'; "
        "leave it out; to replace the whole section: --set 'model.attention={type: none}'"
    ]


def test_endless_problems_are_cut_short(tmp_path: Path) -> None:
    said = problems(tmp_path, MINIMAL + "".join(f"x{number}: 1\n" for number in range(1000)))
    assert len(said) == 51
    assert said[-1] == "run.yaml: more problems are not listed"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed", "--set seed: must be KEY=VALUE, as in training.updates=1000"),
        ("=1", "--set =1: must be KEY=VALUE, as in training.updates=1000"),
        ("a..b=1", "--set a..b=1: must be KEY=VALUE, as in training.updates=1000"),
        (
            "seed=[1",
            "--set seed=[1: line 1, column 3: expected ',' or ']', but got '<stream end>' "
            "(while parsing a flow sequence, started in line 1)",
        ),
        (
            "tokenizer.vocabulary.size=3",
            "--set tokenizer.vocabulary.size=3: tokenizer.vocabulary is 1000, not a section; "
            "set tokenizer.vocabulary as a whole",
        ),
    ],
)
def test_overrides_that_cannot_be_made(tmp_path: Path, override: str, said: str) -> None:
    assert problems(tmp_path, MINIMAL, override, "also=")[0] == said
