"""The verdicts on the claims of textbooks."""

import math

import pytest

from textbook import Gain, gain, names_recalled, verdict


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


def test_one_seed_resolves_nothing() -> None:
    alone = gain([90.0], [10.0])
    assert alone == (80.0, -math.inf, math.inf)
    assert verdict(alone, margin=1.0) == "not resolved"


def test_names_are_recalled() -> None:
    """Of Marie Colin, 887 and Rome, the translation has 887 and one of two occurrences of Rome; the first words do not
    count."""
    reference = "Hier Marie Colin a vu 887 chats à Rome, Rome."
    assert names_recalled(..., ["Marie voit 887 chats à Rome."], [reference]) == pytest.approx(100 * 2 / 5)  # type: ignore[arg-type]
