"""Lines in, translations out: the one path that validation, nmt-translate and nmt-evaluate share."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from nmt.config.schema import LARGEST_LENGTH_FACTOR, LARGEST_LENGTH_PENALTY, Decoding, Kernels
from nmt.data.batching import ROWS, pad
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError
from nmt.foundation.device import autocast, instructions, resolve_device, resolve_precision
from nmt.kernels.int8 import rates
from nmt.model.frozen import Frozen, freeze
from nmt.model.seq2seq import Seq2Seq
from nmt.runs.loading import load_run
from nmt.search import Hypothesis, Limits, Sampling, beam_search, greedy_search, sample_search

WINDOW = 4096
"""Lines that are read ahead, to be sorted by length."""
FIRST_WINDOW = 1024
"""Of the first window; each is twice the one before, so that the first results come soon."""
WINDOW_CHARACTERS = 1 << 22
"""A window ends early when it holds so much text."""


@dataclass(frozen=True)
class SearchOptions:
    """How lines are translated; see ``nmt.config.schema.Decoding`` for the first five.

    Raises ConfigError for options that contradict each other.
    """

    beam_size: int
    length_penalty: float
    batch_tokens: int
    max_source: int
    max_length_factor: float
    n_best: int = 1
    """Translations of each line, at most ``beam_size``."""
    sampling: Sampling | None = None
    """Draw one translation instead of searching for the best; needs beam_size 1."""
    attention: bool = False
    """Keep the attention weights."""

    def __post_init__(self) -> None:
        problems = []
        for name, most in (("length_penalty", LARGEST_LENGTH_PENALTY), ("max_length_factor", LARGEST_LENGTH_FACTOR)):
            if not 0 <= getattr(self, name) <= most:
                problems.append(f"decoding.{name}: {getattr(self, name):g} must be from 0 to {most:g}")
        if self.sampling is not None and self.beam_size != 1:
            problems.append(f"beam size {self.beam_size}: sampling follows one hypothesis; use beam size 1")
        if self.n_best > self.beam_size:
            problems.append(
                f"n-best {self.n_best}: a beam of {self.beam_size} has no more than {self.beam_size} hypotheses; "
                f"use beam size {self.n_best} or more"
            )
        if problems:
            raise ConfigError(*problems)

    @classmethod
    def from_config(cls, decoding: Decoding, **overrides: Any) -> Self:
        """The options of a configuration; an override that is None changes nothing."""
        given = {key: value for key, value in overrides.items() if value is not None}
        names = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in decoding if key in names} | given)


@dataclass(frozen=True)
class TranslatedHypothesis:
    """One translation of a line."""

    text: str
    """Detokenized; never holds a line end."""
    log_probability: float
    score: float
    pieces: list[str]
    """Of the target, the end symbol included if it was emitted."""
    attention: Tensor | None = None
    """(pieces, source pieces)"""


@dataclass(frozen=True)
class Translation:
    """What became of one line."""

    source: str
    """The line."""
    source_pieces: list[str]
    """What the model read, the end symbol included; empty for a blank line, which no model sees."""
    hypotheses: list[TranslatedHypothesis]
    """Best first, at least one."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text


EMPTY = TranslatedHypothesis("", 0.0, 0.0, [])
"""The translation of a blank line."""


@dataclass(frozen=True)
class _Line:
    """A line on its way: its number in the input from 1, and its pieces, EOS included."""

    number: int
    ids: list[int]


Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

Searched = Seq2Seq | Frozen
"""What search walks: the network, or the same made ready for it."""

Warn = Callable[[int, str], None]
"""Told the number of a line, from 1, and what is wrong with it."""


Pause = Callable[[], None]
"""Called between two batches: whatever it raises ends the work there."""


def ignore(number: int, problem: str) -> None:
    """Say nothing."""


def go_on() -> None:
    """Raise nothing."""


