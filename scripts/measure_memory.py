"""Measure time and resident memory of encoding a corpus, of starting on it, and of reading an epoch of it.

The corpus is encoded once; memory is read from /proc while it runs, so that the
peak up to each size is known. Epochs are read of the first pairs of the result. A cache that already holds a corpus is
refused. The table and the figure of docs/scaling.md come from here.

examples:
  python scripts/measure_memory.py --config big.yaml --cache /tmp/big-cache --output docs/figures/memory
  python scripts/measure_memory.py --config big.yaml --cache /tmp/big-cache --sizes 100000 200000 --output memory
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from matplotlib.figure import Figure

from machine import commit, machine
from nmt.cli.common import command, say
from nmt.cli.signature import whole
from nmt.config import load_config
from nmt.errors import DataError
from nmt.messages import HIDDEN, Step, shown_on
from nmt.plots.files import markdown, numbers, table, write_all
from nmt.plots.style import legend_above, png, series, style

SIZES = (500_000, 1_000_000, 2_000_000, 5_000_000)
LIMIT = 1536
"""MiB beyond the model that no process may exceed."""
MOST_BATCHES = 4_000
"""Batches of an epoch that are read, drawn from all of the corpus."""
EVERY = 0.05
"""Seconds between two readings of the memory."""
ANONYMOUS, MAPPED = "RssAnon", "RssFile"


def parser() -> argparse.ArgumentParser:
    """Define the options."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--config", required=True, metavar="FILE", help="configuration with a large training set")
    arguments.add_argument("--cache", required=True, metavar="DIR", help="cache to build; not removed")
    arguments.add_argument("--output", required=True, metavar="STEM", help="STEM.json, .csv and .png are written")
    arguments.add_argument(
        "--sizes", nargs="+", type=whole(1), default=SIZES, metavar="N", help=f"numbers of pairs (default: {SIZES})"
    )
    arguments.add_argument("--stage", choices=("encode", "start", "read"), help=argparse.SUPPRESS)
    arguments.add_argument("--pairs", type=int, help=argparse.SUPPRESS)
    return arguments


# --- memory -----------------------------------------------------------------------------------------------------------


