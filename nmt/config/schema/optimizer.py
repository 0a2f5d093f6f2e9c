"""Optimizers and learning-rate schedules in the ``training`` section. ``nmt.training.optimizer`` builds them."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.schema.base import Choice, Count, Fraction, NotNegative, Positive, Registry, Section, Size

OPTIMIZERS = Registry()


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
    """Learning rate after warm-up."""
    betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    """Decay rates of the first and the second moment."""
    epsilon: Positive = 1e-8
    """Added to the denominator."""


@OPTIMIZERS.register
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    type: Literal["adamw"]  # type: ignore[assignment]
    weight_decay: NotNegative = 0.01
    """Share by which an update shrinks the weights."""


@OPTIMIZERS.register
class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012) with the constants of Bahdanau et al. 2015."""

    type: Literal["adadelta"]
    learning_rate: Positive = 1.0
    """Factor of the update."""
    rho: Fraction = 0.95
    """Decay rate of both averages."""
    epsilon: Positive = 1e-6
    """Added below both roots."""


@OPTIMIZERS.register
class Sgd(Optimizer):
    """Stochastic gradient descent."""

    type: Literal["sgd"]
    learning_rate: Positive = 1.0
    """Learning rate after warm-up."""
    momentum: Fraction = 0.0
    """Momentum; 0: none."""


AnyOptimizer = Annotated[Optimizer, Choice("adam", OPTIMIZERS)]


class ConstantSchedule(Section):
    """Constant learning rate after warm-up."""

    type: Literal["constant"] = "constant"
    warmup: Count = 0
    """Updates during which the rate grows linearly from zero."""


class InverseSquareRootSchedule(Section):
    """Learning rate proportional to 1 / sqrt(update) after warm-up."""

    type: Literal["inverse_square_root"]
    warmup: Size = 1000
    """Updates during which the rate grows linearly from zero."""


class PlateauSchedule(Section):
    """Learning rate that is reduced when validation stops improving."""

    type: Literal["plateau"]
    warmup: Count = 0
    """Updates during which the rate grows linearly from zero."""
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor of a reduction."""
    patience: Count = 1
    """Validations without improvement to tolerate before the rate falls."""
    floor: Annotated[float, Field(ge=0, le=1)] = 1e-5
    """Smallest rate, relative to ``learning_rate``."""


AnySchedule = Annotated[ConstantSchedule | InverseSquareRootSchedule | PlateauSchedule, Choice("constant")]
