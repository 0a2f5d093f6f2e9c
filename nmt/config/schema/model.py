"""The ``model`` section: the parts of the network."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import Fraction, Layers, NotNegative, Positive, Section, Size, Text, Width, usual_type
from nmt.config.schema.transformer import TransformerAttention, TransformerDecoder, TransformerEncoder


class Embeddings(Section):
    """Embeddings of source and target pieces."""

    size: Width = 256
    """Units of an embedding."""
    tie: Literal["none", "target", "all"] = "none"
    """Matrices that are one: none; target: output layer and target embedding; all: the source embedding too, which
    needs a shared vocabulary."""


class CustomPart(Section):
    """A part that a program of yours has registered in ``nmt.model.build``."""

    type: Literal["custom"]
    name: Text
    """The name it is registered by."""
    hidden: Width = 256
    """Units: of an encoder's or decoder's state, to be read by the function that builds it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """For the function that builds it."""


class Recurrence(Section):
    """Options of every recurrent part."""

    type: str  # here, so that it is the first key of a dumped section
    hidden: Width = 256
    """Units of the state, in each direction."""
    layers: Layers = 1
    """Stacked layers."""
    residual: bool = False
    """Add the input of each layer above the first to its output."""
    layer_norm: bool = False
    """Layer normalization of the gates (Ba et al. 2016)."""


class Transitions(Recurrence):
    """Options of the recurrences whose gates read the state."""

    transitions: Annotated[int, Field(ge=1, le=16)] = 1
    """Cells in a row for each input; above 1, deep transition (Miceli Barone et al. 2017)."""


class Gru(Transitions):
    """Options of a GRU."""

    type: Literal["gru"] = "gru"
    reset: Literal["after", "before"] = "after"
    """The reset gate is applied after the recurrent product, as cuDNN does, or before it (Cho et al. 2014)."""


class Lstm(Transitions):
    """Options of long short-term memory."""

    type: Literal["lstm"]


class Ssru(Recurrence):
    """Options of the simpler simple recurrent unit (Kim et al. 2019), whose gates depend on the input alone."""

    type: Literal["ssru"]


class CustomCell(Recurrence):
    """Recurrent layers of a cell that a program of yours has registered in ``nmt.model.build.CELLS``."""

    type: Literal["recurrent"]
    cell: Text
    """The name it is registered by."""


class RecurrentEncoder(Recurrence):
    """Options of every recurrent encoder."""

    directions: Literal["both", "forward"] = "both"
    """Directions in which the source is read; an annotation has ``hidden`` units of each."""
    summary: Literal["last", "mean"] = "last"
    """The sentence as one vector: the last state of each direction, or the mean of the annotations."""

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return self.hidden * (2 if self.directions == "both" else 1)


class GruEncoder(Gru, RecurrentEncoder):
    """GRU (Cho et al. 2014), by default in both directions (Bahdanau et al. 2015)."""


class LstmEncoder(Lstm, RecurrentEncoder):
    """Long short-term memory (Hochreiter & Schmidhuber 1997)."""


class SsruEncoder(Ssru, RecurrentEncoder):
    """Simpler simple recurrent unit (Kim et al. 2019)."""


class CustomCellEncoder(CustomCell, RecurrentEncoder):
    """Any cell."""


AnyEncoder = Annotated[
    GruEncoder | LstmEncoder | SsruEncoder | TransformerEncoder | CustomCellEncoder | CustomPart, Discriminator("type")
]


class RecurrentDecoder(Recurrence):
    """Options of every recurrent decoder."""

    readout: Width | None = None
    """Units that the output layer reads; null: ``model.embeddings.size``."""
    readout_activation: Literal["maxout", "tanh"] | None = None
    """maxout: the larger of two units, as Bahdanau et al. 2015; tanh, as Luong et al. 2015; null: tanh with
    ``model.attention.type: luong``, else maxout."""


class GruDecoder(Gru, RecurrentDecoder):
    """GRU conditioned on the context."""


class LstmDecoder(Lstm, RecurrentDecoder):
    """Long short-term memory conditioned on the context."""


class SsruDecoder(Ssru, RecurrentDecoder):
    """Simpler simple recurrent unit; with ``model.attention`` of type luong and without input feeding, training
    needs no product after another."""


class CustomCellDecoder(CustomCell, RecurrentDecoder):
    """Any cell, conditioned on the context."""


class CustomDecoder(CustomPart):
    """A decoder that a program of yours has registered in ``nmt.model.build``."""

    readout: Width | None = None
    """Width of what the output layer reads; null: the embedding size."""


AnyDecoder = Annotated[
    GruDecoder | LstmDecoder | SsruDecoder | TransformerDecoder | CustomCellDecoder | CustomDecoder,
    Discriminator("type"),
]


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
    """Where the decoder sees the encoder's summary: at every step (Cho et al. 2014), or in its first state alone
    (Sutskever et al. 2014)."""


class CustomAttention(CustomPart):
    """An attention that a program of yours has registered in ``nmt.model.build``."""

    after_update: bool = False
    """Attend after the update, as Luong's decoder does; before it, as Bahdanau's."""
    input_feeding: bool = True
    """With ``after_update``, feed the attentional vector to the next step."""


AnyAttention = Annotated[
    BahdanauAttention | LuongAttention | TransformerAttention | NoAttention | CustomAttention, Discriminator("type")
]


class Dropout(Section):
    """Probability that a unit is dropped during training, at each of three places, and that a word is."""

    embedding: Fraction = 0.2
    """Embeddings of both sides; a Transformer's with their positions added."""
    annotation: Fraction = 0.2
    """Outputs of each layer of a recurrent encoder, what each recurrent decoder layer above the first reads, and the
    outputs of the last layer of a Transformer's encoder."""
    readout: Fraction = 0.2
    """Input of the output layer."""
    word: Fraction = 0.0
    """Whole words of either side: a word of the vocabulary that is dropped has an embedding of zero wherever it stands
    in the sentence. Each sentence draws its own (Gal & Ghahramani 2016, section 4.2)."""
    variational: bool = False
    """Drop the same units at every position of a sentence, at each of the three places; each sentence draws its own.
    The recurrences themselves have no dropout. false: each position draws its own."""


class UniformInitialization(Section):
    """Every weight from U(-range, range), as Luong et al. 2015."""

    type: Literal["uniform"]
    range: Annotated[float, Field(gt=0, le=100)] = 0.1
    """Largest absolute value of a weight."""


class XavierInitialization(Section):
    """Glorot-uniform matrices, orthogonal recurrent matrices, zero biases, embeddings N(0, 1 / width)."""

    type: Literal["xavier"] = "xavier"


class PaperInitialization(Section):
    """Bahdanau et al. 2015, appendix B.1: orthogonal recurrent matrices, W_a and U_a N(0, 0.001²), v_a and biases
    zero, the rest N(0, 0.01²)."""

    type: Literal["bahdanau"]


AnyInitialization = Annotated[XavierInitialization | UniformInitialization | PaperInitialization, Discriminator("type")]


class Model(Section):
    """Network."""

    attention: AnyAttention
    embeddings: Embeddings = Embeddings()
    encoder: AnyEncoder = GruEncoder()
    decoder: AnyDecoder = GruDecoder()
    dropout: Dropout = Dropout()
    initialization: AnyInitialization = XavierInitialization()

    _usual_part = usual_type("gru", "encoder", "decoder")
    _usual_initialization = usual_type("xavier", "initialization")
