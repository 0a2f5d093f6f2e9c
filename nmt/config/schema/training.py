"""The ``training`` section. ``nmt.training.optimizer`` builds its optimizers."""

import math
from typing import Annotated, Literal

from pydantic import Field

from nmt.config.schema.base import (
    LARGEST_NUMBER,
    Beam,
    Choice,
    Count,
    Fraction,
    NotNegative,
    Pieces,
    Positive,
    Registry,
    Section,
    Size,
    Text,
)

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
    """Added to both averages under the square root."""


@OPTIMIZERS.register
class Sgd(Optimizer):
    """Stochastic gradient descent."""

    type: Literal["sgd"]
    learning_rate: Positive = 1.0
    """Learning rate after warm-up."""
    momentum: Fraction = 0.0
    """Momentum; 0: none."""


AnyOptimizer = Annotated[Optimizer, Choice("adam", OPTIMIZERS)]


class Schedule(Section):
    """Options of every schedule, which computes its own rates."""

    type: str
    warmup: Count = 0
    """Updates during which the rate grows linearly from zero."""

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
    """Updates during which the rate grows linearly from zero."""

    def decay(self, update: int, updates: int, scale: float) -> float:
        """Fall from 1 at the end of the warm-up."""
        return min(1.0, math.sqrt(self.warmup / update))


@SCHEDULES.register
class PlateauSchedule(Schedule):
    """Learning rate that is reduced when validation stops improving."""

    type: Literal["plateau"]
    factor: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Factor of a reduction."""
    patience: Count = 1
    """Validations without improvement to tolerate before the rate falls."""
    floor: Annotated[float, Field(ge=0, le=1)] = 1e-5
    """Smallest rate, relative to ``learning_rate``."""

    def decay(self, update: int, updates: int, scale: float) -> float:
        """Follow the validations."""
        return scale


AnySchedule = Annotated[Schedule, Choice("constant", SCHEDULES)]


class Validation(Section):
    """Validation during training, which saves a checkpoint."""

    every: Size = 500
    """Updates between validations."""
    first: Size | None = 100
    """Update after which an early validation saves the first ``best``."""
    metric: str = "bleu"
    """Metric of ``nmt.evaluation.metrics`` that selects the best checkpoint, for example bleu, loss or aer."""
    patience: Size | None = None
    """Validations in a row without improvement after which training stops."""
    sentences: Size | None = None
    """First validation sentences to translate; null: all."""
    beam_size: Beam = 1
    """Beam size of these translations."""
    samples: Count = 4
    """Translations that each validation adds to samples.jsonl; with 0 the run has no film."""


class ScheduledSampling(Section):
    """Share of references k / (k + exp(i / k)) after i updates (Bengio et al. 2015, section 2.4: inverse sigmoid)."""

    k: Annotated[float, Field(ge=1, le=LARGEST_NUMBER)] = 1400.0
    """The share is a half after k ln k updates."""
    output: Literal["sample", "argmax"] = "sample"
    """How the network's own output is chosen."""


class GuidedAttention(Section):
    """Add the cross-entropy of the attention with ``data.train.links`` (Chen et al. 2016, section 3)."""

    weight: Positive = 1.0
    """Factor of this cross-entropy."""


class Training(Section):
    """Maximum likelihood, by default with teacher forcing."""

    start_from: Text | None = None
    """Run whose tokenizer and best weights training starts from."""
    updates: Size
    """Updates in total; training prints how many epochs they are."""
    batch_tokens: Pieces = 2048
    """Largest batch, in tokens of its longer side including padding."""
    accumulation: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Batches per update."""
    optimizer: AnyOptimizer = Adam()
    schedule: AnySchedule = ConstantSchedule()
    label_smoothing: Fraction = 0.0
    """Share of the target distribution that is spread over the vocabulary."""
    scheduled_sampling: ScheduledSampling | None = None
    """Replace a growing share of the references in the decoder's input by the network's own outputs."""
    guided_attention: GuidedAttention | None = None
    """Teach the attention the word links of the training pairs."""
    clip: Positive | None = 1.0
    """Largest norm of the gradient of all parameters."""
    validation: Validation = Validation()
    average: Size = 1
    """Best checkpoints to average at the end; the average becomes ``best`` if it validates better."""
    save_every: Size | None = None
    """Updates between saves of the checkpoint ``last``; null: at each validation."""
    log_every: Size = 50
    """Updates between records of ``metrics.jsonl``."""
    timeout: Positive = 600.0
    """Seconds that a process waits for the others before training fails."""
