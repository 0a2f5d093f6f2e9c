"""Translation of a large text by several processes: which shard this one takes, what it says, who joins the chunks."""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt import __version__
from nmt.cli.common import importing, say
from nmt.cli.decoding import load_models, warn_of_line, watched_lines
from nmt.cli.formats import Form, forms, rows
from nmt.cli.options import refuse_useless, whole
from nmt.cli.shortlisted import ListedPieces
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError, FileError
from nmt.foundation.files import digest, fingerprint
from nmt.foundation.launch import rank_and_size
from nmt.foundation.messages import step
from nmt.translation.job import CHUNK_LINES, Description, Job, Shard, Text, slices

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.options import SearchOptions
    from nmt.translation.results import Translation
    from nmt.translation.translator import Done, Translator


def add_shard_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--shard I/N`` and ``--chunk-lines N``."""
    group = parser.add_argument_group("large texts, by processes that may be killed and started again")
    group.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="translate shard I of N, from 1/N to N/N, in chunks that are kept in the directory OUTPUT.job; the same "
        "command goes on after a kill, and the shard that is finished last joins the chunks; 1/1 is all of it "
        "(default: under torchrun that of the process, else none)",
    )
    group.add_argument(
        "--chunk-lines",
        type=whole(1),
        metavar="N",
        help=f"lines of a chunk, which is translated anew if it was not finished (default: {CHUNK_LINES})",
    )


def _shard(text: str) -> Shard:
    index, slash, size = text.partition("/")
    if not (slash and index.isdecimal() and size.isdecimal() and 1 <= int(index) <= int(size)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a shard; of four they are 1/4, 2/4, 3/4 and 4/4")
    return Shard(int(index) - 1, int(size))


def shard_of(arguments: argparse.Namespace) -> Shard | None:
    """Return the shard that this process is to translate, None to translate lines as they come.

    The processes of torchrun divide the shard of ``--shard`` among themselves. Raises ConfigError for options and
    variables that do not fit.
    """
    shard: Shard | None = arguments.shard
    why = "--shard"
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        rank, size = rank_and_size()
        job_shard = shard or Shard(0, 1)
        shard = Shard(job_shard.rank * size + rank, job_shard.size * size)
        why = "torchrun (RANK and WORLD_SIZE are set)"
    if shard is None:
        refuse_useless(arguments, ("chunk_lines",), "without --shard or torchrun; --shard 1/1 is the whole text")
        return None
    problems = [
        f"--{option}: is missing; {why} needs files to read and to write"
        for option in ("input", "output")
        if getattr(arguments, option) is None
    ]
    problems += [
        f"--{option} {path}: must be a regular file with {why}"
        for option, (path, _) in forms(arguments).items()
        if path is not None and Path(path).exists() and not Path(path).is_file()
    ]
    if arguments.precision == "auto":
        problems.append(
            "--precision auto: each process, and each new start, would measure anew and may choose otherwise; "
            f"with {why} name fp32, bf16 or int8"
        )
    if problems:
        raise ConfigError(*problems)
    return shard


def translate_shard(
    arguments: argparse.Namespace,
    shard: Shard,
    search_options: "Callable[[argparse.Namespace, Translator], SearchOptions]",
) -> None:
    """Translate the chunks of a shard that are not there yet, and join all if none is missing then."""
    text = Text.of(arguments.input)
    prefixes = None
    if arguments.prefix is not None:
        prefixes = Text.of(arguments.prefix)
        refuse_other_prefixes(arguments.input, text.lines, arguments.prefix, prefixes.lines)
    before = _models(arguments.model, fingerprint)
    models = _models(arguments.model, digest)
    translator = load_models(arguments.model, arguments, **own_device(arguments.device))
    if before != _models(arguments.model, fingerprint):
        refuse_other_models(models, _models(arguments.model, digest))
    options = search_options(arguments, translator)
    chunk_lines = arguments.chunk_lines or CHUNK_LINES
    written = {kind: (Path(path), form) for kind, (path, form) in forms(arguments).items() if path is not None}
    results = {kind: path for kind, (path, _) in written.items()}
    job = Job(Path(f"{arguments.output}.job"), text.lines, chunk_lines, options.n_best, results)
    job.begin(
        {
            "version": __version__,
            "input": text.sha256,
            "prefix": prefixes and prefixes.sha256,
            "chunk-lines": chunk_lines,
            **_described(arguments, translator, options),
            "models": models,
        }
    )
    if chunks := [chunk for chunk in job.missing() if shard.has(chunk)]:
        total, me = sum(len(job.span(chunk)) for chunk in chunks), f"{arguments.command}: shard {shard}"
        if os.environ.get("RANK", "0") == "0":  # of the processes of a torchrun, one speaks
            say(f"{me}: {total:,} lines to translate")
        kinds, listed = {kind: form for kind, (_, form) in written.items()}, ListedPieces()
        try:
            with step(me, total, "lines") as progress:
                for chunk, found in _translated(arguments, shard, job, chunks, translator, options, progress.advance):
                    write_chunk(job, chunk, listed.counted(found), kinds, [each for each in (text, prefixes) if each])
        except FileNotFoundError:
            if not job.joined:  # by another process with the same shard, which has deleted what this one was writing
                raise
        listed.tell(translator, me)
    finish(job, shard, arguments)


def _translated(
    arguments: argparse.Namespace,
    shard: Shard,
    job: Job,
    chunks: list[int],
    translator: "Translator",
    options: "SearchOptions",
    done: "Done",
) -> "Iterator[tuple[int, Iterator[Translation]]]":
    """Yield the translations of each chunk, all of which must be taken before those of the next."""
    name, spans = arguments.input, [job.span(chunk) for chunk in chunks]
    lines = read_lines(name)
    if shard.rank == 0:  # the others would say the same
        lines = iter(watched_lines(translator, lines, arguments, run=arguments.model[0], source=name))
    prefixes = slices([] if arguments.prefix is None else read_lines(arguments.prefix), spans)
    for chunk, span, text, begin in zip(chunks, spans, slices(lines, spans), prefixes, strict=True):
        yield (
            chunk,
            translator.stream(
                text,
                options,
                prefixes=list(begin),
                first=span.start + 1,
                first_window=len(span),
                warn=warn_of_line(arguments, name),
                done=done,
            ),
        )


def write_chunk(
    job: Job, chunk: int, translations: "Iterator[Translation]", kinds: dict[str, Form], texts: Sequence[Text] = ()
) -> None:
    """Write what is wanted of each translation of a chunk. Raises DataError if there are too few of them, or if one of
    the ``texts`` that they are made from has changed: the job names what it was."""
    count = 0
    with ExitStack() as stack:
        files = [(stack.enter_context(job.writing(chunk, kind)), form) for kind, form in kinds.items()]
        for translation in translations:
            count += 1
            for file, form in files:
                file.write("".join(f"{row}\n" for row in rows(translation, form, job.rows)).encode())
        for text in texts:
            text.refuse_changed()
        if count != len(job.span(chunk)):
            raise DataError("the input has fewer lines than it had when the job began; do not change it meanwhile")


def finish(job: Job, shard: Shard, arguments: argparse.Namespace) -> None:
    """Join all chunks if none is missing; otherwise say which are, and whose they are."""

    def tell(what: str) -> None:
        say(f"{arguments.command}: shard {shard}: {what}")

    if job.joined:
        job.join()
        return tell(f"{arguments.output} is finished; delete {job.folder} to translate again")
    missing = job.missing()
    if missing:
        whose = sorted({chunk % shard.size + 1 for chunk in missing})
        named = ", ".join(f"{number}/{shard.size}" for number in whose[:10])
        more = ", ..." if len(whose) > 10 else ""
        return tell(
            f"done; missing chunks: {len(missing):,} of {job.chunks:,}, of {named}{more}; the shard that is finished "
            "last joins them"
        )
    job.join()
    return tell(f"all shards done: {job.lines:,} lines translated, in {arguments.output}")


# --- what a job is ----------------------------------------------------------------------------------------------------


def refuse_other_prefixes(name: str, lines: int, path: str, prefixes: int) -> None:
    """Raise DataError for a file of prefixes without one for each of the lines of ``name``."""
    if lines != prefixes:
        raise DataError(
            f"{name} has {lines:,} lines and --prefix {path} has {prefixes:,}: "
            "line n of the prefixes must be what the translation of line n begins with, or empty"
        )


def refuse_other_models(before: Description, after: Description) -> None:
    """Raise FileError if a model was replaced while it was loaded, as training does: the job would name another."""
    if before != after:
        raise FileError("--model: was replaced while it was loaded; translate when its training has finished")


def own_device(name: str | None) -> dict[str, str]:
    """The GPU of this process, where torchrun has started one for each of several GPUs."""
    with importing():
        import torch  # noqa: PLC0415

    local = os.environ.get("LOCAL_RANK")
    several = local is not None and torch.cuda.device_count() > 1
    return {"device": f"cuda:{local}"} if several and name in (None, "auto", "cuda") else {}


SAME_RESULT = ("batch_tokens", "attention")
"""Fields of ``SearchOptions`` that decide no translation: a job may go on with smaller batches."""


def _described(arguments: argparse.Namespace, translator: "Translator", options: "SearchOptions") -> Description:
    """What decides the translation of a line beside the models, as JSON: the search, and what is written of it."""
    described: dict[str, Any] = {
        field.name: getattr(options, field.name) for field in fields(options) if field.name not in SAME_RESULT
    }
    return described | {
        "sampling": options.sampling and asdict(options.sampling),
        "risk": options.risk and {"samples": options.risk.samples, "utility": arguments.mbr_utility or "chrf"},
        "unknown": options.unknown and {"dictionary": arguments.dictionary and digest(Path(arguments.dictionary))},
        "shortlist": arguments.shortlist and digest(Path(arguments.shortlist)),
        "precision": str(translator.precision).removeprefix("torch."),
        "scores": arguments.scores,
        **{kind: path is not None for kind, (path, _) in forms(arguments).items()},
    }


def _models(runs: Sequence[str], of: Callable[[Path], Any]) -> Description:
    """The checksums, or fingerprints, of what runs translate with, by number."""
    return {str(number): _model(run, of) for number, run in enumerate(runs, 1)}


def _model(run: str, of: Callable[[Path], Any]) -> Description:
    """The checksums, or fingerprints, of what a run translates with."""
    from nmt.runs.directory import RunDirectory  # noqa: PLC0415

    directory = RunDirectory(run)
    files = {
        "config": directory.config,
        "source tokenizer": directory.tokenizer / "source.model",
        "target tokenizer": directory.tokenizer / "target.model",
        "weights": directory.folder("best") / "model.safetensors",
    }
    return {name: of(path) for name, path in files.items() if path.is_file()}  # loading explains what is missing
