"""The ``model`` section: the parts of the network."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from nmt.config.schema.attention import AnyAttention
from nmt.config.schema.base import Choice, Fraction, Problem, Section
from nmt.config.schema.network import DECODERS, ENCODERS, Decoder, Encoder, Network, Part
from nmt.config.schema.recurrent import GruDecoder, GruEncoder


class Dropout(Section):
    """Probability that a unit is dropped during training."""

    embedding: Fraction = 0.2
    """Embeddings of both sides; a Transformer's with their positions added."""
    annotation: Fraction = 0.2
    """Annotations, outputs of lower recurrent encoder layers, inputs of recurrent decoder layers above the first."""
    readout: Fraction = 0.2
    """Input of the output layer."""


class UniformInitialization(Section):
    """Every weight from U(-range, range), as Luong et al. 2015."""

    type: Literal["uniform"]
    range: Annotated[float, Field(gt=0, le=100)] = 0.1
    """Largest absolute value of a weight."""


class XavierInitialization(Section):
    """Glorot-uniform matrices, orthogonal recurrent matrices, zero biases, embeddings N(0, 1 / width)."""

    type: Literal["xavier"] = "xavier"


class PaperInitialization(Section):
    """Bahdanau et al. 2015, appendix B.1."""

    type: Literal["bahdanau"]


AnyInitialization = Annotated[XavierInitialization | UniformInitialization | PaperInitialization, Choice("xavier")]


class Model(Network):
    """Network."""

    attention: AnyAttention
    encoder: Annotated[Encoder, Choice("gru", ENCODERS)] = GruEncoder()
    decoder: Annotated[Decoder, Choice("gru", DECODERS)] = GruDecoder()
    dropout: Dropout = Dropout()
    initialization: AnyInitialization = XavierInitialization()

    def contradictions(self) -> Iterator[Problem]:
        """Parts that do not fit each other, and options that contradict each other."""
        for name in ("attention", "encoder", "decoder"):
            part: Part = getattr(self, name)
            yield from part.contradictions(f"model.{name}", self)
        embedding = self.embeddings.size
        if self.embeddings.tie != "none" and (readout := self.decoder.readout_width(embedding)) != embedding:
            text = f"{readout} does not fit tied embeddings; must be model.embeddings.size ({embedding})"
            yield Problem("model.decoder.readout", f"{text} or null")
