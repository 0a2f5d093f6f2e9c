"""The ``training`` section."""

from typing import Annotated, Literal

from pydantic import Field

from nmt.config.schema.base import Beam, Count, Fraction, PathText, Pieces, Positive, Section, Size
from nmt.config.schema.optimizer import Adam, AnyOptimizer, AnySchedule, ConstantSchedule


class Validation(Section):
    """Validation during training, which saves a checkpoint."""

    every: Size = 500
    """Updates between validations."""
    first: Size | None = 100
    """Update after which an early validation saves the first ``best``."""
    metric: str = "bleu"
    """Metric that selects the best checkpoint, for example bleu, loss or aer."""
    patience: Size | None = None
    """Validations without improvement after which training stops."""
    sentences: Size | None = None
    """First validation sentences to translate; null: all."""
    beam_size: Beam = 1
    """Beam size of these translations."""
    samples: Count = 4
    """Translations that each validation adds to samples.jsonl; with 0 the run has no film."""


class ScheduledSampling(Section):
    """Share of references k / (k + exp(i / k)) after i updates (Bengio et al. 2015, section 2.4: inverse sigmoid)."""

    k: Annotated[float, Field(ge=1, le=1e30)] = 1400.0
    """The share is a half after k ln k updates."""
    output: Literal["sample", "argmax"] = "sample"
    """How the network's own output is chosen."""


class GuidedAttention(Section):
    """Add the cross-entropy of the attention with ``data.train.links`` (Chen et al. 2016, section 3)."""

    weight: Positive = 1.0
    """Factor of this cross-entropy."""


class Training(Section):
    """Maximum likelihood, by default with teacher forcing."""

    start_from: PathText | None = None
    """Run whose tokenizer and best weights training starts from."""
    updates: Size
    """Updates in total."""
    batch_tokens: Pieces = 2048
    """Largest batch, in tokens of its longer side with padding."""
    accumulation: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Batches per update."""
    optimizer: AnyOptimizer = Adam()
    schedule: AnySchedule = ConstantSchedule()
    label_smoothing: Fraction = 0.0
    """Share of the target distribution spread over the vocabulary."""
    scheduled_sampling: ScheduledSampling | None = None
    """Let the decoder also read the network's own outputs."""
    guided_attention: GuidedAttention | None = None
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
    """Seconds that a process waits for the others."""
