"""Configurations as users write them, rightly and wrongly."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nmt.config import Config, dump_config, load_config, load_run_config
from nmt.config.decoding import describe
from nmt.config.foreign_keys import COUNTERPARTS
from nmt.config.schema import (
    Adam,
    BahdanauAttention,
    ConstantSchedule,
    Decoding,
    FileCorpus,
    GruDecoder,
    GruEncoder,
    JsonlCorpus,
    LstmEncoder,
    LuongAttention,
    NoAttention,
    Section,
    SsruEncoder,
    XavierInitialization,
)
from nmt.config.schema_map import annotation_of, expected, find, keys_by_name, variants_of
from nmt.config.yaml12 import DEEPEST, LARGEST_YAML, format_yaml, parse_yaml
from nmt.errors import ConfigError

MINIMAL = """\
data:
  source_language: en
  target_language: fr
  train: {source: train.en, target: train.fr}
  validation: {source: validation.en, target: validation.fr}
tokenizer: {type: bpe, vocabulary: 1000}
model:
  attention: {type: bahdanau, hidden: 64}
training: {updates: 100}
"""


def load(folder: Path, text: str | bytes = MINIMAL, *overrides: str) -> Config:
    file = folder / "run.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file, overrides)


def problems(folder: Path, text: str | bytes = MINIMAL, *overrides: str) -> list[str]:
    """What is said of a configuration, the folder left out."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, *overrides)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]


# --- what is right ----------------------------------------------------------------------------------------------------