class Translator:
    """Translates raw lines with one model.

    ``fused``: search a network made ready for it (``nmt.model.frozen``) instead of the network as it is. ``fixed``: the
    weights never change, so that is done once.
    """

    decoding: Decoding
    """How its run translates unless told otherwise."""

    def __init__(
        self,
        model: Seq2Seq,
        tokenizers: Tokenizers,
        device: torch.device,
        precision: torch.dtype,
        decoding: Decoding | None = None,
        *,
        fused: bool,
        fixed: bool = False,
    ) -> None:
        self.model = model
        self.fused = fused
        self.fixed = fixed
        self._frozen: dict[bool, Frozen] = {}
        self.tokenizers = tokenizers
        self.device = device
        self.precision = precision
        self.decoding = decoding or Decoding()

    @classmethod
    def load(
        cls, run: str | Path, device: str = "auto", precision: str = "fp32", kernels: Kernels | None = None
    ) -> Self:
        """The translator of a run directory.

        In fp32 its output does not depend on the batch size, but where hypotheses are as probable as one another to the
        last digits of fp32, as they may be of a network that has learned nothing.

        ``kernels``: instead of what its configuration says. Raises CheckpointError if the run cannot be used,
        ConfigError for a device that is not there and for int8 without kernels of our own.
        """
        where = resolve_device(device)
        dtype = resolve_precision(precision, where)
        loaded = load_run(Path(run), where, kernels=kernels)
        fused = loaded.config.kernels == "auto"
        if dtype == torch.int8 and not fused:
            raise ConfigError(
                f"precision: int8 is for runs with kernels: auto; {run} has kernels: plain, use fp32 or bf16"
            )
        return cls(loaded.model, loaded.tokenizers, where, dtype, loaded.config.decoding, fused=fused, fixed=True)

    def slow_precision(self) -> str | None:
        """A warning where the precision is int8 and a short measurement finds it slower than fp32; else None."""
        if self.precision != torch.int8:
            return None
        int8, fp32 = rates()
        if int8 >= fp32:
            return None
        return (
            f"int8 is slower than fp32 on this processor: {int8 / 1e9:.1f} against {fp32 / 1e9:.1f} billion "
            f"multiply-adds a second; it needs avx_vnni, avx512_vnni or amx_int8 and has {instructions()}; "
            "use --precision fp32"
        )

    def translate(
        self,
        lines: Iterable[str],
        options: SearchOptions,
        *,
        window: int = WINDOW,
        first_window: int = FIRST_WINDOW,
        warn: Warn = ignore,
        pause: Pause = go_on,
    ) -> Iterator[Translation]:
        """One translation a line, in the order of the lines, while they come in.

        No more than ``window`` lines are held at a time, at first ``first_window``. ``warn`` is told of each line that
        is cut off; ``pause`` is called between two batches.
        """
        first = 1
        searched = self._searched(options)
        for text in _windows(lines, first_window, window):
            yield from self._translate_window(searched, text, first, options, warn, pause)
            first += len(text)

    def _searched(self, options: SearchOptions) -> Searched:
        """What search walks; made once where weights are fixed."""
        if not self.fused:
            return self.model
        ahead = options.beam_size > 1
        frozen = self._frozen.get(ahead) or freeze(self.model, self.precision, ahead=ahead)
        if self.fixed:
            self._frozen[ahead] = frozen
        return frozen

    def _translate_window(
        self, model: Searched, text: list[str], first: int, options: SearchOptions, warn: Warn, pause: Pause
    ) -> list[Translation]:
        results = [Translation(line, [], [EMPTY]) for line in text]
        lines = []
        encoded = self.tokenizers.source.encode_first(text, options.max_source)
        for number, (ids, cut) in enumerate(encoded, first):
            if cut:
                warn(number, f"too long: only its first {len(ids)} pieces are translated")
            if ids:
                lines.append(_Line(number, [*ids, self.tokenizers.source.eos_id]))
        lines.sort(key=lambda line: -len(line.ids))
        batches = list(_batches(lines, options, most_rows(len(lines), self.device)))
        with evaluating(self.model), side_by_side(self.device, len(batches)) as each:
            searches = each(lambda batch: self._search(model, batch, options), batches)
            for batch, found in zip(batches, searches, strict=True):
                pause()
                for line, hypotheses in zip(batch, found, strict=True):
                    place = line.number - first
                    results[place] = self._translation(text[place], line.ids, hypotheses)
        return results

    def _search(self, model: Searched, batch: Sequence[_Line], options: SearchOptions) -> list[list[Hypothesis]]:
        plain = autocast(self.device, self.precision) if model is self.model else nullcontext()
        with torch.inference_mode(), plain:
            return self._search_batch(model, batch, options)

    def _search_batch(self, model: Searched, batch: Sequence[_Line], options: SearchOptions) -> list[list[Hypothesis]]:
        source, real = pad([np.array(line.ids, np.int32) for line in batch], self.tokenizers.source.pad_id)
        lengths = real.sum(1)
        target = self.tokenizers.target
        max_lengths = ((lengths - 1) * options.max_length_factor).long() + 10
        limits = Limits(target.bos_id, target.eos_id, (target.pad_id, target.bos_id), max_lengths.to(self.device))
        state = model.start(model.encode(source.to(self.device), lengths))
        if options.sampling is not None:
            return sample_search(
                model,
                state,
                limits,
                options.sampling,
                [line.number for line in batch],
                length_penalty=options.length_penalty,
                keep_attention=options.attention,
            )
        if options.beam_size == 1:
            return greedy_search(
                model,
                state,
                limits,
                length_penalty=options.length_penalty,
                keep_attention=options.attention,
            )
        return beam_search(
            model,
            state,
            limits,
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            n_best=options.n_best,
            keep_attention=options.attention,
        )

    def _translation(self, source: str, source_ids: list[int], hypotheses: list[Hypothesis]) -> Translation:
        target = self.tokenizers.target
        translated = []
        for hypothesis in hypotheses:
            ended = [target.eos_id] if hypothesis.ended else []
            attention = hypothesis.attention
            translated.append(
                TranslatedHypothesis(
                    target.decode(hypothesis.tokens).replace("\r", " ").replace("\n", " "),
                    hypothesis.log_probability,
                    hypothesis.score,
                    target.pieces([*hypothesis.tokens, *ended]),
                    None if attention is None else attention[:, : len(source_ids)],
                )
            )
        return Translation(source, self.tokenizers.source.pieces(source_ids), translated)


