"""What is wrong in a configuration is reported with its key, what was found and what would be right, all at once."""

import re
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
        ("model.attention={type: transformer, heads: 4}", "model.attention.heads", "only with 'bahdanau' or 'luong'"),
        ("training.optimizer={type: adam, momentum: 0.5}", "training.optimizer.momentum", "only with 'sgd'"),
        ("data.train.split=train", "data.train.split", "with 'source', only with 'hub'"),
        ("model.attention={type: luong, score: {hidden: 8}}", "model.attention.score.hidden", "with 'general'"),
        # types and words
        ("model.attention={type: bahdnau}", "model.attention.type", "nearest: bahdanau"),
        ("model.attention={}", "model.attention.type", "missing"),
        ("model.attention={type:luong}", "model.attention.type", "missing; must be one of bahdanau"),
        ("model.attention={type: luong, score: [dot]}", "model.attention.score", "one of the kinds additive"),
        ("precision=on", "precision", "'on' is not one of auto, fp32, bf16"),
        ("evaluation.bleu_tokenizer=ja", "evaluation.bleu_tokenizer", "'ja' is not one of 13a, zh, ja-mecab"),
        # values
        ("data.rough.upper=1.5", "data.rough.upper", "found 1.5; must be"),
        ("model.dropout=true", "model.dropout", "found true; must be a section"),
        ("decoding=", "decoding", "found nothing"),
        ("seed=9223372036854775808", "seed", "must be at most 9223372036854775807"),
        ("tokenizer.vocabulary=4", "tokenizer.vocabulary", "found 4; must be at least 5"),
        ("tokenizer.shared=yes", "tokenizer.shared", "found 'yes'; must be true or false"),
        ("training.updates=1.0", "training.updates", "found 1.0; must be a whole number"),
        ("training.label_smoothing=.nan", "training.label_smoothing", "found nan"),
        ("training.clip=1e999", "training.clip", "found inf; must be a finite number"),
        ("data.source_language=''", "data.source_language", "found ''; must be not empty"),
        ("data.test=test.en", "data.test", "one of the kinds source, tsv, jsonl, hub"),
        ("evaluation.bins=[5, x]", "evaluation.bins[1]", "found 'x'; must be a whole number"),
        ("evaluation.bins=[0]", "evaluation.bins[0]", "found 0; must be at least 1"),
        ("evaluation.bins=[]", "evaluation.bins", "found a list of 0; must be not empty"),
        ("evaluation.bins=[5, 5]", "evaluation.bins", "ascending order"),
        ("training.optimizer={type: adam, betas: [0, 0, 0]}", "training.optimizer.betas", "must be a list of 2"),
        # overrides that cannot be made
        ("a..b=1", "must be KEY=VALUE, as in training.updates=1000", ""),
        ("seed=[1", "line 1, column 3", "not YAML: expected ',' or ']'"),
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
    found = problems(tmp_path, f"{text}sead: 3\n", "decoding.beam_size=0")
    for problem, beginning in zip(found, beginnings, strict=True):
        assert problem.startswith(beginning)


@pytest.mark.parametrize(("key", "own"), [("training.schedule.type", True), ("tokenizer.type", False)])
def test_parts_of_ones_own_are_suggested_where_they_are_possible(tmp_path: Path, key: str, own: bool) -> None:
    [problem] = problems(tmp_path, MINIMAL, f"{key}=mine")
    assert f"{key}: 'mine' is not one of " in problem and ("NMT_IMPORT" in problem) == own


def test_a_type_that_does_not_know_the_other_keys_says_how_to_replace_the_section(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, MINIMAL, "model.attention.type=none")
    assert problem.startswith("run.yaml: model.attention.score: has no effect with 'none'")
    assert problem.endswith("to replace the whole section: --set 'model.attention={type: none}'")


def test_the_override_of_a_key_that_has_no_effect_is_named(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, MINIMAL, "model.attention={type: none}", "model.attention.score.hidden=8")
    assert problem.startswith("--set model.attention.score.hidden=8: model.attention.score: has no effect with 'none'")


def test_a_key_cannot_break_the_line_of_a_message(tmp_path: Path) -> None:
    assert problems(tmp_path, MINIMAL + '"a\\n\\e[31mb": 1\n')[0].startswith("run.yaml: a\\n\\x1b[31mb: unknown key; ")


# --- options that are valid on their own and contradict each other ----------------------------------------------------

NARROW = "model.decoder.hidden=512"  # as wide as the annotations
LUONG = "{type: luong, score: general%s}"
COVERAGE = "{type: bahdanau, score: coverage, %s}"
AFTER = LUONG % ", input_feeding: false%s"
TRANSFORMER = tuple(f"model.{part}={{type: transformer}}" for part in ("attention", "encoder", "decoder"))


def attention(options: str) -> str:
    return f"model.attention={options}"


