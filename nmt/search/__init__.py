"""Search for translations: pure steps over small records, blind to the network behind them."""

from nmt.search.beam import beam_search
from nmt.search.greedy import greedy_search
from nmt.search.sampling import Sampling, sample_search
from nmt.search.types import Hypothesis, Limits, Searchable, StepModel, StepState

__all__ = [
    "Hypothesis",
    "Limits",
    "Sampling",
    "Searchable",
    "StepModel",
    "StepState",
    "beam_search",
    "greedy_search",
    "sample_search",
]
