"""The length at which half of the best BLEU is lost, by hand."""

import pytest

from nmt.evaluation.half_length import CurvePoint, half_length


def curve(*scores: float) -> list[CurvePoint]:
    """Bins of ten words, with the centers 5.5, 15.5, 25.5, ..."""
    return [CurvePoint(10 * number + 1, 10 * number + 10, bleu) for number, bleu in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "length"),
    [
        ((40.0, 10.0), 5.5 + 10 * 20 / 30),  # from 40 at 5.5 to 10 at 15.5: 20 after two thirds of the way
        ((40.0, 20.0, 0.0), 15.5),  # half, exactly at a center
        ((10.0, 30.0, 25.0, 5.0), 25.5 + 10 * (25 - 15) / (25 - 5)),  # the best bin need not be the first
        ((1.0, 30.0, 15.0), 25.5),  # less than half before the best bin is not a loss
        ((40.0, 10.0, 30.0, 10.0), 5.5 + 10 * 20 / 30),  # the first fall counts
        ((30.0, 30.0, 10.0), 15.5 + 10 * 15 / 20),  # two best bins
        ((20.0, 0.0), 10.5),
        ((40.0, 30.0, 21.0), None),  # never within the test
        ((10.0, 20.0), None),
        ((30.0,), None),
        ((0.0, 0.0), None),
        ((), None),
    ],
)
def test_half_length_by_hand(scores: tuple[float, ...], length: float | None) -> None:
    found = half_length(curve(*scores))
    assert found == (None if length is None else pytest.approx(length))


def test_bins_of_other_widths_and_gaps() -> None:
    """Centers 3 and 20, and nothing between: half of 8 lies half of the way."""
    assert half_length([CurvePoint(1, 5, 8.0), CurvePoint(16, 24, 0.0)]) == pytest.approx(3 + 17 / 2)


def test_the_scale_of_bleu_does_not_matter() -> None:
    scores = (31.0, 33.0, 20.0, 11.0, 4.0)
    assert half_length(curve(*scores)) == pytest.approx(half_length(curve(*(3 * each for each in scores))))