# overrides; the keys that are reported, each with a word of what would be right
GUIDED = ("data.train.links=l", "training.guided_attention={}")
CONTRADICTIONS: list[tuple[tuple[str, ...], dict[str, str]]] = [
    # scores and widths
    ((attention("{type: luong, score: dot}"),), {"model.decoder.hidden": r"twice model.encoder.hidden \(512\)"}),
    (
        (attention("{type: luong, score: dot}"), TRANSFORMER[1], "model.decoder={hidden: 128}"),
        {"model.decoder.hidden": r"be model.encoder.hidden \(256\)"},
    ),
    ((attention(LUONG % ", heads: 3"),), {"model.attention.heads": "decoder.hidden .256.*annotations .512"}),
    # scopes, coverage, hard attention
    ((attention("{type: luong, score: location, scope: {type: local_p}}"),), {"model.attention.scope.type": "global"}),
    ((attention(COVERAGE % "heads: 2"),), {"model.attention.score.type": "heads: 1"}),
    ((attention(COVERAGE % "scope: {type: local_m}"),), {"model.attention.score.type": "global"}),
    ((attention(COVERAGE % "hard: {type: gumbel}"),), {"model.attention.score.type": "hard: null"}),
    ((attention(AFTER % ", hard: {type: gumbel}, heads: 2"),), {"model.attention.hard": "heads: 1"}),
    (
        (attention(AFTER % ", hard: {type: reinforce}, scope: {type: local_p, normalize: false}"),),
        {"model.attention.scope.normalize": "true"},
    ),
    ((attention("{type: bahdanau, hard: {type: marginal}}"),), {"model.attention.hard.type": "luong"}),
    ((attention(LUONG % ", hard: {type: marginal}"),), {"model.attention.input_feeding": "false"}),
    # encoder, decoder, Transformers
    ((attention("{type: none, context: initial_state}"),), {"model.attention.context": "directions: forward"}),
    (TRANSFORMER[:1], {"model.decoder.type": "transformer"}),
    (TRANSFORMER[2:], {"model.attention.type": "transformer"}),
    (("model.encoder={type: transformer, hidden: 512}",), {"model.encoder.hidden": "256"}),
    ((*TRANSFORMER[:2], "model.decoder={type: transformer, heads: 3}"), {"model.decoder.heads": "256"}),
    # embeddings and vocabularies
    (("model.embeddings.tie=all",), {"model.embeddings.tie": "tokenizer.shared: true"}),
    (("data.glossary={file: terms.tsv}",), {"data.glossary": "needs one vocabulary: tokenizer.shared: true"}),
    (
        ("model.embeddings.tie=all", "tokenizer={type: given, source: a.model, target: b.model}"),
        {"model.embeddings.tie": "the same file"},
    ),
    (
        (attention("{type: luong, score: dot}"), "model.decoder.readout=8", "model.embeddings.tie=all"),
        {"model.decoder.hidden": "512", "model.decoder.readout": "256", "model.embeddings.tie": "shared"},
    ),
    # data
    (("data.train={mix: {a: 1}}",), {"data.train.mix.a": "none"}),
    (("data.corpora={a: {tsv: a}}",), {"data.corpora.a": "mix"}),
    (("data.corpora={a: {tsv: a}}", "data.train={mix: {b: 1}}"), {"data.train.mix.b": "a"}),
    (("data.test={tsv: t, tag: <t>, links: l}",), {"data.test.tag": "training", "data.test.links": "training"}),
    (("data.train.links=l",), {"data.train.links": "without training.guided_attention"}),
    # training
    (("training.guided_attention={}",), {"training.guided_attention": "data.train.links"}),
    ((attention("none"), *GUIDED), {"training.guided_attention": "none"}),
    ((*GUIDED, "tokenizer.dropout=0.1"), {"tokenizer.dropout": "training.guided_attention"}),
    ((*GUIDED, "data.rough={}"), {"data.rough": "training.guided_attention"}),
    (("training.validation.metric=aer",), {"training.validation.metric": "evaluation.gold"}),
    # decoding
    (("decoding={min_length_factor: 3.0}",), {"decoding.min_length_factor": r"max_length_factor \(2\)"}),
    (("decoding.to=<2de>",), {"decoding.to": "no training corpus has the tag '<2de>'; leave it out, or give"}),
]


@pytest.mark.parametrize(("overrides", "reported"), CONTRADICTIONS, ids=[",".join(keys) for _, keys in CONTRADICTIONS])
def test_contradictions(tmp_path: Path, overrides: tuple[str, ...], reported: dict[str, str]) -> None:
    found: dict[str, str] = {}
    for line in problems(tmp_path, MINIMAL, *overrides):
        origins = ("run.yaml", *(f"--set {override}" for override in overrides))
        key, _, text = next(line[len(each) + 2 :] for each in origins if line.startswith(f"{each}: ")).partition(": ")
        found[key] = found.get(key, "") + text
    assert found.keys() == reported.keys()
    assert [key for key, right in reported.items() if not re.search(right, found[key])] == []


@pytest.mark.parametrize(
    "overrides",
    [
        TRANSFORMER,
        (TRANSFORMER[0], TRANSFORMER[2]),
        (TRANSFORMER[1],),
        (*TRANSFORMER, "model.embeddings.tie=target"),
        (attention("{type: luong, score: dot}"), TRANSFORMER[1]),
        (attention("{type: luong, score: {type: concat, hidden: 8}}"),),
        (attention("{type: luong, score: dot}"), NARROW),
        (attention("{type: none, context: initial_state}"), "model.encoder.directions=forward"),
        ("model.embeddings.tie=target", "model.decoder.readout=256"),
        ("model.embeddings.tie=all", "tokenizer.shared=true"),
        ("model.decoder.readout=8", NARROW),
        (*GUIDED, "data.reverse_source=true", "training.scheduled_sampling={}"),
        ("training.validation.metric=aer", "evaluation.gold={source: s, target: t, links: l}"),
    ],
)
def test_what_only_looks_like_a_contradiction_is_allowed(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    load(tmp_path, MINIMAL, *overrides)
