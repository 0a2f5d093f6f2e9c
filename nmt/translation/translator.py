"""Lines in, translations out: the one path that the library, validation and all commands share."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self, Unpack, overload

import torch

from nmt import fast
from nmt.config.schema import Decoding, Kernels
from nmt.data.batching import Specials
from nmt.data.tokenizer import Tokenizers
from nmt.device import instructions, release_freed_memory, resolve_device, resolve_precision
from nmt.errors import NmtWarning
from nmt.runs.loading import LoadedRun, load_run
from nmt.search import Hypothesis, Searchable
from nmt.translation.options import SearchChanges, SearchOptions
from nmt.translation.results import BLANK, TranslatedHypothesis, Translation
from nmt.translation.rules import refuse_without_attention
from nmt.translation.searching import search_batch
from nmt.translation.windows import (
    FIRST_WINDOW,
    WINDOW,
    WINDOW_CHARACTERS,
    Line,
    batches,
    most_rows,
    side_by_side,
    windows,
)

Warn = Callable[[int, str], None]
"""Receives the number of a line, from 1, and what is wrong with it."""
CheckStop = Callable[[], None]
"""Called between two batches; raises ``Stopped`` if a stop was requested."""
Done = Callable[[float], None]
"""Receives how many more lines are translated, batch by batch, before their translations come out in their order."""


def no_warning(number: int, problem: str) -> None:
    """Discard a warning."""


def never_stop() -> None:
    """Go on."""


def uncounted(lines: float) -> None:
    """Count nothing."""


def _warn(number: int, problem: str) -> None:
    """Warn as Python's libraries do."""
    warnings.warn(f"line {number}: {problem}", NmtWarning, stacklevel=5)


