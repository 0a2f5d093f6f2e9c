"""Minimum Bayes risk decoding: of many samples, the one that is most like the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.errors import ConfigError

if TYPE_CHECKING:  # sacreBLEU is slow to import, and few translate like that
    from nmt.evaluation.utility import Utility


@dataclass(frozen=True)
class MinimumBayesRisk:
    """Choose the sample with the greatest expected utility, where the samples stand for the model's distribution.

    Eikema & Aziz (2020), eq. 7: argmax over samples h of the mean of u(h, r) over samples r. Here r runs over the
    *other* samples. Raises ConfigError for fewer than one sample.
    """

    samples: int
    utility: "Utility"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ConfigError(f"minimum Bayes risk: {self.samples} samples; must be at least 1")

    def choice(self, texts: Sequence[str]) -> int:
        """Return the place of the best of the samples; of equally good ones the first."""
        from nmt.evaluation.utility import expected_utility  # noqa: PLC0415

        return int(expected_utility(texts, self.utility).argmax())