def test_defaults_fill_what_is_left_out(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.decoding.beam_size == 5
    assert config.training.optimizer.type == "adam"
    assert isinstance(config.data.train, FileCorpus)


def test_overrides_replace_values_and_sections_in_their_order(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        MINIMAL,
        "training.optimizer={type: adam, learning_rate: 1e-4}",
        "training.optimizer.learning_rate=2e-3",
        "model.attention={type: none}",
        "data.test.jsonl=test.jsonl",
        "decoding.length_penalty = 0",
        "evaluation.bins=[5, 10]",
        "output=runs/a=b",
    )
    assert config.training.optimizer.learning_rate == 0.002
    assert config.model.attention == NoAttention(type="none")
    assert config.data.test == JsonlCorpus(jsonl="test.jsonl")
    assert config.decoding.length_penalty == 0
    assert config.evaluation.bins == (5, 10)
    assert config.output == "runs/a=b"


def test_a_type_alone_is_enough_where_the_new_variant_knows_the_other_keys(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL, "model.attention.type=luong", "model.attention.score=concat")
    assert config.model.attention == LuongAttention(type="luong", score="concat", hidden=64)


def test_a_section_that_does_not_say_its_type_is_of_the_usual_one(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL, "training.optimizer.learning_rate=0.5", "training.schedule.warmup=7")
    assert config.training.optimizer == Adam(learning_rate=0.5)
    assert config.training.schedule == ConstantSchedule(warmup=7)
    assert load(tmp_path, MINIMAL, "model.initialization={}").model.initialization == XavierInitialization()


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("tokenizer={type: given, source: a.model, target: a.model}", "model.embeddings={tie: all, size: 32}"),
        ("training.optimizer={type: adamw, betas: [0.8, 0.9], epsilon: 1e-12}", "training.clip=null"),
        ("training.schedule={type: plateau}", "model.initialization={type: uniform}", "data.filter.max_ratio=1.5"),
        ("data.test={hub: owner/name, split: test}", "data.train={tsv: train.tsv.gz}", "seed=123456789012345678"),
        ("data.source_language='1e-3'", "data.target_language='no'", "output='a\\0\\u2028\\x85\\r\\n: #\"'"),
    ],
)
def test_a_written_configuration_loads_as_an_equal_one(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    config = load(tmp_path, MINIMAL, *overrides)
    written = dump_config(config)
    assert load(tmp_path, written) == config
    assert dump_config(load(tmp_path, written)) == written


def test_a_written_configuration_has_every_default_in_it(tmp_path: Path) -> None:
    written = parse_yaml(dump_config(load(tmp_path)), "")

    def complete(value: Any, section: Any) -> None:
        assert list(value) == list(type(section).model_fields)
        for name, part in section:
            if hasattr(part, "model_fields_set"):
                complete(value[name], part)

    complete(written, load(tmp_path))
    assert written["decoding"]["max_length_factor"] == 2.0


@pytest.mark.parametrize("part", [GruEncoder, LstmEncoder, SsruEncoder, GruDecoder, BahdanauAttention, LuongAttention])
def test_the_type_is_the_first_key_of_a_written_part(part: type[Section]) -> None:
    assert next(iter(part.model_fields)) == "type"


# --- what is wrong, in whose words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("decoding.beam_sise=3", "decoding.beam_sise: unknown key; nearest: beam_size"),
        ("training.precision=fp32", "training.precision: unknown key; there is precision at the top level"),
        (
            "model.beam_size=3",
            "model.beam_size: unknown key; there is training.validation.beam_size, decoding.beam_size",
        ),
        ("model.beamsize=3", "model.beamsize: unknown key; there is training.validation.beam_size, decoding.beam_size"),
        (
            "evaluation.colour=red",
            "evaluation.colour: unknown key; the keys here are bleu_tokenizer, bins, bootstrap, gold",
        ),
        ("lerning={}", "lerning: unknown key; nearest: training"),
        (
            "training.max_epochs=20",
            "training.max_epochs: unknown key; use training.epochs (or training.updates, which counts optimizer "
            "updates)",
        ),
        ("lr=0.1", "lr: unknown key; use training.optimizer.learning_rate"),
        (
            "model.encoder.Hidden-Size=9",
            "model.encoder.Hidden-Size: unknown key; use model.encoder.hidden and model.decoder.hidden",
        ),
        (
            "model.dropout=0.3",
            "model.dropout: found 0.3; must be a section of keys and values; "
            "write {embedding: 0.3, annotation: 0.3, readout: 0.3}",
        ),
        ("model.dropout=true", "model.dropout: found true; must be a section of keys and values"),
        (
            "training.optimizer=adam",
            "training.optimizer: found 'adam'; must be a section with a type: adam, adamw, adadelta, sgd; "
            "write {type: adam}",
        ),
        (
            "model.attention={type:luong}",
            "model.attention: write a space after the colon: {type: luong}",
        ),
        (
            "model.attention=type:luong",
            "model.attention: found 'type:luong'; must be a section with a type: "
            "bahdanau, luong, transformer, none, custom; write a space after the colon: {type: luong}",
        ),
        (
            "decoding={beam_size:5}",
            "decoding.beam_size:5: unknown key; write a space after the colon: {beam_size: 5}",
        ),
        (
            "model.attention={type: bahdnau}",
            "model.attention.type: 'bahdnau' is not one of bahdanau, luong, transformer, none, custom; "
            "nearest: bahdanau",
        ),
        (
            "model.attention.type=[x]",
            "model.attention.type: a list of 1 is not one of bahdanau, luong, transformer, none, custom",
        ),
        (
            "model.attention={}",
            "model.attention.type: missing; must be one of bahdanau, luong, transformer, none, custom",
        ),
        (
            "model.attention=none",
            "model.attention: found 'none'; must be a section with a type: bahdanau, luong, transformer, none, custom; "
            "write {type: none}",
        ),
        (
            "model.attention={type: dot}",
            "model.attention.type: 'dot' is not one of bahdanau, luong, transformer, none, custom; for the score, "
            "write {type: luong, score: dot}",
        ),
        (
            "model.attention={type: additive}",
            "model.attention.type: 'additive' is not one of bahdanau, luong, transformer, none, custom; for the score, "
            "write {type: bahdanau, score: additive}",
        ),
        (
            "model.attention={type: luong, score: mlp}",
            "model.attention.score: 'mlp' is not one of additive, concat, dot, scaled_dot, general, low_rank, cosine, "
            "location; use additive",
        ),
        (
            "model.attention={type: luong, score: [mlp]}",
            "model.attention.score: a list of 1 is not one of additive, concat, dot, scaled_dot, general, low_rank, "
            "cosine, location",
        ),
        (
            "model.attention={type: transformer, heads: 4}",
            "model.attention.heads: has no effect for type 'transformer', only for 'bahdanau' and 'luong'; there is "
            "model.decoder.heads",
        ),
        ("training.ema=0.99", "training.ema: found 0.99; must be a section of keys and values; write {decay: 0.99}"),
        (
            "tokenizer.sampling=0.1",
            "tokenizer.sampling: found 0.1; must be a section of keys and values; write {alpha: 0.1}",
        ),
        (
            "training.optimizer={type: adam, momentum: 0.5}",
            "training.optimizer.momentum: has no effect for type 'adam', only for 'sgd'; leave it out",
        ),
        (
            "data.train.split=train",
            "data.train.split: has no effect for a corpus with the key 'source', only for 'hub'; leave it out",
        ),
        (
            "model.attention={type: luong, hidden: 8}",
            "model.attention.hidden: has no effect for score 'general', "
            "only for 'additive', 'concat' and 'low_rank'; leave it out",
        ),
        ("precision=fp3", "precision: 'fp3' is not one of auto, fp32, bf16; nearest: fp32"),
        ("precision=on", "precision: 'on' is not one of auto, fp32, bf16"),
        (
            "tokenizer.vocabulary=4",
            "tokenizer.vocabulary: found 4; must be a whole number of at least 5 and up to 250000 or null",
        ),
        ("tokenizer.shared=yes", "tokenizer.shared: found 'yes'; must be true or false"),
        ("training.updates=ten", "training.updates: found 'ten'; must be a whole number of at least 1 or null"),
        ("training.updates=1.0", "training.updates: found 1.0; must be a whole number of at least 1 or null"),
        ("training.updates=true", "training.updates: found true; must be a whole number of at least 1 or null"),
        ("training.updates=1_000", "training.updates: found '1_000'; must be a whole number of at least 1 or null"),
        ("training.updates=0", "training.updates: found 0; must be a whole number of at least 1 or null"),
        ("training.updates={}", "training.updates: found a section; must be a whole number of at least 1 or null"),
        ("training.label_smoothing=1", "training.label_smoothing: found 1; must be a number of at least 0 and below 1"),
        (
            "training.label_smoothing=.nan",
            "training.label_smoothing: found nan; must be a number of at least 0 and below 1",
        ),
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
            "evaluation.bins: found a list of 0; must be a list of at least one, each a whole number of at least 1",
        ),
        ("evaluation.bins=[5, 5]", "evaluation.bins: found [5, 5]; must be in ascending order without repetitions"),
        (
            "training.optimizer={type: adam, betas: [0, 0, 0]}",
            "training.optimizer.betas: found a list of 3; must be a list of 2, each a number of at least 0 and below 1",
        ),
    ],
)
def test_an_override_that_is_wrong_is_named_with_its_key(tmp_path: Path, override: str, said: str) -> None:
    assert problems(tmp_path, MINIMAL, override) == [f"--set {override}: {said}"]


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
        "run.yaml: model.attention.hidden: has no effect for type 'none', only for 'bahdanau', 'luong' and "
        "'custom'; leave it out; to replace the whole section: --set 'model.attention={type: none}'"
    ]


