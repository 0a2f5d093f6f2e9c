"""Made texts: lines translated by finished runs, filtered by round trips, and kept with what they were made from.

Until it is finished, a text lies in a directory of its own. A second call keeps the lines that are there, unless a
model or an option has changed.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sacrebleu.metrics.chrf import CHRF

from nmt.data.corpus import Pair
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError
from nmt.experiments.jobs import Say
from nmt.experiments.plan import Plan
from nmt.experiments.runs import PlannedText, Run
from nmt.experiments.scores import with_defaults
from nmt.files import digest, read_json, replacing, write_json
from nmt.runs.directory import RunDirectory, lock
from nmt.search import Sampling
from nmt.translation.files import translate_file
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop
from nmt.translation.watching import load_watched

Progress = Callable[[Iterable[str], str], Iterable[str]]
"""Passes lines on and shows how many there were; told what they are."""
NAME_LENGTH = 12
"""Characters of the name of the directory of an unfinished text, which says what the text is made from."""


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

    Raises DataError if there is no line or no pair is kept, ConfigError if another process makes the text or the models
    do not fit together, and what ``check_stop`` raises.
    """
    folder = text.folder / f"{text.name}.part"
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(folder, say))
        except ConfigError:
            raise ConfigError(f"{text.name}: another process makes it in {folder}; let it finish or stop it") from None
        origin = made_from(text)
        begun = folder / hashlib.sha256(json.dumps(origin).encode()).hexdigest()[:NAME_LENGTH]
        for other in folder.glob("?" * NAME_LENGTH):
            if other != begun:  # of models or options that have changed
                shutil.rmtree(other)
        begun.mkdir(exist_ok=True)
        pairs = _translated_pairs(begun, text, say, check_stop, progress)
        kept = _write_pairs(pairs, text.lines, text.translations)
        if not kept:
            raise DataError(f"{text.name}: no pair passes texts.{text.name}.round_trip.chrf; use less")
        say(f"{text.name}: {kept:,} pairs: {text.lines}, {text.translations}")
        sha256 = {path.name: digest(path) for path in (text.lines, text.translations)}
        write_json(text.manifest, {"made_from": origin, "pairs": kept, "sha256": sha256})
        shutil.rmtree(folder)


def _translated_pairs(
    folder: Path, text: PlannedText, say: Say, check_stop: CheckStop, progress: Progress
) -> Iterator[Pair]:
    """Translate, and translate back, in a directory; keep what is there already."""
    if (threads := text.models[0].config.threads) is not None:
        torch.set_num_threads(threads)
    lines, translations, returned = (folder / name for name in ("lines", "translations", "returned"))
    if not lines.exists():
        with replacing(lines) as file:
            file.writelines(f"{line}\n".encode() for line in _lines(text))

    def translate(runs: Sequence[Run], source: Path, target: Path, options: SearchOptions) -> Iterator[str]:
        say(f"{text.name}: translating by {', '.join(run.label for run in runs)}")
        translator = load_watched([run.path for run in runs], runs[0].config.device)
        if not target.exists():  # the name of the directory describes it
            shown = progress(read_lines(source), text.name)
            translate_file(translator, shown, target, options, {}, say, check_stop)
        return read_lines(target)

    samples = text.of.sampling and Sampling(**text.of.sampling.model_dump())
    options = SearchOptions.from_config(text.decoding, sampling=samples)
    translated = translate(text.models, lines, translations, options)
    pairs = (Pair(*pair) for pair in zip(read_lines(lines), translated, strict=True))
    if text.of.round_trip is None:
        return pairs
    options = SearchOptions.from_config(text.back[0].config.decoding)
    return round_trips(pairs, translate(text.back, translations, returned, options), text.of.round_trip.chrf)


def round_trips(pairs: Iterable[Pair], returned: Iterable[str], least: float) -> Iterator[Pair]:
    """Keep the pairs whose first text is like what came back of it: chrF of at least ``least``."""
    chrf = CHRF()
    for pair, back in zip(pairs, returned, strict=True):
        if chrf.sentence_score(back, [pair.source]).score >= least:
            yield pair


def _lines(text: PlannedText) -> Iterator[str]:
    """The lines to translate. Raises DataError if there are none."""
    of, empty = text.of, True
    for line in islice(read_lines(of.source), of.skip, None if of.limit is None else of.skip + of.limit):
        empty = False
        yield line
    if empty:
        skipped = f" after the first {of.skip:,}, which texts.{text.name}.skip leaves out" if of.skip else ""
        raise DataError(f"{of.source}: has no line{skipped}")


def stand_in(text: PlannedText, lines: Path, translations: Path) -> None:
    """Write a text of the same length for a rehearsal, in which each line is its own translation."""
    _write_pairs((Pair(line, line) for line in _lines(text)), lines, translations)


@contextmanager
def stand_ins(plan: Plan, whole: Plan, say: Say) -> Iterator[Path | None]:
    """Make a temporary folder of texts for a rehearsal; None if all texts that the runs of ``plan`` read are made.

    A text that is not made yet is replaced by its lines, each its own translation.
    """
    read = {name for run in plan.runs for name in run.texts}
    texts = [text for text in whole.texts if text.name in read]
    if all(map(is_made, texts)):
        yield None
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        for text in texts:
            lines, translations = (folder / path.name for path in (text.lines, text.translations))
            if is_made(text):
                lines.symlink_to(text.lines.absolute())
                translations.symlink_to(text.translations.absolute())
            else:
                say(f"{text.name}: rehearsed with untranslated lines")
                stand_in(text, lines, translations)
        yield folder


def _write_pairs(pairs: Iterable[Pair], lines: Path, translations: Path) -> int:
    """Write each side to its file; return the number of pairs. A file is there when it is whole."""
    count = 0
    with replacing(lines) as first, replacing(translations) as second:
        for line, translation in pairs:
            first.write(f"{line}\n".encode())
            second.write(f"{translation}\n".encode())
            count += 1
    return count
