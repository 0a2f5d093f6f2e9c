"""Files of the commands: checks before a command begins, and streams of lines in and out."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from nmt.config import Config, load_run_config
from nmt.config.loading import is_run
from nmt.config.schema import Section
from nmt.data.corpus import decode_lines, read_lines, require_readable, unreadable
from nmt.errors import ConfigError, DataError, FileError, noted, of_key, tried
from nmt.files import why_unwritable, writing

if TYPE_CHECKING:
    from nmt.data.links import Link
    from nmt.evaluation.alignment import Weights

# --- checks -----------------------------------------------------------------------------------------------------------


def require_run(path: str) -> None:
    """Raise the error of a run directory that cannot translate, as far as that shows without PyTorch."""
    load_run_config(path)
    checkpoints = Path(path, "checkpoints")
    if not any("best" in each.name for each in checkpoints.glob("*")):
        raise FileError(f"{checkpoints / 'best'}: missing; a run has it after its first validation")


def require_system(path: str) -> None:
    """Raise an error for what is neither a run directory that can translate nor a readable file."""
    if Path(path, "config.yaml").exists():
        require_run(path)
    elif not Path(path).exists():
        raise DataError(f"{path}: no such run directory or file{tried(path)}")
    elif not Path(path).is_dir():
        require_readable(path)


def require_writable(path: str) -> None:
    """Raise DataError now for a file that could not be written after hours of work."""
    file, folder = Path(path), Path(path).parent
    if file.is_dir():
        code, remedy = errno.EISDIR, "name a file in it"
    elif not folder.exists():
        code, remedy = errno.ENOENT, f"make the directory {folder}{tried(folder)}, or choose another"
    else:
        code, remedy = 0 if folder.is_dir() else errno.ENOTDIR, "choose another file, or change the permissions"
    if problem := os.strerror(code) if code else why_unwritable(file if file.exists() else folder):
        raise DataError(f"{path}: cannot be written: {problem}; {remedy}")


def require_attention(runs: Sequence[str], options: Mapping[str, object]) -> None:
    """Raise ConfigError for options that are given although none of the runs has attention."""
    if all(load_run_config(run).model.attention.type == "none" for run in runs):
        why = f"{', '.join(runs)} has no attention (model.attention.type is none)"
        ConfigError.raise_if_any(f"{name}: {why}" for name, value in options.items() if value)


class NamedPath(NamedTuple):
    """A path that a command reads or writes."""

    label: str
    """Names it in messages: an option or a key."""
    path: str
    written: bool = False
    check: Callable[[str], None] | None = None
    """Raises the error of a path that cannot be read or written."""


def look_at(paths: Sequence[NamedPath]) -> None:
    """Raise ConfigError for an output that is also an input, another output, or inside a run directory; then DataError
    with every path that cannot be read or written."""
    taken: dict[str, str] = {}
    standard_input = NamedPath("standard input", "/dev/stdin")
    for label, path, written, _ in sorted([standard_input, *paths], key=lambda each: each.written):
        real = os.path.realpath(path)
        if Path(path).exists() and not Path(path).is_file():  # a pipe or a device; of a directory, the files count
            continue
        if written:
            if real in taken:
                raise ConfigError(f"{label} {path}: is the same file as {taken[real]}; choose another")
            for folder in Path(real).parents:
                if is_run(folder):
                    raise ConfigError(f"{label} {path}: is inside the run directory {folder}; choose a file outside it")
        taken.setdefault(real, label)
    problems: list[str] = []
    for each in paths:
        with noted(problems):
            if each.check is not None:
                each.check(each.path)
    DataError.raise_if_any(problems)


def look_at_corpora(config: Config) -> None:
    """Raise DataError with every file of a corpus, tokenizer, glossary or gold alignment that cannot be read."""
    data, problems = config.data, list[str]()
    sections: dict[str, Section | None] = {f"data.{key}": corpus for key, corpus in data.training_corpora.items()}
    sections |= {"data.validation": data.validation, "data.test": data.test, "tokenizer": config.tokenizer}
    sections |= {"data.glossary": data.glossary, "evaluation.gold": config.evaluation.gold}
    for name, section in sections.items():
        for key in ("source", "target", "tsv", "jsonl", "links", "file"):
            if isinstance(path := getattr(section, key, None), str):
                with noted(problems), of_key(f"{name}.{key}" if key in ("links", "file") else name):
                    require_readable(path)
    DataError.raise_if_any(problems)


# --- lines in ---------------------------------------------------------------------------------------------------------


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input. Raises DataError if it cannot be read."""
    try:
        yield from decode_lines(sys.stdin.buffer, "standard input")
    except OSError as error:  # it is a directory
        raise unreadable("standard input", error) from error


def count_lines(path: str | None) -> int | None:
    """Count the lines of a file, to know how long it takes; None without a regular file."""
    return sum(1 for _ in read_lines(path)) if path is not None and Path(path).is_file() else None


# --- lines out --------------------------------------------------------------------------------------------------------


class Output(NamedTuple):
    """A file or stream of UTF-8 lines."""

    name: str
    stream: BinaryIO
    form: Callable[..., str]
    """Makes a line from whatever the command writes a line for."""

    def write(self, text: bytes) -> None:
        """Write and flush. Raises DataError if that fails, BrokenPipeError if the reader is gone."""
        with writing(self.name):
            self.stream.write(text)
            self.stream.flush()

    def close(self) -> None:
        """Close the file. Raises DataError if pending output cannot be written."""
        with writing(self.name):
            self.stream.close()


def write_rows(outputs: Sequence[Output], *rows: tuple[Any, ...]) -> None:
    """Write a line for each row to each output; an error of a form leaves all unchanged, with equal line counts."""
    texts = ["".join(f"{output.form(*row)}\n" for row in rows).encode() for output in outputs]
    for output, text in zip(outputs, texts, strict=True):
        output.write(text)


def open_outputs(forms: Sequence[tuple[str | None, Callable[..., str]]], stack: contextlib.ExitStack) -> list[Output]:
    """Open the outputs that have a path, and standard output if the first has none.

    ``forms``: path and form of each; the stack closes them. Raises DataError for a file that cannot be written.
    """
    outputs = [Output("standard output", sys.stdout.buffer, forms[0][1])] if forms[0][0] is None else []
    for path, form in forms:
        if path is not None:
            with writing(path):
                outputs.append(Output(path, Path(path).open("wb"), form))  # noqa: SIM115  (the stack closes it)
            stack.callback(outputs[-1].close)
    return outputs


def word_links(
    attention: "Weights | None", pieces: tuple[Sequence[str], Sequence[str]], texts: tuple[str, str]
) -> "list[Link]":
    """Link whitespace words, (i, j) for source word i and target word j; nothing without attention."""
    if attention is None:
        return []
    from nmt.evaluation.alignment import likeliest_links, word_weights  # noqa: PLC0415  (slow to import)

    return likeliest_links(word_weights(attention, *pieces, *texts))
