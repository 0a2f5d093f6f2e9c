"""The processes that train one model together. One process is the only case so far."""

from typing import Protocol

from torch import Tensor


class World(Protocol):
    """All processes of a run, seen from one of them. Every process makes the same calls in the same order."""

    @property
    def rank(self) -> int:
        """The index of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    @property
    def writes(self) -> bool:
        """Whether this process writes files and messages; exactly one does."""

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all processes, in place, and return it."""

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in at least one process: the same answer in all of them."""


class OneProcess:
    """A world of one process."""

    rank, size, writes = 0, 1, True

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def any(self, flag: bool) -> bool:
        """The flag itself."""
        return flag


ONE_PROCESS = OneProcess()
