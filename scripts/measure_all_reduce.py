"""Measure the all-reduce of gloo between processes of this machine, and fit bandwidth and latency to it.

examples:
  python scripts/measure_all_reduce.py
  python scripts/measure_all_reduce.py --ranks 2 4 --json link.json
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.scaling import Link, fit_link
from machine import commit, machine
from nmt.cli.common import command, say
from nmt.cli.files import refuse_unwritable
from nmt.cli.options import whole
from nmt.errors import DataError
from nmt.plots.files import markdown

SIZES = tuple(4**power for power in range(6, 14))
"""Bytes: 4 KiB to 64 MiB."""
WARM = 3
"""All-reduces of each size that are not measured."""
PATIENCE = timedelta(seconds=60)
"""Time limit of an operation between the processes."""


def parser() -> argparse.ArgumentParser:
    """Define the options."""
    arguments = argparse.ArgumentParser(prog="measure_all_reduce.py", description=__doc__)
    arguments.add_argument(
        "--ranks", type=whole(2), nargs="+", default=[2, 4], metavar="N", help="numbers of processes (default: 2 4)"
    )
    arguments.add_argument(
        "--repeats", type=whole(1), default=15, metavar="N", help="all-reduces of each size, whose median is taken"
    )
    arguments.add_argument("--json", metavar="FILE", help="also write the measurements to FILE, as JSON")
    return arguments


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def measure(ranks: int, sizes: Sequence[int] = SIZES, repeats: int = 15) -> list[float]:
    """Median seconds of an all-reduce of each size in bytes, between new processes with one thread each.

    Raises DataError if a process fails.
    """
    context = mp.get_context("spawn")
    answers, port = context.Queue(), free_port()
    processes = [
        context.Process(target=_rank, args=(rank, ranks, port, tuple(sizes), repeats, answers)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    try:
        while True:
            try:
                found: list[float] = answers.get(timeout=1)
                return found
            except Empty:
                failed = [str(rank) for rank, process in enumerate(processes) if process.exitcode]
                if failed:
                    raise DataError(f"rank {', '.join(failed)} of {ranks} failed; its traceback is above") from None
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()


def _rank(
    rank: int, ranks: int, port: int, sizes: Sequence[int], repeats: int, answers: "mp.Queue[list[float]]"
) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks, timeout=PATIENCE)
    medians = []
    for size in sizes:
        tensor, times = torch.zeros(size // 4), []
        for _ in range(WARM + repeats):
            dist.barrier()
            started = time.perf_counter()
            dist.all_reduce(tensor)
            times.append(time.perf_counter() - started)
        medians.append(statistics.median(times[WARM:]))
    if rank == 0:
        answers.put(medians)
    dist.destroy_process_group()


def rows(ranks: int, sizes: Sequence[int], seconds: Sequence[float], link: Link) -> list[dict[str, str]]:
    """A line for each size, measured and fitted."""
    return [
        {
            "ranks": str(ranks),
            "bytes": f"{size:,}",
            "measured, ms": f"{1e3 * taken:.3f}",
            "fitted, ms": f"{1e3 * link.all_reduce(ranks, size):.3f}",
        }
        for size, taken in zip(sizes, seconds, strict=True)
    ]


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Print the table and the fitted links; write them as JSON."""
    if arguments.json is not None:
        refuse_unwritable(arguments.json)
    about = {"machine": machine(), "commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "backend": "gloo"}
    links, table = {}, []
    for ranks in arguments.ranks:
        seconds = measure(ranks, SIZES, arguments.repeats)
        links[ranks] = fit_link(ranks, SIZES, seconds)
        table += rows(ranks, SIZES, seconds, links[ranks])
        link = links[ranks]
        say(f"{ranks} ranks: {link.bandwidth / 1e9:.2f} GB/s, {1e6 * link.latency:.0f} µs a message")
    print(markdown(table))
    if arguments.json is not None:
        facts = about | {"links": {str(ranks): asdict(link) for ranks, link in links.items()}, "measured": table}
        Path(arguments.json).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
