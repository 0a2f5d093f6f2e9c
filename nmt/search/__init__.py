"""Search for translations: pure steps over small records, blind to the network behind them."""

from nmt.search.beam import beam_search
from nmt.search.ensemble import Ensemble, together
from nmt.search.greedy import Sampling, greedy_search, sample_search
from nmt.search.ranking import Coverage
from nmt.search.rules import LeastLength, NoRepeatedNgram, Prefixes, Rule, obeying
from nmt.search.types import Hypothesis, Limits, Searchable, StepModel, StepState

__all__ = [
    "Coverage",
    "Ensemble",
    "Hypothesis",
    "LeastLength",
    "Limits",
    "NoRepeatedNgram",
    "Prefixes",
    "Rule",
    "Sampling",
    "Searchable",
    "StepModel",
    "StepState",
    "beam_search",
    "greedy_search",
    "obeying",
    "sample_search",
    "together",
]