def most_rows(lines: int, device: torch.device) -> int:
    """Sentences of a batch: on a CPU so few that no thread waits long for another's last batch."""
    if device.type != "cpu":
        return lines
    return max(ROWS, lines // (3 * torch.get_num_threads()) // ROWS * ROWS)


def lines_for(rows: int, device: torch.device) -> int:
    """So many lines there must be for :func:`most_rows` to allow so many."""
    return rows if device.type != "cpu" else -(-rows // ROWS) * ROWS * 3 * torch.get_num_threads()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout; a model in training goes on training afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@contextmanager
def side_by_side(device: torch.device, tasks: int) -> Iterator[Map]:
    """A ``map`` for tasks that do not know each other.

    On a CPU, each of PyTorch's threads takes a task of its own, which wastes less than all of them sharing every small
    operation; results come in the order of the tasks.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or tasks < 2:
        yield map
        return
    torch.set_num_threads(1)
    try:
        pool = ThreadPoolExecutor(min(threads, tasks))
        try:
            yield pool.map
        finally:
            pool.shutdown(cancel_futures=True)  # whoever was interrupted waits for what has begun, not for the rest
    finally:
        torch.set_num_threads(threads)


def _windows(lines: Iterable[str], first: int, most: int) -> Iterator[list[str]]:
    """Consecutive lists of lines: growing from ``first`` up to ``most`` lines, none with much more than
    WINDOW_CHARACTERS."""
    window: list[str] = []
    size, characters = min(first, most), 0
    for line in lines:
        window.append(line)
        characters += len(line)
        if len(window) >= size or characters >= WINDOW_CHARACTERS:
            yield window
            window, size, characters = [], min(2 * size, most), 0
    if window:
        yield window


def _batches(lines: Sequence[_Line], options: SearchOptions, most: int) -> Iterator[Sequence[_Line]]:
    """Cut lines, longest first, into batches of ``batch_tokens``, padding and beams included; one line at least and at
    most ``most``, none of which is much shorter than the first but for the sake of ``ROWS``."""
    start = 0
    while start < len(lines):
        longest = len(lines[start].ids)
        alike = bisect_right(lines, -3 * longest // 4, start, key=lambda line: -len(line.ids)) - start
        rows = min(max(alike, ROWS), most, max(1, options.batch_tokens // (options.beam_size * longest)))
        yield lines[start : start + rows]
        start += rows