def resident(process: int | str = "self") -> dict[str, float]:
    """Resident memory of a process in MiB: anonymous, and of mapped files; zero for one that is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        status = ""
    found = {kind: re.search(rf"{kind}:\s+(\d+) kB", status) for kind in (ANONYMOUS, MAPPED)}
    return {kind: int(match[1]) / 1024 if match else 0.0 for kind, match in found.items()}


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except OSError:
        return []


@dataclass
class Peak:
    """Largest values seen, in MiB."""

    values: dict[str, float] = field(default_factory=lambda: {ANONYMOUS: 0.0, MAPPED: 0.0})

    def see(self, found: dict[str, float]) -> None:
        """Take one reading into account."""
        self.values = {kind: max(value, found[kind]) for kind, value in self.values.items()}


@contextmanager
def repeating(action: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call ``action`` every so many seconds, in a thread of its own, until the block ends."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            action()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def watched(peak: Peak) -> Iterator[None]:
    """Read the memory of this process until the block ends."""
    try:
        with repeating(lambda: peak.see(resident()), EVERY):
            yield
    finally:
        peak.see(resident())


# --- stages, each in a process of its own -----------------------------------------------------------------------------


def stage(arguments: argparse.Namespace) -> None:
    """Do one stage; lines on standard output are for the process that measures."""
    if arguments.stage == "encode":
        _encode(arguments)
    elif arguments.stage == "start":
        _start(arguments)
    else:
        _read(arguments)


def _config(arguments: argparse.Namespace) -> Any:
    return load_config(arguments.config, [f"data.cache={arguments.cache}"])


class Printed:
    """A display that prints how many training pairs are encoded, a line for each part."""

    @contextmanager
    def step(self, what: str, total: float | None, unit: str, done: float) -> Iterator[Step]:
        """As ``Display`` has it; other steps are not shown."""
        with HIDDEN.step(what, total, unit, done) as hidden:
            yield Pairs() if what == "encoding train" else hidden


class Pairs:
    """The step that is printed; see :class:`Printed`."""

    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, amount: float = 1) -> None:
        """As ``Step`` has it."""
        self.done += amount
        print(f"  {self.done:,.0f} pairs", flush=True)

    def expect(self, total: float) -> None:
        """As ``Step`` has it."""

    def note(self, text: str) -> None:
        """As ``Step`` has it."""


def _encode(arguments: argparse.Namespace) -> None:
    from nmt.data.dataset import prepare  # noqa: PLC0415

    with shown_on(Printed()):
        prepare(_config(arguments), lambda line: print(line, flush=True))


def _start(arguments: argparse.Namespace) -> None:
    """Everything from the command line to the first batch, except the network."""
    from nmt.data.batching import Position, Specials, training_batches  # noqa: PLC0415
    from nmt.data.dataset import prepare  # noqa: PLC0415

    config, peak = _config(arguments), Peak()
    with watched(peak):
        prepared = prepare(config)
        specials = Specials.of(prepared.tokenizers)
        next(training_batches(prepared.train, specials, config.training.batch_tokens, seed=1, position=Position()))
    print(json.dumps({"pairs": len(prepared.train), **peak.values}), flush=True)


def _read(arguments: argparse.Namespace) -> None:
    from nmt.data.batching import Position, Specials, training_batches  # noqa: PLC0415
    from nmt.data.encoded import EncodedCorpus  # noqa: PLC0415
    from nmt.data.encoding import TABLE, mapped  # noqa: PLC0415

    config, peak, before = _config(arguments), Peak(), resident()
    entry = next(Path(arguments.cache).glob("corpus-*"))
    specials = Specials(source_pad=0, source_eos=3, target_pad=0, target_bos=2, target_eos=3)
    with watched(peak):
        corpus = EncodedCorpus(mapped(entry / "train" / TABLE).slice(0, arguments.pairs))
        started = time.perf_counter()
        batches = training_batches(corpus, specials, config.training.batch_tokens, seed=1, position=Position())
        after, _ = next(batches)
        planned = time.perf_counter() - started
        while after.epoch == 0 and after.batch < MOST_BATCHES:
            after, _ = next(batches)
    seconds = time.perf_counter() - started
    times = {"planned": planned, "seconds": seconds, "batches": MOST_BATCHES if after.epoch == 0 else None}
    print(json.dumps({"pairs": len(corpus), **times, "before": before, **peak.values}))


# --- measuring --------------------------------------------------------------------------------------------------------


def child(arguments: argparse.Namespace, name: str, *options: str) -> "subprocess.Popen[str]":
    """Start a stage."""
    chosen = ["--config", arguments.config, "--cache", arguments.cache, "--output", arguments.output]
    command_line = [sys.executable, __file__, *chosen, "--stage", name, *options]
    return subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True)


def encode(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Encode, reading the memory of all processes; -> a row for each line of progress."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_before = before.ru_utime + before.ru_stime
    process, rows, started = child(arguments, "encode"), [], time.perf_counter()
    peaks = {"main": Peak(), "workers": Peak()}

    def see() -> None:
        peaks["main"].see(resident(process.pid))
        for worker in children(process.pid):
            peaks["workers"].see(resident(worker))

    with repeating(see, EVERY):
        assert process.stdout is not None
        for line in process.stdout:
            say(line.rstrip())
            found = re.match(r"  ([\d,]+) pairs", line)
            pairs = int(found[1].replace(",", "")) if found else None
            row = {"line": line.strip(), "pairs": pairs, "seconds": time.perf_counter() - started}
            rows.append(row | {name: dict(peak.values) for name, peak in peaks.items()})
            if line.startswith("encoding train"):  # the peak of learning the tokenizers is in the row before
                for peak in peaks.values():
                    peak.values = dict.fromkeys(peak.values, 0.0)
        process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = {"line": "end", "pairs": None, "code": process.returncode, "seconds": time.perf_counter() - started}
    rows.append(end | {"cpu_seconds": used.ru_utime + used.ru_stime - cpu_before})
    return rows


def answer(arguments: argparse.Namespace, name: str, *options: str) -> dict[str, Any]:
    """Run a stage; -> its values, and the seconds from the start of the process to its end."""
    started = time.perf_counter()
    output, _ = child(arguments, name, *options).communicate()
    return dict(json.loads(output)) | {"wall": time.perf_counter() - started}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All stages, as JSON values."""
    if list(Path(arguments.cache).glob("corpus-*")):
        raise DataError(f"{arguments.cache}: holds an encoded corpus; name another --cache")
    encoded = encode(arguments)
    if encoded[-1]["code"]:
        raise DataError(f"{arguments.config}: cannot be encoded")
    starts = [answer(arguments, "start") for _ in range(2)]
    reads = [answer(arguments, "read", "--pairs", str(size)) for size in arguments.sizes]
    return {
        "machine": machine(),
        "commit": commit(),
        "sizes": list(arguments.sizes),
        "encode": encoded,
        "start": starts,
        "read": reads,
    }


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of the table for each size: peaks in MiB, seconds."""
    progress = [row for row in found["encode"] if row["pairs"] is not None]
    rows = []
    for size, read in zip(found["sizes"], found["read"], strict=True):
        until = [row for row in progress if row["pairs"] <= size]
        row: dict[str, Any] = {"pairs": size}
        for name, label in (("main", "encoder"), ("workers", "worker")):
            for kind in (ANONYMOUS, MAPPED):
                row[f"{label} {kind}"] = max((each[name][kind] for each in until), default=0.0)
        row |= {f"epoch {kind}": read[kind] for kind in (ANONYMOUS, MAPPED)}
        row |= {"plan s": read["planned"], "epoch s": read["seconds"]}
        rows.append(row)
    return rows


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw peaks against the number of pairs."""
    with style():
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.subplots()
        handles, labels = [], []
        columns = [name for name in rows[0] if name.partition(" ")[2] in (ANONYMOUS, MAPPED)]
        for number, name in enumerate(columns):
            pairs = [row["pairs"] / 1e6 for row in rows]
            handles += axes.plot(pairs, [row[name] for row in rows], **series(number))
            labels.append(name)
        axes.axhline(LIMIT, color="#666666", linewidth=1)
        axes.annotate("1.5 GiB", (0, LIMIT), textcoords="offset points", xytext=(2, 3), color="#666666")
        axes.set(xlabel="Million pairs", ylabel="Peak of resident memory (MiB)", ylim=(0, LIMIT * 1.1))
        axes.set_xlim(left=0)
        legend_above(figure, handles, labels)
    return figure


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Measure, and write the files."""
    if arguments.stage is not None:
        return stage(arguments)
    found = measure(arguments)
    rows = rows_of(found)
    write_all(arguments.output, {".png": png(draw(rows)), ".json": numbers(found), ".csv": table(rows)})
    print(markdown([{name: f"{value:,.0f}" for name, value in row.items()} for row in rows]))
    return None


if __name__ == "__main__":
    raise SystemExit(main())
