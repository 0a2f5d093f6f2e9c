"""Progress of a run: its position and length, and the decision about the next step."""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from nmt.config import Config
from nmt.config.schema import Count, PlateauSchedule, Training
from nmt.data.batching import plan_by_length
from nmt.data.dataset import PreparedData
from nmt.data.epochs import Position

MOST_COUNTED = 1_000_000
"""Pairs whose lengths are looked at; of a larger corpus every n-th stands for n."""
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Candidate:
    """A validated checkpoint that may become best or enter the average."""

    update: Count
    score: float

    @property
    def checkpoint(self) -> str:
        """The name of its checkpoint."""
        return f"update-{self.update}"


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

    def plus(self, loss: float, tokens: int, seconds: float) -> Self:
        """The window with one more update."""
        return replace(self, loss=self.loss + loss, tokens=self.tokens + tokens, seconds=self.seconds + seconds)


@dataclass(frozen=True)
class Progress:
    """Counters and scores between two updates. A higher score is better (BLEU, or minus the loss)."""

    update: Count = 0
    position: Position = field(default_factory=Position)
    target_tokens: Count = 0
    """Real target tokens so far."""
    seconds: Seconds = 0.0
    """Time in updates so far."""
    validation_seconds: Seconds = 0.0
    """Time in validations so far."""
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
    """The factor to which the plateau schedule has reduced the learning rate."""
    kept: tuple[Candidate, ...] = ()
    """The checkpoints that enter the average, best first."""

    @property
    def epoch(self) -> int:
        """The epoch of the last update, counted from 1; before the first update, 1."""
        return max(1, self.position.epoch + (self.position.batch > 0))

    def updated(self, after: Position, tokens: int, *, skipped: bool, halved: bool) -> Self:
        """The progress after one more update."""
        return replace(
            self,
            update=self.update + 1,
            position=after,
            target_tokens=self.target_tokens + tokens,
            skipped=self.skipped + skipped,
            skipped_in_a_row=self.skipped_in_a_row + 1 if skipped else 0,
            halved=self.halved + halved,
        )

    def timed(self, loss: float, tokens: int, seconds: float) -> Self:
        """The progress with the loss and duration of the last update; a loss that is not finite is left out."""
        window = self.window.plus(loss * tokens, tokens, seconds) if math.isfinite(loss) else self.window
        return replace(self, seconds=self.seconds + seconds, window=window)

    def judged(self, score: float, config: Training) -> Self:
        """The progress after a validation with this score."""
        this = Candidate(self.update, score)
        better = self.best is None or score > self.best.score
        plateau, scale = (0, self.scale) if better else (self.plateau + 1, self.scale)
        schedule = config.schedule
        if isinstance(schedule, PlateauSchedule) and plateau > schedule.patience:
            plateau, scale = 0, max(schedule.floor, scale * schedule.factor)
        return replace(
            self,
            validated=self.update,
            best=this if better else self.best,
            waited=0 if better else self.waited + 1,
            plateau=plateau,
            scale=scale,
            kept=tuple(sorted((*self.kept, this), key=lambda candidate: -candidate.score)[: config.average]),
        )

    def validation_due(self, config: Training) -> bool:
        """Whether a validation follows."""
        validation = config.validation
        due = self.update % validation.every == 0 or self.update == validation.first or self.complete(config)
        return due and self.update > self.validated

    def report_due(self, config: Training) -> bool:
        """Whether the window of updates is to be recorded."""
        return self.update % config.log_every == 0 or self.complete(config)

    def save_due(self, config: Training) -> bool:
        """Whether ``last`` is to be saved without a validation; never between skipped updates."""
        due = config.save_every is not None and self.update % config.save_every == 0
        return due and not self.skipped_in_a_row

    def complete(self, config: Training) -> bool:
        """Whether all updates are done."""
        return self.update >= config.updates

    def finished(self, config: Training) -> bool:
        """Whether training is complete or patience has run out."""
        patience = config.validation.patience
        return self.complete(config) or (patience is not None and self.waited >= patience)

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Convert from JSON. Raises ValueError for values that :meth:`to_json` cannot have returned."""
        text = json.dumps(value, sort_keys=True)
        try:
            progress = TypeAdapter(cls).validate_json(text, strict=True)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise ValueError(
                "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the whole'}: {each['msg']}" for each in problems)
            ) from None
        if json.dumps(progress.to_json(), sort_keys=True) != text:
            raise ValueError("fields are missing, or there are others")
        return progress


@dataclass(frozen=True)
class Extent:
    """The batches of an epoch, and of an update.

    Exact for a corpus of up to ``MOST_COUNTED`` pairs that every epoch reads as it is; with sampled segmentations, or
    in a mix, an estimate.
    """

    batches: int
    """Of an epoch."""
    per_update: int
    """Batches of an update, of all processes."""
    tokens: int
    """Real target tokens of an epoch."""

    @classmethod
    def of(cls, config: Config, prepared: PreparedData, processes: int) -> Self:
        """Count the batches of a corpus."""
        corpus, report = prepared.train, prepared.report["splits"]["train"]
        every = max(1, len(corpus) // MOST_COUNTED)
        source, target = corpus.source_lengths[::every], corpus.target_lengths[::every]
        times = report.get("pairs_in_epoch", len(corpus)) / len(source)
        batches = len(plan_by_length(source, target, config.training.batch_tokens))
        tokens = int(target.sum(dtype=np.int64)) + len(target)
        per_update = config.training.accumulation * processes
        return cls(max(1, round(batches * times)), per_update, round(tokens * times))

    def epochs(self, updates: int) -> float:
        """Return how many epochs a number of updates reads."""
        return updates * self.per_update / self.batches

    def validations(self, config: Training, progress: Progress) -> tuple[int, int]:
        """Return how many validations a run has made and how many are left, if ``patience`` does not end it early."""
        total, last = config.updates, progress.validated
        every, first = config.validation.every, config.validation.first

        def until(update: int) -> int:
            early = first is not None and first <= update and first % every > 0 and first != total
            return update // every + early + (update >= total and total % every > 0)  # the last update has one, too

        return max(until(last), int(last > 0)), until(total) - until(min(last, total))

    def read(self, progress: Progress) -> float:
        """Return the epochs that have been read."""
        return progress.position.epoch + min(1.0, progress.position.batch / self.batches)
