"""The ``model`` section: the parts of the network."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import Fraction, Layers, Section, Text, Width, usual_type


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


class GruEncoder(Section):
    """Bidirectional GRU; an annotation has ``2 * hidden`` units."""

    type: Literal["gru"] = "gru"
    hidden: Width = 256
    """Units of each direction."""
    layers: Layers = 1
    """Stacked bidirectional layers."""

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return 2 * self.hidden


AnyEncoder = Annotated[GruEncoder | CustomPart, Discriminator("type")]


class GruDecoder(Section):
    """GRU conditioned on the context."""

    type: Literal["gru"] = "gru"
    hidden: Width = 256
    """Units of the state."""
    readout: Width | None = None
    """Units that the output layer reads (maxout, or Luong's attentional vector); null: ``model.embeddings.size``."""


class CustomDecoder(CustomPart):
    """A decoder that a program of yours has registered in ``nmt.model.build``."""

    readout: Width | None = None
    """Width of what the output layer reads; null: the embedding size."""


AnyDecoder = Annotated[GruDecoder | CustomDecoder, Discriminator("type")]


class BahdanauAttention(Section):
    """Additive attention, before the update of the state (Bahdanau et al. 2015)."""

    type: Literal["bahdanau"]
    hidden: Width = 256
    """Units of the alignment model."""


class LuongAttention(Section):
    """Global attention, after the update of the state (Luong et al. 2015)."""

    type: Literal["luong"]
    score: Literal["dot", "general", "concat"] = "general"
    """Score function; dot needs ``decoder.hidden`` = 2 * ``encoder.hidden``."""
    hidden: Width | None = None
    """Units of the concat score; null: ``decoder.hidden``. The other scores have none."""
    input_feeding: bool = True
    """Feed the attentional vector into the next update."""


class NoAttention(Section):
    """No attention, the baseline: the encoder's summary is the context of every step (Cho et al. 2014)."""

    type: Literal["none"]


class CustomAttention(CustomPart):
    """An attention that a program of yours has registered in ``nmt.model.build``."""

    after_update: bool = False
    """Attend after the update, as Luong's decoder does; before it, as Bahdanau's."""
    input_feeding: bool = True
    """With ``after_update``, feed the attentional vector to the next step."""


AnyAttention = Annotated[BahdanauAttention | LuongAttention | NoAttention | CustomAttention, Discriminator("type")]


class Dropout(Section):
    """Probability that a unit is dropped during training, at each of three places, and that a word is."""

    embedding: Fraction = 0.2
    """Embeddings of both sides."""
    annotation: Fraction = 0.2
    """Outputs of each encoder layer."""
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
