"""Fast twins of a network's parts, looked up by the type of each part.

A part whose type is in no table runs as it is. No other package knows which twins there are.
"""

from nmt.fast.search_network import PlainSearch, search
from nmt.fast.teacher_forcing import training

__all__ = ["PlainSearch", "search", "training"]
