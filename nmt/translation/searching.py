"""Options of translation; lines in windows, a window in batches, and the search for the translations of a batch."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar

import torch
from pydantic import Field, ValidationError

from nmt.config.problems import explain
from nmt.config.schema import Decoding
from nmt.data.batching import ROWS, Specials, pad_source
from nmt.data.protection import PLACEHOLDERS
from nmt.data.tokenizer import MARK, Tokenizers
from nmt.errors import ConfigError
from nmt.search.beam import beam_search
from nmt.search.greedy import Sampling, greedy_search, sample_search
from nmt.search.interface import Hypothesis, Limits, Searchable
from nmt.search.rules import Once, Ruled

WINDOW = 4096
"""Lines that are read ahead, to be sorted by length."""
FIRST_WINDOW = 1024
"""Lines of the first window; each is twice the one before, so that the first results come soon."""
WINDOW_CHARACTERS = 1 << 22
"""Characters of text at which a window ends early."""

T = TypeVar("T")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

# --- options ----------------------------------------------------------------------------------------------------------

MORE_PIECES = 10
"""Pieces that a translation may have in addition to the source's times ``max_length_factor``."""


def longest(source: int, factor: float) -> int:
    """Return the greatest length of a translation: its end symbol counts, that of the ``source`` pieces does not."""
    return int(source * factor) + MORE_PIECES


class SearchOptions(Decoding):
    """How lines are translated: the section ``decoding``, and what a single call adds.

    Raises ConfigError for unknown options, for values out of their bounds, and for options that contradict each other.
    """

    n_best: Annotated[int, Field(ge=1)] = 1
    """Translations of each line, at most ``beam_size``."""
    sampling: Sampling | None = None
    """Sample instead of searching for the best; needs beam_size 1."""
    attention: bool = False
    """Keep the attention weights."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(*(f"decoding.{each}" for each in explain(error, SearchOptions))) from None
        ConfigError.raise_if_any([*map(str, self.contradictions()), *self._of_call()])

    def _of_call(self) -> Iterator[str]:
        if self.sampling is not None and self.beam_size != 1:
            yield f"beam size {self.beam_size}: sampling follows one hypothesis; use beam size 1"
        if self.sampling is not None and self.n_best > 1:
            yield f"n-best {self.n_best}: sampling follows one hypothesis; use n-best 1"
        elif self.n_best > self.beam_size:
            yield f"n-best {self.n_best}: a beam of {self.beam_size} has fewer; use beam size {self.n_best} or more"

    @classmethod
    def from_config(cls, decoding: Decoding, **overrides: Any) -> Self:
        """Take the options of a configuration; an override that is None changes nothing."""
        return cls(**dict(decoding) | {key: value for key, value in overrides.items() if value is not None})


# --- windows, batches, search -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line to translate: its number in the input, from 1, its pieces, without EOS, and its hidden spans."""

    number: int
    ids: list[int]
    spans: Mapping[str, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Pieces, EOS included."""
        return len(self.ids) + 1


def windows(lines: Iterable[T], first: int, most: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut lines into consecutive lists, growing from ``first`` up to ``most`` lines, none with much more than
    WINDOW_CHARACTERS; ``size_of`` counts the characters of a line, or of a pair of lines."""
    window: list[T] = []
    size, characters = min(first, most), 0
    for line in lines:
        window.append(line)
        characters += size_of(line)
        if len(window) >= size or characters >= WINDOW_CHARACTERS:
            yield window
            window, size, characters = [], min(2 * size, most), 0
    if window:
        yield window


def batches(lines: Sequence[Line], options: SearchOptions, most: int) -> Iterator[Sequence[Line]]:
    """Cut lines, longest first, into batches of ``batch_tokens``, padding and hypotheses included.

    A batch has from one to ``most`` lines. None is much shorter than the first, unless there are fewer than ``ROWS``.
    """
    start = 0
    while start < len(lines):
        length = lines[start].length
        alike = bisect_right(lines, -3 * length // 4, start, key=lambda line: -line.length) - start
        rows = min(max(alike, ROWS), most, max(1, options.batch_tokens // (options.beam_size * length)))
        yield lines[start : start + rows]
        start += rows


def most_rows(lines: int, device: torch.device) -> int:
    """Return the most sentences of a batch: on a CPU so few that no thread waits long for another's last batch."""
    if device.type != "cpu":
        return lines
    return max(ROWS, lines // (3 * torch.get_num_threads()) // ROWS * ROWS)


def lines_for(rows: int, device: torch.device) -> int:
    """Return how many lines there must be for :func:`most_rows` to allow batches of ``rows``."""
    return rows if device.type != "cpu" else -(-rows // ROWS) * ROWS * 3 * torch.get_num_threads()


@contextmanager
def side_by_side(device: torch.device, tasks: int) -> Iterator[Map]:
    """Return a ``map`` for independent tasks. On a CPU each of PyTorch's threads takes a task of its own, which wastes
    less than sharing every small operation."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or tasks < 2:
        yield map
        return
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(min(threads, tasks))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)  # an interruption waits for tasks that have begun, not for the others
        torch.set_num_threads(threads)


@torch.inference_mode()
def search_batch(
    searchable: Searchable[Any],
    batch: Sequence[Line],
    options: SearchOptions,
    tokenizers: Tokenizers,
    device: torch.device,
) -> list[list[Hypothesis]]:
    """Search for the hypotheses of each line, best first."""
    specials = Specials.of(tokenizers)
    source, lengths = pad_source([line.ids for line in batch], specials)  # (B, S), (B,), EOS counted
    most = torch.tensor([longest(len(line.ids), options.max_length_factor) for line in batch])
    pieces = PLACEHOLDERS if tokenizers.protection.kinds else ()
    here, there = (torch.tensor([side.piece_id(each) for each in pieces]) for _, side in tokenizers.sides())  # (P,)
    wanted = (source.unsqueeze(2) == here).any(1)  # (B, P)
    once, never = None, there.tolist()
    if wanted.any():
        once, never = Once(there.to(device), wanted.to(device), tokenizers.target.piece_id(MARK)), []
    forbidden = specials.target_pad, specials.target_bos, *never
    limits = Limits(specials.target_bos, specials.target_eos, forbidden, most.to(device))
    if options.no_repeat_ngram or options.min_length_factor or once is not None:
        least = ((lengths - 1).double() * options.min_length_factor).ceil().long()
        searchable = Ruled(searchable, limits, options.no_repeat_ngram, least.to(device), once)
    how: dict[str, Any] = {"length_penalty": options.length_penalty, "keep_attention": options.attention}
    with searchable.searching():
        state = searchable.start(searchable.encode(source.to(device), lengths), options.beam_size)
        if options.sampling is not None:
            numbers = [line.number for line in batch]
            return sample_search(searchable, state, limits, options.sampling, numbers, **how)
        if options.beam_size == 1:
            return greedy_search(searchable, state, limits, **how)
        return beam_search(searchable, state, limits, beam_size=options.beam_size, n_best=options.n_best, **how)
