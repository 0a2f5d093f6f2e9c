"""The probability that a translation is good, from its log-probability per piece (Platt scaling: Platt 1999).

N are the translations, with references, that a calibration is made of.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import Floats
from nmt.files import digest, read_json

GOOD = 50.0
"""Least chrF of a good translation."""
FEWEST = 10
"""Least number of good translations, and of others."""
BINS = 10
"""Bins of the probabilities from 0 to 1, equally wide."""
Flags = npt.NDArray[np.bool_]


class Calibration(NamedTuple):
    """The log-odds that a translation is good: ``slope`` times its log-probability per piece, plus ``intercept``."""

    slope: float
    intercept: float

    def probability(self, per_piece: npt.ArrayLike) -> Floats:
        """Return the probability that translations with these log-probabilities are good; 0 for -inf."""
        return np.asarray(0.5 + 0.5 * np.tanh((self.slope * np.asarray(per_piece) + self.intercept) / 2))


def fit(per_piece: Sequence[float], good: Flags) -> Calibration:
    """Fit to log-probabilities per piece and whether each translation is good, (N,), with Platt's targets, by Newton's
    method; a step that makes the likelihood smaller is halved.

    Raises DataError if fewer than ``FEWEST`` are good, or not good, or if better translations are no more probable.
    """
    others, goods = int((~good).sum()), int(good.sum())
    if min(others, goods) < FEWEST:
        found = f"{goods:,} of {len(good):,} translations are good, with a chrF of at least {GOOD:g}"
        raise DataError(
            f"{found}; a calibration needs {FEWEST} that are and {FEWEST} that are not; train longer or use more text"
        )
    targets, values = np.where(good, (goods + 1) / (goods + 2), 1 / (others + 2)), np.asarray(per_piece)
    center, scale = values.mean(), values.std() or 1.0
    inputs = np.stack([(values - center) / scale, np.ones(len(good))], axis=1)  # (N, 2)

    def likelihood(weights: Floats) -> float:
        return float((targets * (inputs @ weights) - np.logaddexp(0, inputs @ weights)).sum())

    weights = np.zeros(2)
    for _ in range(30):
        expected = Calibration(*weights).probability(inputs[:, 0])
        curvature = (inputs * (expected * (1 - expected))[:, None]).T @ inputs
        step = np.linalg.pinv(curvature) @ inputs.T @ (targets - expected)
        while np.abs(step).max() > 1e-9 and likelihood(weights + step) < likelihood(weights):
            step = step / 2
        weights = weights + step
    slope = weights[0] / scale
    if not slope > 0:  # nor NaN
        raise DataError("good translations are not more probable than others, so there is nothing to calibrate")
    return Calibration(float(slope), float(weights[1] - slope * center))


def read_calibration(path: Path, weights: Path, search: Mapping[str, Any]) -> Calibration:
    """Read the calibration of a run with these best weights. Raises ConfigError if there is none for this search."""
    found = read_json(path) if path.exists() else {}
    known = isinstance(found, dict) and found.get("weights") == digest(weights)
    if not known or not all(isinstance(found.get(name), float) for name in Calibration._fields):
        raise ConfigError(f"{path}: no calibration of the current weights; make it: nmt-evaluate --calibrate")
    for key, value in search.items():
        if (made := found.get(key)) != value:
            remedy = f"use {made}, or calibrate again with the same options: nmt-evaluate --calibrate"
            raise ConfigError(f"{path}: was made with {key} {made}, not {value}; {remedy}")
    return Calibration(found["slope"], found["intercept"])


def reliability(probabilities: Floats, good: Flags) -> Floats:
    """Return number, mean probability and share of good ones of the translations in each bin that has any, (bins, 3),
    given the probability and quality of each, (N,)."""
    numbers = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    inside = [numbers == number for number in np.unique(numbers)]
    return np.array([[each.sum(), probabilities[each].mean(), good[each].mean()] for each in inside])


def calibration_error(bins: Floats) -> float:
    """Average the difference of probability and share over all translations (Naeini et al. 2015); 0 is perfect."""
    return float(np.average(np.abs(bins[:, 1] - bins[:, 2]), weights=bins[:, 0]))