TIE = "model.embeddings.tie: 'all' needs one vocabulary: "
DOT = (
    "model.decoder.hidden: 256 does not fit model.attention.score 'dot', which multiplies states and annotations; "
    "must be twice model.encoder.hidden (512), or use score 'general'"
)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.embeddings={tie: all}", f"{TIE}tokenizer.shared: true; or use tie 'target'"),
        (
            "model.decoder={readout: 8}",
            "model.decoder.readout: 8 does not fit tied embeddings; must be model.embeddings.size (256) or null",
        ),
        ("model.decoder={hidden: 256}", DOT),
        (
            "model.dropout={variational: true, embedding: 0, annotation: 0, readout: 0}",
            "model.dropout.variational: has no effect where embedding, annotation and readout are 0; leave it out",
        ),
        (
            "training.average_of=last",
            "training.average_of: has no effect where training.average is 1; set training.average to the number of "
            "checkpoints",
        ),
        (
            "training.scheduled_sampling={type: linear, floor: 1}",
            "training.scheduled_sampling.floor: 1 leaves every reference in its place; use less than 1, or leave the "
            "section out",
        ),
        (
            "training.scheduled_sampling={type: linear, offset: 1.5, slope: 0}",
            "training.scheduled_sampling.slope: 0 leaves every reference in its place; use more than 0, or leave the "
            "section out",
        ),
        (
            "training.scheduled_sampling={type: linear, offset: 0.3, floor: 0.5}",
            "training.scheduled_sampling.offset: 0.3 is less than training.scheduled_sampling.floor (0.5), which is "
            "then the share at every update; must be at least the floor",
        ),
        (
            "training.scheduled_sampling={type: exponential, base: 1}",
            "training.scheduled_sampling.base: 1 leaves every reference in its place; use less than 1, or leave the "
            "section out",
        ),
        (
            "training.guided_attention={type: diagonal}",
            "training.guided_attention: guides an attention, and model.attention.type is 'none'; leave it out or "
            "choose an attention",
        ),
    ],
)
def test_contradictions_are_told(tmp_path: Path, override: str, said: str) -> None:
    attention = "{type: luong, score: dot}" if said == DOT else "{type: none}"
    text = MINIMAL.replace("{type: bahdanau, hidden: 64}", f"{attention}\n  embeddings: {{tie: target}}")
    assert problems(tmp_path, text, override) == [f"--set {override}: {said}"]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ("training.guided_attention={type: links}",),
            "training.guided_attention.type: 'links' needs the links of the training set; name their file in "
            "data.train.links",
        ),
        (
            ("training.guided_attention={type: diagonal}", "data.reverse_source=true"),
            "training.guided_attention.type: 'diagonal' needs both texts in one order, and data.reverse_source "
            "reverses the source; leave one out",
        ),
        (
            ("data.train.links=a.links",),
            "data.train.links: has no effect without training.guided_attention, type 'links'; leave it out",
        ),
    ],
)
def test_a_guide_of_the_attention_needs_its_data(tmp_path: Path, overrides: tuple[str, ...], said: str) -> None:
    [problem] = problems(tmp_path, MINIMAL, *overrides)
    assert problem.endswith(said)


