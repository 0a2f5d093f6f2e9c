"""Reproducible random choices."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Random choices that are the same on every machine and Python; only `Random.random` guarantees that."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included; low if high is not larger."""
        return low + int(self._random.random() * (high - low + 1)) if high > low else low

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self._random.random() * len(items))]
