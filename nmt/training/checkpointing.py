"""The run directory in training: created or opened to resume; which checkpoints are saved, kept, repaired, averaged."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import torch

from nmt import __version__
from nmt.config import Config, dump_config
from nmt.config.schema import Training
from nmt.data.batching import Position
from nmt.data.dataset import PreparedData
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError, FileError
from nmt.evaluation.metrics import format_values
from nmt.files import write_json, write_text
from nmt.messages import Caution, Say
from nmt.model import Seq2Seq
from nmt.runs import directory
from nmt.runs.checkpoints import TrainingCheckpoint, average, load_weights, unshared
from nmt.runs.directory import RunDirectory
from nmt.runs.log import cut_metrics, read_metrics
from nmt.training.optimizer import load_moments, saved_moments
from nmt.training.progress import Candidate, Progress, ValidationResult
from nmt.training.reports import Log
from nmt.training.world import Machine, World, on_writer, share_tensors


@dataclass(frozen=True)
class Checkpointing:
    """The connection between a run directory and the model and optimizer in training.

    Only the process that writes files reads, saves or deletes them; the others receive what they need.
    """

    training: Training
    run: RunDirectory
    model: Seq2Seq
    optimizer: torch.optim.Optimizer
    machine: Machine
    log: Log

    def save(self, progress: Progress) -> None:
        """Save ``last``, unless the weights are not finite or the last update was skipped: then it keeps the weights
        from before the skipped updates. A finished run is saved after a skipped update, too.

        On the same CPU a resumed run equals, bit for bit, one that never stopped: ``last`` has the weights, the
        moments of the optimizer, the states of the random generators, and ``progress``, which has the position in the
        data, the scale of the learning rate, and the best and the kept checkpoints.
        """
        if not self.machine.world.writes or (progress.skipped_in_a_row and not progress.finished(self.training)):
            return
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            self.log.say(Caution(f"update {progress.update}: the weights are not finite and are not saved"))
            return
        self.log.sync()
        random = {"random.cpu": torch.get_rng_state()}
        if self.machine.device.type == "cuda":
            random["random.cuda"] = torch.cuda.get_rng_state(self.machine.device)
        state = TrainingCheckpoint(unshared(random | saved_moments(self.optimizer)), asdict(progress))
        self.run.save("last", self.model.state_dict(), state)
        self.run.keep({each.checkpoint for each in progress.kept})  # not earlier: the previous ``last`` may need others

    def save_best(self, before: Progress, after: Progress) -> None:
        """Save the weights as ``best``, or as a candidate for the average, if the last validation says so."""
        if not self.machine.world.writes:
            return
        weights = self.model.state_dict()
        if after.best is not before.best:
            self.run.save("best", weights)
        if self.training.average > 1:
            for candidate in set(after.kept) - set(before.kept):
                self.run.save(candidate.checkpoint, weights)

    def restore(self) -> Progress:
        """Load the model, the optimizer and the random generators, and repair the other checkpoints; return the
        progress, from which batches of another size begin the epoch again. Raises FileError, in all processes."""
        world, where = self.machine.world, str(self.run.checkpoints / "last/training.safetensors")
        weights = share_tensors(world, lambda: self.run.weights("last"))
        tensors = share_tensors(world, lambda: self.run.training("last").tensors)
        mended = on_writer(world, lambda: asdict(self.mend()))
        progress = Progress.from_json(mended)
        load_weights(self.model, weights, str(self.run.checkpoints / "last"))
        random = {name: tensors.pop(name) for name in ("random.cpu", "random.cuda") if name in tensors}
        load_moments(self.optimizer, tensors)
        try:
            torch.set_rng_state(random["random.cpu"])
            if self.machine.device.type == "cuda" and "random.cuda" in random:
                torch.cuda.set_rng_state(random["random.cuda"], self.machine.device)
        except (KeyError, TypeError, RuntimeError) as error:
            raise FileError(f"{where}: no state of the random generators ({error})") from None
        if (batch_tokens := self.training.batch_tokens) != progress.batch_tokens:
            progress = replace(progress, position=Position(progress.position.epoch), batch_tokens=batch_tokens)
        return progress

    def mend(self) -> Progress:
        """Forget the checkpoints beside ``last`` that are damaged: the best undamaged candidate replaces ``best``, or
        else the next validation makes one. Return the progress, which may no longer have a best.

        Raises FileError if nothing can replace the ``best`` of a finished run.
        """
        progress = saved_progress(self.run, "last")
        damaged: dict[str, Sequence[str]] = {}
        kept = [each.checkpoint for each in candidates(self.run, progress)]
        for name in [*(["best"] if progress.best is not None else []), *kept]:
            try:
                self.run.weights(name)
            except FileError as error:
                damaged[name] = error.problems
                self.log.say(f"{error.problems[0]}; it is not used")
                if name != "best":
                    self.run.delete(name)
        if "best" in damaged:
            others = candidates(self.run, progress)
            if others:
                self.run.save("best", self.run.weights(others[0].checkpoint))
                progress = replace(progress, best=others[0])
            elif progress.finished(self.training):
                raise FileError(*damaged["best"], "no other copy of the best weights is left; restore the file")
            else:
                progress = replace(progress, best=None)
        if self.training.average > 1:  # else candidates have no checkpoints
            progress = replace(progress, kept=candidates(self.run, progress))
        self.run.keep({each.checkpoint for each in progress.kept})
        return progress

    def average_best(self, progress: Progress, validate: Callable[[], ValidationResult]) -> None:
        """Replace ``best`` by the average of several checkpoints if ``validate`` prefers the average.

        Progress is unaffected: the next ``best`` of an extended run has to beat the checkpoints, not the average.
        """
        names = on_writer(self.machine.world, lambda: [each.checkpoint for each in candidates(self.run, progress)])
        if len(names) < 2 or progress.best is None:
            return
        mean = share_tensors(self.machine.world, lambda: average(self.run.weights(name) for name in names))
        load_weights(self.model, dict(mean), "the average of several checkpoints")
        result = validate()
        better = result.merit(self.training.validation.metric) > progress.best.merit
        if self.machine.world.writes:
            if better:
                self.run.save("best", mean)
            elif progress.best.checkpoint in names:  # in an extended run ``best`` may be an older average
                self.run.save("best", self.run.weights(progress.best.checkpoint))
        updates = sorted(each.update for each in progress.kept if each.checkpoint in names)
        measured = {**result.scores, **result.by_tag, "seconds": result.seconds}
        self.log.record(progress.update, "average", **measured, best=better, updates=updates)
        averaged = f"average of the checkpoints of updates {', '.join(map(str, updates))}"
        outcome = "becomes" if better else "does not become"
        self.log.say(f"{averaged}: {format_values(result.scores)}: {outcome} best")


# --- the start of a run: created, or opened to resume -----------------------------------------------------------------


def facts_of(config: Config, prepared: PreparedData, bleu_tokenizer: str) -> dict[str, Any]:
    """The configuration, software and data of a run: the same in all of its processes."""
    packages = ("torch", "sentencepiece", "sacrebleu", "datasets", "safetensors", "numpy")
    versions = {"nmt-attention": __version__, "python": platform.python_version()}
    return {
        "versions": versions | {name: version(name) for name in packages},
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "corpus_sha256": prepared.corpus_sha256,
        "tokenizer_sha256": prepared.tokenizers.sha256,
        "bleu_tokenizer": bleu_tokenizer,
    }


def refuse_unequal(world: World, facts: Mapping[str, Any]) -> None:
    """Raise ConfigError, in all processes, that lists what differs between the facts of two."""
    mine = directory.flat(facts)
    (first, first_host), *others = world.gather([mine, platform.node()])
    differences = [
        f"{key.removeprefix('config.')}: {directory.as_yaml(first.get(key))} in rank 0 on {first_host}, "
        f"{directory.as_yaml(other.get(key))} in rank {rank} on {host}"
        for rank, (other, host) in enumerate(others, 1)
        for key in sorted(first.keys() | other.keys())
        if first.get(key) != other.get(key)
    ]
    if differences:
        raise ConfigError(*differences, "all processes of a run need the same configuration, versions and files")


def reopen_run(
    run: RunDirectory, config: Config, tokenizers: Tokenizers, facts: Mapping[str, Any], say: Say
) -> tuple[int, bool]:
    """Repair the directory of a run that continues; return the updates made, and whether nothing is left to do."""
    before, processes = directory.read_manifest(run), facts["processes"]
    whole, progress = resumed_progress(run, config.training.updates, facts, say)
    if (began := before.get("processes", processes)) != processes:
        accumulation = config.training.accumulation
        batches = f"{accumulation * processes} batches from now on (training.accumulation {accumulation} x {processes})"
        say(f"processes: {began} when the run began, {processes} now; each update has {batches}")
    if whole == "previous":
        run.fall_back()
    finished = is_finished(run, config, progress)
    if finished:
        try:
            run.weights("best")
        except FileError:  # it is replaced, and the results are made again
            finished = False
    if not finished:
        for path in (run.metrics, run.samples):  # later lines, and results that are made again
            cut_metrics(path, {"train": progress.update, "validation": progress.validated})
    new = directory.changes_to(before["config"], config, progress.update)
    for change in new:
        say(str(change))
    changes = before["changes"] + [asdict(each) for each in new]
    write_text(run.config, dump_config(config))  # first: a crash before the next line leaves a change to be recorded
    write_json(run.manifest, before | {"config": facts["config"], "changes": changes})
    tokenizers.save(run.tokenizer)  # the same, in case a file was damaged
    return progress.update, finished


def saved_progress(run: RunDirectory, checkpoint: str) -> Progress:
    """The progress in a checkpoint. Raises FileError."""
    state = run.training(checkpoint).state
    try:
        return Progress.from_json(state)
    except ValueError:
        raise FileError(f"{run.checkpoints / checkpoint / 'training.json'}: not the progress of a run") from None


def resumed_progress(run: RunDirectory, updates: int, facts: Mapping[str, Any], say: Say) -> tuple[str, Progress]:
    """The checkpoint from which a run continues up to ``updates``, and its progress.

    Raises ConfigError for fewer updates than it has made. Raises it also if its text or a tokenizer, BLEU's included,
    differs from the ``facts`` (:func:`facts_of`): the scores of the checkpoints would not be comparable.
    """
    before, keys = directory.read_manifest(run), ("corpus_sha256", "tokenizer_sha256", "bleu_tokenizer")
    if changed := [key for key in keys if before.get(key) != facts[key]]:
        raise ConfigError(
            *(f"{run.manifest}: {key} was {before.get(key)} and is now {facts[key]}" for key in changed),
            "the text, a tokenizer or evaluation.bleu_tokenizer has changed; restore it, or train another run, "
            "into a new --output",
        )
    checkpoint = run.resumable(say)
    progress = saved_progress(run, checkpoint)
    refuse_fewer_updates(updates, progress)
    return checkpoint, progress


def candidates(run: RunDirectory, progress: Progress) -> tuple[Candidate, ...]:
    """Those that training keeps for the average and whose checkpoints exist, best first."""
    return tuple(candidate for candidate in progress.kept if run.has(candidate.checkpoint))


def is_finished(run: RunDirectory, config: Config, progress: Progress) -> bool:
    """Whether a run that has come as far as ``progress`` is trained, averaged, and scored as ``config`` wants it.
    Raises FileError for a manifest that cannot be read."""
    if not progress.finished(config.training) or not run.has("best"):
        return False
    changes = directory.changes_to(directory.read_manifest(run)["config"], config)
    if any(directory.is_one_of(change.key, ("decoding", "evaluation")) for change in changes):
        return False
    last = {record.get("split"): record.get("step") for record in read_metrics(run.metrics)}
    if config.data.test is not None:
        written = run.test_hypotheses.exists() and run.test_scores.exists()
        return written and last.get("test") == progress.update
    averaged = len(candidates(run, progress)) > 1
    return not averaged or last.get("average") == progress.update


def refuse_fewer_updates(updates: int, progress: Progress) -> None:
    """Raise ConfigError if a run has already made more ``updates`` than the configuration allows."""
    if updates < progress.update:
        problem = f"training.updates: {updates}, but the run has already made {progress.update}"
        raise ConfigError(f"{problem}; use {progress.update} or more, or train another run, into a new --output")
