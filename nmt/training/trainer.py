"""The training loop."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import torch
from torch.nn.utils import clip_grad_norm_

from nmt.config import Config
from nmt.data.batching import Batch, Specials
from nmt.data.dataset import PreparedData
from nmt.data.epochs import Position, ahead, training_batches
from nmt.device import release_freed_memory, resolve_precision
from nmt.errors import CheckpointError, Stopped
from nmt.messages import Caution, Step, step
from nmt.model import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.training.accumulation import Accumulation
from nmt.training.checkpointing import Checkpointing
from nmt.training.gradients import gradients_on
from nmt.training.log import Log
from nmt.training.objective import objective_of
from nmt.training.optimizer import build_optimizer, learning_rate
from nmt.training.progress import Extent, Progress, Window
from nmt.training.reports import Reports, Update
from nmt.training.validation import Validator
from nmt.training.world import ONE_PROCESS, World, seed_apart, stop_together
from nmt.translation.translator import CheckStop, never_stop

SKIPS = 10
"""Consecutive updates without a finite gradient after which training fails."""
GIVE_BACK = 50
"""Updates after which freed memory goes back to the system, on a CPU: batches of all shapes leave gaps, which would add
up. More often costs time, because the next updates ask for much of it again."""


class Trainer:
    """Trains one model on one corpus, starting from ``progress``."""

    def __init__(
        self,
        config: Config,
        prepared: PreparedData,
        model: Seq2Seq,
        run: RunDirectory,
        log: Log,
        device: torch.device,
        world: World = ONE_PROCESS,
    ) -> None:
        self.config = config.training
        self.seed = config.seed
        self.prepared = prepared
        self.model = model.to(device)
        self.log = log
        self.device = device
        self.world = world
        self.specials = Specials.of(prepared.tokenizers)
        precision = resolve_precision(config.precision, device)
        self.objective = objective_of(config, self.model, self.specials)
        self.gradients = gradients_on(self.model, self.objective, device, precision, self.specials, config.kernels)
        self.accumulate = Accumulation(self.model, world, self.config.accumulation, precision, log.say)
        self.optimizer = build_optimizer(model.parameters(), self.config.optimizer)
        self.validator = Validator(config, prepared, model, device, log, world)
        self.checkpointing = Checkpointing(self.config, run, model, self.optimizer, device, log, world)
        self.extent = Extent.of(config, prepared, world.size)
        self.reports = Reports(self.config, self.extent, log, device)
        self.progress = Progress()

    # --- the loop -----------------------------------------------------------------------------------------------------

    def fit(self, check_stop: CheckStop = never_stop) -> None:
        """Train until finished, or until ``check_stop`` raises Stopped in one of the processes, between two updates or
        two validation batches; ``last`` is saved in either case.

        Raises CheckpointError if too many consecutive updates have no finite gradient.
        """
        batches = self.batches()
        self.reports.begin(self.progress)
        try:
            if self.progress.validation_due(self.config):  # it was interrupted
                self.validate(check_stop)
            if not self.progress.finished(self.config):
                with step("training", self.config.updates, "updates", self.progress.update) as shown:
                    self._train(batches, shown, check_stop)
        except Stopped:
            self.save()
            raise
        self.reports.end(self.progress)

    def _train(self, batches: Iterator[tuple[Position, Batch]], shown: Step, check_stop: CheckStop) -> None:
        """Make updates until finished; after each, report, validate and save what is due."""
        while not self.progress.finished(self.config):
            stop_together(self.world, check_stop)
            started = time.perf_counter()
            made = self.update(*self._next(batches))
            self.progress = self.progress.timed(made.loss, made.tokens, time.perf_counter() - started)
            self.reports.shown(self.progress, shown)
            if self.progress.report_due(self.config):
                self.reports.record(self.progress, made)
                self.progress = replace(self.progress, window=Window())
            if self.device.type == "cpu" and self.progress.update % GIVE_BACK == 0:
                release_freed_memory()
            if self.progress.validation_due(self.config):
                self.validate(check_stop)
            elif self.progress.save_due(self.config):
                self.save()

    def update(self, batches: Sequence[Batch], after: Position) -> Update:
        """Make one update with the gradient of all batches of all processes, divided by their real target tokens."""
        tokens = int(self.world.sum(torch.tensor(sum(map(self.objective.count, batches)))))
        seed_apart(self.world, self.seed, self.progress.update)
        likelihood, halved = self.accumulate(self.gradients, batches, tokens, self.progress.update, self._place())
        norm = clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        rate = self._set_rate()
        gradient_norm, total = torch.stack((norm.double(), likelihood.double())).tolist()  # the one GPU synchronization
        # each process computes the norm, and near the limit of fp32 two machines may round to either side
        skipped = self.world.any(not (math.isfinite(gradient_norm) and math.isfinite(total)))
        if skipped:
            self._skip()
        else:
            self.optimizer.step()
        self.gradients.reset()
        self.progress = self.progress.updated(after, tokens, skipped=skipped, halved=halved)
        return Update(total / tokens, tokens, gradient_norm, rate)

    # --- its steps ----------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[tuple[Position, Batch]]:
        """Endless batches from the current position on, each with the position that follows it."""
        batches = training_batches(
            self.prepared.train,
            self.specials,
            self.config.batch_tokens,
            seed=self.seed,
            position=self.progress.position,
            rank=self.world.rank,
            size=self.world.size,
        )
        if self.device.type == "cpu":  # a second thread would compete with training
            return batches
        return ahead((after, self.gradients.prepared(batch)) for after, batch in batches)

    def _next(self, batches: Iterator[tuple[Position, Batch]]) -> tuple[list[Batch], Position]:
        """The batches of the next update, and the position after them."""
        group = list(islice(batches, self.config.accumulation))
        return [batch for _, batch in group], group[-1][0]

    def _set_rate(self) -> float:
        """Set and return the learning rate of the next update."""
        base, made, scale = self.config.optimizer.learning_rate, self.progress.update, self.progress.scale
        rate = learning_rate(self.config.schedule, base, made + 1, scale=scale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _skip(self) -> None:
        """Report an update without a finite gradient. Raises CheckpointError after too many of them."""
        self.log.say(Caution(f"{self._place()}: the gradient is not finite; the update is skipped"))
        if self.progress.skipped_in_a_row + 1 >= SKIPS:
            raise CheckpointError(
                f"{SKIPS} updates in a row had no finite gradient (the last is {self.progress.update + 1}); "
                f"{self.checkpointing.run.checkpoints / 'last'} has the weights from before them. Resume with a lower "
                "training.optimizer.learning_rate, or start again with training.clip"
            )

    def _place(self) -> str:
        """The number of the update in progress, and the position of its text."""
        position = self.progress.position
        return f"update {self.progress.update + 1} (epoch {position.epoch + 1}, batch {position.batch + 1})"

    # --- validation and checkpoints -----------------------------------------------------------------------------------

    def validate(self, check_stop: CheckStop = never_stop) -> None:
        """Validate, save the best weights, then ``last``; if ``check_stop`` raises in between two batches, nothing has
        changed."""
        result = self.validator(self.progress.update, check_stop=check_stop)
        before = replace(self.progress, validation_seconds=self.progress.validation_seconds + result.seconds)
        self.progress = before.judged(result.merit(self.config.validation.metric), self.config)
        self.reports.validation(self.progress, result, best=self.progress.best is not before.best)
        self.checkpointing.save_best(before, self.progress)
        if not self.progress.skipped_in_a_row or self.progress.finished(self.config):
            self.save()

    def average_best(self, check_stop: CheckStop = never_stop) -> None:
        """Replace ``best`` by the average of several checkpoints if validation prefers the average."""
        self.checkpointing.average_best(
            self.progress, lambda: self.validator(self.progress.update, samples=False, check_stop=check_stop)
        )

    def save(self) -> None:
        """Save ``last``."""
        self.checkpointing.save(self.progress)

    def resume(self, checkpoint: str, *, epoch_again: bool = False) -> None:
        """Load a checkpoint and repair the others. Raises CheckpointError, in all processes.

        ``epoch_again``: begin the epoch in progress again, because it is cut into other batches now.
        """
        self.progress = self.checkpointing.mend(self.checkpointing.restore(checkpoint))
        if epoch_again:
            self.progress = replace(self.progress, position=Position(self.progress.position.epoch))
