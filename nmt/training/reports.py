"""What a person hears of a run in training: its speed, the time left, its validations, why it ended early."""

import math
from dataclasses import dataclass, replace

import torch

from nmt.config.schema import Training
from nmt.device import peak_memory
from nmt.evaluation.metrics import METRICS
from nmt.messages import Detail, Highlight, Step, duration
from nmt.training.extent import Extent
from nmt.training.log import Log
from nmt.training.progress import Progress, Window
from nmt.training.validation import ValidationResult

FIRST_LINE, FIRST_UPDATES = 5.0, 5
"""Seconds and updates after which the expected time is said; the first update is slow."""


@dataclass(frozen=True)
class Update:
    """The measurements of one update."""

    loss: float
    """Negative log-likelihood per real target token, nats."""
    tokens: int
    gradient_norm: float
    learning_rate: float


class Reports:
    """Records and says how training goes.

    Args:
        config: of training.
        extent: how long the run is.
        log: of the run.
        device: whose memory is told.
        token_seconds: the time that the machine's own matrix product needs for the work of one target token, with which
            the speed is compared; None if it is unknown.
    """

    def __init__(
        self, config: Training, extent: Extent, log: Log, device: torch.device, token_seconds: float | None = None
    ) -> None:
        self.config = config
        self.extent = extent
        self.log = log
        self.device = device
        self.token_seconds = token_seconds
        self._expected_since: Progress | None = None
        """The first progress, until the expected time has been said; then None."""
        self._heading = True
        """Whether the next row of the table of validations needs a heading."""

    def begin(self, progress: Progress) -> None:
        """Note where training begins, or goes on."""
        self._expected_since = progress

    def update(self, progress: Progress, made: Update, shown: Step) -> Progress:
        """Show an update, which ``progress`` counts; record it every ``log_every`` updates, which begins a new window.

        Once, after a few seconds, say how long the rest will take.
        """
        window, total = progress.window, self.extent.total(self.config, progress)
        left, counted, uncounted = self._left(progress, total)
        share = None if self.token_seconds is None else window.rate * self.token_seconds
        speed = f"{window.rate:,.0f} target tokens/s" + ("" if share is None else f" ({share:.1%} of the matrix rate)")
        shown.expect(total)
        shown.note(
            f"loss {window.mean:.2f}, {window.rate:,.0f} tokens/s" + ("" if share is None else f" ({share:.1%})")
        )
        shown.advance()
        if progress.update % self.config.log_every == 0 or progress.complete(self.config):
            self._record(progress, made, share)
            self.log.say(
                Detail(
                    f"update {progress.update}/{total}  epoch {progress.epoch}  loss {window.mean:.3f}  "
                    f"{speed}  {duration(left)} left{uncounted}"
                )
            )
            progress = replace(progress, window=Window())
        start = self._expected_since
        if (
            start is not None
            and progress.seconds - start.seconds >= FIRST_LINE
            and progress.update - start.update >= FIRST_UPDATES
        ):
            self._expected_since = None
            self.log.say(
                f"expected time: {duration(left)} for {number_of(total - progress.update, 'more update')}{counted}"
                f"{uncounted}, at {speed}; {peak_memory(self.device) / 1e9:.1f} GB of memory so far"
            )
        return progress

    def _left(self, progress: Progress, total: int) -> tuple[float, str, str]:
        """Return the seconds that are left, and in words the validations that they count and those that they do not:
        the first validation is not made yet, so that nobody knows how long one takes."""
        seconds = progress.seconds / progress.update * (total - progress.update)
        made, left = self.extent.validations(self.config, progress)
        if not left:
            return seconds, "", ""
        validations = number_of(left, "validation")
        if not made:
            return seconds, "", f", not counting {validations}"
        return seconds + left * progress.validation_seconds / made, f" and {validations}", ""

    def _record(self, progress: Progress, made: Update, share: float | None) -> None:
        window = progress.window
        self.log.record(
            progress.update,
            "train",
            loss=window.mean,
            perplexity=math.exp(min(window.mean, 700)),
            target_tokens_per_second=window.rate,
            seconds=progress.seconds,
            matrix_share=share,
            learning_rate=made.learning_rate,
            gradient_norm=made.gradient_norm,
            epoch=progress.epoch,
            skipped=progress.skipped,
            halved=progress.halved,
        )

    def validation(self, progress: Progress, result: ValidationResult, *, best: bool) -> None:
        """Record a validation, and say it as a row of a table."""
        self.log.record(progress.update, "validation", **result.as_dict(), best=best)
        if best:
            self.log.scalars(progress.update, "best", result.as_dict())
        heading, row = result.table_row(progress.update, self.extent.read(progress), best=best)
        if self._heading:
            self.log.say(heading)
            self._heading = False
        self.log.say(Highlight(row) if best else row)

    def end(self, progress: Progress) -> None:
        """Say why training has ended early, if it has."""
        if not progress.complete(self.config) and progress.best is not None:
            name = METRICS[self.config.validation.metric].label
            self.log.say(
                f"stopped early after update {progress.update}: the validation {name} has not improved in "
                f"{progress.waited} validations (training.validation.patience); the best is that of update "
                f"{progress.best.update}"
            )


def number_of(count: int, noun: str) -> str:
    """A count and its noun: ``1 validation``, ``2 validations``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