def test_all_contradictions_are_told_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("type: bpe, vocabulary: 1000", "type: given, source: a.model, target: b.model")
    overrides = ("model.attention.type=luong", "model.attention.score=dot", "model.decoder.readout=8")
    assert problems(tmp_path, text, *overrides, "model.embeddings.tie=all") == [
        "run.yaml: model.attention.hidden: has no effect for score 'dot', "
        "only for 'additive', 'concat' and 'low_rank'; leave it out; "
        "to replace the whole section: --set 'model.attention={type: luong}'",
        f"run.yaml: {DOT}",
        "--set model.decoder.readout=8: model.decoder.readout: 8 does not fit tied embeddings; "
        "must be model.embeddings.size (256) or null",
        f"--set model.embeddings.tie=all: {TIE}the same file as tokenizer.source and tokenizer.target; "
        "or use tie 'target'",
    ]


PARTS = tuple(f"model.{part}={{type: transformer}}" for part in ("attention", "encoder", "decoder"))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            PARTS[:1],
            "model.decoder.type: 'gru' does not fit model.attention.type 'transformer'; "
            "use decoder: {type: transformer}, or an attention of another type",
        ),
        (
            PARTS[2:],
            "model.attention.type: 'bahdanau' does not fit model.decoder.type 'transformer'; "
            "use attention: {type: transformer}, or decoder: {type: gru}",
        ),
        (
            ("model.encoder={type: transformer, hidden: 512}",),
            "model.encoder.hidden: 512 does not fit a Transformer; must be model.embeddings.size (256)",
        ),
        (
            (*PARTS[:2], "model.decoder={type: transformer, heads: 3}"),
            "model.decoder.heads: 3 heads do not divide model.decoder.hidden (256) into equal parts; must be a divisor",
        ),
        (
            ("model.attention={type: transformer, layer: 7}", *PARTS[1:]),
            "model.attention.layer: there is no layer 7; must be up to model.decoder.layers (6), or null",
        ),
        (
            ("model.attention={type: transformer, head: 9}", *PARTS[1:]),
            "model.attention.head: there is no head 9; must be up to model.decoder.heads (8), or null",
        ),
        (
            ("model.attention={type: luong, score: dot}", PARTS[1], "model.decoder={hidden: 128}"),
            "model.decoder.hidden: 128 does not fit model.attention.score 'dot', which multiplies states and "
            "annotations; must be model.encoder.hidden (256), or use score 'general'",
        ),
    ],
)
def test_contradictions_of_transformers_are_told(tmp_path: Path, overrides: tuple[str, ...], said: str) -> None:
    (found,) = problems(tmp_path, MINIMAL, *overrides)
    assert said in found


