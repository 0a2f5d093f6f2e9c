"""Attention in the ``model`` section: its scores, scopes and estimators. ``nmt.model.attention`` computes it."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from nmt.config.schema.base import Choice, NotNegative, Positive, Problem, Registry, Section, Size, Width
from nmt.config.schema.network import Network, Part
from nmt.config.schema.recurrent import RecurrentDecoder, RecurrentEncoder
from nmt.config.schema.transformer import TransformerDecoder

ATTENTIONS, SCORES = Registry(), Registry()

# --- scores -----------------------------------------------------------------------------------------------------------


class Score(Part):
    """How well a query and a key agree; built for the widths of queries and annotations in one head."""


@SCORES.register
class AdditiveScore(Score):
    """v · tanh(W s + U h)."""

    type: Literal["additive", "concat"]
    hidden: Width | None = None
    """Hidden units in each head; null: ``decoder.hidden`` divided by ``heads``."""


@SCORES.register
class CoverageScore(AdditiveScore):
    """The additive score that also reads the sum of earlier weights."""

    type: Literal["coverage"]  # type: ignore[assignment]

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """Anything but one soft attention over all positions."""
        attention = model.attention
        assert isinstance(attention, ScoredAttention)
        if not isinstance(model.decoder, RecurrentDecoder):
            text = "'coverage' needs a recurrent decoder of the package, which adds up the weights"
            yield Problem(f"{key}.type", text)
        if attention.heads > 1 or attention.hard is not None or not isinstance(attention.scope, GlobalScope):
            text = "'coverage' is defined for one soft, global attention; use heads: 1, scope: global, hard: null"
            yield Problem(f"{key}.type", text)


@SCORES.register
class DotScore(Score):
    """s · h, for equally wide states and annotations."""

    type: Literal["dot"]

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """Widths that differ."""
        decoder, encoder = model.decoder, model.encoder
        if decoder.hidden != (width := encoder.width(model.embeddings.size)):
            both = isinstance(encoder, RecurrentEncoder) and encoder.directions == "both"
            wide = "model.encoder.hidden" if hasattr(encoder, "hidden") else "the width of the annotations"
            text = (
                f"{decoder.hidden} does not fit {key} '{self.type}', which multiplies states and annotations; must be "
                f"{'twice ' if both else ''}{wide} ({width}), or use score 'general'"
            )
            yield Problem("model.decoder.hidden", text)


@SCORES.register
class ScaledDotScore(DotScore):
    """s · h / √width, for equal widths too."""

    type: Literal["scaled_dot"]  # type: ignore[assignment]


@SCORES.register
class GeneralScore(Score):
    """s · W h."""

    type: Literal["general"]


@SCORES.register
class CosineScore(Score):
    """β cos(s, W h) with a learned β."""

    type: Literal["cosine"]


@SCORES.register
class LocationScore(Score):
    """(W s)_j, from the state and the position."""

    type: Literal["location"]
    positions: Size = 100
    """Source positions that have a weight."""

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """A scope, which also chooses positions."""
        assert isinstance(model.attention, ScoredAttention)
        scope = model.attention.scope
        if not isinstance(scope, GlobalScope):
            text = f"'{scope.type}' and score 'location' both choose positions; use scope: {{type: global}}"
            yield Problem("model.attention.scope.type", f"{text}, or another score")


# --- scopes -----------------------------------------------------------------------------------------------------------


class GlobalScope(Section):
    """Every source position."""

    type: Literal["global"] = "global"


class MonotonicScope(Section):
    """A window around the target position."""

    type: Literal["local_m"]
    window: Size = 10
    """D: positions on each side of the center."""


class PredictiveScope(Section):
    """A window around a position predicted from the state."""

    type: Literal["local_p"]
    window: Size = 10
    """D: positions on each side of the center."""
    hidden: Width | None = None
    """Units of the prediction, in each head; null: ``decoder.hidden`` divided by ``heads``."""
    normalize: bool = True
    """Divide the weights by their sum; false: as in the paper."""


# --- hard attention ---------------------------------------------------------------------------------------------------


class ExactMarginal(Section):
    """The likelihood of each word is summed over all positions."""

    type: Literal["marginal"]


class Gumbel(Section):
    """Straight-through Gumbel-softmax."""

    type: Literal["gumbel"]
    temperature: Positive = 1.0
    """Temperature of the softmax whose gradient is taken."""


class Reinforce(Section):
    """Sampled positions and the gradient of Williams (1992), with the mean reward as baseline."""

    type: Literal["reinforce"]
    entropy: NotNegative = 0.01
    """Weight of the entropy in the objective."""
    weight: Positive = 1.0
    """Weight of the reward in the objective."""


# --- attention --------------------------------------------------------------------------------------------------------


class Attention(Part):
    """Options of every attention; built around the ``model`` section and the encoder."""

    after_update: ClassVar[bool] = False
    """Whether it reads the state after its update, as Luong's, or before it, as Bahdanau's."""

    @property
    def feeds(self) -> bool:
        """Whether the decoder feeds its readout into the next update."""
        return False


class ScoredAttention(Attention):
    """Options of the attentions that weigh the annotations by a score."""

    score: Score
    heads: Annotated[int, Field(ge=1, le=64)] = 1
    """Attentions side by side."""
    scope: Annotated[GlobalScope | MonotonicScope | PredictiveScope, Choice("global")] = GlobalScope()
    """Source positions that can have weight."""
    hard: Annotated[ExactMarginal | Gumbel | Reinforce, Choice()] | None = None
    """Estimator of hard attention; null: soft attention."""

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """Options that contradict each other, or that do not fit the encoder or decoder."""
        yield from self.score.contradictions(f"{key}.score", model)
        decoder, annotation = model.decoder, model.encoder.width(model.embeddings.size)
        for name, width in (("model.decoder.hidden", decoder.hidden), ("the width of the annotations", annotation)):
            if width % self.heads:
                text = f"{self.heads} heads cannot share {name} ({width}) evenly; use a divisor"
                yield Problem(f"{key}.heads", text)
        if isinstance(self.scope, PredictiveScope) and not self.scope.normalize and self.hard is not None:
            text = "must be true with hard attention, which takes the weights for probabilities; leave it out"
            yield Problem(f"{key}.scope.normalize", text)
        if self.hard is not None and self.heads > 1:
            yield Problem(f"{key}.hard", "reads one position, and there are several heads; use heads: 1")
        if isinstance(self.hard, ExactMarginal | Reinforce) and not isinstance(decoder, RecurrentDecoder):
            text = f"'{self.hard.type}' needs a recurrent decoder of the package; use one, or 'gumbel'"
            yield Problem(f"{key}.hard.type", text)
        if isinstance(self.hard, ExactMarginal) and (not self.after_update or self.feeds):
            wrong = "input_feeding" if self.after_update else "hard.type"
            text = "'marginal' sums over the positions of one word, on which later words must not depend; use type"
            yield Problem(f"{key}.{wrong}", f"{text} 'luong' with input_feeding: false, or another estimator")


@ATTENTIONS.register
class BahdanauAttention(ScoredAttention):
    """Attention before the update of the state."""

    type: Literal["bahdanau"]
    score: Annotated[Score, Choice("additive", SCORES)] = AdditiveScore(type="additive")


@ATTENTIONS.register
class LuongAttention(ScoredAttention):
    """Attention after the update of the state."""

    after_update: ClassVar[bool] = True

    type: Literal["luong"]
    score: Annotated[Score, Choice("general", SCORES)] = GeneralScore(type="general")
    input_feeding: bool = True
    """Feed the readout, Luong's attentional vector, into the next update."""

    @property
    def feeds(self) -> bool:
        return self.input_feeding


@ATTENTIONS.register
class TransformerAttention(Attention):
    """The Transformer decoder's; alignments are the mean of the heads of the next to last layer (Garg et al. 2019)."""

    type: Literal["transformer"]

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """A decoder of another kind."""
        if not isinstance(model.decoder, TransformerDecoder):
            text = f"does not fit {key}.type 'transformer'; use decoder: {{type: transformer}}"
            yield Problem("model.decoder.type", f"{text}, or an attention of another type")


@ATTENTIONS.register
class NoAttention(Attention):
    """No attention, the baseline."""

    type: Literal["none"]
    context: Literal["every_step", "initial_state"] = "every_step"
    """Where the decoder reads the encoder's summary."""

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """An initial state that would not depend on the forward direction."""
        encoder = model.encoder
        both = isinstance(encoder, RecurrentEncoder) and encoder.directions == "both"
        if both and self.context == "initial_state":
            problem = "'initial_state' leaves the forward direction of the encoder without a reader"
            yield Problem(f"{key}.context", f"{problem}; use model.encoder.directions: forward")


AnyAttention = Annotated[Attention, Choice(registry=ATTENTIONS)]
