"""The parts of a report, by hand-worked cases: weights as bytes, words of pieces, the choice of sentences, settings."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmt.evaluation.by_length import UNTRAINED, SystemScores
from nmt.evaluation.metrics import STATISTICS, Integers, Score
from nmt.evaluation.significance import Comparison
from nmt.evaluation.writing import Unit
from nmt.pages.report.making import differing_settings, findings, right_to_left, samples
from nmt.pages.report.reading import choose, gold_groups, grouped, packed
from nmt.pages.report.rendering import contents
from nmt.runs.directory import RunDirectory
from tests.report_page.made_up import fake_report, unpacked
from tests.small_run import config

# --- weights ----------------------------------------------------------------------------------------------------------


def test_bytes_by_hand() -> None:
    weights = np.exp([0, -1, -4, -8, -16, -np.inf])
    codes = [0, 64, 128, 180, 255, 255]  # 255 sqrt(1 / 16) = 63.75, 255 sqrt(4 / 16) = 127.5, 180.31
    assert list(base64.b64decode(packed(weights[None]))) == codes


def test_what_systems_share_is_in_the_page_once() -> None:
    one = {"weights.safetensors": b"w", "source.model": b"en", "target.model": b"fr"}
    engines = {"one": one, "other": one | {"weights.safetensors": b"v"}}
    text, *parts = contents(replace(fake_report(), engines={**engines, "refused": "no engine"}))
    found = json.loads(text)["engines"]
    assert found.pop("refused") == "no engine" and sorted(parts) == [b"en", b"fr", b"v", b"w"]
    for name, files in found.items():
        assert {file: parts[number - 1] for file, number in files.items()} == engines[name]


def test_weights_come_back_within_the_stated_bound() -> None:
    weights = np.concatenate([np.linspace(0, 1, 100_001), np.geomspace(1e-9, 1, 20_001)]).astype(np.float32)
    off = np.abs(unpacked(packed(weights[None]), 1)[0] - weights)
    assert off.max() < 0.0068 and off[weights < 0.009].max() < 0.0018


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "text", "unit", "groups", "words"),
    [
        ("▁the ▁swal low ▁ swims . </s>", "the swallow swims.", "words", ["▁the", "▁swal low", "▁ swims .", "</s>"],
         [0, 1, 2, -1]),
        ("▁a ▁b", "a b", "words", ["▁a", "▁b"], [0, 1]),  # cut off
        ("", "", "words", [], []),
        ("</s>", "", "words", ["</s>"], [-1]),
        ("▁10 ▁km ▁far", "10\u00a0km far", "words", ["▁10", "▁km", "▁far"], [0, 1, 2]),
        ("▁我 们 走 </s>", "我们走", "characters", ["▁我", "们", "走", "</s>"], [0, 0, 0, -1]),
    ],
)  # fmt: skip
def test_pieces_are_joined_to_words(pieces: str, text: str, unit: Unit, groups: list[str], words: list[int]) -> None:
    assert grouped(pieces.split(), text, unit) == ([group.split() for group in groups], words)


def test_gold_links_of_groups_and_characters() -> None:
    assert gold_groups([(1, 0), (0, 2), (5, 1)], [0, 1, 2, -1], "x y z", "words") == [[0, 2], [1, 0]]
    links = gold_groups([(0, 1)], [0, 0, -1], "ab cd", "characters")  # two pieces of word 0; characters 2 and 3
    assert links == [[0, 2], [0, 3], [1, 2], [1, 3]]


def test_most_letters_decide_the_direction() -> None:
    assert right_to_left(["שלום world", "עולם גדול"]) and right_to_left(["مرحبا"])
    assert not right_to_left(["hello שלום"]) and not right_to_left(["123"]) and not right_to_left([])


# --- the choice of sentences ------------------------------------------------------------------------------------------


def bins_of(lengths: Integers) -> list[Integers]:
    return [np.flatnonzero((lengths - 1) // 10 == k) for k in range(int(lengths.max() - 1) // 10 + 1)]


def test_the_choice_is_reproducible_whole_and_of_all_lengths() -> None:
    generator = np.random.default_rng(7)
    lengths = generator.integers(1, 61, 600)
    bleu, failing = generator.uniform(0, 100, (3, 600)), np.arange(600) % 20 == 0
    first, described = choose(200, lengths, bins_of(lengths), bleu, failing)
    assert (first, described) == choose(200, lengths, bins_of(lengths), bleu, failing)
    assert len(first) == len(set(first)) == 200 and first == sorted(first)
    for members in bins_of(lengths):
        assert len(set(members.tolist()) & set(first)) >= 100 // 6
    assert described.startswith("200 of 600 sentences: 100 at random, as many of each length (seed 1), and 100 ")


def test_what_tells_the_most_is_there() -> None:
    """Of 100 sentences eight are shown, four of them for a reason: what fails, differs most, is the worst, the best."""
    bleu = np.full((2, 100), 50.0)
    bleu[:, 11:16] = [[10, 0.5, 1, 99, 98], [90, 0.5, 1, 99, 98]]
    chosen, _ = choose(8, np.full(100, 5), [np.arange(100)], bleu, np.arange(100) == 17)
    assert {17, 11, 12, 14} <= set(chosen)


def test_all_are_shown_if_there_are_no_more() -> None:
    found = choose(200, np.array([3, 0, 5]), [np.arange(3)], np.zeros((1, 3)), np.zeros(3, bool))
    assert found == ([0, 2], "all 2 sentences that are not blank")
    chosen, _ = choose(2, np.array([3, 0, 5, 4]), [np.arange(4)], np.zeros((1, 4)), np.arange(4) == 1)
    assert 1 not in chosen and len(chosen) == 2


# --- settings, history ------------------------------------------------------------------------------------------------


def test_settings_that_differ(tmp_path: Path) -> None:
    none, luong = config(tmp_path, "none"), config(tmp_path, "luong", output="other")
    one, other = differing_settings([none, luong])
    assert one.keys() == other.keys() and all(one[key] != other[key] for key in one)
    assert (one["model.attention.type"], other["model.attention.type"]) == ("none", "luong")
    assert one["model.attention.score.type"] == "" and other["model.attention.score.type"] == "general"
    assert "output" not in one
    assert differing_settings([none, none]) == [{}, {}]
    bins = none.model_copy(update={"evaluation": none.evaluation.model_copy(update={"bins": (5, 9)})})
    assert differing_settings([none, bins])[1] == {"evaluation.bins": "[5, 9]"}


def test_samples_of_a_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert samples(run) == []
    lines = [{"source": "a", "reference": "A", "hypothesis": "B", "score": 1.0}]
    text = "".join(f"{json.dumps({'step': step, 'lines': lines})}\n" for step in range(48))
    text += '{"step": 48, "li'
    (tmp_path / "samples.jsonl").write_text(text, "utf-8")
    steps = [(step, "B") for step in [*range(0, 47, 2), 47]]
    assert samples(run) == [{"source": "a", "reference": "A", "steps": steps}]


@pytest.mark.parametrize(
    ("compared", "said"),
    [
        (Comparison("one", "two", 9, -3.0, -5.0, -1.0, 0.01), "two is better than one {}."),
        (Comparison("two", "one", 9, 3.0, 1.0, 5.0, 0.3), "two scores above one {}, which may be chance (p = 0.30)."),
        (
            Comparison("two", "one", 9, 3.0, 1.0, 5.0, None),
            "two scores above one {}; the sentences are too few for a test.",
        ),
    ],
)
def test_the_overview_says_which_system_is_better(compared: Comparison, said: str) -> None:
    systems = [
        SystemScores(name, {"bleu": Score(bleu, "")}, (), np.zeros((1, 0, STATISTICS), np.int64))
        for name, bleu in (("one", 30), ("two", 33), ("bad", 0.1), ("three", 20), ("too", 0.6))
    ]
    better, untrained = findings(systems, [compared, replace(compared, system="one", other="three")])
    assert better == said.format("by 3.0 BLEU (95% interval 1.0 to 5.0)")
    assert untrained.startswith("bad, too: ") and UNTRAINED in untrained
    assert findings(systems[:1], []) == []
