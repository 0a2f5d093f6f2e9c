"""What the page of the made-up report shows, and the same numbers in NumPy."""

from urllib.parse import parse_qs

import numpy as np
import numpy.typing as npt

from nmt.pages.report.rendering import Sentence
from tests.browser import Page
from tests.report_page.made_up import fake_report, unpacked

REPORT = fake_report()
STATES = (
    "#overview",
    "#length",
    "#attention=100&system=luong-64&step=4",
    "#attention=100&unit=pieces&view=layer+1+head+2&system=%3Ci%3Eheads%3C%2Fi%3E+%26+co&temperature=0.5",
    "#attention=250&system=vector-32",
    "#sentences&against=vector-64&system=luong-64&sort=gain",
    "#training",
    "#film=1&update=400",
    "#film=3&unit=pieces",
)


def sentence(number: int) -> Sentence:
    return next(each for each in REPORT.sentences if each.id == number)


def matrix(number: int, system: str, view: str, temperature: float = 1.0) -> npt.NDArray[np.float64]:
    """The attention between pieces, (T, S), in NumPy."""
    reading = sentence(number).systems[system]
    with np.errstate(divide="ignore"):
        energies = np.log(unpacked(reading.attention[view], len(reading.chosen))) / temperature
    weights = np.exp(energies - energies.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def of_words(weights: npt.NDArray[np.float64], number: int, system: str) -> npt.NDArray[np.float64]:
    """Sums over the pieces of a source word, means over those of a target word."""
    reading = sentence(number).systems[system]
    columns = np.array([k for k, word in enumerate(reading.source_words) for _ in word])
    rows = np.array([k for k, word in enumerate(reading.target_words) for _ in word])
    across, down = range(columns.max() + 1), range(rows.max() + 1)
    means = [[weights[rows == j][:, columns == i].sum(axis=1).mean() for i in across] for j in down]
    return np.array(means)


def painted(page: Page, rows: int) -> npt.NDArray[np.float64]:
    return np.array(page.weights("table.heat tbody td")).reshape(rows, -1)


def state(page: Page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(page.fragment, keep_blank_values=True).items()}
