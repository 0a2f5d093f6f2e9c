"""Translation of lines, shared by the library, validation and all commands."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, overload

import torch

from nmt import fast
from nmt.config.schema import Decoding
from nmt.data.batching import Specials
from nmt.data.tokenizer import Tokenizers
from nmt.device import precision_of, release_freed_memory, resolve_device
from nmt.errors import ConfigError, NmtWarning
from nmt.messages import UNSEEN, Step, silent
from nmt.runs.hub import local
from nmt.runs.loading import LoadedRun, load_run
from nmt.search.interface import Ensemble, Hypothesis, Searchable
from nmt.translation.results import BLANK, TranslatedHypothesis, Translation
from nmt.translation.searching import (
    FIRST_WINDOW,
    WINDOW,
    WINDOW_CHARACTERS,
    Line,
    SearchOptions,
    batches,
    most_rows,
    search_batch,
    side_by_side,
    windows,
)

Warn = Callable[[int, str], None]
"""Receives the number of a line, from 1, and what is wrong with it."""
CheckStop = Callable[[], None]
"""Called between two batches; raises ``Stopped`` if a stop was requested."""


def never_stop() -> None:
    """Go on."""


def _warn(number: int, problem: str) -> None:
    warnings.warn(f"line {number}: {problem}", NmtWarning, stacklevel=5)


class Translator:
    """Translates raw lines with a trained run; :meth:`load` makes one.

    >>> translator = Translator.load("runs/tiny")
    >>> translator.translate("oak elm").text
    'ELM OAK'
    >>> [each.text for each in translator.translate(["fig", "bay box"], beam_size=5)]
    ['FIG', 'BOX BAY']

    One call at a time: a translator is not for several threads at once.

    The ``searchable``, on ``device``, is a network, its fast twin or an ensemble. ``decoding`` has the options that a
    call does not change.
    """

    def __init__(
        self,
        searchable: Searchable[Any],
        tokenizers: Tokenizers,
        device: torch.device,
        decoding: Decoding | None = None,
    ) -> None:
        self.searchable = searchable
        self.tokenizers = tokenizers
        self.specials = Specials.of(tokenizers)
        self.device = device
        self.decoding = decoding or Decoding()
        self._unreleased = 0  # lines since freed memory was given back

    @classmethod
    def load(cls, runs: str | Path | Sequence[str | Path], device: str = "auto", precision: str = "fp32") -> Self:
        """Load the translator of a run, or of several that translate together, as the first one decodes.

        A run is a directory, or ``hf:OWNER/NAME`` of the Hugging Face hub.

        In fp32 its output does not depend on the batch size, except where hypotheses are equally probable to the last
        digits of fp32, as they may be for a network that has learned nothing.

        Raises FileError if a run cannot be used, ConfigError without runs, for a device that is not there, for
        int8 with plain kernels, and for runs that read the source in other pieces or in another order, that protect
        other spans, that write other pieces, or that translate in other directions.
        """
        paths = [local(str(run)) for run in ([runs] if isinstance(runs, str | Path) else runs)]
        if not paths:
            raise ConfigError("no run to load; name one run or more")
        where = resolve_device(device)
        products = precision_of(precision, where)
        loaded = [load_run(run, where) for run in paths]
        ConfigError.raise_if_any(_strangers(paths, loaded))
        return cls.of(loaded, where, products)

    @classmethod
    def of(cls, runs: Sequence[LoadedRun], device: torch.device, precision: torch.dtype) -> Self:
        """Make the translator of loaded runs. Raises ConfigError for int8 where it cannot be had."""
        members = [fast.search(run.model, precision, run.config.kernels) for run in runs]
        searchable = Ensemble(members) if len(members) > 1 else members[0]
        tokenizers = replace(runs[0].tokenizers, rough=any(run.tokenizers.rough for run in runs))
        return cls(searchable, tokenizers, device, runs[0].config.decoding)

    @property
    def attends(self) -> bool:
        """Whether translations have attention weights."""
        return self.searchable.attends

    def options(self, **changes: Any) -> SearchOptions:
        """Return how lines are translated: ``decoding`` with ``changes``, of which None changes nothing.

        Raises ConfigError for an unknown option, for one out of its bounds, for options that contradict each other, and
        for a tag that no training corpus has.
        """
        options = SearchOptions.from_config(self.decoding, **changes)
        ConfigError.raise_if_any(map(str, options.unknown_tag(self.tokenizers.protection.tags)))
        return options

    @overload
    def translate(self, lines: str, **changes: Any) -> Translation: ...
    @overload
    def translate(self, lines: Sequence[str], **changes: Any) -> list[Translation]: ...
    @overload
    def translate(self, lines: Iterable[str], **changes: Any) -> Iterator[Translation]: ...
    def translate(
        self, lines: Iterable[str], **changes: Any
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

        Lines are raw text without line ends. ``changes`` are options that differ from the ``decoding`` section of the
        run's configuration: ``beam_size=12, length_penalty=0.6, n_best=3``. Attention is kept, if the model has any,
        unless ``attention=False``.

        Raises the errors of :meth:`options`, and TypeError for lines that are not text.
        """
        options = self.options(**{"attention": self.attends, **changes})
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
        first: int = 1,
        window: int = WINDOW,
        first_window: int = FIRST_WINDOW,
        warn: Warn = silent,
        check_stop: CheckStop = never_stop,
        progress: Step = UNSEEN,
    ) -> Iterator[Translation]:
        """Translate each line, in the order of the lines, while they come in, for :meth:`translate` and the commands.

        ``first`` is the number of the first line, which decides the random numbers of a sample. No more than ``window``
        lines are held at a time, at first ``first_window``. ``warn`` is called for a line that is cut off or begins
        with an unknown tag, ``check_stop`` between two batches; ``progress`` counts lines before they come out.
        """
        for text in windows(lines, first_window, window, _characters):
            yield from self._translate_window(text, first, options, warn, check_stop, progress)
            first += len(text)
            # Return freed memory after each window of long lines, and after every FIRST_WINDOW lines, of one text or of
            # many short ones: batches of all sizes leave gaps, which would add up.
            self._unreleased += len(text)
            if self._unreleased >= FIRST_WINDOW or sum(map(_characters, text)) >= WINDOW_CHARACTERS:
                self._unreleased = 0
                release_freed_memory()

    def _translate_window(
        self, text: list[str], first: int, options: SearchOptions, warn: Warn, check_stop: CheckStop, progress: Step
    ) -> list[Translation]:
        results = [Translation(line, [], [BLANK]) for line in text]
        lines = []
        hidden = [self.tokenizers.hide(line) for line in text]
        encoded = self.tokenizers.source.encode_first([each.texts[0] for each in hidden], options.max_source)
        for number, (ids, cut) in enumerate(encoded, first):
            if unknown := self.tokenizers.protection.unknown_tag(text[number - first]):
                warn(number, unknown)
            if cut:  # of two warnings, a server returns the last
                warn(number, f"too long: only its first {len(ids)} pieces are translated")
            if ids:
                ids = self.tokenizers.tagged(ids, options.to)  # noqa: PLW2901
                lines.append(Line(number, ids, hidden[number - first].spans))
        progress.advance(len(text) - len(lines))  # blank ones
        lines.sort(key=lambda line: -line.length)
        parts = list(batches(lines, options, most_rows(len(lines), self.device)))
        with side_by_side(self.device, len(parts)) as each:
            searches = each(
                lambda batch: search_batch(self.searchable, batch, options, self.tokenizers, self.device), parts
            )
            for batch, found in zip(parts, searches, strict=True):
                check_stop()
                for line, each_found in zip(batch, found, strict=True):
                    place = line.number - first
                    results[place] = self._translation(text[place], line, each_found)
                progress.advance(len(batch))
        return results

    def _translation(self, source: str, line: Line, found: Sequence[Hypothesis]) -> Translation:
        target = self.tokenizers.target
        order = self.specials.order(line.length)  # to undo: columns are in the order of the text
        translated = []
        for hypothesis in found:
            ids = [*hypothesis.tokens, *([target.eos_id] if hypothesis.ended else [])]
            weights = None if hypothesis.attention is None else hypothesis.attention[:, order].numpy()
            text = target.decode(hypothesis.tokens, line.spans).replace("\r", " ").replace("\n", " ")
            pieces, log_probability = target.pieces(ids, line.spans), hypothesis.log_probability
            translated.append(TranslatedHypothesis(text, log_probability, hypothesis.score, pieces, weights, ids))
        ids = [*line.ids, self.specials.source_eos]
        return Translation(source, self.tokenizers.source.pieces(ids, line.spans), translated, ids, line.spans)


def _strangers(paths: Sequence[str | Path], runs: Sequence[LoadedRun]) -> Iterator[str]:
    """Find runs that cannot translate together with the first one."""
    first = runs[0]
    for path, run in zip(paths[1:], runs[1:], strict=True):
        for side, known in first.tokenizers.sha256.items():
            if (found := run.tokenizers.sha256[side]) != known:
                problem = f"its {side} tokenizer (SHA-256 {found[:12]}) is not that of {paths[0]} ({known[:12]})"
                remedy = "train both with the same model files (tokenizer.type: given)"
                yield f"{path}: {problem}; an ensemble reads and writes the same pieces: {remedy}"
        for key in ("reverse_source", "protect", "source_language", "target_language"):
            here, there = (getattr(each.config.data, key) for each in (run, first))
            if here != there:
                yield f"{path}: data.{key} is {here!r}, that of {paths[0]} is {there!r}; must be the same"


def _characters(line: str) -> int:
    """Count the characters of a line. Raises TypeError if it is something else."""
    if not isinstance(line, str):
        raise TypeError(f"a line to translate must be a str; found {line!r}")
    return len(line)
