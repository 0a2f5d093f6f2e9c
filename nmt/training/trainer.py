"""The training loop: teacher forcing, validation, checkpoints."""

import math
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch.nn.utils import clip_grad_norm_

from nmt.config import Config
from nmt.data.batching import Batch, Position, Specials, ahead, training_batches
from nmt.data.dataset import PreparedData
from nmt.errors import CheckpointError, FileError, Stopped
from nmt.foundation.device import out_of_memory, resolve_precision
from nmt.model import Seq2Seq
from nmt.runs.directory import RunDirectory, TrainingCheckpoint, load_weights
from nmt.runs.tensors import average, unshared
from nmt.training.gradients import gradients_on
from nmt.training.log import Log, duration
from nmt.training.objective import TeacherForcing
from nmt.training.optimizer import build_optimizer, learning_rate, load_moments, saved_moments
from nmt.training.progress import Kept, Progress, Window
from nmt.training.validation import ValidationResult, Validator
from nmt.translation.translator import CheckStop, never_stop

FIRST_LINE, FIRST_UPDATES = 5.0, 5
"""Seconds and updates after which the first line of progress comes, with the time left; the first update is slow."""
SKIPS = 10
"""Updates in a row whose gradient may be infinite or not a number before training stops."""


@dataclass(frozen=True)
class Update:
    """What one update did."""

    loss: float
    """Negative log-likelihood per real target token, nats."""
    tokens: int
    gradient_norm: float
    learning_rate: float


