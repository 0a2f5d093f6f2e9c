"""Measure translation with a shortlist and without one, in alternation."""

import statistics
import time
from dataclasses import dataclass

import torch

from nmt.config.schema.run import BleuTokenizer
from nmt.evaluation.metrics import bleu
from nmt.foundation.device import format_of, keep_freed_memory
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.shortlist import Shortlist
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class ShortlistRow:
    """Both ways of one search, on one thread of the processor."""

    run: str
    beam_size: int
    precision: str
    sentences: int
    sentences_per_second: float
    """With all pieces; of the processor's time, which other programs lengthen less than the time on the clock."""
    listed_per_second: float
    """With the shortlist."""
    mean_list: float
    """Pieces of a line's list."""
    changed: int
    """Best hypotheses that differ."""
    bleu: float | None
    listed_bleu: float | None


def measure_shortlist(
    run: str,
    shortlist: str,
    lines: list[str],
    references: list[str],
    tokenizer: BleuTokenizer,
    beam_size: int,
    precision: str,
    repeats: int,
) -> ShortlistRow:
    """Translate the lines ``repeats`` times each way, with tokenization but without the loading of the model."""
    torch.set_num_threads(1)
    translator = Translator.load(run, "cpu", precision)
    keep_freed_memory()
    tokenizers = translator.tokenizers
    listed = Shortlist.load(shortlist, tokenizers)
    options = [
        SearchOptions.from_config(translator.decoding, beam_size=beam_size, shortlist=each) for each in (None, listed)
    ]
    found: list[list[Translation]] = [translator.translate(lines, each) for each in options]  # a warm-up
    taken: list[list[float]] = [[], []]
    for _ in range(repeats):
        for times, each in zip(taken, options, strict=True):
            started = time.process_time()
            translator.translate(lines, each)
            times.append(time.process_time() - started)
    whole, some = ([each.text for each in translations] for translations in found)
    scores = [bleu(texts, references, tokenizer).value if references else None for texts in (whole, some)]
    sizes = [len(listed.of(ids, (), tokenizers)) for ids in tokenizers.source.encode(lines)]
    return ShortlistRow(
        run,
        beam_size,
        format_of(translator.precision),
        len(lines),
        len(lines) / statistics.median(taken[0]),
        len(lines) / statistics.median(taken[1]),
        statistics.mean(sizes),
        sum(map(str.__ne__, whole, some)),
        scores[0],
        scores[1],
    )
