"""The training loop."""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch.nn.utils import clip_grad_norm_

from nmt.config import Config
from nmt.data.batching import Batch, Position, Specials, ahead, training_batches
from nmt.data.dataset import PreparedData
from nmt.errors import NmtError, Stopped
from nmt.messages import Caution, progress_bar
from nmt.model import Seq2Seq
from nmt.training.checkpointing import Checkpointing
from nmt.training.gradients import Accumulation, gradients_on
from nmt.training.objective import objective_of
from nmt.training.optimizer import build_optimizer
from nmt.training.progress import Extent, Progress, Update
from nmt.training.reports import Log
from nmt.training.validation import Measures, Validator
from nmt.training.world import Machine, seed_apart, stop_together
from nmt.translation.translator import CheckStop, never_stop

SKIPS = 10
"""Consecutive updates without a finite gradient after which training fails."""


class Trainer:
    """Trains a model, which it moves to the device of ``machine``, starting from ``progress``."""

    def __init__(
        self, config: Config, prepared: PreparedData, model: Seq2Seq, log: Log, machine: Machine, measures: Measures
    ) -> None:
        self.training = config.training
        self.seed, self.log = config.seed, log
        self.prepared, self.specials = prepared, Specials.of(prepared.tokenizers)
        self.model, self.device, self.world = model.to(machine.device), machine.device, machine.world
        # for an update
        objective = objective_of(config.model.attention, self.training, model, self.specials)
        self.gradients = gradients_on(model, objective, self.specials, machine)
        self.accumulation = Accumulation(model, machine, self.training.accumulation)
        self.optimizer = build_optimizer(model.parameters(), self.training.optimizer)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        # between updates
        self.validator = Validator(config, prepared, model, log, machine, measures)
        self.checkpointing = Checkpointing(self.training, log.run, model, self.optimizer, machine, log)
        self.extent = Extent.of(self.training, prepared, machine.world.size)
        self.progress = Progress(batch_tokens=self.training.batch_tokens)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def fit(self, check_stop: CheckStop = never_stop) -> None:
        """Train until finished, or until ``check_stop`` raises Stopped in one of the processes, between two updates or
        two validation batches; ``last`` is saved in either case, as :meth:`Checkpointing.save` allows.

        Raises NmtError if too many consecutive updates have no finite gradient.
        """
        training = self.training
        groups = self.groups()
        try:
            with progress_bar("training", training.updates, "updates", self.progress.update) as bar:
                while True:
                    # validate and save the best weights; the last update is validated, too
                    if self.progress.validation_due(training):
                        self.validate(check_stop)
                    if self.progress.finished(training):
                        break
                    stop_together(self.world, check_stop)

                    # make an update with the next batches
                    seed_apart(self.world, self.seed, self.progress.update)
                    started = time.perf_counter()
                    batches, after = next(groups)
                    made = self.update(batches)
                    seconds = time.perf_counter() - started

                    # count and log it
                    self.progress = self.progress.updated(made, after, seconds, training.log_every)
                    self.log.update(self.progress, made, training, bar)
                    if self.progress.save_due(training):
                        self.save()
        except Stopped:
            self.save()
            raise

    def update(self, batches: Sequence[Batch]) -> Update:
        """Make one update with the gradient of all batches of all processes, divided by their real target tokens."""
        # set the learning rate of this update
        training = self.training
        share = training.schedule.share(self.progress.update + 1, training.updates, self.progress.scale)
        for group, highest in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = share * highest

        # forward and backward (gradients.py), batch by batch; again in halves where memory is too small
        tokens = int(self.world.sum(torch.tensor(sum(batch.target_tokens for batch in batches))))
        nll, halved = self.accumulation.forward_backward(self.gradients, batches, tokens, self.progress, self.log.say)

        # clip the gradient, and step unless it is not finite
        norm = clip_grad_norm_(self.model.parameters(), training.clip or math.inf)
        gradient_norm, total = torch.stack((norm.double(), nll)).tolist()  # the one synchronization of a GPU
        # each process computes the norm, and near the limit of fp32 two machines may round to either side
        skipped = self.world.any(not (math.isfinite(gradient_norm) and math.isfinite(total)))
        if skipped:
            self._skip()
        else:
            self.optimizer.step()
        self.gradients.reset()
        rate = share * training.optimizer.learning_rate
        return Update(total / tokens, tokens, gradient_norm, rate, skipped, halved)

    def validate(self, check_stop: CheckStop = never_stop) -> None:
        """Validate, save the best weights, then ``last``; if ``check_stop`` raises, nothing has changed."""
        result = self.validator(self.progress.update, check_stop=check_stop)
        before, training = self.progress, self.training
        self.progress = before.judged(result.merit(training.validation.metric), training)
        self.log.validation(self.progress, result, training, best=self.progress.best is not before.best)
        self.checkpointing.save_best(before, self.progress)
        self.save()

    # --- its parts ----------------------------------------------------------------------------------------------------

    def groups(self) -> Iterator[tuple[list[Batch], Position]]:
        """Endless groups of batches, one for each update, from the current position on; each with the next position."""
        batches = training_batches(
            self.prepared.train,
            self.specials,
            self.training.batch_tokens,
            seed=self.seed,
            position=self.progress.position,
            rank=self.world.rank,
            size=self.world.size,
        )
        if self.device.type != "cpu":  # where a second thread would compete with training
            batches = ahead((after, self.gradients.prepared(batch)) for after, batch in batches)
        while group := list(islice(batches, self.training.accumulation)):
            yield [batch for _, batch in group], group[-1][0]

    def _skip(self) -> None:
        """Report an update without a step. Raises NmtError after too many of them."""
        self.log.say(Caution(f"{self.progress.place}: the gradient is not finite; the update is skipped"))
        if self.progress.skipped_in_a_row + 1 >= SKIPS:
            clip = "a lower training.clip" if self.training.clip else "training.clip: 1.0"
            raise NmtError(
                f"{SKIPS} updates in a row had no finite gradient (the last is {self.progress.update + 1}); "
                f"{self.checkpointing.run.checkpoints / 'last'} has the weights from before them. Resume with a lower "
                f"training.optimizer.learning_rate, or start again with {clip}"
            )

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def average_best(self, check_stop: CheckStop = never_stop) -> None:
        """Replace ``best`` by the average of several checkpoints if validation prefers the average."""
        self.checkpointing.average_best(
            self.progress, lambda: self.validator(self.progress.update, samples=False, check_stop=check_stop)
        )

    def save(self) -> None:
        """Save ``last``."""
        self.checkpointing.save(self.progress)
