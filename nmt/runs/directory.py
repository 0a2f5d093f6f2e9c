"""The run directory: safetensors, JSON, YAML and SentencePiece models; nothing that executes.

RUN/config.yaml  manifest.json  data_report.json  metrics.jsonl  samples.jsonl  film.safetensors
RUN/tokenizer/{source,target}.model
RUN/checkpoints/{last,best}/model.safetensors        last: also training.safetensors and training.json
RUN/checkpoints/previous                             the ``last`` before this one
RUN/checkpoints/*/sha256.json                        checksums of the files beside it
RUN/test.hypotheses.txt  test.scores.json            results on the test set, after training has finished
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config, dump_config
from nmt.errors import CheckpointError, ConfigError
from nmt.files import printable, refuse_links_outside, sync, why_unwritable, write_json, write_text
from nmt.runs.checkpoints import Checkpoints

if TYPE_CHECKING:  # SentencePiece and NumPy are slow to import
    from nmt.data.tokenizer import Tokenizers

MOST_NAMED = 3
"""The number of files that a message names."""


class RunDirectory(Checkpoints):
    """The files of one run, by name: its checkpoints and all others."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.config = self.path / "config.yaml"
        self.tokenizer = self.path / "tokenizer"
        self.metrics = self.path / "metrics.jsonl"
        self.samples = self.path / "samples.jsonl"
        self.film = self.path / "film.safetensors"
        self.tensorboard = self.path / "tensorboard"
        self.data_report = self.path / "data_report.json"
        self.manifest = self.path / "manifest.json"
        self.test_hypotheses = self.path / "test.hypotheses.txt"
        self.test_scores = self.path / "test.scores.json"

    @property
    def exists(self) -> bool:
        """Whether a run was ever started here."""
        return self.config.exists() or self.checkpoints.exists()

    @property
    def foreign(self) -> list[str]:
        """The names of visible files in the directory that belong to no run."""
        known = {part.name for part in self._parts}
        return sorted(path.name for path in self.path.glob("[!.]*") if path.name not in known)

    def create(
        self, config: Config, tokenizers: "Tokenizers", report: Mapping[str, Any], manifest: Mapping[str, Any]
    ) -> None:
        """Write every file that exists before the first update."""
        self.tokenizer.mkdir(parents=True, exist_ok=True)
        write_text(self.config, dump_config(config))
        tokenizers.save(self.tokenizer)
        write_json(self.data_report, report)
        write_json(self.manifest, manifest)
        sync(self.path.absolute().parent)

    def remove(self) -> None:
        """Delete the files of the run, and no other file in the directory."""
        for part in self._parts:
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Hold the directory, which is made if necessary, against other training processes; only warn where the file
        system has no locks for directories.

        The operating system releases the lock when the process ends, however it ends. Raises ConfigError if another
        process holds the directory.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDONLY)
        with ExitStack() as stack:
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = f"output: another nmt-train is running in {self.path}"
                raise ConfigError(f"{other}; let it finish, stop it, or name another --output") from None
            except OSError as error:
                problem = f"{self.path}: cannot be locked ({error.strerror})"
                say(f"{problem}; make sure that no other nmt-train writes there")
            yield

    def refuse_links(self) -> None:
        """Raise FileError if a file of the run is a link out of it."""
        if self.path.exists():
            walks = (walk for part in self._parts for walk in os.walk(part))
            inside = (Path(folder, name) for folder, folders, files in walks for name in (*folders, *files))
            refuse_links_outside(self.path, [*self._parts, *inside])

    @property
    def _parts(self) -> tuple[Path, ...]:
        """Everything that belongs to a run."""
        files = (self.config, self.metrics, self.samples, self.film, self.data_report, self.manifest)
        return (self.checkpoints, self.tokenizer, self.tensorboard, *files, self.test_hypotheses, self.test_scores)


def run_directory(config: Config, *, resume: bool, overwrite: bool) -> RunDirectory:
    """The run directory of a configuration. Raises ConfigError if there is none, or if it must not be used."""
    if not config.output:
        raise ConfigError("output: no run directory is named; give --output RUN, or output: in the configuration")
    if (shown := printable(config.output)) != config.output:
        raise ConfigError(f"output: {shown}: a name that is not UTF-8; config.yaml could not hold it")
    run = RunDirectory(config.output)
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other")
    if problem := "it is a file" if run.path.is_file() else why_unwritable(run.path):
        raise ConfigError(
            f"output: {run.path} is not writable ({problem}); choose another directory or change its permissions"
        )
    run.refuse_links()
    if not run.exists and run.foreign:
        found = ", ".join(run.foreign[:MOST_NAMED]) + (", ..." if len(run.foreign) > MOST_NAMED else "")
        raise ConfigError(f"output: {run.path} holds other files ({found}); name a new or empty directory")
    if run.exists and not (resume or overwrite):
        with run.locked(lambda _: None):  # do not suggest to replace a run that is in training
            raise existing_run_error(run)
    if resume and not run.exists:
        raise CheckpointError(f"{run.path}: there is no run to resume; start it without --resume")
    if resume and not run.has("last"):
        raise CheckpointError(f"{run.checkpoints / 'last'}: missing, nothing to resume from; start with --overwrite")
    return run


def existing_run_error(run: RunDirectory) -> ConfigError:
    """Return the error that says how to go on where there is a run."""
    if not run.has("last"):
        return ConfigError(f"output: {run.path} holds a run without a checkpoint; replace it with --overwrite")
    return ConfigError(f"output: {run.path} holds a run; continue it with --resume, or replace it with --overwrite")
