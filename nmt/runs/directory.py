"""The run directory: safetensors, JSON, YAML and SentencePiece models; nothing that executes.

RUN/config.yaml  manifest.json  data_report.json  metrics.jsonl  samples.jsonl  film.safetensors
RUN/tokenizer/{source,target}.model  tensorboard/
RUN/checkpoints/{last,best}/model.safetensors        last: also training.safetensors and training.json
RUN/checkpoints/previous                             the ``last`` before this one
RUN/checkpoints/update-N/model.safetensors           the candidates for the average
RUN/checkpoints/*/sha256.json                        checksums of the files beside it
RUN/test.hypotheses.txt  test.scores.json            results on the test set, after training has finished
RUN/confidence.json  confidence.png                  made by nmt-evaluate --calibrate

``manifest.json`` has the configuration that the run is trained with, regardless of later edits to
``config.yaml``, and a list of the changes made to it when training resumed, each with its update.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config, dump_config, load_run_config
from nmt.errors import ConfigError, FileError, of_key
from nmt.files import lock, read_json, refuse_links_outside, sync, why_unwritable, write_json, write_text
from nmt.messages import Say
from nmt.runs.checkpoints import Checkpoints

if TYPE_CHECKING:  # SentencePiece and NumPy are slow to import
    from nmt.data.tokenizer import Tokenizers


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
        self.confidence = self.path / "confidence.json"

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
        self,
        config: Config,
        tokenizers: "Tokenizers",
        report: Mapping[str, Any],
        facts: Mapping[str, Any],
        *,
        overwrite: bool = False,
    ) -> None:
        """Write every file that exists before the first update; the manifest has the ``facts``."""
        if overwrite:
            self.remove()
        elif self.exists:  # another process has made it since the first check
            raise existing_run_error(self)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.tokenizer.mkdir(parents=True, exist_ok=True)
        write_text(self.config, dump_config(config))
        tokenizers.save(self.tokenizer)
        write_json(self.data_report, report)
        write_json(self.manifest, {"started": started, **facts, "changes": []})
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
        system has no locks for directories. Raises ConfigError if another process holds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                descriptor = os.open(self.path, os.O_RDONLY)  # not on Windows
                stack.callback(os.close, descriptor)
                lock(descriptor)
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
        named = (part for part in vars(self).values() if part != self.path)
        return (*named, self.confidence.with_suffix(".png"))


INSTEAD = "choose another output, or replace the run with --overwrite"


def run_directory(config: Config, *, resume: bool, overwrite: bool) -> RunDirectory:
    """The run directory of a configuration. Raises ConfigError if none is named, if it must not be used, or if it was
    begun otherwise; FileError if there is none to resume; and the errors of ``start_from``: all before the slow
    preparation."""
    if not config.output:
        raise ConfigError("output: no run directory is named; give --output RUN, or output: in the configuration")
    run = RunDirectory(config.output)
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other")
    if problem := "it is a file" if run.path.is_file() else why_unwritable(run.path):
        remedy = "choose another directory or change its permissions"
        raise ConfigError(f"output: {run.path} is not writable ({problem}); {remedy}")
    run.refuse_links()
    if not run.exists and run.foreign:
        found = f"other files, among them {run.foreign[0]}"
        raise ConfigError(f"output: {run.path} holds {found}; name a new or empty directory")
    if run.exists and not (resume or overwrite):
        with run.locked(lambda _: None):  # do not suggest to replace a run that is in training
            raise existing_run_error(run)
    if resume and not run.exists:
        raise FileError(f"{run.path}: there is no run to resume; start it without --resume")
    if resume and not run.has("last"):
        raise FileError(f"{run.checkpoints / 'last'}: missing, nothing to resume from; {INSTEAD}")
    if resume:
        refuse_other_config(run, config)
    else:
        refuse_other_parts(config)
    return run


def existing_run_error(run: RunDirectory) -> ConfigError:
    """Return the error that says how to go on where there is a run."""
    if not run.has("last"):
        return ConfigError(f"output: {run.path} holds a run without checkpoints/last; {INSTEAD}")
    return ConfigError(f"output: {run.path} holds a run; continue it with --resume, or replace it with --overwrite")


# --- the configuration in the manifest, and changes of it -------------------------------------------------------------

ELSEWHERE = ("output", "device", "threads", "kernels", "data.cache")
"""Dotted keys that say where and how fast a run is made, not what it is."""
WITHOUT_EFFECT = (
    *ELSEWHERE,
    "training.save_every",
    "training.log_every",
    "training.timeout",
    "training.validation.samples",
    "decoding.beam_size",
    "decoding.batch_tokens",
    *("evaluation.bleu_tokenizer", "evaluation.bins", "evaluation.bootstrap", "evaluation.gold"),
)
"""Dotted keys, or sections of them, that change no number of training but by rounding: another device, number of
threads or translation batch changes the order of additions. The other keys of ``decoding`` also affect validation,
whose score decides which checkpoint is best; so does ``evaluation.gold`` if this score is the alignment error rate."""
LENGTH = ("training.updates", "training.validation.patience")
"""Those that a longer run may change."""
DROPOUT = ("model.dropout", "model.encoder.dropout", "model.decoder.dropout")
COURSE = (
    *("training.optimizer.learning_rate", "training.schedule", "training.batch_tokens", "training.accumulation"),
    *DROPOUT,
)
"""Those that a person may change in the course of training, or that another number of processes may need."""
TAKEN_OVER = ("tokenizer", "model", "data.reverse_source", "data.protect")
OWN = ("tokenizer.dropout", "model.attention", "model.initialization", *DROPOUT)
"""Keys, or sections of them, that must be those of the other run, and those in them that need not be."""


@dataclass(frozen=True)
class Change:
    """Another value of one key of the configuration, from an update on."""

    update: int
    """The number of updates that were made before."""
    key: str
    old: Any
    """JSON; null for a key that the section did not have."""
    new: Any

    def __str__(self) -> str:
        return f"after update {self.update:,}: {self.key} changed from {as_yaml(self.old)} to {as_yaml(self.new)}"


def changes_to(before: Mapping[str, Any], config: Config, update: int = 0) -> list[Change]:
    """Return the changes, after an ``update``, from a configuration ``before`` to another; without ``output``."""
    before, now = flat(before), flat(config.model_dump(mode="json"))
    return [
        Change(update, key, before.get(key), now.get(key))
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and key != "output"
    ]


def differences(before: Mapping[str, Any], config: Config, allowed: Iterable[str]) -> list[str]:
    """Say in which keys, except those that are ``allowed``, a configuration differs from that ``before``."""
    changed = {change.key: change for change in changes_to(before, config)}
    # a section of another type has other keys
    others = [key.removesuffix("type") for key in changed if key.endswith(".type")]
    return [
        f"{key} was {as_yaml(change.old)} and is now {as_yaml(change.new)}"
        for key, change in changed.items()
        if not is_one_of(key, allowed)
        and not any(key.startswith(section) and key != f"{section}type" for section in others)
    ]


def refuse_other_config(
    run: RunDirectory, config: Config, allowed: Iterable[str] = (*WITHOUT_EFFECT, *LENGTH, *COURSE)
) -> None:
    """Raise ConfigError that lists in which keys, but those ``allowed``, a configuration differs from that of a run."""
    if config.training.validation.metric == "aer":  # its links choose the best checkpoint
        allowed = {*allowed} - {"evaluation.gold"}
    if changed := differences(read_manifest(run)["config"], config, allowed):
        raise ConfigError(
            *changed,
            f"{run.path}: a run resumes with the configuration it started with, but for learning rate, schedule, "
            f"batch size, dropout, patience and length; restore it (--config can be left out), or train another run, "
            f"without --resume: nmt-train --config {run.config} --output NEW",
        )


def refuse_other_parts(config: Config) -> None:
    """Raise the error of a run in ``training.start_from`` that is missing, or whose tokenizer or network differs in
    more than attention and dropout: ConfigError, FileError."""
    if (path := config.training.start_from) is None:
        return
    with of_key("training.start_from"):
        before = load_run_config(path).model_dump(mode="json")
    changed = [each for each in differences(before, config, OWN) if each.startswith(TAKEN_OVER)]
    for key, lost in (("glossary", "terms"), ("rough", "text in capitals")):
        if before["data"][key] and getattr(config.data, key) is None:
            changed.append(f"data.{key} was set and is now null; without it, training unlearns {lost}")
    if changed:
        taken = "takes over the tokenizer and the network, but for attention and dropout"
        raise ConfigError(*changed, f"training.start_from: {path}: training {taken}; use those of {path}/config.yaml")


def read_manifest(run: RunDirectory) -> dict[str, Any]:
    """Read the manifest of a run. Raises FileError."""
    manifest = read_json(run.manifest)
    kinds = {"config": dict, "changes": list}
    if not isinstance(manifest, dict) or any(not isinstance(manifest.get(key), kind) for key, kind in kinds.items()):
        raise FileError(f"{run.manifest}: not the manifest of a run")
    return manifest


def say_precisions(runs: Iterable[RunDirectory], say: Say) -> None:
    """Say it if runs were trained in different precisions."""
    manifests = {run.path: read_json(run.manifest) for run in runs if run.manifest.exists()}
    found = {
        path: each["precision"] for path, each in manifests.items() if isinstance(each, dict) and "precision" in each
    }
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{run} in {each}" for run, each in found.items())
        say(f"trained in different precisions: {listed}; for a fair comparison train all with --set precision=fp32")


def is_one_of(key: str, keys: Iterable[str]) -> bool:
    """Whether a dotted key is one of these, or in a section that is."""
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def flat(section: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten a section to values by dotted key."""
    if not isinstance(section, Mapping):
        return {prefix: section}
    return {
        dotted: leaf
        for key, child in section.items()
        for dotted, leaf in flat(child, f"{prefix}.{key}" if prefix else key).items()
    }


def as_yaml(value: Any) -> str:
    """Format a value as in YAML."""
    return repr(value) if isinstance(value, str) else json.dumps(value)