@pytest.mark.parametrize(
    "overrides",
    [
        PARTS,
        ("model.attention={type: transformer, layer: 6, head: 8}", *PARTS[1:]),
        (PARTS[0], PARTS[2]),
        (PARTS[1],),
        (*PARTS, "model.embeddings.tie=target"),
        ("model.attention={type: luong, score: dot}", PARTS[1]),
        ("model.attention={type: luong, score: concat, hidden: 8}",),
        ("model.attention={type: luong, score: dot}", "model.decoder.hidden=512"),
        ("model.embeddings.tie=target", "model.decoder.readout=256"),
        ("model.embeddings.tie=all", "tokenizer.shared=true"),
        ("model.decoder.readout=8", "model.decoder.hidden=512"),
        ("model.dropout.variational=true", "model.encoder.layers=2", "model.decoder.layers=2"),
        ("training.average_of=last", "training.average=2"),
        ("training.guided_attention={type: diagonal}", "training.scheduled_sampling={type: linear}"),
        ("training.scheduled_sampling={type: linear, offset: 0.5, slope: 0}",),
    ],
)
def test_what_only_looks_like_a_contradiction_is_allowed(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    load(tmp_path, MINIMAL, *overrides)


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


# --- files that are no configuration ----------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in (tmp_path / "no.yaml", "No such file or directory"), (tmp_path, "Is a directory"):
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert str(caught.value) == f"{path}: cannot be read: {reason}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "found nothing; must have the sections data, tokenizer, model, training"),
        ("- a\n", "found a list of 1; must have the sections data, tokenizer, model, training"),
        (b"seed: 1\noutput: \xff\n", "line 2: not UTF-8; save the file as UTF-8"),
        ("seed: 1\na\0b: 1\n", "line 2: the character '\\x00' is not allowed in YAML"),
        ("a: b: c\n", "line 1, column 5: mapping values are not allowed here"),
        (
            "a:\n  type:luong\n  hidden: 5\n",
            "line 3, column 9: mapping values are not allowed here; "
            "line 2: write a space after the colon: {type: luong}",
        ),
        ("seed: 1\ndata: 2\nseed: 3\n", "line 3: key 'seed' is already in line 1"),
        ("seed: 1\n5: 2\n", "line 2: '5' as a key; must be text"),
        ("{[a]: 1}\n", "line 1: a list or section as a key; must be text"),
        ("a: &x [1]\nb: *x\n", "line 2, column 4: alias '*x': not supported; repeat the value"),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            "line 1, column 4: tag 'tag:yaml.org,2002:python/object/apply:os.system': not supported",
        ),
        ("a: !x 1\n", "line 1, column 4: tag '!x': not supported"),
        ("[" * 5000, f"line 1, column {DEEPEST + 1}: more than {DEEPEST} levels of nesting"),
        ("{a: " * 5000, f"line 1, column {4 * DEEPEST - 2}: more than {DEEPEST} levels of nesting"),
        ("#" * (LARGEST_YAML + 1), f"larger than {LARGEST_YAML} bytes; a configuration is a short YAML file"),
        (f"seed: {'9' * 5000}\n", "line 1, column 7: a number with more than 18 digits"),
        ('a: "\\UFFFFFFFF"\n', "line 1: a value cannot be read"),
        ('a: "\\uD800"\n', "line 1, column 4: an unpaired surrogate, which is not a character"),
        (
            "--- {}\n--- {}\n",
            "line 2, column 1: but found another document "
            "(expected a single document in the stream, started in line 1)",
        ),
    ],
)
def test_text_that_is_no_configuration(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert problems(tmp_path, text) == [f"run.yaml: {said}"]


def test_a_strangers_key_cannot_break_the_line(tmp_path: Path) -> None:
    assert problems(tmp_path, MINIMAL + '"a\\n\\e[31mb": 1\n')[0].startswith("run.yaml: a\\n\\x1b[31mb: unknown key; ")


# --- YAML 1.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("+1", 1),
        (".inf", math.inf),
        ("~", None),
        ("", None),
        ("TRUE", True),
        ("no", "no"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("'1'", "1"),
        ("1e", "1e"),
        ("<<", "<<"),
    ],
)
def test_plain_scalars(text: str, value: Any) -> None:
    parsed = parse_yaml(text, "")
    assert (type(parsed), parsed) == (type(value), value)


