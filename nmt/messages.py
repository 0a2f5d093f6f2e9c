"""Messages during a command: their kinds, and the progress of long steps.

Messages go through the ``say`` that a caller passes down. Steps go to the display that a command installs with
:func:`shown_on`; without one, as in a library, nothing is shown. Nothing here prints.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Say = Callable[[str], None]


def silent(*_: object) -> None:
    """Discard the message."""


class Result(str):
    """A message that is a result: shown with ``--quiet``, too."""


class Detail(str):
    """A message that is shown only with ``--verbose``."""


class Caution(str):
    """A message that something may be wrong: a dry run shows it, too."""


class Step:
    """A step in progress; this one is shown nowhere."""

    def advance(self, amount: float = 1) -> None:
        """Count work that is done."""

    def note(self, text: str) -> None:
        """Show a text beside the counts from now on."""


UNSEEN = Step()
Display = Callable[[str, float | None, str, float], AbstractContextManager[Step]]
"""Shows a step while it lasts; arguments as of :func:`progress_bar`."""
_display: ContextVar[Display] = ContextVar("display", default=lambda *_: nullcontext(UNSEEN))


@contextmanager
def shown_on(display: Display) -> Iterator[None]:
    """Show the steps of this thread on a display."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


def progress_bar(what: str, total: float | None, unit: str, done: float = 0) -> AbstractContextManager[Step]:
    """Show a step that may take more than two seconds: ``encoding data.train``, of which ``pairs`` are counted.

    ``total`` is the amount of work, None where it is not known; ``done`` is that which an earlier process has done.
    """
    return _display.get()(what, total, unit, done)


def counted(items: Iterable[Item], what: str, total: float | None, unit: str) -> Iterator[Item]:
    """Pass items through as a step that counts them."""
    with progress_bar(what, total, unit) as progress:
        yield from watched(items, progress)


def watched(items: Iterable[Item], progress: Step) -> Iterator[Item]:
    """Pass items through, and count each of them in a step."""
    for item in items:
        yield item
        progress.advance()


def duration(seconds: float) -> str:
    """Format seconds: ``45s``, ``12m 05s``, ``3h 20m``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Align the cells of each column: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in cells
    )
