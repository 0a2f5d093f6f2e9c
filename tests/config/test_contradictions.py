"""Options that contradict each other are told, all at once."""

from pathlib import Path

import pytest
import yaml

from nmt.config.decoding import describe
from nmt.config.schema import (
    Decoding,
)
from nmt.config.yaml12 import format_yaml
from tests.config.configurations import MINIMAL, load, problems

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
