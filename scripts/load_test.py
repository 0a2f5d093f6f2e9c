"""Measure nmt-serve under load: requests a second and times of answers for several numbers of clients.

Each client sends one line at a time and waits for the answer. The server must be on this machine; with --model one is
started, and stopped at the end.

examples:
  scripts/load_test.py --model runs/en-fr --input test.en
  scripts/load_test.py --port 8000 --input test.en --clients 1,8,64 --requests 300 --seconds 60
"""

import argparse
import http.client
import json
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, islice
from threading import Lock

from machine import commit, machine
from nmt.cli.common import command
from nmt.cli.signature import whole
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError

HOST = "127.0.0.1"
MOST_CLIENTS = 256
LONGEST_WAIT = 120.0
"""Seconds until a client takes its request for lost."""


@dataclass
class Load:
    """What some clients met."""

    clients: int
    asked: int = 0
    seconds: float = 0.0
    """From the first request to the last answer."""
    times: list[float] = field(default_factory=list)
    """Seconds to the answer, of each request that was answered."""
    other: int = 0
    """Answers that are not those of one client alone."""

    def row(self) -> str:
        """Return a row of the table; times in milliseconds."""
        cuts = statistics.quantiles(self.times, n=100, method="inclusive")
        rate = len(self.times) / self.seconds
        lost = self.asked - len(self.times)
        return (
            f"| {self.clients} | {self.asked} | {rate:.1f} | {1000 * cuts[49]:.0f} | {1000 * cuts[98]:.0f} | {lost} "
            f"| {self.other} |"
        )


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="load_test.py", description=__doc__)
    server = arguments.add_mutually_exclusive_group(required=True)
    server.add_argument("--model", metavar="RUN", help="run directory to serve; this or --port is required")
    server.add_argument(
        "--port", type=whole(1, 65535), metavar="N", help="port of a server; this or --model is required"
    )
    arguments.add_argument("--input", required=True, metavar="FILE", help="lines to translate")
    arguments.add_argument("--clients", type=counts, default=(1, 8, 64), metavar="N,N,...", help="numbers of clients")
    arguments.add_argument(
        "--requests", type=whole(2, 100_000), default=300, metavar="N", help="requests for each number of clients"
    )
    arguments.add_argument(
        "--seconds", type=whole(1, 600), default=60, metavar="N", help="no new request is sent after this time"
    )
    return arguments


def counts(text: str) -> tuple[int, ...]:
    """Parse an argument: whole numbers from 1 to MOST_CLIENTS."""
    try:
        found = tuple(map(int, text.split(",")))
    except ValueError:
        found = (0,)
    if not all(1 <= each <= MOST_CLIENTS for each in found):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers from 1 to {MOST_CLIENTS}, such as 1,8,64")
    return found


@command(parser)
def main(arguments: argparse.Namespace) -> int:
    """Print the table; returns 1 if a request was lost or answered in another way."""
    lines = [line for line in islice(read_lines(arguments.input), arguments.requests) if line.strip()]
    if not lines:
        raise DataError(f"{arguments.input}: has no lines")
    with started(arguments.model) if arguments.model else given_port(arguments.port) as port:
        known: dict[str, str] = {}
        measure(port, lines[:20], 1, 20, arguments.seconds, {})  # a warm-up
        loads = [measure(port, lines, each, arguments.requests, arguments.seconds, known) for each in arguments.clients]
    print("| clients | requests | requests/s | p50, ms | p99, ms | lost | other answers |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    print("\n".join(load.row() for load in loads))
    print(f"\n{machine()}, commit {commit()}, {datetime.now(UTC):%Y-%m-%d}")
    return int(any(load.other or load.asked > len(load.times) for load in loads))


def measure(
    port: int, lines: Sequence[str], clients: int, requests: int, seconds: float, known: dict[str, str]
) -> Load:
    """Let ``clients`` send ``requests`` in all; ``known`` has the translations of lines so far."""
    load, lock, left = Load(clients), Lock(), islice(cycle(lines), requests)
    started = time.monotonic()

    def next_line() -> str | None:
        with lock:
            line = next(left, None) if time.monotonic() - started < seconds else None
            load.asked += line is not None
            return line

    def client(_: int) -> None:
        connection = http.client.HTTPConnection(HOST, port, timeout=LONGEST_WAIT)
        for line in iter(next_line, None):
            began = time.monotonic()
            text = ask(connection, line)
            taken = time.monotonic() - began
            with lock:
                if text is not None:
                    load.times.append(taken)
                    load.other += known.setdefault(line, text) != text
        connection.close()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    load.seconds = time.monotonic() - started
    if len(load.times) < 2:
        raise DataError(f"port {port}: fewer than two of {load.asked} requests were answered")
    return load


def ask(connection: http.client.HTTPConnection, line: str) -> str | None:
    """Return the translation of a line; None if there is no right answer."""
    try:
        connection.request("POST", "/translate", json.dumps({"text": line}), {"content-type": "application/json"})
        response = connection.getresponse()
        content = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        connection.close()
        return None
    return str(content["translations"][0]["text"]) if response.status == 200 else None


@contextmanager
def given_port(port: int) -> Iterator[int]:
    """The port of a server that somebody else has started."""
    yield port


@contextmanager
def started(run: str) -> Iterator[int]:
    """Start a server, and stop it."""
    script = "import sys; from nmt.cli.serve import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "--model", run, "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        if found is None:
            raise ConfigError(f"--model {run}: {said.strip()}")
        yield int(found[1])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    sys.exit(main())
