"""Attention in the ``model`` section."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import NotNegative, Positive, Problem, Section, Size, Width, listed, usual_type
from nmt.config.schema.recurrent import AnyDecoder, AnyEncoder, CustomDecoder, CustomPart, RecurrentEncoder
from nmt.config.schema.transformer import TransformerAttention


class GlobalScope(Section):
    """Every source position."""

    type: Literal["global"] = "global"


class MonotonicScope(Section):
    """local-m: a window around the target position itself (Luong et al. 2015, section 3.2)."""

    type: Literal["local_m"]
    window: Size = 10
    """D: positions on each side of the center."""


class PredictiveScope(Section):
    """local-p: a window around a position predicted from the state (Luong et al. 2015, section 3.2)."""

    type: Literal["local_p"]
    window: Size = 10
    """D: positions on each side of the center; the Gaussian around it has the deviation D / 2."""
    hidden: Width | None = None
    """Units of the prediction, in each head; null: ``decoder.hidden`` divided by ``heads``."""
    normalize: bool = True
    """Divide the weights by their sum; false leaves the product with the Gaussian as it is, as the paper."""


AnyScope = Annotated[GlobalScope | MonotonicScope | PredictiveScope, Discriminator("type")]


class ExactMarginal(Section):
    """The likelihood of each word is summed over all positions (Deng et al. 2018)."""

    type: Literal["marginal"]


class Gumbel(Section):
    """Straight-through Gumbel-softmax (Jang et al. 2017)."""

    type: Literal["gumbel"]
    temperature: Positive = 1.0
    """Temperature of the softmax whose gradient is taken; lower is closer to a sample, with more variance."""


class Reinforce(Section):
    """Sampled positions and the gradient of Williams (1992), as Xu et al. 2015, section 4.1."""

    type: Literal["reinforce"]
    baseline: Literal["moving", "learned"] = "moving"
    """Subtracted from the reward: the moving average of the rewards, or that plus a prediction from the readout
    before."""
    entropy: NotNegative = 0.01
    """Weight of the entropy of the probabilities, which is added to the objective."""
    weight: Positive = 1.0
    """Weight of the gradient of the probabilities (Xu et al.: lambda_r)."""


AnyEstimator = Annotated[ExactMarginal | Gumbel | Reinforce, Discriminator("type")]

POSITIONS = 100
"""Source positions that the location score knows if the configuration leaves their number open."""
ADDITIVE = ("additive", "concat")
Score = Literal["additive", "concat", "dot", "scaled_dot", "general", "low_rank", "cosine", "location"]


class ScoredAttention(Section):
    """Options of the attentions that weigh the annotations."""

    type: str  # here, so that it is the first key of a dumped section
    score: Score
    """Score function; dot and scaled_dot need equally wide states and annotations."""
    hidden: Width | None
    """Units of the additive score, also called concat, and rank of low_rank, in each head; null: ``decoder.hidden``
    divided by ``heads``. The other scores have none."""
    bias: bool | None = None
    """Bias of the additive score; null: true. The other scores have none."""
    positions: Size | None = None
    """Source positions that the location score knows; words beyond them get no weight. null: 100. The other scores
    have none."""
    heads: Annotated[int, Field(ge=1, le=64)] = 1
    """Attentions side by side, each with its part of the projected state and annotations (Vaswani et al. 2017)."""
    scope: AnyScope = GlobalScope()
    """Source positions that can have weight."""
    coverage: bool = False
    """The additive score also reads how much each annotation was attended to before (Tu et al. 2016)."""
    input_feeding: bool
    """Feed the readout, Luong's attentional vector, into the next update."""
    hard: AnyEstimator | None = None
    """Read one position at each step (Xu et al. 2015), trained by this estimator; null: soft attention."""

    _usual_scope = usual_type("global", "scope")

    def contradictions(self, encoder: AnyEncoder, decoder: AnyDecoder) -> Iterator[Problem]:
        """Options that contradict each other, or that do not fit the encoder or decoder."""
        yield from self._of_score(encoder, decoder)
        # a custom encoder may give annotations of any width
        annotation = decoder.hidden if isinstance(encoder, CustomPart) else encoder.width
        for name, width in (("model.decoder.hidden", decoder.hidden), ("the width of the annotations", annotation)):
            if width % self.heads:
                text = f"{self.heads} heads cannot share {name} ({width}) evenly; use a divisor"
                yield Problem("model.attention.heads", text)
        custom = isinstance(decoder, CustomDecoder)
        if self.coverage:
            yield from self._of_coverage(custom)
        if self.hard is not None:
            yield from self._of_hard(self.hard, custom)
        if self.score == "location" and not isinstance(self.scope, GlobalScope):
            text = f"'{self.scope.type}' and score 'location' both choose positions; use scope: {{type: global}}"
            yield Problem("model.attention.scope.type", f"{text}, or another score")

    def _of_score(self, encoder: AnyEncoder, decoder: AnyDecoder) -> Iterator[Problem]:
        """Options of another score, and widths that do not fit."""
        usual = type(self).model_fields["hidden"].default
        for name, given, scores in (
            ("hidden", self.hidden not in (None, usual), (*ADDITIVE, "low_rank")),
            ("bias", self.bias is not None, ADDITIVE),
            ("positions", self.positions is not None, ("location",)),
        ):
            if given and self.score not in scores:
                text = f"has no effect for score '{self.score}', only for {listed(map(repr, scores))}; leave it out"
                yield Problem(f"model.attention.{name}", text)
        annotation = decoder.hidden if isinstance(encoder, CustomPart) else encoder.width
        full = min(decoder.hidden, annotation) // self.heads
        rank = self.hidden or decoder.hidden // self.heads
        if self.score == "low_rank" and rank >= full:
            text = f"{rank} is not low rank: this matrix has rank {full} at most; use less, or score 'general'"
            yield Problem("model.attention.hidden", text)
        if self.score in ("dot", "scaled_dot") and decoder.hidden != annotation:
            both = isinstance(encoder, RecurrentEncoder) and encoder.directions == "both"
            text = (
                f"{decoder.hidden} does not fit model.attention.score '{self.score}', which multiplies states and "
                f"annotations; must be {'twice ' if both else ''}model.encoder.hidden ({annotation}), "
                "or use score 'general'"
            )
            yield Problem("model.decoder.hidden", text)

    def _of_coverage(self, custom: bool) -> Iterator[Problem]:
        if custom:
            yield Problem("model.attention.coverage", "needs a built-in decoder, which adds up the weights; use false")
        if self.score not in ADDITIVE:
            text = f"is an option of score 'additive', and the score is '{self.score}'; change either"
            yield Problem("model.attention.coverage", text)
        for use, other in (
            ("heads: 1", self.heads > 1),
            ("scope: {type: global}", not isinstance(self.scope, GlobalScope)),
            ("hard: null", self.hard is not None),
        ):
            if other:
                text = f"is defined for one soft attention over all positions; use {use}"
                yield Problem("model.attention.coverage", text)

    def _of_hard(self, hard: "AnyEstimator", custom: bool) -> Iterator[Problem]:
        if isinstance(self.scope, PredictiveScope) and not self.scope.normalize:
            text = "must be true with hard attention, which takes the weights for probabilities; leave it out"
            yield Problem("model.attention.scope.normalize", text)
        if custom and not isinstance(hard, Gumbel):
            text = f"'{hard.type}' needs a built-in recurrent decoder; use one, or 'gumbel'"
            yield Problem("model.attention.hard.type", text)
        if self.heads > 1:
            yield Problem("model.attention.hard", "reads one position, and there are several heads; use heads: 1")
        if isinstance(hard, ExactMarginal) and (self.type != "luong" or self.input_feeding):
            key = "input_feeding" if self.type == "luong" else "hard.type"
            text = "'marginal' sums over the positions of one word, on which later words must not depend; use type"
            yield Problem(f"model.attention.{key}", f"{text} 'luong' with input_feeding: false, or another estimator")


