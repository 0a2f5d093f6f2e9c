"""What torchrun tells each process that it starts.

This module must not import PyTorch, which is slow: wrong options must not wait for it.
"""

import os

from nmt.errors import ConfigError


def rank_and_size() -> tuple[int, int]:
    """The index of this process and the number of all, of ``RANK`` and ``WORLD_SIZE``. Raises ConfigError."""
    rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ConfigError(f"RANK={rank}, WORLD_SIZE={size}: must be a number below WORLD_SIZE, as torchrun sets them")
    return int(rank), int(size)
