"""Requests that wait become one batch: the queue between the clients and the one thread that translates, and what it
counts, in the text format of Prometheus (0.0.4).

In fp32 a translation does not depend on its batch, so that nobody can tell with whom a line was translated.
"""

import asyncio
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from nmt.errors import Stopped
from nmt.serving.requests import Limits, Refused, Request
from nmt.translation.results import Translation

LOG = logging.getLogger(__name__)
Answer = list[tuple[Translation, str | None]]
"""The translation of each line, and what is wrong with the line, if anything."""


class Translate(Protocol):
    """Translates a batch: lines of several requests that ask for the same."""

    def __call__(self, lines: Sequence[str], asked: Request, check_stop: Callable[[], None]) -> Answer:
        """``asked`` is one of the requests; ``check_stop`` is called now and then, and raises Stopped when nobody waits
        any more."""


@dataclass(eq=False)
class Job:
    """A request that waits."""

    request: Request
    answer: "asyncio.Future[Answer]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def wanted(self) -> bool:
        """Whether the client still waits."""
        return not self.answer.done()


class Batches:
    """The queue. :meth:`answer` is called for each request; :meth:`run` works until :meth:`close`."""

    def __init__(self, translate: Translate, limits: Limits, done: Callable[[int, int], None]) -> None:
        """``done`` receives the requests and the lines of each finished batch."""
        self._translate = translate
        self._limits = limits
        self._done = done
        self._waiting: list[Job] = []
        self._arrived = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Requests that no batch has taken yet."""
        return len(self._waiting)

    async def answer(self, request: Request) -> Answer:
        """Wait for the translation of a request; cancelling gives it up.

        Raises Refused with status 429 if too many requests wait, 500 if the translation fails, 503 when stopping.
        """
        if self._closed:
            raise Refused(503, "the server is stopping; try again later")
        if len(self._waiting) >= self._limits.waiting:
            raise Refused(429, f"{len(self._waiting)} requests are waiting already; try again in a second")
        if not request.lines:
            return []
        job = Job(request)
        self._waiting.append(job)
        self._arrived.set()
        return await job.answer

    async def run(self) -> None:
        """Translate batch after batch, in a thread, until closed and nothing waits."""
        with ThreadPoolExecutor(1, "translation") as thread:
            while True:
                await self._arrived.wait()
                if not self._waiting:
                    if self._closed:
                        return
                    self._arrived.clear()
                elif jobs := self._take():
                    await self._work(jobs, thread)

    def close(self) -> None:
        """Refuse new requests; :meth:`run` ends when those that wait are answered."""
        self._closed = True
        self._arrived.set()

    def _take(self) -> list[Job]:
        """Take the oldest request and those that can share its batch."""
        self._waiting = [job for job in self._waiting if job.wanted]
        taken: list[Job] = []
        characters = 0
        for job in self._waiting:
            fits = characters + job.request.characters <= self._limits.batch
            if not taken or (fits and job.request.shares(taken[0].request)):
                taken.append(job)
                characters += job.request.characters
        self._waiting = [job for job in self._waiting if job not in taken]
        return taken

    async def _work(self, jobs: list[Job], thread: ThreadPoolExecutor) -> None:
        """Answer some requests by one batch; if that fails, each by a batch of its own."""
        lines = [line for job in jobs for line in job.request.lines]
        asked = jobs[0].request

        def check_stop() -> None:
            if not any(job.wanted for job in jobs):
                raise Stopped

        def work() -> Answer:
            return self._translate(lines, asked, check_stop)

        try:
            answer = await asyncio.get_running_loop().run_in_executor(thread, work)
        except Stopped:
            return
        except Refused as refusal:
            _fail(jobs, refusal)
        except Exception:  # whatever it is, the server and the other requests go on
            if len(jobs) > 1:
                for job in jobs:
                    await self._work([job], thread)
                return
            LOG.exception("a translation failed")
            _fail(jobs, Refused(500, "the translation failed; the log of the server has the reason"))
        else:
            self._done(len(jobs), len(lines))
            start = 0
            for job in jobs:
                end = start + len(job.request.lines)
                if job.wanted:
                    job.answer.set_result(answer[start:end])
                start = end


def _fail(jobs: Sequence[Job], refusal: Refused) -> None:
    for job in jobs:
        if job.wanted:
            job.answer.set_exception(refusal)


SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram's buckets."""


class Metrics:
    """What the server has done since it was started."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(SECONDS) + 1)
        self._seconds = 0.0
        self._batches = 0
        self._shared = 0
        self._lines = 0

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count an answer; ``path`` is one of a few words."""
        self._requests[path, status] += 1
        if path == "/translate":
            self._buckets[bisect_left(SECONDS, seconds)] += 1
            self._seconds += seconds

    def batch(self, requests: int, lines: int) -> None:
        """Count a batch."""
        self._batches += 1
        self._shared += requests
        self._lines += lines

    def text(self, waiting: int) -> str:
        """Return all metrics; ``waiting`` requests have not been translated yet."""
        found = [*_head("nmt_requests_total", "counter", "Requests answered.")]
        for (path, status), number in sorted(self._requests.items()):
            found.append(f'nmt_requests_total{{path="{path}",status="{status}"}} {number}')
        found += _head("nmt_request_seconds", "histogram", "Seconds from a request to translate to its answer.")
        below = 0
        for bound, number in zip([*map(str, SECONDS), "+Inf"], self._buckets, strict=True):
            below += number
            found.append(f'nmt_request_seconds_bucket{{le="{bound}"}} {below}')
        found += [f"nmt_request_seconds_sum {self._seconds:.6f}", f"nmt_request_seconds_count {below}"]
        for name, kind, text, value in (
            ("nmt_batches_total", "counter", "Batches translated.", self._batches),
            ("nmt_batched_requests_total", "counter", "Requests in these batches.", self._shared),
            ("nmt_lines_total", "counter", "Lines translated.", self._lines),
            ("nmt_waiting_requests", "gauge", "Requests that wait for a batch.", waiting),
        ):
            found += [*_head(name, kind, text), f"{name} {value}"]
        return "".join(f"{line}\n" for line in found)


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
