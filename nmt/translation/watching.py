"""Translation of a text with warnings: of a wrong language, a slow precision, and lines that lose text."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from nmt.config import load_run_config
from nmt.data.language_id import LEAST_LETTERS, MOST_LETTERS, watched
from nmt.device import format_of
from nmt.errors import NmtWarning
from nmt.messages import counted_early
from nmt.translation.ensemble import load_translator
from nmt.translation.lost_text import LostText
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import Done, Translator, uncounted
from nmt.translation.windows import WINDOW

Say = Callable[[str], None]
PRODUCTS = 256
"""Matrix products whose code oneDNN keeps, one for each number of rows; its own choice is 1,024.

A search has all numbers of rows. In training, whose batches come again, fewer products than 1,024 cost time.
"""


def load_watched(
    runs: Sequence[str | Path],
    device: str = "auto",
    precision: str = "fp32",
    *,
    beam_size: int | None = None,
    say: Say = lambda line: None,
) -> Translator:
    """Load runs that translate together; ``say`` which precision ``auto`` has chosen, or warn that the one that is
    named is slower than fp32. A long search then needs little memory: oneDNN reads how many products it keeps at its
    first product. Arguments and errors as of :func:`~nmt.translation.ensemble.load_translator`."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRODUCTS))
    translator = load_translator(runs, device, precision, beam_size)
    if precision == "auto":
        rates = sorted(translator.rates().items(), key=lambda item: -item[1])
        listed = ", ".join(f"{format_of(each)} {rate:,.0f}" for each, rate in rates)
        say(f"precision: {format_of(translator.precision)}; target pieces a second on a thread: {listed}")
    elif problem := translator.slow_precision():
        warnings.warn(f"--precision {precision}: {problem}", NmtWarning, stacklevel=2)
    return translator


def translate_watched(
    translator: Translator,
    lines: Iterable[str],
    options: SearchOptions,
    *,
    run: str | Path,
    source: str,
    typed: bool = False,
    prefixes: Sequence[str] = (),
    first: int = 1,
    what: str | None = None,
    total: int | None = None,
) -> Iterator[Translation]:
    """Translate lines as they arrive, with warnings that name the text ``source``.

    Args:
        translator: the runs.
        lines: raw text.
        options: of the search.
        run: the first run; its statistics tell the language that it translates into.
        source: the name of the text in warnings.
        typed: a person types the lines, which are translated one by one.
        prefixes: what each translation must begin with.
        first: the number of the first line.
        what: names the step in which ``total`` lines are counted; None shows no progress.
        total: the number of lines, if it is known.

    Raises FileError or ConfigError if the configuration of the run cannot be read.
    """
    data = load_run_config(run).data

    def warn_of_language() -> None:
        message = f"{source}: looks like the language that {run} translates into, not the one it translates from"
        warnings.warn(message, NmtWarning, stacklevel=2)

    def warn(line: int, problem: str) -> None:
        warnings.warn(f"{source}:{line}: {problem}", NmtWarning, stacklevel=2)

    def warn_of_lost_text(lost: LostText) -> None:
        for problem in lost.problems():
            warnings.warn(f"{source}: {problem}", NmtWarning, stacklevel=2)

    letters = LEAST_LETTERS if typed else MOST_LETTERS
    text = watched(lines, (data.source_language, data.target_language), warn_of_language, letters)

    def stream(done: Done) -> Iterator[Translation]:
        lost, window = LostText(), 1 if typed else WINDOW
        found = translator.stream(text, options, prefixes=prefixes, first=first, window=window, warn=warn, done=done)
        for number, translation in enumerate(found, first):
            lost.add(number, translation)
            if typed:
                warn_of_lost_text(lost)
            yield translation
        warn_of_lost_text(lost)

    return stream(uncounted) if what is None else counted_early(stream, what, total, "lines")