class BahdanauAttention(ScoredAttention):
    """Attention before the update of the state (Bahdanau et al. 2015)."""

    type: Literal["bahdanau"]
    score: Score = "additive"
    hidden: Width | None = 256
    input_feeding: bool = False


class LuongAttention(ScoredAttention):
    """Attention after the update of the state (Luong et al. 2015)."""

    type: Literal["luong"]
    score: Score = "general"
    hidden: Width | None = None
    input_feeding: bool = True


class NoAttention(Section):
    """No attention, the baseline."""

    type: Literal["none"]
    context: Literal["every_step", "initial_state"] = "every_step"
    """Where the decoder sees the encoder's summary: at every step (Cho et al. 2014), or only in its first state
    (Sutskever et al. 2014)."""

    def contradictions(self, encoder: AnyEncoder) -> Iterator[Problem]:
        """An initial state that would not depend on the forward direction."""
        both = isinstance(encoder, RecurrentEncoder) and encoder.directions == "both" and encoder.summary == "last"
        if both and self.context == "initial_state":
            text = (
                "'initial_state' shows the decoder only the backward direction's last state, and nothing reads the "
                "forward direction; use model.encoder.directions: forward, or model.encoder.summary: mean"
            )
            yield Problem("model.attention.context", text)


class CustomAttention(CustomPart):
    """An attention that a program of yours has registered in ``nmt.model.build``."""

    after_update: bool = False
    """Attend after the update, as Luong's decoder does; before it, as Bahdanau's."""
    input_feeding: bool = True
    """With ``after_update``, feed the attentional vector to the next step."""


AnyAttention = Annotated[
    BahdanauAttention | LuongAttention | TransformerAttention | NoAttention | CustomAttention, Discriminator("type")
]
