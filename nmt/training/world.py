"""The processes that train one model together, and how they agree; the machine that each of them computes on.

Every process makes the same calls in the same order. Shared values are computed once and passed on as JSON or tensors;
nothing is pickled. Tensors on GPUs travel by NCCL, everything else by gloo.
"""

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from nmt import errors
from nmt.config import Config
from nmt.config.schema import Kernels
from nmt.device import keep_freed_memory, out_of_memory, resolve_device, resolve_precision
from nmt.errors import ConfigError, NmtError, ProcessError, Stopped

Item = TypeVar("Item")
Json = Any
FP32 = torch.float32
PATIENCE = timedelta(hours=24)
"""How long a process waits for another that prepares data or starts late."""
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables that torchrun, or another launcher, sets for each process."""


class World:
    """All processes of a run, seen from one of them; this class itself is a world of one process."""

    rank: int = 0
    size: int = 1
    writes: bool = True
    """Whether this process writes files and messages: that of rank 0."""

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all processes, in place, and return it; the same bits in all of them."""
        return tensor

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in at least one process: the same answer in all of them."""
        return flag

    def gather(self, value: Json, *, patiently: bool = False) -> list[Json]:
        """The values of all processes, by rank. ``patiently``: wait up to a day, instead of ``training.timeout``."""
        return [value]

    def broadcast(self, tensor: Tensor) -> None:
        """Copy the tensor of rank 0 into that of every process."""


ONE_PROCESS = World()


@dataclass(frozen=True)
class Machine:
    """Where and how a run computes."""

    device: torch.device
    precision: torch.dtype = FP32
    """The type of matrix products."""
    kernels: Kernels = "auto"
    world: World = ONE_PROCESS


def set_up(config: Config, world: World = ONE_PROCESS) -> Machine:
    """Set up the process for training. ``precision: auto`` is bf16 if the device has it."""
    device = resolve_device(config.device)
    if device.type == "cpu":
        keep_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return Machine(device, resolve_precision(config.precision, device), config.kernels, world)


# --- agreement --------------------------------------------------------------------------------------------------------


def on_writer(world: World, action: Callable[[], Json]) -> Json:
    """Let the process that writes do something, while the others wait; -> its result, in all processes.

    A user's error that it raises is raised in all of them; the others say whose it is.
    """
    if world.size == 1:
        return action()
    outcome, host = world.gather([_outcome(action), platform.node()] if world.writes else None, patiently=True)[0]
    return _value(outcome, "" if world.writes else f"rank 0 on {host}: ")


def in_turn(world: World, action: Callable[[], Item]) -> Item:
    """Do something that leaves files behind: first where files are written, then in all others, which find them. An
    error is raised in all of them, and says whose it is."""
    if world.size == 1:
        return action()
    found: list[Item] = []
    for takes_part in (world.writes, True):
        mine = _outcome(lambda: found.append(action())) if takes_part and not found else {"value": None}
        for rank, (outcome, host) in enumerate(world.gather([mine, platform.node()], patiently=True)):
            _value(outcome, "" if world.writes and rank == 0 else f"rank {rank} on {host}: ")
    return found[0]


def in_shares(world: World, items: Sequence[Item], action: Callable[[Sequence[Item]], Iterable[Json]]) -> list[Json]:
    """Give each process every n-th item; -> the results of all items, in order, in all processes.

    An error of one process, a user's or ``Stopped``, is raised in all of them.
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
    continues from a checkpoint."""
    if world.size > 1:
        entropy = np.random.SeedSequence((seed, update, world.rank))
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0]))


def stop_together(world: World, check_stop: Callable[[], None]) -> None:
    """Raise Stopped in all processes if ``check_stop`` raises it in one."""
    asked = True
    with suppress(Stopped):
        check_stop()
        asked = False
    if world.any(asked):
        raise Stopped


def _outcome(action: Callable[[], Json]) -> Json:
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


# --- processes that torchrun starts -----------------------------------------------------------------------------------


@contextmanager
def joined(device: str, seconds: float) -> Iterator[World]:
    """The world that the launcher set up for this process; without a launcher, one process.

    The devices ``auto`` and ``cuda`` become the GPU of this process. Between two updates a process waits for the others
    up to ``seconds``.

    Raises ConfigError for wrong variables, a port in use or too few GPUs; ProcessError if another process is late.
    """
    if not all(name in os.environ for name in VARIABLES):
        yield ONE_PROCESS
        return
    numbers = {name: os.environ.get(name, "0") for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")}
    wrong = {name: value for name, value in numbers.items() if not value.isdecimal()}
    ConfigError.raise_if_any(f"{name}: found '{value}'; must be a whole number from 0" for name, value in wrong.items())
    world = _Processes(_own_device(device), timedelta(seconds=seconds))
    try:
        yield world
    finally:
        world.leave()


def _own_device(name: str) -> torch.device:
    """The device of this process, which becomes the current one: the only GPU that it sees, as launchers with one GPU
    a task show it, or the one with the number of its local rank."""
    device, local, count = resolve_device(name), int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if device.type == "cpu":
        return device
    if device.index is not None:
        raise ConfigError(f"device: '{name}' would be used by all processes; use cuda, and each takes its own GPU")
    if 1 < count <= local:
        problem = f"process {local} of this machine has no GPU of its own, PyTorch sees {count}"
        raise ConfigError(f"device: {problem}; start fewer with --nproc-per-node, or set device: cpu")
    return resolve_device(f"cuda:{local if count > 1 else 0}")


class _Processes(World):
    """The processes of ``torch.distributed``."""

    def __init__(self, device: torch.device, patience: timedelta) -> None:
        self.seconds = patience.total_seconds()
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.writes = self.rank == 0
        store, gpu = _store(patience), device.type == "cuda"
        with self._watched():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if gpu else "gloo",
                store=store,
                rank=self.rank,
                world_size=self.size,
                timeout=patience,
                device_id=device if gpu else None,
            )
            self._patient = distributed.new_group(backend="gloo", timeout=PATIENCE)
        # NCCL connects at the first sum: now, not in the first backward pass, which has the largest batch
        self.sum(torch.zeros(1, device=device))

    def leave(self) -> None:
        """Close the connections, and wait for the threads that serve them.

        Such a thread frees the tensors of its last call after that call has returned, for which it may need the lock
        of the interpreter. Once the interpreter ends, nobody gets that lock, and the process aborts.
        """
        distributed.destroy_process_group()
        del self._patient  # a group ends with its last reference

    def sum(self, tensor: Tensor) -> Tensor:
        with self._watched():
            distributed.all_reduce(tensor)
        return tensor

    def any(self, flag: bool) -> bool:
        return bool(self.sum(torch.tensor(int(flag))))

    def gather(self, value: Json, *, patiently: bool = False) -> list[Json]:
        # bytes of JSON, filled up to the longest
        group = self._patient if patiently else None
        mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self._watched():
            distributed.all_gather(lengths, torch.tensor([len(mine)]), group=group)
            longest = int(max(lengths))
            padded = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
            distributed.all_gather(padded, torch.cat((mine, mine.new_zeros(longest - len(mine)))), group=group)
        texts = (row[: int(length)].numpy().tobytes() for row, length in zip(padded, lengths, strict=True))
        return [json.loads(text) for text in texts]

    def broadcast(self, tensor: Tensor) -> None:
        with self._watched():
            distributed.broadcast(tensor, 0)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # gloo has no other
            raise ProcessError(f"rank {self.rank} on {platform.node()}: {self._why(str(error))}") from error

    def _why(self, problem: str) -> str:
        if out_of_memory(RuntimeError(problem)):
            return "the GPU has no memory left for NCCL; a smaller training.batch_tokens leaves it more"
        if "Duplicate GPU" in problem:
            return "several processes share one GPU; start fewer with --nproc-per-node, or set device: cpu"
        if not re.search("timed out|time ?out", problem, re.IGNORECASE):
            reason = re.sub(r"\[\S+\] *", "", problem, count=1).partition("\n")[0].partition(". ")[0]
            advice = "see its own message, or its exit code in that of torchrun (-9 is often a lack of memory)"
            return f"another process of the run has ended ({reason}); {advice}"
        return f"waited {self.seconds:g} seconds in vain for another process; a higher training.timeout waits longer"


def _store(patience: timedelta) -> Any:
    """The store of torchrun, or of the first process. Raises ConfigError."""
    try:
        return next(rendezvous("env://", timeout=patience))[0]
    except (RuntimeError, ValueError) as error:  # ValueError: a port out of range
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        reason = str(error).partition("\n")[0]
        others = "have the other ranks" if os.environ["RANK"] == "0" else "has rank 0"
        problem = f"MASTER_ADDR, MASTER_PORT: {address} cannot be reached or used ({reason})"
        remedy = "Otherwise choose another port, or start the processes with torchrun --standalone"
        raise ConfigError(f"{problem}; {others} been started? {remedy}") from None
