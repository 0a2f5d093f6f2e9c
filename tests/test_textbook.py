"""The verdicts on the claims of textbooks."""

import math
from pathlib import Path

import pytest

from aligner import align
from nmt.data.corpus import Pair
from nmt.experiments.schema import load_experiment
from textbook import BASELINES, SCORES, Gain, claims_of, gain, verdict

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("path", sorted(ROOT.glob("configs/experiments/textbook/*.yaml")), ids=lambda path: path.stem)
def test_every_claim_compares_systems_that_there_are(path: Path) -> None:
    experiment = load_experiment(path)
    for claim in claims_of(experiment).values():
        assert {*claim.compared} <= {*experiment.systems, *BASELINES} and claim.score in SCORES


def test_the_gain_is_that_of_students_t() -> None:
    """Differences 1, 2, 3: mean 2, deviation 1, and 4.303 / sqrt(3) = 2.484."""
    assert gain([11, 12, 13], [10, 10, 10]) == pytest.approx((2, 2 - 2.484, 2 + 2.484), abs=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 3.0, "holds"),
        (-0.1, 3.0, "not resolved"),
        (-0.9, 0.9, "does not hold"),  # no difference that counts
        (0.1, 0.9, "does not hold"),  # a gain, but too small to count
        (-3.0, -1.0, "does not hold"),  # a loss
        (-3.0, 0.9, "does not hold"),
        (-3.0, 1.0, "not resolved"),
    ],
)
def test_the_verdict_is_that_of_the_interval(low: float, high: float, expected: str) -> None:
    assert verdict(Gain((low + high) / 2, low, high), margin=1.0) == expected


def test_many_seeds_have_an_interval() -> None:
    """Of 31 differences, 15 of them 1, 15 of them -1, and one 0: the deviation is 1, and 2.042 / sqrt(31) = 0.367."""
    differences = [1.0, -1.0] * 15 + [0.0]
    assert gain(differences, [0.0] * 31) == pytest.approx((0, -0.367, 0.367), abs=1e-3)
    assert gain(2 * differences, [0.0] * 62).high < 0.27


def test_one_seed_resolves_nothing() -> None:
    alone = gain([90.0], [10.0])
    assert alone == (80.0, -math.inf, math.inf)
    assert verdict(alone, margin=1.0) == "not resolved"


def test_the_aligner_links_words_that_occur_together() -> None:
    """The other order, which the prior does not expect."""
    words, pairs = [("a", "A"), ("b", "B")], [("a b", "B A")]
    assert align([Pair(*each) for each in pairs + 5 * words])[0] == {(1, 0), (0, 1)}
