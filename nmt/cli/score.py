"""nmt-score: the probabilities of given translations."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat, tee
from typing import TYPE_CHECKING

from nmt.cli.command import Command
from nmt.cli.files import count_lines, open_outputs, require_attention, word_links, write_rows
from nmt.cli.options import Device, InputFile, OutputFile, RunPath
from nmt.config import load_run_config
from nmt.config.schema import Decoding, Size, Text
from nmt.data.corpus import Pair, aligned_pairs
from nmt.errors import ConfigError, NmtWarning
from nmt.messages import counted

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.forced import ForcedDecoding, WarnOfSide


def score(
    *,
    model: RunPath,
    source: InputFile,
    target: InputFile,
    n_best: Size = 1,
    to: Text | None = None,
    output: OutputFile | None = None,
    pieces: OutputFile | None = None,
    alignments: OutputFile | None = None,
    reverse_model: RunPath | None = None,
    device: Device = "auto",
) -> None:
    """Score given translations: how probable a run finds each one.

    Write three tab-separated numbers for each pair: the score by which search ranks translations, the
    log-probability, and its mean over the pieces of the translation. Logarithms are natural; the end symbol is a piece.

    Args:
        model: run directory of nmt-train
        source: raw source text, also as .gz or .xz
        target: raw translations, line by line
        n_best: translations of each line of the source
        to: tag put before each source without one (default: decoding.to)
        output: numbers, a line for each pair (default: standard output)
        pieces: write source pieces, target pieces and the log-probability of each, one JSON object per pair
        alignments: write word alignments: i-j joins source word i and target word j, from 0
        reverse_model: run that translates the target into the source: --alignments joins the links of both by
            grow-diag-final-and

    examples:
      nmt-score --model runs/en-fr --source test.en --target test.fr --pieces test.jsonl --alignments test.align
      nmt-score --model runs/en-fr --source test.en --target test.5-best.fr --n-best 5 --output test.5-best.scores
    """
    require_attention([model], {"--alignments": alignments})
    config = load_run_config(model)
    data = config.data
    ConfigError.raise_if_any(map(str, Decoding(to=to).unknown_tag(data.tags)))
    if reverse_model is not None:
        require_attention([reverse_model], {"--reverse-model": True})
        other = load_run_config(reverse_model).data
        if (other.target_language, other.source_language) != (data.source_language, data.target_language):
            found = f"{reverse_model} translates {other.source_language} to {other.target_language}"
            raise ConfigError(f"--reverse-model: {found}; must be {data.target_language} to {data.source_language}")
        if not alignments:
            raise ConfigError("--reverse-model: has no effect without --alignments")
    from nmt.device import resolve_device  # noqa: PLC0415  (slow to import)
    from nmt.runs.loading import load_run  # noqa: PLC0415
    from nmt.translation.forced import BLANK, force  # noqa: PLC0415
    from nmt.translation.searching import SearchOptions  # noqa: PLC0415

    def warn(side: str, pair: int, problem: str) -> None:
        line, copy = divmod(pair - 1, n_best if side == "source" else 1)
        if copy == 0:  # a source is read once for each of its translations
            path = source if side == "source" else target
            warnings.warn(f"{path}:{line + 1}: {problem}", NmtWarning, stacklevel=2)

    def warn_reverse(side: str, pair: int, problem: str) -> None:
        warn("target" if side == "source" else "source", pair, f"{reverse_model}: {problem}")

    place = resolve_device(device)

    def decode(
        path: str, pairs: Iterator[Pair], warn: "WarnOfSide", to: str | None = None
    ) -> "Iterator[tuple[Pair, ForcedDecoding]]":
        run, keep = load_run(path, place), alignments is not None
        limits = SearchOptions.from_config(run.config.decoding, to=to)
        return force(run.network, run.tokenizers, pairs, place, limits=limits, keep_attention=keep, warn=warn)

    pairs = aligned_pairs(source, target, n_best)
    reverse: Iterator[ForcedDecoding | None] = repeat(None)
    if reverse_model is not None:
        pairs, again = tee(pairs)  # both are read in the same windows
        swapped = (Pair(pair.target, pair.source) for pair in again)
        reverse = (forced for _, forced in decode(reverse_model, swapped, warn_reverse))
    scored = decode(model, pairs, warn, to)
    if output is not None or not sys.stdout.isatty():
        scored = counted(scored, target, count_lines(target), "lines")
    with ExitStack() as stack:
        outputs = open_outputs(
            [
                (output, lambda _, forced, __: format_numbers(forced, config.decoding.length_penalty)),
                (pieces, lambda _, forced, __: format_pieces(forced)),
                (alignments, format_pair_links),
            ],
            stack,
        )
        for (pair, forced), backward in zip(scored, reverse, strict=False):
            blank = len(forced.source_pieces) == len(forced.target_pieces) == 1
            write_rows(outputs, (pair, BLANK if blank else forced, backward))


main = Command(score)


def format_numbers(forced: "ForcedDecoding", alpha: float) -> str:
    """Return score, log-probability, and log-probability per piece."""
    return f"{forced.score(alpha):.4f}\t{forced.log_probability:.4f}\t{forced.per_piece:.4f}"


def format_pieces(forced: "ForcedDecoding") -> str:
    """Return a JSON object: source pieces, target pieces, and the log-probability of each target piece."""
    rounded = [round(each, 4) for each in forced.log_probabilities.tolist()]
    content = {"source": forced.source_pieces, "target": forced.target_pieces, "log_probabilities": rounded}
    return json.dumps(content, ensure_ascii=False)


def format_pair_links(pair: Pair, forced: "ForcedDecoding", backward: "ForcedDecoding | None") -> str:
    """Return links between whitespace words, joined with those of the other direction; "" for a blank pair."""
    from nmt.evaluation.alignment import format_pharaoh, symmetrized  # noqa: PLC0415  (slow to import)

    links = word_links(forced.attention, (forced.source_pieces, forced.target_pieces), pair)
    if backward is not None:
        back = word_links(backward.attention, (backward.source_pieces, backward.target_pieces), pair[::-1])
        links = sorted(symmetrized(frozenset(links), frozenset((i, j) for j, i in back)))
    return format_pharaoh(links)
