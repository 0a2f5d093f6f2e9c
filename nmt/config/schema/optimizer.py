"""Optimizers and schedules in the ``training`` section. ``nmt.training.optimizer`` builds the optimizers."""

import math
from typing import Annotated, Literal

from pydantic import Field

from nmt.config.schema.base import Choice, Count, Fraction, NotNegative, Positive, Registry, Section, Size

OPTIMIZERS = Registry()
SCHEDULES = Registry()


class Optimizer(Section):
    """Options of every optimizer; built around the parameters."""

    type: str
    learning_rate: Positive
    """Learning rate after warm-up."""


@OPTIMIZERS.register
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015)."""

    type: Literal["adam"] = "adam"
    learning_rate: Positive = 1e-3
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    """Decay rates of the first and the second moment."""
    epsilon: Positive = 1e-8
    """Added to the denominator."""


@OPTIMIZERS.register
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    type: Literal["adamw"]  # type: ignore[assignment]
    weight_decay: NotNegative = 0.01
    """An update first multiplies the weights by 1 - learning rate × this."""


@OPTIMIZERS.register
class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012) with the constants of Bahdanau et al. 2015."""

    type: Literal["adadelta"]
    learning_rate: Positive = 1.0
    """Factor of the update."""
    rho: Fraction = 0.95
    """Decay rate of both averages."""
    epsilon: Positive = 1e-6
    """Added to both averages under the square root."""


@OPTIMIZERS.register
class Sgd(Optimizer):
    """Stochastic gradient descent."""

    type: Literal["sgd"]
    learning_rate: Positive = 1.0
    momentum: Fraction = 0.0
    """Momentum."""


AnyOptimizer = Annotated[Optimizer, Choice("adam", OPTIMIZERS)]


class Schedule(Section):
    """Options of every schedule, which computes its own rates."""

    type: str
    warmup: Count = 0
    """Updates of linear growth from zero."""

    def share(self, update: int, updates: int, scale: float) -> float:
        """Return the share of ``learning_rate`` in an ``update`` of ``updates``, counted from 1; ``scale`` is the share
        to which validations have reduced it."""
        return (min(1.0, update / self.warmup) if self.warmup else 1.0) * self.decay(update, updates, scale)

    def decay(self, update: int, updates: int, scale: float) -> float:
        """Return the share, from 0 to 1; the warm-up multiplies that of its own updates."""
        return 1.0


@SCHEDULES.register
class ConstantSchedule(Schedule):
    """Constant learning rate after warm-up."""

    type: Literal["constant"] = "constant"


@SCHEDULES.register
class InverseSquareRootSchedule(Schedule):
    """Learning rate proportional to 1 / sqrt(update) after warm-up."""

    type: Literal["inverse_square_root"]
    warmup: Size = 1000

    def decay(self, update: int, updates: int, scale: float) -> float:
        return min(1.0, math.sqrt(self.warmup / update))


@SCHEDULES.register
class LinearSchedule(Schedule):
    """Learning rate that falls linearly after warm-up, to zero after the last update."""

    type: Literal["linear"]

    def decay(self, update: int, updates: int, scale: float) -> float:
        return min(1.0, (updates - update + 1) / max(1, updates - self.warmup + 1))


@SCHEDULES.register
class PlateauSchedule(Schedule):
    """Learning rate that falls when validation stops improving."""

    type: Literal["plateau"]
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor of a reduction."""
    patience: Count = 1
    """Validations without improvement before the rate falls."""

    def decay(self, update: int, updates: int, scale: float) -> float:
        return scale


AnySchedule = Annotated[Schedule, Choice("constant", SCHEDULES)]
