"""Made texts: lines translated by finished runs, filtered by round trips, and kept with what they were made from.

Until it is finished, a text lies in a directory of its own. What is there is kept by a second call, unless a model or
an option has changed.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from nmt.config.schema import Decoding
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.utility import sentence_chrf
from nmt.experiments.jobs import Say
from nmt.experiments.runs import PlannedText, Run
from nmt.experiments.scores import with_defaults
from nmt.foundation.files import digest, read_json, write_json
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import lock
from nmt.search import Sampling
from nmt.translation.ensemble import load_translator
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop

Progress = Callable[[Iterable[str], str], Iterable[str]]
"""Passes lines on and shows how many there were; told what they are."""
Pairs = Iterator[tuple[str, str]]
"""Lines and their translations."""


# --- what a text was made from ----------------------------------------------------------------------------------------


def made_from(text: PlannedText) -> dict[str, Any]:
    """Everything that a text depends on. Raises OSError if a run or the input is missing."""
    of, back = text.of, text.of.round_trip
    return {
        "weights_sha256": _weights(text.models),
        "source_sha256": digest(Path(of.source)),
        "lines": [of.skip, of.limit],
        "decoding": text.decoding.model_dump(mode="json"),
        "sampling": of.sampling and of.sampling.model_dump(mode="json"),
        "round_trip": back
        and {
            "weights_sha256": _weights(text.back),
            "chrf": back.chrf,
            "decoding": text.back[0].config.decoding.model_dump(mode="json"),
        },
    }


def _weights(runs: Sequence[Run]) -> list[str]:
    return [digest(RunDirectory(run.path).checkpoints / "best" / "model.safetensors") for run in runs]


def is_made(text: PlannedText) -> bool:
    """Whether the text is there, whole, and what its models would make now."""
    files = text.lines, text.translations
    if not all(path.exists() for path in (text.manifest, *files)):
        return False
    kept = read_json(text.manifest)
    try:
        same = isinstance(kept, dict) and with_defaults(kept.get("made_from")) == made_from(text)
    except OSError:  # a run is gone
        return False
    return same and kept.get("sha256") == {path.name: digest(path) for path in files}


# --- making it --------------------------------------------------------------------------------------------------------


def make(text: PlannedText, say: Say, check_stop: CheckStop, progress: Progress) -> None:
    """Translate the lines, filter the pairs, and write both sides.

    Raises DataError if the input has no line or no pair is kept, ConfigError if another process makes the text or the
    models do not fit together, and what ``check_stop`` raises.
    """
    folder = text.folder / f"{text.name}.part"
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(folder, say))
        except ConfigError:
            raise ConfigError(f"{text.name}: another process makes it in {folder}; let it finish or stop it") from None
        _make_in(folder, text, say, check_stop, progress)
        shutil.rmtree(folder)


def _make_in(folder: Path, text: PlannedText, say: Say, check_stop: CheckStop, progress: Progress) -> None:
    if (threads := text.models[0].config.threads) is not None:
        torch.set_num_threads(threads)
    origin = made_from(text)
    begun, lines, translations, returned = (
        folder / name for name in ("made_from.json", "lines", "translations", "returned")
    )
    if begun.exists() and with_defaults(read_json(begun)) != origin:
        for path in (begun, lines, translations, returned):
            path.unlink(missing_ok=True)
    write_json(begun, origin)
    read = _write(lines, (pair[0] for pair in _input(text)))
    how = text.decoding, text.of.sampling and Sampling(**text.of.sampling.model_dump())

    def translate(runs: Sequence[Run], source: Path, target: Path, *how: Any) -> None:
        if not target.exists():
            say(f"{text.name}: translating {read:,} lines by {', '.join(run.label for run in runs)}")
            translated = _translated(runs, progress(read_lines(source), text.name), check_stop, *how)
            _write(target, translated)

    translate(text.models, lines, translations, *how)
    pairs: Pairs = zip(read_lines(lines), read_lines(translations), strict=True)
    if text.of.round_trip is not None:
        translate(text.back, translations, returned, text.back[0].config.decoding, None)
        pairs = round_trips(pairs, read_lines(returned), text.of.round_trip.chrf)
    kept = _write_pairs(pairs, text.lines, text.translations)
    if not kept:
        raise DataError(f"{text.name}: none of {read:,} pairs passes texts.{text.name}.round_trip.chrf; use less")
    say(f"{text.name}: {kept:,} of {read:,} pairs kept: {text.lines}, {text.translations}")
    sha256 = {path.name: digest(path) for path in (text.lines, text.translations)}
    write_json(text.manifest, {"made_from": origin, "read": read, "kept": kept, "sha256": sha256})


def _input(text: PlannedText) -> Pairs:
    """The lines to translate, each twice. Raises DataError if there are none."""
    of = text.of
    end = None if of.limit is None else of.skip + of.limit
    empty = True
    for line in islice(read_lines(of.source), of.skip, end):
        empty = False
        yield line, line
    if empty:
        raise DataError(
            f"{of.source}: has no line after the first {of.skip:,}" if of.skip else f"{of.source}: is empty"
        )


def stand_in(text: PlannedText, lines: Path, translations: Path) -> None:
    """Write a text of the same length for a rehearsal, in which each line is its own translation."""
    _write_pairs(_input(text), lines, translations)


def _translated(
    runs: Sequence[Run], lines: Iterable[str], check_stop: CheckStop, decoding: Decoding, sampling: Sampling | None
) -> Iterator[str]:
    """Translate lines by an ensemble."""
    translator = load_translator([run.path for run in runs], runs[0].config.device)
    options = SearchOptions.from_config(decoding, sampling=sampling)
    for translation in translator.translate(lines, options, check_stop=check_stop):
        yield translation.text


def round_trips(pairs: Pairs, returned: Iterable[str], least: float) -> Pairs:
    """Keep the pairs whose first text is like what came back of it: chrF of at least ``least``."""
    for (line, translation), back in zip(pairs, returned, strict=True):
        if float(sentence_chrf([back, line])[0, 1]) >= least:
            yield line, translation


def _write_pairs(pairs: Pairs, *paths: Path) -> int:
    """Write each side to its file; return the number of pairs. Neither file is there before both are whole."""
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    aside = [path.with_name(f".{path.name}.new") for path in paths]
    count = 0
    with aside[0].open("w", encoding="utf-8", newline="\n") as first, aside[1].open("w", encoding="utf-8") as second:
        for one, other in pairs:
            first.write(f"{one}\n")
            second.write(f"{other}\n")
            count += 1
    for each, path in zip(aside, paths, strict=True):
        each.replace(path)
    return count


def _write(path: Path, lines: Iterable[str]) -> int:
    """Write a file that is there when it is whole; return the number of lines."""
    aside, count = path.with_name(f".{path.name}.new"), 0
    with aside.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")
            count += 1
    aside.replace(path)
    return count
