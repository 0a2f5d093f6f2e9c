"""A world of processes that torchrun starts, by ``torch.distributed``.

Tensors on GPUs travel by NCCL, everything else by gloo.
"""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from nmt.device import out_of_memory, resolve_device
from nmt.errors import ConfigError, ProcessError
from nmt.training.world import ONE_PROCESS, Json, Wait, World

PATIENCE = timedelta(hours=24)
"""How long a process waits for another that prepares data or starts late."""
SIGN_SECONDS = 5.0
"""Seconds in which the other processes report that they are waiting, too."""
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun, or another launcher, sets for each process."""


def launched() -> bool:
    """Whether torchrun, or a launcher with its variables, has started this process."""
    return all(name in os.environ for name in VARIABLES)


@contextmanager
def joined(device: str, seconds: float) -> Iterator[World]:
    """The world that this process was started in; one process where nobody else was.

    Args:
        device: as the configuration names it; ``auto`` and ``cuda`` become the GPU of this process.
        seconds: how long a process waits for the others between two updates.

    Raises ConfigError if the launcher's variables are wrong, the port is in use or there are too few GPUs; ProcessError
    if another process does not come.
    """
    if not launched():
        yield ONE_PROCESS
        return
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
        raise ConfigError(f"device: '{name}' would be used by all processes; use cuda, of which each takes its own")
    if 1 < count <= local:
        raise ConfigError(
            f"device: process {local} of this machine has no GPU of its own, PyTorch sees {count}; "
            "start fewer with --nproc-per-node, or set device: cpu"
        )
    return resolve_device(f"cuda:{local if count > 1 else 0}")


def _rank_and_size() -> tuple[int, int]:
    """The index of this process and the number of all, of ``RANK`` and ``WORLD_SIZE``. Raises ConfigError."""
    rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ConfigError(f"RANK={rank}, WORLD_SIZE={size}: must be a number below WORLD_SIZE, as torchrun sets them")
    return int(rank), int(size)


class _Processes:
    """The processes of ``torch.distributed``; see ``World``."""

    def __init__(self, device: torch.device, patience: timedelta) -> None:
        self.seconds = patience.total_seconds()
        self.rank, self.size = _rank_and_size()
        self._launch = _store(self.seconds)
        self._store = _meet(self._launch, self.rank, self.size, self.seconds)
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.writes = self.rank == 0
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        with self._watched():
            if device.type == "cuda":
                self._refuse_shared(device)
            distributed.init_process_group(
                backend,
                store=self._store,
                rank=self.rank,
                world_size=self.size,
                timeout=patience,
                device_id=device if device.type == "cuda" else None,
            )
            # sums of gradients, which go on during other calls, do not get between them
            self._later = distributed.new_group(backend=backend, timeout=patience)
            self._patient = distributed.new_group(backend="gloo", timeout=PATIENCE)
        # NCCL connects at the first sum of a group: now, not in the first backward pass, which has the largest batch
        self.sum(torch.zeros(1, device=device))
        self.sum_later(torch.zeros(1, device=device))()

    def _refuse_shared(self, device: torch.device) -> None:
        """Raise ConfigError if another process has the same GPU, with which NCCL cannot connect."""
        mine = str(torch.cuda.get_device_properties(device).uuid)
        self._store.set(f"gpu/{self.rank}", mine)
        owners = [rank for rank in range(self.size) if self._store.get(f"gpu/{rank}").decode() == mine]
        if len(owners) > 1:
            raise ConfigError(
                f"device: ranks {', '.join(map(str, owners))} see the same GPU only; start one process for each GPU "
                "(--nproc-per-node), or set device: cpu"
            )

    def leave(self) -> None:
        """Close the connections, and wait for the threads that serve them.

        Such a thread frees the tensors of its last call after that call has returned, for which it may need the lock
        of the interpreter. Once the interpreter ends, nobody gets that lock, and the process aborts.
        """
        distributed.destroy_process_group()
        del self._later, self._patient  # a group ends with its last reference

    def sum(self, tensor: Tensor) -> Tensor:
        """See ``World``."""
        with self._watched():
            distributed.all_reduce(tensor)
        return tensor

    def sum_later(self, tensor: Tensor) -> Wait:
        """See ``World``."""
        with self._watched():
            work = distributed.all_reduce(tensor, group=self._later, async_op=True)

        def wait() -> None:
            with self._watched():
                work.wait()

        return wait

    def any(self, flag: bool) -> bool:
        """See ``World``."""
        return bool(self.sum(torch.tensor(int(flag))))

    def gather(self, value: Json, *, patiently: bool = False) -> list[Json]:
        """See ``World``: as bytes of JSON, filled up to the longest."""
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
        """See ``World``."""
        with self._watched():
            distributed.broadcast(tensor, 0)

    def remember(self, fact: str) -> None:
        """See ``World``: in the store of torchrun, which outlives these processes."""
        self._launch.set(f"fact/{fact}", "1")

    def remembers(self, fact: str) -> bool:
        """See ``World``."""
        return bool(self._launch.check([f"fact/{fact}"]))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Say which process is missing."""
        try:
            yield
        except RuntimeError as error:  # gloo has no other
            raise ProcessError(self._why(str(error))) from error

    def _why(self, problem: str) -> str:
        me = f"rank {self.rank} on {socket.gethostname()}"
        if out_of_memory(RuntimeError(problem)):
            return f"{me}: the GPU has no memory left for NCCL; a smaller training.batch_tokens leaves it more"
        if "timed out waiting" not in problem.lower():
            reason = re.sub(r"\[\S+\] *", "", problem, count=1).partition("\n")[0].partition(". ")[0]
            return (
                f"{me}: another process of the run has ended ({reason}); its own message says why, and without one the "
                "line of torchrun that has its exit code (-9 is often a lack of memory)"
            )
        silent = ", ".join(f"rank {rank}" for rank in self._silent()) or "the others"
        return (
            f"{me}: waited {self.seconds:g} seconds in vain for {silent}; is the process or its machine stuck? "
            "A higher training.timeout allows for slower ones"
        )

    def _silent(self) -> list[int]:
        """The processes that are not waiting as this one is: each of those leaves a sign."""
        self._store.set(f"waited/{self.rank}", "1")
        end = time.monotonic() + SIGN_SECONDS
        silent = list(range(self.size))
        while silent and time.monotonic() < end:
            silent = [rank for rank in silent if not self._store.check([f"waited/{rank}"])]
            time.sleep(0.1)
        return silent