NUMBERS = st.integers(-(10**17), 10**17) | st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    read = parse_yaml(format_yaml(value), "")
    assert read == value
    assert repr(read) == repr(value)


# --- any text ---------------------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def never_a_traceback(folder: Path, text: str | bytes, *overrides: str) -> None:
    try:
        config = load(folder, text, *overrides)
    except ConfigError as error:
        assert error.problems
        assert all(problem.isprintable() for problem in error.problems)
    else:
        assert load(folder, dump_config(config)) == config


@FUZZ
@given(content=st.binary() | st.text().map(lambda text: text.encode()))
def test_any_bytes_are_a_configuration_or_a_config_error(tmp_path: Path, content: bytes) -> None:
    never_a_traceback(tmp_path, content)


@FUZZ
@given(text=st.text("{}[]:,-?&*!|>'\"%#@\\ \n\tabcdata0x1e._~<", max_size=60))
def test_any_punctuation_is_a_configuration_or_a_config_error(tmp_path: Path, text: str) -> None:
    never_a_traceback(tmp_path, text)
    never_a_traceback(tmp_path, f"{MINIMAL}{text}")
    never_a_traceback(tmp_path, MINIMAL, f"seed={text}", text)


KEYS = sorted({key for keys in keys_by_name().values() for key in keys})


@FUZZ
@example(changes=[("data.train.mix", {"": None})])
@given(changes=st.lists(st.tuples(st.sampled_from(KEYS), VALUES | st.sampled_from(["none", "luong", "adam", "word"]))))
def test_any_values_are_a_configuration_or_a_config_error(tmp_path: Path, changes: list[tuple[str, Any]]) -> None:
    data = copy.deepcopy(yaml.safe_load(MINIMAL))
    for key, value in changes:
        *parents, name = key.split(".")
        section = data
        for parent in parents:
            if not isinstance(section.get(parent), dict):
                section[parent] = {}
            section = section[parent]
        section[name] = value
    never_a_traceback(tmp_path, format_yaml(data))


# --- search ----------------------------------------------------------------------------------------------------------


def test_search_options_that_contradict_each_other_are_reported_together(tmp_path: Path) -> None:
    data = yaml.safe_load(MINIMAL)
    data["model"]["attention"] = {"type": "none"}
    data["decoding"] = {"coverage_penalty": 0.2, "min_length_factor": 3.0, "beam_groups": 2}
    assert problems(tmp_path, format_yaml(data)) == [
        "run.yaml: decoding.coverage_penalty: needs attention weights, and model.attention.type is none; must be 0, or "
        "choose an attention",
        "run.yaml: decoding.min_length_factor: 3 is more than decoding.max_length_factor (2); must be up to that",
        "run.yaml: decoding.beam_groups: 2 groups cannot share 5 hypotheses equally; must be a divisor of "
        "decoding.beam_size",
        "run.yaml: decoding.diversity: 0 lets all 2 groups of decoding.beam_groups find the same; must be more than 0, "
        "such as 0.5",
    ]


def test_groups_share_the_beam_of_validation_too(tmp_path: Path) -> None:
    data = yaml.safe_load(MINIMAL)
    data["decoding"] = {"beam_size": 6, "beam_groups": 3, "diversity": 0.5}
    load(tmp_path, format_yaml(data))
    data["training"]["validation"] = {"beam_size": 4}
    assert problems(tmp_path, format_yaml(data)) == [
        "run.yaml: training.validation.beam_size: 4 hypotheses cannot be shared by decoding.beam_groups (3); must be a "
        "multiple of it, or 1"
    ]


def test_the_options_of_a_search_in_effect_are_named() -> None:
    assert describe(Decoding(beam_size=2, length_penalty=0.3)) == ""
    options = Decoding(
        beam_size=6, beam_groups=3, diversity=0.5, coverage_penalty=0.2, no_repeat_ngram=3, repetition_penalty=1.2
    )
    rules = "no repeat ngram 3, repetition penalty 1.2"
    assert describe(options) == f"coverage penalty 0.2, beam groups 3, diversity 0.5, {rules}"
    assert describe(options.model_copy(update={"beam_size": 1})) == rules


# --- the map of the schema --------------------------------------------------------------------------------------------


