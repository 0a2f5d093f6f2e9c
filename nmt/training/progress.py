"""How far a training has come: a value, saved with the weights, that decides what happens next."""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Self

from pydantic import Field, TypeAdapter, ValidationError

from nmt.config.schema import Count, PlateauSchedule, Training
from nmt.data.batching import Position

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Kept:
    """A checkpoint that may enter the average."""

    update: Count
    score: float


@dataclass(frozen=True)
class Window:
    """Sums since the last line of progress, over the updates whose loss is a number."""

    loss: float = 0.0
    """Negative log-likelihood, nats."""
    tokens: Count = 0
    seconds: Seconds = 0.0

    @property
    def mean(self) -> float:
        """Nats per token; NaN where there is none."""
        return self.loss / self.tokens if self.tokens else math.nan

    @property
    def rate(self) -> float:
        """Tokens per second; NaN where there is none."""
        return self.tokens / self.seconds if self.seconds else math.nan

    def plus(self, loss: float, tokens: int, seconds: float) -> Self:
        """With one update more."""
        return replace(self, loss=self.loss + loss, tokens=self.tokens + tokens, seconds=self.seconds + seconds)


@dataclass(frozen=True)
class Progress:
    """Counters and scores between two updates. Scores are such that higher is better (BLEU, or minus the loss)."""

    update: Count = 0
    position: Position = field(default_factory=Position)
    target_tokens: Count = 0
    """Real target tokens trained on so far."""
    seconds: Seconds = 0.0
    """Time spent in updates so far."""
    validation_seconds: Seconds = 0.0
    """Time spent in validations so far."""
    validated: Count = 0
    """The update after which was the last validation."""
    skipped: Count = 0
    """Updates left out because their gradient was not finite."""
    skipped_in_a_row: Count = 0
    """Of these, the ones since the last update that was made."""
    halved: Count = 0
    """Updates whose batches were halved, for memory did not suffice."""
    window: Window = field(default_factory=Window)
    best: Kept | None = None
    waited: Count = 0
    """Validations since the best one."""
    plateau: Count = 0
    """Validations since the best one or the last reduction of the learning rate."""
    scale: float = 1.0
    """Share of the learning rate that the plateau schedule has come down to."""
    kept: tuple[Kept, ...] = ()
    """The best checkpoints, best first."""

    def judged(self, score: float, config: Training) -> Self:
        """After a validation with this score."""
        this = Kept(self.update, score)
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
            kept=tuple(sorted((*self.kept, this), key=lambda kept: -kept.score)[: config.average]),
        )

    def validation_due(self, config: Training) -> bool:
        """Whether a validation comes next."""
        validation = config.validation
        due = self.update % validation.every == 0 or self.update in (validation.first, config.updates)
        return due and self.update > self.validated

    def finished(self, config: Training) -> bool:
        """Whether all updates are made or patience is at its end."""
        patience = config.validation.patience
        return self.update >= config.updates or (patience is not None and self.waited >= patience)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Back from JSON. Raises ValueError for what :meth:`to_json` cannot have made."""
        if isinstance(value, dict):
            older = {"halved": 0, "validated": value.get("update", 0)}  # before these were written down
            value = older | value
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
