"""The parts of a report, by hand-worked cases: weights as bytes, words of pieces, the choice of sentences, settings."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from nmt.evaluation.by_length import UNTRAINED, SystemScores
from nmt.evaluation.metrics import STATISTICS, Floats, Integers, Score
from nmt.evaluation.significance import Comparison
from nmt.pages.report.making import differing_settings, findings, flat, right_to_left, samples
from nmt.pages.report.measuring import Measured, choose
from nmt.pages.report.reading import ZERO, gold_groups, grouped, quantized, restored
from nmt.pages.report.rendering import thinned
from nmt.runs.directory import RunDirectory
from tests.small_run import config

# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "code"),
    [
        (1.0, 0),
        (math.exp(-1), 64),  # 255 sqrt(1/16) = 63.75
        (math.exp(-4), 128),  # 255 sqrt(4/16) = 127.5, rounded to even
        (math.exp(-8), 180),  # 180.31
        (math.exp(-16), ZERO),
        (0.0, ZERO),
    ],
)
def test_bytes_by_hand(weight: float, code: int) -> None:
    assert quantized(np.array([[weight]])).tolist() == [[code]]


def test_weights_come_back_within_the_stated_bound() -> None:
    weights = np.concatenate([np.linspace(0, 1, 100_001), np.geomspace(1e-9, 1, 20_001)]).astype(np.float32)
    back = restored(quantized(weights))
    assert np.abs(back - weights).max() < 0.0068
    faint = weights < 0.009
    assert np.abs(back - weights)[faint].max() < 0.0018
    assert (np.diff(quantized(np.sort(weights)).astype(int)) <= 0).all(), "a larger weight has no larger byte"


@pytest.mark.parametrize(("temperature", "bound"), [(0.5, 0.03), (8, 0.1)])
def test_the_entropy_at_a_temperature_is_that_of_the_weights(temperature: float, bound: float) -> None:
    """Weights that cannot be seen one by one count: at a high temperature they are most of the entropy."""
    energies = 3.0 * np.random.default_rng(1).standard_normal((200, 60))
    weights = np.exp(energies) / np.exp(energies).sum(axis=-1, keepdims=True)

    def entropy(weights: npt.NDArray[np.float64]) -> float:
        flat = weights ** (1 / temperature)
        flat /= flat.sum(axis=-1, keepdims=True)
        return float(-(flat * np.log2(flat, where=flat > 0, out=np.zeros_like(flat))).sum(axis=-1).mean())

    assert abs(entropy(restored(quantized(weights))) - entropy(weights)) < bound


# --- words ------------------------------------------------------------------------------------------------------------


def test_pieces_are_joined_to_the_words_of_the_text() -> None:
    pieces = ["▁the", "▁swal", "low", "▁", "swims", ".", "</s>"]
    groups, words = grouped(pieces, "the swallow swims.", "words", "</s>")
    assert groups == [["▁the"], ["▁swal", "low"], ["▁", "swims", "."], ["</s>"]]
    assert words == [0, 1, 2, -1]


def test_a_translation_that_was_cut_off_has_no_end_symbol() -> None:
    assert grouped(["▁a", "▁b"], "a b", "words", "</s>") == ([["▁a"], ["▁b"]], [0, 1])
    assert grouped([], "", "words", "</s>") == ([], [])
    assert grouped(["</s>"], "", "words", "</s>") == ([["</s>"]], [-1])


def test_words_that_the_tokenizer_splits_or_joins_keep_their_indices() -> None:
    """NFKC makes two words of the one with a no-break space; the words of the raw text are what gold links count."""
    groups, words = grouped(["▁10", "▁km", "▁far"], "10\u00a0km far", "words", "</s>")
    assert [each for group in groups for each in group] == ["▁10", "▁km", "▁far"]
    assert words == sorted(words) and words[-1] == len(["10", "km", "far"]) - 1


def test_without_spaces_each_piece_is_a_group() -> None:
    groups, words = grouped(["▁我", "们", "走", "</s>"], "我们走", "characters", "</s>")
    assert groups == [["▁我"], ["们"], ["走"], ["</s>"]] and words == [0, 0, 0, -1]


def test_gold_links_of_groups_and_characters() -> None:
    assert gold_groups([(1, 0), (0, 2), (5, 1)], [0, 1, 2, -1], "x y z", "words") == [[0, 2], [1, 0]]
    links = gold_groups([(0, 1)], [0, 0, -1], "ab cd", "characters")  # two pieces of word 0; characters 2 and 3
    assert links == [[0, 2], [0, 3], [1, 2], [1, 3]]


def test_most_letters_decide_the_direction() -> None:
    assert right_to_left(["שלום world", "עולם גדול"]) and right_to_left(["مرحبا"])
    assert not right_to_left(["hello שלום"]) and not right_to_left(["123"]) and not right_to_left([])


# --- the choice of sentences ------------------------------------------------------------------------------------------


def measured(
    name: str, bleu: Sequence[float] | Floats = (), score: float = 9.0, failing: Sequence[int] = ()
) -> Measured:
    scores = SystemScores(name, {"bleu": Score(score, "")}, (), np.zeros((1, 0, STATISTICS), np.int64))
    fails = [k in failing for k in range(len(bleu))]
    return Measured([], scores, np.array(bleu, np.float64), fails, np.zeros((0, 0)), None)


def bins_of(lengths: Integers, size: int = 10) -> list[Integers]:
    return [np.flatnonzero((lengths - 1) // size == k) for k in range(int(lengths.max() - 1) // size + 1)]


def test_the_choice_is_reproducible_whole_and_of_all_lengths() -> None:
    generator = np.random.default_rng(7)
    lengths = generator.integers(1, 61, 600)
    several = [measured(name, generator.uniform(0, 100, 600), failing=range(0, 600, 20)) for name in "abc"]
    first = choose(200, lengths, bins_of(lengths), several)
    assert first == choose(200, lengths, bins_of(lengths), several)
    assert len(first.indices) == len(set(first.indices)) == 200 and first.indices == sorted(first.indices)
    for members in bins_of(lengths):
        assert len(set(members.tolist()) & set(first.indices)) >= 100 // 6
    assert first.described.startswith("200 of 600 sentences: 100 at random, as many of each length (seed 1), and 100 ")


def test_what_tells_the_most_is_there() -> None:
    """Of 100 sentences 14 are shown, seven of them for a reason: failures, the largest differences, worst and best."""
    one, other = np.full(100, 50.0), np.full(100, 50.0)
    one[11], one[13] = 1.0, 99.0
    one[15], other[15] = 95.0, 10.0
    one[17] = other[17] = 0.5
    chosen = choose(14, np.full(100, 5), [np.arange(100)], [measured("a", one), measured("b", other, failing=[16])])
    assert {13, 15, 16, 17} <= set(chosen.indices)


def test_all_are_shown_if_there_are_no_more() -> None:
    chosen = choose(200, np.array([3, 0, 5]), [np.arange(3)], [measured("a", np.zeros(3))])
    assert chosen.indices == [0, 2] and chosen.described == "all 2 sentences that are not blank"
    blank = choose(2, np.array([3, 0, 5, 4]), [np.arange(4)], [measured("a", np.zeros(4), failing=[1])])
    assert 1 not in blank.indices and len(blank.indices) == 2


# --- settings, history ------------------------------------------------------------------------------------------------


def test_settings_that_differ(tmp_path: Path) -> None:
    none, luong = config(tmp_path, "none"), config(tmp_path, "luong", output="other")
    one, other = differing_settings([none, luong])
    assert one.keys() == other.keys() and all(one[key] != other[key] for key in one)
    assert (one["model.attention.type"], other["model.attention.type"]) == ("none", "luong")
    assert one["model.attention.score.type"] == "" and other["model.attention.score.type"] == "general"
    assert "output" not in one
    assert differing_settings([none, none]) == [{}, {}]
    assert flat({"a": {"b": None, "c": [1, 2]}, "d": True}) == {"a.b": "", "a.c": "[1, 2]", "d": "true"}


def test_thinning_keeps_both_ends() -> None:
    assert thinned(range(10), 4) == [0, 3, 6, 9] and thinned(range(3), 4) == [0, 1, 2]
    assert thinned(range(1000), 300)[0] == 0 and thinned(range(1000), 300)[-1] == 999


def test_samples_of_a_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert samples(run) == []
    lines = [{"source": "a", "reference": "A", "hypothesis": "B", "score": 1.0}]
    text = "".join(f"{json.dumps({'step': step, 'lines': lines})}\n" for step in (2, 4)) + '{"step": 6, "li'
    (tmp_path / "samples.jsonl").write_text(text, "utf-8")
    assert samples(run) == [{"source": "a", "reference": "A", "steps": [(2, "B"), (4, "B")]}]


@pytest.mark.parametrize(
    ("p", "said"),
    [(0.01, "two is better than one by 3.0 BLEU (95% interval 1.0 to 5.0)."), (0.3, "chance (p = 0.30).")],
)
def test_the_overview_says_which_system_is_better(p: float, said: str) -> None:
    systems = [measured(name, score=score) for name, score in (("one", 30), ("two", 33), ("bad", 0.6), ("three", 20))]
    compared = [Comparison("one", other, 9, -3.0, -5.0, -1.0, p) for other in ("two", "three")]
    better, untrained = findings(systems, compared)
    assert better.endswith(said) and untrained.startswith("bad: ") and UNTRAINED in untrained
    assert findings(systems[:1], []) == []
