"""Search for translations: pure steps over small records, independent of the network."""

from nmt.search.beam import beam_search
from nmt.search.greedy import Sampling, greedy_search, sample_search
from nmt.search.interface import Ensemble, Hypothesis, Limits, Searchable, penalty, together
from nmt.search.rules import Once, Ruled

__all__ = [
    "Ensemble",
    "Hypothesis",
    "Limits",
    "Once",
    "Ruled",
    "Sampling",
    "Searchable",
    "beam_search",
    "greedy_search",
    "penalty",
    "sample_search",
    "together",
]
