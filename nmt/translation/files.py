"""Translation of a text file into files: after a kill, the same command continues where it stopped.

Until the translation is finished, each output grows in a file OUTPUT.partial, and OUTPUT.partial.json beside the first
one records what it is made from.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import ConfigError
from nmt.files import digest, lock, read_json, sync, write_json
from nmt.runs.directory import RunDirectory
from nmt.translation.searching import SearchOptions

SAME_RESULT = {"batch_tokens", "attention"}
"""Fields of ``SearchOptions`` that change no translation."""


def made_from(runs: Sequence[str | Path], text: str | Path, options: SearchOptions) -> dict[str, Any]:
    """Describe what decides a translation, for JSON: the models, the text that is read, and the search."""
    models = []
    for run in map(RunDirectory, runs):
        tokenizers = [run.tokenizer / "source.model", run.tokenizer / "target.model"]
        files = (run.config, *tokenizers, run.folder("best") / "model.safetensors")
        models.append([digest(path) for path in files if path.is_file()])
    search = options.model_dump(mode="json", exclude=SAME_RESULT)
    return {"models": models, "texts": [digest(Path(text))], "search": search}


@contextmanager
def growing(
    outputs: Sequence[str | Path], rows: int, origin: Mapping[str, Any], say: Callable[[str], None]
) -> Iterator[tuple[int, list[BinaryIO]]]:
    """Open the partial file of each output; at the end of the block each becomes the output.

    Each holds ``rows`` lines for each line of the input. Yield how many lines of the input are in all of them, and the
    files, cut to that. An error leaves the partial files for the next call with the same ``origin``; with another one
    they start empty. Raises ConfigError if another process writes them.
    """
    paths = [Path(os.path.realpath(output)) for output in outputs]
    partial = [path.with_name(f"{path.name}.partial") for path in paths]
    record = partial[0].with_name(f"{partial[0].name}.json")
    origin = json.loads(json.dumps(origin))
    with ExitStack() as stack:
        files: list[BinaryIO] = []
        for path in partial:
            files.append(path.open("ab+"))
            stack.callback(_close, files[-1])
        try:
            lock(files[0])
        except BlockingIOError:
            raise ConfigError(f"{paths[0]}: another process is writing it; choose another output") from None
        except OSError:  # a file system without locks
            pass
        if not record.exists() or read_json(record) != origin:
            if record.exists():
                say(f"{partial[0]}: was made with another input, model or options; starting over")
            for file in files:
                file.truncate(0)
            write_json(record, origin)
        done = min(map(_complete_lines, files)) // rows
        for file in files:
            file.seek(0)
            file.truncate(sum(len(line) for line in islice(file, done * rows)))
        if done:
            say(f"{partial[0]}: continuing after {done:,} lines")
        yield done, files
        for file in files:
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":  # renames no open file
                file.close()
        for aside, path in zip(partial, paths, strict=True):
            aside.replace(path)
        record.unlink()
    sync(paths[0].parent)


def _close(file: BinaryIO) -> None:
    """Close a file; what could not be written is reported already, and is not tried again."""
    with suppress(OSError):
        file.close()


def _complete_lines(file: BinaryIO) -> int:
    file.seek(0)
    return sum(line.endswith(b"\n") for line in file)