class Trainer:
    """Trains one model on one corpus, from wherever its progress stands."""

    def __init__(
        self, config: Config, prepared: PreparedData, model: Seq2Seq, run: RunDirectory, log: Log, device: torch.device
    ) -> None:
        self.config = config.training
        self.seed = config.seed
        self.prepared = prepared
        self.model = model.to(device)
        self.run = run
        self.log = log
        self.device = device
        self.specials = Specials.of(prepared.tokenizers)
        precision = resolve_precision(config.precision, device)
        objective = TeacherForcing(self.config.label_smoothing)
        self.gradients = gradients_on(self.model, objective, device, precision, self.specials, config.kernels)
        self.optimizer = build_optimizer(model.parameters(), config.training.optimizer)
        self.validator = Validator(config, prepared, model, device, precision, log)
        self.progress = Progress()

    def fit(self, check_stop: CheckStop = never_stop) -> None:
        """Train until finished, or until ``check_stop`` raises Stopped.

        It is called between two updates, and between two batches of a validation, which is then still due. ``last`` is
        saved in either case.

        Raises CheckpointError when nothing but non-finite gradients come.
        """
        try:
            self._fit(check_stop)
        except Stopped:
            self.save()
            raise

    def _fit(self, check_stop: CheckStop) -> None:
        batches = self.batches()
        begun, silent = self.progress, True
        while True:
            if self.progress.validation_due(self.config):
                self.validate(check_stop)
            if self.progress.finished(self.config):
                self._say_why_early()
                return
            check_stop()
            started = time.perf_counter()
            group = list(islice(batches, self.config.accumulation))
            update = self.update([batch for _, batch in group], group[-1][0])
            seconds = time.perf_counter() - started
            window = self.progress.window
            if math.isfinite(update.loss):  # or the mean up to the next line would be none
                window = window.plus(update.loss * update.tokens, update.tokens, seconds)
            self.progress = replace(self.progress, seconds=self.progress.seconds + seconds, window=window)
            done = self.progress.update
            if done % self.config.log_every == 0 or done == self.config.updates:
                self._report(update)
                silent = False
            elif (
                silent and self.progress.seconds - begun.seconds >= FIRST_LINE and done - begun.update >= FIRST_UPDATES
            ):
                self._say_progress()
                silent = False
            # a validation saves when it is through; between updates that are skipped nothing is saved
            later = self.progress.validation_due(self.config) or self.progress.skipped_in_a_row
            if self.config.save_every and done % self.config.save_every == 0 and not later:
                self.save()

    def batches(self) -> Iterator[tuple[Position, Batch]]:
        """From where progress stands, without end, each with the position that follows it."""
        batches = training_batches(
            self.prepared.train,
            self.specials,
            self.config.batch_tokens,
            seed=self.seed,
            position=self.progress.position,
        )
        if self.device.type == "cpu":  # it has nothing better to do meanwhile
            return batches
        return ahead((after, self.gradients.prepared(batch)) for after, batch in batches)

    def update(self, batches: Sequence[Batch], after: Position) -> Update:
        """One optimizer step: the gradients of all batches, divided once by all their real target tokens."""
        number = self.progress.update + 1
        rate = learning_rate(
            self.config.schedule, self.config.optimizer.learning_rate, number, scale=self.progress.scale
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        tokens = sum(batch.target_tokens for batch in batches)
        likelihood = self._gradients_of(batches, tokens)
        total_norm = clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        norm, total = torch.stack((total_norm.double(), likelihood.double())).tolist()  # a GPU is waited for once
        if math.isfinite(norm) and math.isfinite(total):
            self.optimizer.step()
            self.progress = replace(self.progress, skipped_in_a_row=0)
        else:
            self._skip(number)
        self.gradients.reset()
        self.progress = replace(
            self.progress,
            update=number,
            position=after,
            target_tokens=self.progress.target_tokens + tokens,
        )
        return Update(total / tokens, tokens, norm, rate)

    def _gradients_of(self, batches: Sequence[Batch], tokens: int) -> torch.Tensor:
        """Add up the gradients of an update; -> its negative log-likelihood. Where memory does not suffice, batches are
        halved: the same gradients, but for dropout, which draws anew.

        Raises CheckpointError where memory does not suffice for single pairs.
        """
        first = self.progress
        while True:
            try:
                likelihood = torch.zeros((), device=self.device)
                for batch in batches:
                    likelihood += self.gradients(batch, tokens)
                return likelihood
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
            self.gradients.reset()  # some may have been added
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            largest = max(len(batch.source) for batch in batches)
            if largest == 1:
                raise CheckpointError(
                    f"{self._named()}: memory does not suffice for a pair of it; train anew, with a lower "
                    "data.filter.max_pieces or a smaller model"
                )
            batches = [half for batch in batches for half in batch.halves()]
            self.progress = replace(first, halved=first.halved + 1)
            self.log.say(
                f"{self._named()}: memory does not suffice for {largest} pairs at once, they are halved; "
                "begun with a smaller training.batch_tokens, a training needs none of that"
            )

    def _say_why_early(self) -> None:
        progress = self.progress
        if progress.update < self.config.updates and progress.best is not None:
            name = {"bleu": "BLEU", "loss": "loss"}[self.config.validation.metric]
            self.log.say(
                f"stopped early after update {progress.update}: the validation {name} has not improved in "
                f"{progress.waited} validations (training.validation.patience); the best is that of update "
                f"{progress.best.update}"
            )

    def _named(self) -> str:
        """The update that is being made, and where its text stands."""
        position = self.progress.position
        return f"update {self.progress.update + 1} (epoch {position.epoch + 1}, batch {position.batch + 1})"

    def _skip(self, number: int) -> None:
        row = self.progress.skipped_in_a_row + 1
        self.progress = replace(self.progress, skipped=self.progress.skipped + 1, skipped_in_a_row=row)
        self.log.say(f"{self._named()}: the gradient is not finite; the update is skipped")
        if row >= SKIPS:
            raise CheckpointError(
                f"{SKIPS} updates in a row had no finite gradient (the last is {number}); the weights in "
                f"{self.run.checkpoints / 'last'} are from before them. Train anew, with training.clip or a lower "
                "training.optimizer.learning_rate"
            )

    def validate(self, check_stop: CheckStop = never_stop) -> ValidationResult:
        """Measure the validation set, keep what is best, save ``last``.

        If ``check_stop`` raises Stopped between two batches, nothing has changed.
        """
        result = self.validator(self.progress.update, check_stop=check_stop)
        before = replace(self.progress, validation_seconds=self.progress.validation_seconds + result.seconds)
        self.progress = before.judged(self._score(result), self.config)
        best = self.progress.best is not before.best
        self.log.record(self.progress.update, "validation", **result.as_dict(), best=best)
        self.log.say(
            f"validation at update {self.progress.update}: {result}{'  best' if best else ''}  "
            f"({duration(result.seconds)})"
        )
        weights = self.model.state_dict()
        if best:
            self.run.save("best", weights, update=self.progress.update)
        if self.config.average > 1:
            for kept in set(self.progress.kept) - set(before.kept):
                self.run.save(kept_name(kept), weights, update=kept.update)
        if not self.progress.skipped_in_a_row or self.progress.finished(self.config):
            self.save()
        return result

    def _score(self, result: ValidationResult) -> float:
        """What the configured metric makes of it: the higher, the better."""
        if self.config.validation.metric == "bleu":
            return result.bleu
        return -math.inf if math.isnan(result.loss) else -result.loss

    def average_best(self, check_stop: CheckStop = never_stop) -> None:
        """Put the mean of the kept checkpoints in the place of ``best`` where validation prefers it.

        If ``check_stop`` raises Stopped between two batches, nothing has changed in the run.

        Progress does not hear of it: a run that is made longer goes on as if there had been no mean. There a checkpoint
        takes the place of ``best`` where it is better than those before it, be the mean better or not.
        """
        kept = [each for each in self.progress.kept if self.run.has(kept_name(each))]  # see RunDirectory.resumable
        if self.config.average == 1 or len(kept) < 2 or self.progress.best is None:
            return
        mean = average(self.run.weights(kept_name(each)) for each in kept)
        load_weights(self.model, mean, "the mean of the best checkpoints")
        result = self.validator(self.progress.update, samples=False, check_stop=check_stop)
        better = self._score(result) > self.progress.best.score
        updates = sorted(each.update for each in kept)
        self.log.record(self.progress.update, "average", **result.as_dict(), best=better, updates=updates)
        self.log.say(
            f"mean of the checkpoints of updates {', '.join(map(str, updates))}: {result}: "
            f"{'becomes' if better else 'does not become'} best"
        )
        best = mean if better else self.run.weights(kept_name(kept[0]))  # of a run made longer it may be an older mean
        self.run.save("best", best, update=self.progress.update)

    def save(self) -> None:
        """Write ``last``: weights, optimizer, random generators, progress; but not weights that are no numbers."""
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            self.log.say(f"update {self.progress.update}: the weights are not finite and are not saved")
            return
        self.log.sync()
        self.run.save("last", self.model.state_dict(), self.checkpoint(), update=self.progress.update)
        self.run.keep({kept_name(each) for each in self.progress.kept})  # only now does ``last`` need no others

    def checkpoint(self) -> TrainingCheckpoint:
        """Everything beside the weights that the next update depends on."""
        tensors = {"random.cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        return TrainingCheckpoint(unshared(tensors | saved_moments(self.optimizer)), self.progress.to_json())

    def restore(self, checkpoint: str) -> None:
        """Go on from a checkpoint. Raises CheckpointError."""
        load_weights(self.model, self.run.weights(checkpoint), str(self.run.checkpoints / checkpoint))
        self.progress = saved_progress(self.run, checkpoint)
        tensors = dict(self.run.training(checkpoint).tensors)
        where = str(self.run.checkpoints / checkpoint / "training.safetensors")
        random = {name: tensors.pop(name) for name in ("random.cpu", "random.cuda") if name in tensors}
        begun = self.progress.update > self.progress.skipped
        load_moments(self.optimizer, self.config.optimizer, tensors, where, begun=begun)
        try:
            torch.set_rng_state(random["random.cpu"])
            if self.device.type == "cuda" and "random.cuda" in random:
                torch.cuda.set_rng_state(random["random.cuda"], self.device)
        except (KeyError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{where}: no state of the random generators ({error})") from None

    def damaged(self) -> dict[str, Sequence[str]]:
        """What is wrong with the checkpoints, by name, that the end of training needs beside ``last``.

        Raises CheckpointError if the training is finished and nothing can take the place of a damaged ``best``, or of
        one that a training which broke off had made at an update that this one does not come to.
        """
        names = ["best"] if self.progress.best is not None else []
        names += [name for name in map(kept_name, self.progress.kept) if self.run.has(name)]
        found = {}
        for name in names:
            try:
                self.run.weights(name)
            except FileError as error:
                found[name] = error.problems
        later = 0 if names[:1] != ["best"] or "best" in found else self.run.update("best")
        if later > (self.progress.update if self.progress.finished(self.config) else self.config.updates):
            raise CheckpointError(
                f"{self.run.checkpoints / 'best'}: of update {later}, and training goes on from "
                f"{self.progress.update}; training.updates or training.validation.patience end it before that update"
            )
        if "best" in found and self._stand_in(found) is None and self.progress.finished(self.config):
            raise CheckpointError(*found["best"], "nothing is left of the best weights: put the file back")
        return found

    def _stand_in(self, damaged: Container[str]) -> str | None:
        """The best checkpoint that is whole, but for ``best``."""
        names = [name for name in map(kept_name, self.progress.kept) if self.run.has(name) and name not in damaged]
        if not names and self.progress.best is not None and self.progress.best.update == self.progress.update:
            names = ["last"]
        return next(iter(names), None)

    def mend(self) -> None:
        """Leave damaged checkpoints out of the mean; put the best of the others in the place of a damaged ``best``, or
        let the next validation make one. Raises CheckpointError as :meth:`damaged` does."""
        damaged = self.damaged()
        for name in damaged.keys() - {"best"}:
            self.log.say(f"{'; '.join(damaged[name])}; the mean is made without it")
            self.run.delete(name)
        if "best" in damaged:
            stand_in = self._stand_in(damaged)
            if stand_in is None:
                self.log.say(f"{'; '.join(damaged['best'])}; the next validation makes another")
                self.progress = replace(self.progress, best=None)
            else:
                self.log.say(f"{'; '.join(damaged['best'])}; {stand_in} takes its place")
                self.run.save("best", self.run.weights(stand_in), update=self.run.update(stand_in))
        self.run.keep({kept_name(each) for each in self.progress.kept})

    def _report(self, update: Update) -> None:
        window = self.progress.window
        self.log.record(
            self.progress.update,
            "train",
            loss=window.mean,
            perplexity=math.exp(min(window.mean, 700)),
            target_tokens_per_second=window.rate,
            learning_rate=update.learning_rate,
            gradient_norm=update.gradient_norm,
            epoch=self.progress.position.epoch + 1,
            skipped=self.progress.skipped,
            halved=self.progress.halved,
        )
        self._say_progress()
        self.progress = replace(self.progress, window=Window())

    def _say_progress(self) -> None:
        progress, window, total = self.progress, self.progress.window, self.config.updates
        left = (progress.seconds + progress.validation_seconds) / progress.update * (total - progress.update)
        self.log.say(
            f"update {progress.update}/{total}  epoch {progress.position.epoch + 1}  loss {window.mean:.3f}  "
            f"{window.rate:,.0f} target tokens/s  {duration(left)} left"
        )


def saved_progress(run: RunDirectory, checkpoint: str) -> Progress:
    """How far the training of a checkpoint had come. Raises CheckpointError."""
    state = run.training(checkpoint).state
    try:
        return Progress.from_json(state)
    except ValueError as error:
        where = run.checkpoints / checkpoint / "training.json"
        raise CheckpointError(f"{where}: not the progress of a training ({error})") from None


def kept_name(kept: Kept) -> str:
    """The checkpoint folder of a candidate for the average."""
    return f"update-{kept.update}"