class Translator:
    """Translates raw lines with a trained run; :meth:`load` makes one.

    >>> translator = Translator.load("runs/tiny")
    >>> translator.translate("oak elm").text
    'ELM OAK'
    >>> [each.text for each in translator.translate(["fig", "bay box"], beam_size=5)]
    ['FIG', 'BOX BAY']

    The attention of a translation is a NumPy array, a row for each piece written and a column for each piece read:

    >>> translation = translator.translate("oak elm")
    >>> translation.attention.shape == (len(translation.pieces), len(translation.source_pieces))
    True

    One call at a time: a translator is not for several threads at once.

    Args:
        searchable: makes what is searched, for a beam size: a network, its fast twin, an ensemble.
        tokenizers: of both sides.
        device: the searchable's.
        precision: what its matrix products are computed in.
        decoding: how lines are translated unless told otherwise.
        rates: measures the speed of precisions, fp32 among them, in target pieces a second.
    """

    def __init__(
        self,
        searchable: Callable[[int], Searchable[Any]],
        tokenizers: Tokenizers,
        device: torch.device,
        precision: torch.dtype = torch.float32,
        decoding: Decoding | None = None,
        rates: Callable[[], Mapping[torch.dtype, float]] = dict,
    ) -> None:
        self.searchable = searchable
        self.tokenizers = tokenizers
        self.specials = Specials.of(tokenizers)
        self.device = device
        self.precision = precision
        self.decoding = decoding or Decoding()
        self.rates = rates
        self._unreleased = 0  # lines since freed memory was given back

    @classmethod
    def load(
        cls,
        run: str | Path,
        device: str = "auto",
        precision: str = "fp32",
        kernels: Kernels | None = None,
        beam_size: int | None = None,
    ) -> Self:
        """Load the translator of a run directory.

        In fp32 its output does not depend on the batch size, except where hypotheses are equally probable to the last
        digits of fp32, as they may be for a network that has learned nothing. ``precision`` auto: what a measurement of
        about a second finds fastest of what the processor multiplies, and on a GPU bf16 where it has it; name one for
        output that can be repeated.

        ``kernels``: instead of what its configuration says. ``beam_size``: that of the search whose speed is measured;
        default: the run's. Raises CheckpointError if the run cannot be used, ConfigError for a device that is not there
        and for int8 with plain kernels.
        """
        where = resolve_device(device)
        chosen = None if precision == "auto" else resolve_precision(precision, where)
        return cls.of(load_run(Path(run), where, kernels=kernels), where, chosen, beam_size)

    @classmethod
    def of(
        cls, run: LoadedRun, device: torch.device, precision: torch.dtype | None, beam_size: int | None = None
    ) -> Self:
        """Make the translator of a loaded run; without a precision, in the fastest one, with ``beam_size`` hypotheses.

        Raises ConfigError for int8 with plain kernels.
        """
        kernels, decoding = run.config.kernels, run.config.decoding

        def rates(*precisions: torch.dtype) -> Mapping[torch.dtype, float]:
            return fast.rates(run.model, precisions, kernels, beam_size=beam_size or decoding.beam_size)

        compared: Callable[[], Mapping[torch.dtype, float]]
        if device.type == "cuda":  # a short measurement would time the launches of kernels, not their work
            chosen, compared = precision or resolve_precision("auto", device), dict[torch.dtype, float]
        elif precision is None:
            measured = rates(*fast.candidates(run.model, kernels, device))
            chosen, compared = fast.fastest(measured), lambda: measured
        else:
            chosen, compared = precision, lambda: rates(precision, torch.float32)
        fast.refuse_precision(chosen, kernels)

        @cache
        def searchable(beam_size: int) -> Searchable[Any]:
            return fast.search(run.model, chosen, kernels, beam_size=beam_size)

        # all beams of more than one hypothesis share a twin
        return cls(lambda size: searchable(min(size, 2)), run.tokenizers, device, chosen, decoding, cache(compared))

    @property
    def attends(self) -> bool:
        """Whether translations have attention weights."""
        return self.searchable(self.decoding.beam_size).attends

    def slow_precision(self) -> str | None:
        """Return a warning where a short measurement finds the precision slower than fp32; else None."""
        if self.precision not in (torch.bfloat16, torch.int8) or not (rates := self.rates()):
            return None
        if rates[self.precision] >= rates[torch.float32]:
            return None
        return (
            f"slower than fp32 on this processor: {rates[self.precision]:,.0f} against {rates[torch.float32]:,.0f} "
            f"target pieces a second on a thread; it has {instructions()}; use --precision fp32"
        )

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is a line, not a sequence of letters
        self, lines: str, options: SearchOptions | None = None, **changes: Unpack[SearchChanges]
    ) -> Translation: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, lines: Sequence[str], options: SearchOptions | None = None, **changes: Unpack[SearchChanges]
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, lines: Iterable[str], options: SearchOptions | None = None, **changes: Unpack[SearchChanges]
    ) -> Iterator[Translation]: ...
    def translate(
        self, lines: Iterable[str], options: SearchOptions | None = None, **changes: Unpack[SearchChanges]
    ) -> Translation | list[Translation] | Iterator[Translation]:
        """Translate one line, a list of lines, or lines as they come from an iterator.

        The result is of the same kind: a translation, a list, or an iterator that reads lines in windows (at first
        1,024, then up to 4,096) when its translations are asked for. A blank line has a blank translation. A line of
        more than ``decoding.max_source`` pieces is cut off, with an ``NmtWarning``.

        >>> translator = Translator.load("runs/tiny")
        >>> lines = (line.strip() for line in ["oak elm ", " yew"])
        >>> for translation in translator.translate(lines, beam_size=2, n_best=2):
        ...     print(translation.text, len(translation.hypotheses))
        ELM OAK 2
        YEW 2

        Args:
            lines: raw text without line ends.
            options: how to translate, all of it. Without them, the ``decoding`` section of the run's configuration
                holds, and attention is kept if the model has any.
            changes: single options that differ: ``beam_size=12, length_penalty=0.6, n_best=3, attention=False``.

        Raises ConfigError for an option out of its bounds, and for options that contradict each other; TypeError for an
        unknown option, and for lines that are none.
        """
        if options is None:
            changes.setdefault("attention", self.attends)
            options = SearchOptions.from_config(self.decoding, **changes)
        elif changes:
            options = options.changed(**changes)
        if not isinstance(lines, Iterable):
            raise TypeError(f"lines must be a str, a list of str, or an iterator of str; found {lines!r}")
        if isinstance(lines, str):
            return next(self.stream([lines], options, warn=_warn))
        translations = self.stream(lines, options, warn=_warn)
        return list(translations) if isinstance(lines, Sequence) else translations

    def stream(
        self,
        lines: Iterable[str],
        options: SearchOptions,
        *,
        prefixes: Sequence[str] = (),
        first: int = 1,
        window: int = WINDOW,
        first_window: int = FIRST_WINDOW,
        warn: Warn = no_warning,
        check_stop: CheckStop = never_stop,
        done: Done = uncounted,
    ) -> Iterator[Translation]:
        """Translate each line, in the order of the lines, while they come in: what :meth:`translate` and the commands
        call.

        ``prefixes`` has what the translation of each line must begin with, "" for none; a blank line has none.
        ``first`` is the number of the first line, which decides the random numbers of a sample. No more than ``window``
        lines are held at a time, at first ``first_window``. ``warn`` is told of each line that is cut off;
        ``check_stop`` is called between two batches, ``done`` is told how many lines each has. Raises ConfigError for a
        coverage penalty without attention.
        """
        before = 0
        searchable = self.searchable(options.beam_size)
        refuse_without_attention(options.coverage_penalty, searchable.attends)
        for text in windows(lines, first_window, window, _characters):
            begin = prefixes[before : before + len(text)]
            yield from self._translate_window(searchable, text, begin, first + before, options, warn, check_stop, done)
            before += len(text)
            self._give_back(len(text), sum(map(_characters, text)))

    def _give_back(self, lines: int, characters: int) -> None:
        """Give freed memory back to the system after each window of long lines, and after every ``FIRST_WINDOW`` lines,
        of one text or of many short ones: batches of all sizes leave gaps, which would add up."""
        self._unreleased += lines
        if self._unreleased >= FIRST_WINDOW or characters >= WINDOW_CHARACTERS:
            self._unreleased = 0
            release_freed_memory()

    def _translate_window(
        self,
        searchable: Searchable[Any],
        text: list[str],
        prefixes: Sequence[str],
        first: int,
        options: SearchOptions,
        warn: Warn,
        check_stop: CheckStop,
        done: Done,
    ) -> list[Translation]:
        results = [Translation(line, [], [BLANK]) for line in text]
        lines = []
        encoded = self.tokenizers.source.encode_first(text, options.max_source)
        begin = self.tokenizers.target.encode_first(prefixes, options.max_source) or [([], False)] * len(text)
        for number, ((ids, cut), (prefix, prefix_cut)) in enumerate(zip(encoded, begin, strict=True), first):
            if cut:
                warn(number, f"too long: only its first {len(ids)} pieces are translated")
            if prefix_cut:
                warn(number, f"its prefix is too long: only the first {len(prefix)} pieces are forced")
            if ids:
                lines.append(Line(number, ids, prefix))
        done(len(text) - len(lines))  # blank ones
        lines.sort(key=lambda line: -line.length)
        parts = list(batches(lines, options, most_rows(len(lines), self.device)))
        with side_by_side(self.device, len(parts)) as each:
            searches = each(lambda batch: search_batch(searchable, batch, options, self.tokenizers, self.device), parts)
            for batch, found in zip(parts, searches, strict=True):
                check_stop()
                for line, each_found in zip(batch, found, strict=True):
                    place = line.number - first
                    results[place] = self._translation(text[place], line, each_found, options)
                done(len(batch))
        return results

    def _translation(self, source: str, line: Line, found: Sequence[Hypothesis], options: SearchOptions) -> Translation:
        target = self.tokenizers.target
        order = self.specials.order(line.length)  # to undo: columns are in the order of the text
        translated = []
        for hypothesis in found:
            ended = [target.eos_id] if hypothesis.ended else []
            weights = None if hypothesis.attention is None else hypothesis.attention[:, order].numpy()
            translated.append(
                TranslatedHypothesis(
                    target.decode(hypothesis.tokens).replace("\r", " ").replace("\n", " "),
                    hypothesis.log_probability,
                    hypothesis.score,
                    target.pieces([*hypothesis.tokens, *ended]),
                    weights,
                )
            )
        pieces = self.tokenizers.source.pieces([*line.ids, self.specials.source_eos])
        return Translation(source, pieces, translated)


def _characters(line: str) -> int:
    """Count the characters of a line. Raises TypeError if it is something else."""
    if not isinstance(line, str):
        raise TypeError(f"a line to translate must be a str; found {line!r}")
    return len(line)
