"""An action that is repeated while something else runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


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