def _meet(store: Any, rank: int, size: int, seconds: float) -> Any:
    """A part of the store in which the processes of this start find each other. Raises ProcessError.

    torchrun keeps its store when it starts the processes again, and with it the addresses of those that have ended. So
    the first process of each start opens a round with a name of its own, and closes it when all have come.
    """
    me, leader = uuid4().hex, uuid4().hex
    if rank == 0:
        store.set("leader", leader)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if store.check(["leader"]):
            leader = store.get("leader").decode()  # of an earlier start, until the first process has set its own
            store.set(f"{leader}/{rank}", me)
        if rank == 0 and store.check([f"{leader}/{each}" for each in range(size)]):
            store.set(leader, " ".join(store.get(f"{leader}/{each}").decode() for each in range(size)))
        if store.check([leader]) and me in store.get(leader).decode().split():
            return distributed.PrefixStore(leader, store)  # type: ignore[attr-defined]
        time.sleep(0.05)
    missing = [f"rank {each}" for each in range(size) if not store.check([f"{leader}/{each}"])]
    raise ProcessError(f"rank {rank}: waited {seconds:g} seconds in vain for {', '.join(missing)} to start")


def _store(seconds: float) -> Any:
    """The store of torchrun, or of the first process. Raises ConfigError."""
    try:
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
    except ValueError as error:
        raise ConfigError(f"torch.distributed: {error}; start the processes with torchrun") from None
    except RuntimeError as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        reason = str(error).partition("\n")[0]
        others = "have the other ranks" if os.environ["RANK"] == "0" else "has rank 0"
        raise ConfigError(
            f"MASTER_ADDR, MASTER_PORT: {address} cannot be reached or used ({reason}); {others} been started? "
            "Otherwise choose another port, or start the processes with torchrun --standalone"
        ) from None
    return store
