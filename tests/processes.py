"""Processes that tests start, connected as torchrun connects them."""

import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, get_context
from typing import Any

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["nmt.training.train", "torch.distributed", "tests.small_run"])
KILLED = f"killed by signal {int(signal.SIGKILL)}"
Function = Callable[..., Any]


def until(condition: Callable[[], bool]) -> None:
    """Wait, for two minutes at most."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.005)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run_processes(function: Function, size: int, *arguments: Any) -> list[Any]:
    """:func:`try_processes`, for processes that all return; -> what each returns."""
    found = try_processes(function, size, *arguments)
    problems = [f"--- rank {rank}: {problem}" for rank, (problem, _) in enumerate(found) if problem]
    assert not problems, "\n".join(problems)
    return [result for _, result in found]


def try_processes(
    function: Function, size: int, *arguments: Any, seconds: float = 600.0, timeout: float = 300.0
) -> list[tuple[str, Any]]:
    """Call ``function(world, *arguments)`` in ``size`` processes; -> of each its traceback or what became of it ("": it
    returned), and what it has returned. Each waits ``timeout`` for the others; after ``seconds`` all are killed.
    """
    port, found = free_port(), [("", None)] * size
    pipes = [CONTEXT.Pipe(duplex=False) for _ in range(size)]
    calls = [(pipes[rank][1], rank, size, port, timeout, function, arguments) for rank in range(size)]
    processes = [CONTEXT.Process(target=_body, args=call, daemon=True) for call in calls]
    for process, (_, sends) in zip(processes, pipes, strict=True):
        process.start()
        sends.close()
    end = time.monotonic() + seconds
    try:
        for rank, (process, (receives, _)) in enumerate(zip(processes, pipes, strict=True)):
            if not connection.wait([receives], max(0.0, end - time.monotonic())):
                found[rank] = (f"not finished after {seconds:g} seconds", None)
                continue
            try:
                found[rank] = receives.recv()
            except EOFError:
                process.join(max(0.0, end - time.monotonic()))
                found[rank] = (f"killed by signal {-(process.exitcode or 0)}", None)
    finally:
        for process, (receives, _) in zip(processes, pipes, strict=True):
            with suppress(OSError):
                process.kill()
            process.join()
            receives.close()
    return found


def variables(rank: object, size: object, port: int) -> dict[str, str]:
    """What torchrun puts in the environment of a process."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()}


def _body(
    sends: Any, rank: int, size: int, port: int, timeout: float, function: Function, arguments: tuple[Any, ...]
) -> None:
    import torch

    from nmt.training.world import joined

    torch.set_num_threads(1)
    os.environ |= variables(rank, size, port)
    try:
        with joined("cpu", timeout) as world:
            result = function(world, *arguments)
    except BaseException:
        sends.send((traceback.format_exc(), None))
    else:
        sends.send(("", result))
