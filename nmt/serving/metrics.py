"""Counters, and their text format for Prometheus (exposition format 0.0.4)."""

from bisect import bisect_left
from collections import Counter

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