def test_every_key_of_the_schema_can_be_explained() -> None:
    assert {"model.attention.hidden", "data.train.hub", "training.optimizer.betas", "seed"} <= set(KEYS)
    assert find(("training", "optimizer", "adam", "betas", 1)).key == "training.optimizer.betas[1]"
    assert find(("model", "attention", "none")).key == "model.attention"
    sections: list[type[Section]] = [Config]
    for section in sections:
        annotations = [annotation_of(section, name) for name in section.model_fields]
        assert all(map(expected, annotations))
        sections.extend(variant for annotation in annotations for variant in variants_of(annotation).values())
    ours = {section for section in descendants(Section) if section.__module__.startswith("nmt.config.schema.")}
    assert {section for section in ours if not section.__subclasses__()} <= set(sections) <= ours


def test_foreign_keys_lead_to_keys_that_exist() -> None:
    assert {key for each in COUNTERPARTS.values() for key in each.partition(" (")[0].split(" and ")} <= set(KEYS)
    elsewhere = {"alpha"}  # tokenizer.sampling.alpha; in other sections, the alpha of length penalties
    assert COUNTERPARTS.keys() & keys_by_name().keys() == elsewhere, "these are keys of this toolkit"


FOREIGN = {
    "lr": "training.optimizer.learning_rate",
    "batch_size": "training.batch_tokens",
    "num_epochs": "training.epochs",
    "hidden_size": "model.encoder.hidden and model.decoder.hidden",
    "num_layers": "model.encoder.layers and model.decoder.layers",
    "bidirectional": "model.encoder.directions",
    "num_heads": "model.encoder.heads and model.decoder.heads",
    "coverage_attn": "model.attention.coverage",
    "beam": "decoding.beam_size",
    "optimiser": "training.optimizer",
    "initialisation": "model.initialization",
    "normalisation": "tokenizer.normalization",
}


@pytest.mark.parametrize(
    "section", ["", "data", "tokenizer", "model", "model.encoder", "training.optimizer", "decoding"]
)
@pytest.mark.parametrize(("name", "keys"), FOREIGN.items())
def test_a_key_of_another_toolkit_is_answered_with_ours(tmp_path: Path, section: str, name: str, keys: str) -> None:
    key = f"{section}.{name}".lstrip(".")
    [said] = problems(tmp_path, MINIMAL, f"{key}=1")
    assert f"{said} ".startswith(f"--set {key}=1: {key}: unknown key; use {keys} ")
    data: Any = yaml.safe_load(MINIMAL)
    place = data
    for part in filter(None, section.split(".")):
        place = place.setdefault(part, {})
    place[name] = {"type": "adam"}
    [said] = problems(tmp_path, format_yaml(data))
    assert f"{said} ".startswith(f"run.yaml: {key}: unknown key; use {keys} ")


def test_a_run_of_an_earlier_version_says_which_lines_to_rename(tmp_path: Path) -> None:
    text = dump_config(load(tmp_path))
    assert load_run_config(written(tmp_path, text)) == load(tmp_path)
    old = text.replace("optimizer:", "optimiser:").replace("initialization:", "initialisation:")
    with pytest.raises(ConfigError) as caught:
        load_run_config(written(tmp_path, old), ["decoding.beam_size=1"])
    file, lines = tmp_path / "config.yaml", [line.strip() for line in old.splitlines()]
    renamed = "an earlier version made this run; rename the key"
    of_initialization = "(a section: {type: uniform, range: 0.1})"
    of_optimizer = "(a section: {type: adam, learning_rate: 1e-3})"
    assert caught.value.problems == (
        f"{file}: model.initialisation: unknown key; use model.initialization {of_initialization}",
        f"{file}: training.optimiser: unknown key; use training.optimizer {of_optimizer}",
        f"{file}: line {lines.index('initialisation:') + 1}: {renamed} 'initialisation' to 'initialization'",
        f"{file}: line {lines.index('optimiser:') + 1}: {renamed} 'optimiser' to 'optimizer'",
    )


def written(folder: Path, text: str) -> Path:
    """A run directory with this configuration."""
    (folder / "config.yaml").write_text(text, "utf-8")
    return folder


def descendants(section: type[Section]) -> Iterator[type[Section]]:
    for child in section.__subclasses__():
        yield child
        yield from descendants(child)


def test_no_name_holds_nul(tmp_path: Path) -> None:
    [line] = problems(tmp_path, MINIMAL, 'output="a\\0b"')
    assert "NUL" in line
