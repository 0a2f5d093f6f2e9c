"""Search for translations: pure steps over small records, independent of the network."""

from nmt.search.greedy import Sampling

__all__ = ["Sampling"]
