"""Progress of a run: what was measured, its position and length, and the decision about the next step."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, TypeAdapter

from nmt.config.schema import Count, PlateauSchedule, Training
from nmt.data.batching import Position, plan_by_length
from nmt.data.dataset import PreparedData
from nmt.errors import ConfigError
from nmt.evaluation.metrics import METRICS

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Candidate:
    """A validated checkpoint that may become best or enter the average."""

    update: Count
    merit: tuple[float, float]
    """Numbers that are higher for a better model: by the chosen metric, and minus the loss, which decides ties."""

    @property
    def checkpoint(self) -> str:
        """The name of its checkpoint."""
        return f"update-{self.update}"


@dataclass(frozen=True)
class Update:
    """The measurements of one update."""

    loss: float
    """Negative log-likelihood per real target token, nats."""
    tokens: int
    """Real target tokens."""
    gradient_norm: float
    learning_rate: float
    skipped: bool = False
    """Whether no step was made, because the gradient was not finite."""
    halved: bool = False
    """Whether batches were halved, because memory was too small."""


@dataclass(frozen=True)
class ValidationResult:
    """The scores of a model on the validation set, and what they took."""

    scores: Mapping[str, float]
    """By the name of the metric."""
    seconds: float
    by_tag: Mapping[str, float] = field(default_factory=dict)
    """BLEU of the sentences with each tag, as ``BLEU TAG``, if there are several tags."""

    def merit(self, metric: str) -> tuple[float, float]:
        """Return the scores of a metric and of the loss, which decides between equals, as numbers that are higher for
        a better model. Raises ConfigError for a metric that this run does not measure."""
        if metric not in self.scores:
            measured = f"it measures {', '.join(self.scores)}, for which compute returns a number"
            raise ConfigError(f"training.validation.metric: this run does not measure {metric}; {measured}")
        of_metric, of_loss = (METRICS[name].merit(self.scores[name]) for name in (metric, "loss"))
        return of_metric, of_loss


@dataclass(frozen=True)
class Window:
    """Sums since the last progress line, over the updates with a finite loss."""

    loss: float = 0.0
    """Negative log-likelihood, nats."""
    tokens: Count = 0
    seconds: Seconds = 0.0

    @property
    def mean(self) -> float:
        """Nats per token; NaN without tokens."""
        return self.loss / self.tokens if self.tokens else math.nan

    @property
    def rate(self) -> float:
        """Tokens per second; NaN without time."""
        return self.tokens / self.seconds if self.seconds else math.nan

    def plus(self, made: Update, seconds: float) -> Self:
        """The window with one more update, unless its loss is not finite."""
        if not math.isfinite(made.loss):
            return self
        return type(self)(self.loss + made.loss * made.tokens, self.tokens + made.tokens, self.seconds + seconds)


@dataclass(frozen=True)
class Progress:
    """Counters and scores between two updates."""

    update: Count = 0
    position: Position = field(default_factory=Position)
    batch_tokens: Count = 0
    """The size of the batches that ``position`` counts."""
    target_tokens: Count = 0
    """Real target tokens so far."""
    seconds: Seconds = 0.0
    """Time in updates so far."""
    validated: Count = 0
    """The update of the last validation."""
    skipped: Count = 0
    """Updates skipped because their gradient was not finite."""
    skipped_in_a_row: Count = 0
    """Skipped updates since the last one that was not."""
    halved: Count = 0
    """Updates whose batches were halved because memory was too small."""
    window: Window = field(default_factory=Window)
    best: Candidate | None = None
    waited: Count = 0
    """Validations since the best one."""
    plateau: Count = 0
    """Validations since the best one or the last reduction of the learning rate."""
    scale: float = 1.0
    """The factor to which validations have reduced the learning rate with the plateau schedule."""
    kept: tuple[Candidate, ...] = ()
    """The checkpoints that enter the average, best first."""

    @property
    def epoch(self) -> int:
        """The epoch of the last update, counted from 1; before the first update, 1."""
        return max(1, self.position.epoch + (self.position.batch > 0))

    @property
    def place(self) -> str:
        """The number of the update in progress, and the position of its text."""
        return f"update {self.update + 1} (epoch {self.position.epoch + 1}, batch {self.position.batch + 1})"

    def updated(self, made: Update, after: Position, seconds: float, log_every: int) -> Self:
        """The progress after one more update, which took ``seconds``; a window lasts ``log_every`` updates."""
        window = self.window if self.update % log_every else Window()
        return replace(
            self,
            update=self.update + 1,
            position=after,
            target_tokens=self.target_tokens + made.tokens,
            seconds=self.seconds + seconds,
            skipped=self.skipped + made.skipped,
            skipped_in_a_row=self.skipped_in_a_row + 1 if made.skipped else 0,
            halved=self.halved + made.halved,
            window=window.plus(made, seconds),
        )

    def judged(self, merit: tuple[float, float], training: Training) -> Self:
        """The progress after a validation with this merit."""
        this = Candidate(self.update, merit)
        better = self.best is None or merit > self.best.merit
        plateau, scale = (0, self.scale) if better else (self.plateau + 1, self.scale)
        if isinstance(schedule := training.schedule, PlateauSchedule) and plateau > schedule.patience:
            plateau, scale = 0, scale * schedule.factor
        ranked = sorted((*self.kept, this), key=lambda candidate: candidate.merit, reverse=True)
        return replace(
            self,
            validated=self.update,
            best=this if better else self.best,
            waited=0 if better else self.waited + 1,
            plateau=plateau,
            scale=scale,
            kept=tuple(ranked[: training.average]),
        )

    def validation_due(self, training: Training) -> bool:
        """Whether a validation follows."""
        validation = training.validation
        due = self.update % validation.every == 0 or self.update == validation.first or self.complete(training)
        return due and self.update > self.validated

    def save_due(self, training: Training) -> bool:
        """Whether ``last`` is to be saved without a validation."""
        due = training.save_every is not None and self.update % training.save_every == 0
        return due and not self.validation_due(training)

    def complete(self, training: Training) -> bool:
        """Whether all updates are done."""
        return self.update >= training.updates

    def finished(self, training: Training) -> bool:
        """Whether training is complete or patience has run out."""
        patience = training.validation.patience
        return self.complete(training) or (patience is not None and self.waited >= patience)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Convert from JSON. Raises ValueError for values that ``asdict`` cannot have returned."""
        text = json.dumps(value, sort_keys=True)
        progress = TypeAdapter(cls).validate_json(text, strict=True)
        if json.dumps(asdict(progress), sort_keys=True) != text:
            raise ValueError("fields are missing, or there are others")
        return progress


@dataclass(frozen=True)
class Extent:
    """The length of a run: an estimate if epochs differ, as with sampled segmentations or a mix of corpora."""

    batches: int
    """Batches of an epoch."""
    per_update: int
    """Batches of an update, of all processes."""
    tokens: int
    """Real target tokens of an epoch."""

    @classmethod
    def of(cls, training: Training, prepared: PreparedData, processes: int) -> Self:
        """Count the batches of a corpus."""
        pairs, report = prepared.train, prepared.report["splits"]["train"]
        times = report.get("pairs_in_epoch", len(pairs)) / len(pairs)
        batches = len(plan_by_length(pairs.source_lengths, pairs.target_lengths, training.batch_tokens))
        tokens = int(pairs.target_lengths.sum(dtype=np.int64)) + len(pairs)
        per_update = training.accumulation * processes
        return cls(max(1, round(batches * times)), per_update, round(tokens * times))

    def epochs(self, updates: int) -> float:
        """Return how many epochs a number of updates reads."""
        return updates * self.per_update / self.batches
