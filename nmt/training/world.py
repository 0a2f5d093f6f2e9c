"""The processes that train one model together, and how they agree.

Every process makes the same calls in the same order. What all of them need is computed once and passed on as JSON or
tensors; nothing is pickled.
"""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nmt import errors
from nmt.errors import NmtError, Stopped

Item = TypeVar("Item")
Json = Any
Wait = Callable[[], None]


class World(Protocol):
    """All processes of a run, seen from one of them."""

    @property
    def rank(self) -> int:
        """The index of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    @property
    def local_rank(self) -> int:
        """The index of this process among those of its machine, from 0."""

    @property
    def writes(self) -> bool:
        """Whether this process writes files and messages; exactly one does."""

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all processes, in place, and return it; the same bits in all of them."""

    def sum_later(self, tensor: Tensor) -> Wait:
        """Start to add up a tensor over all processes, in place; return a function that waits for the sum."""

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in at least one process: the same answer in all of them."""

    def gather(self, value: Json, *, patiently: bool = False) -> list[Json]:
        """The values of all processes, by rank. ``patiently``: wait up to a day, instead of ``training.timeout``."""

    def broadcast(self, tensor: Tensor) -> None:
        """Copy the tensor of the process that writes into that of every process."""

    def remember(self, fact: str) -> None:
        """Note a fact for this launch: also for the processes that torchrun starts after a failure."""

    def remembers(self, fact: str) -> bool:
        """Whether a fact was noted in this launch, perhaps by processes that have ended since."""


class OneProcess:
    """A world of one process."""

    rank, size, local_rank, writes = 0, 1, 0, True

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor

    def sum_later(self, tensor: Tensor) -> Wait:
        """Nothing is to be done."""
        return lambda: None

    def any(self, flag: bool) -> bool:
        """The flag itself."""
        return flag

    def gather(self, value: Json, *, patiently: bool = False) -> list[Json]:
        """The value alone."""
        return [value]

    def broadcast(self, tensor: Tensor) -> None:
        """The tensor stays."""

    def remember(self, fact: str) -> None:
        """Nobody starts this process again."""

    def remembers(self, fact: str) -> bool:
        """There was no process before."""
        return False


ONE_PROCESS = OneProcess()


def on_writer(world: World, action: Callable[[], Json]) -> Json:
    """Let the process that writes do something, while the others wait; -> its result, in all processes.

    A user's error that it raises is raised in all of them; the others say whose it is.
    """
    if world.size == 1:
        return action()
    gathered = world.gather([_outcome(action), platform.node()] if world.writes else None, patiently=True)
    rank, (outcome, host) = next((rank, each) for rank, each in enumerate(gathered) if each is not None)
    return _value(outcome, "" if world.writes else f"rank {rank} on {host}: ")


def in_turn(world: World, action: Callable[[], Item]) -> Item:
    """Do something that leaves files behind: first where files are written, then in one process of each other machine,
    then in all others, which find the files. An error is raised in all of them, and says whose it is."""
    if world.size == 1:
        return action()
    found: list[Item] = []

    def run_once() -> None:
        found.append(action())

    on_writer(world, run_once)
    for takes_part in (world.local_rank == 0, True):
        mine = _outcome(run_once) if takes_part and not found else {"value": None}
        for rank, (outcome, host) in enumerate(world.gather([mine, platform.node()], patiently=True)):
            _value(outcome, f"rank {rank} on {host}: ")
    return found[0]


def in_shares(world: World, items: Sequence[Item], action: Callable[[Sequence[Item]], Iterable[Json]]) -> list[Json]:
    """Give each process every n-th item; -> the results of all items, in order, in all processes.

    What one process raises, a user's error or ``Stopped``, is raised in all of them.
    """
    if world.size == 1:
        return list(action(items))
    outcomes = world.gather(_outcome(lambda: list(action(items[world.rank :: world.size]))))
    results: list[Json] = [None] * len(items)
    for rank, outcome in enumerate(outcomes):
        results[rank :: world.size] = _value(outcome)
    return results


def share_tensors(world: World, read: Callable[[], Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors that the writing process reads, on the CPU, in all processes; errors as by :func:`on_writer`."""
    found: dict[str, Tensor] = {}

    def describe() -> Json:
        found.update((name, tensor.cpu().contiguous()) for name, tensor in read().items())
        return {name: [str(tensor.dtype).removeprefix("torch."), *tensor.shape] for name, tensor in found.items()}

    for name, (dtype, *shape) in on_writer(world, describe).items():
        tensor = found.setdefault(name, torch.empty(shape, dtype=getattr(torch, dtype)))
        world.broadcast(tensor)
    return found


def seed_apart(world: World, seed: int, update: int) -> None:
    """Give each of several processes random numbers of its own, a function of the update alone: any number of processes
    goes on from a checkpoint."""
    if world.size > 1:
        entropy = np.random.SeedSequence((seed, update, world.rank))
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0]))


def stop_together(world: World, check_stop: Callable[[], None]) -> None:
    """Raise Stopped in all processes if ``check_stop`` raises it in one."""
    try:
        check_stop()
    except Stopped:
        asked = True
    else:
        asked = False
    if world.any(asked):
        raise Stopped


def _outcome(action: Callable[[], Json]) -> Json:
    """What an action returns or raises, as JSON."""
    try:
        return {"value": action()}
    except Stopped:
        return {"stopped": True}
    except NmtError as error:
        return {"error": type(error).__name__, "problems": list(error.problems)}


def _value(outcome: Json, where: str = "") -> Json:
    """Return the value of an outcome, or raise its error; ``where`` begins each problem."""
    if "stopped" in outcome:
        raise Stopped
    if "error" in outcome:
        kind = getattr(errors, outcome["error"], NmtError)
        raise kind(*(where + problem for problem in outcome["problems"]))
    return outcome["value"]
