"""Encoders and decoders in the ``model`` section. ``nmt.model.encoders``, ``decoders``, ``cells`` and ``transformer``
have the networks."""

from collections.abc import Iterator
from typing import Annotated, Literal, Protocol

from pydantic import Field

from nmt.config.schema.base import Choice, Fraction, Layers, Problem, Registry, Section, Size, Width


class Embeddings(Section):
    """Embeddings of source and target pieces."""

    size: Width = 256
    """Units of an embedding."""
    tie: Literal["none", "target", "all"] = "none"
    """target: output layer and target embedding share one matrix; all: the source embedding shares it, too."""


class Part(Section):
    """Options of a part of the network that a configuration chooses by its ``type``."""

    type: str  # here, so that it is the first key of a dumped section

    def contradictions(self, key: str, model: "Network") -> Iterator[Problem]:
        """Find options that contradict each other or other parts; ``key`` is this section's."""
        yield from ()


class Network(Protocol):
    """The section ``model``, as far as its parts ask about each other."""

    @property
    def embeddings(self) -> Embeddings: ...  # noqa: D102

    @property
    def encoder(self) -> "Encoder": ...  # noqa: D102

    @property
    def attention(self) -> Part: ...  # noqa: D102

    @property
    def decoder(self) -> "Decoder": ...  # noqa: D102


ENCODERS, DECODERS, CELLS = Registry(), Registry(), Registry()


class Encoder(Part):
    """Options of every encoder; built around the ``model`` section."""

    hidden: Width = 256
    """Units of the state, in each direction."""

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return self.hidden


class Decoder(Part):
    """Options of every decoder; built around the ``model`` section, the encoder and the attention."""

    hidden: Width = 256
    """Units of the state."""

    def readout_width(self, embedding: int) -> int:
        """Width of what the output layer reads, for embeddings of this width."""
        return embedding


# --- cells ------------------------------------------------------------------------------------------------------------


class Recurrence(Part):
    """Options of every recurrent encoder and decoder; its cell is built around nothing else."""

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
    """Cells in a row for each input, deep transition (Miceli Barone et al. 2017)."""


class Gru(Transitions):
    """Options of a GRU."""

    type: Literal["gru"] = "gru"
    reset: Literal["after", "before"] = "after"
    """Apply the reset gate after the recurrent product, as cuDNN, or before it (Cho et al. 2014)."""


class Lstm(Transitions):
    """Options of long short-term memory."""

    type: Literal["lstm"]


class Ssru(Recurrence):
    """Options of the simpler simple recurrent unit (Kim et al. 2019), whose gates depend on the input alone."""

    type: Literal["ssru"]


# --- recurrent encoders and decoders ----------------------------------------------------------------------------------


class RecurrentEncoder(Recurrence, Encoder):
    """Options of every recurrent encoder."""

    directions: Literal["both", "forward"] = "both"
    """Directions in which the source is read."""

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return self.hidden * (2 if self.directions == "both" else 1)


@ENCODERS.register
class GruEncoder(Gru, RecurrentEncoder):
    """GRU (Cho et al. 2014), by default in both directions (Bahdanau et al. 2015)."""


@ENCODERS.register
class LstmEncoder(Lstm, RecurrentEncoder):
    """Long short-term memory (Hochreiter & Schmidhuber 1997)."""


@ENCODERS.register
class SsruEncoder(Ssru, RecurrentEncoder):
    """Simpler simple recurrent unit (Kim et al. 2019)."""


class RecurrentDecoder(Recurrence, Decoder):
    """Options of every recurrent decoder."""

    readout: Width | None = None
    """Units that the output layer reads; null: ``model.embeddings.size``."""
    readout_activation: Literal["maxout", "tanh"] | None = None
    """maxout (Bahdanau et al. 2015) or tanh (Luong et al. 2015); null: tanh with Luong's attention, else maxout."""

    def readout_width(self, embedding: int) -> int:
        """``readout``, or the width of the embeddings."""
        return self.readout or embedding


@DECODERS.register
class GruDecoder(Gru, RecurrentDecoder):
    """GRU conditioned on the context."""


@DECODERS.register
class LstmDecoder(Lstm, RecurrentDecoder):
    """Long short-term memory conditioned on the context."""


@DECODERS.register
class SsruDecoder(Ssru, RecurrentDecoder):
    """Simpler simple recurrent unit (Kim et al. 2019)."""


# --- Transformer ------------------------------------------------------------------------------------------------------


class SinusoidalPositions(Section):
    """Sines and cosines, added to the embeddings (Vaswani et al. 2017, section 3.5)."""

    type: Literal["sinusoidal"] = "sinusoidal"


class RelativePositions(Section):
    """Learned vectors for the distance of two positions, in self-attention (Shaw et al. 2018)."""

    type: Literal["relative"]
    distance: Annotated[int, Field(ge=1, le=1 << 12)] = 16
    """Largest distance with a vector of its own."""


AnyPositions = Annotated[SinusoidalPositions | RelativePositions, Choice("sinusoidal")]


class Transformer(Part):
    """Options that the Transformer's encoder and decoder share (Vaswani et al. 2017)."""

    type: Literal["transformer"]
    hidden: Width = 256
    """Width of the model; must be ``model.embeddings.size``."""
    layers: Layers = 6
    """Layers."""
    heads: Size = 8
    """Heads of each attention."""
    feedforward: Width = 1024
    """Inner units of the feed-forward network."""
    norm: Literal["pre", "post"] = "pre"
    """Layer normalization before a sublayer, or after it as in the paper."""
    positions: AnyPositions = SinusoidalPositions()
    dropout: Fraction = 0.1
    """Probability that a unit of a sublayer's output is dropped."""

    def contradictions(self, key: str, model: "Network") -> Iterator[Problem]:
        """A width that does not fit the embeddings, or heads that cannot share it."""
        embedding = model.embeddings.size
        if self.hidden != embedding:
            text = f"{self.hidden} does not fit a Transformer; must be model.embeddings.size ({embedding})"
            yield Problem(f"{key}.hidden", text)
        if self.hidden % self.heads:
            yield Problem(f"{key}.heads", f"{self.heads} heads do not divide {key}.hidden ({self.hidden}) evenly")


@ENCODERS.register
class TransformerEncoder(Transformer, Encoder):
    """Transformer encoder."""


@DECODERS.register
class TransformerDecoder(Transformer, Decoder):
    """Transformer decoder, with ``attention: {type: transformer}``."""

    def contradictions(self, key: str, model: "Network") -> Iterator[Problem]:
        """An attention of another kind."""
        if model.attention.type != "transformer":
            text = f"does not fit {key}.type 'transformer'; use attention: {{type: transformer}}"
            yield Problem("model.attention.type", f"{text}, or decoder: {{type: gru}}")
        yield from super().contradictions(key, model)


AnyEncoder = Annotated[Encoder, Choice("gru", ENCODERS)]
AnyDecoder = Annotated[Decoder, Choice("gru", DECODERS)]
