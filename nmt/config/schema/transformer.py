"""The parts of a Transformer in the ``model`` section."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import Fraction, Layers, Problem, Section, Size, Width, usual_type


class SinusoidalPositions(Section):
    """Sines and cosines, added to the embeddings (Vaswani et al. 2017, section 3.5)."""

    type: Literal["sinusoidal"] = "sinusoidal"


class LearnedPositions(Section):
    """A learned vector for each position, added to the embeddings."""

    type: Literal["learned"]
    longest: Annotated[int, Field(ge=1, le=1 << 16)] = 256
    """Positions with a vector of their own; those beyond share the last one."""


class RelativePositions(Section):
    """Learned vectors for the distance of two positions, in self-attention (Shaw et al. 2018)."""

    type: Literal["relative"]
    distance: Annotated[int, Field(ge=1, le=1 << 12)] = 16
    """Largest distance with a vector of its own, on both sides; larger ones share it."""


AnyPositions = Annotated[SinusoidalPositions | LearnedPositions | RelativePositions, Discriminator("type")]


class Transformer(Section):
    """Options that the Transformer's encoder and decoder share (Vaswani et al. 2017)."""

    hidden: Width = 256
    """Width of the model; must be ``model.embeddings.size``."""
    layers: Layers = 6
    """Layers."""
    heads: Size = 8
    """Heads of each attention; a divisor of ``hidden``."""
    feedforward: Width = 1024
    """Inner units of the feed-forward network."""
    norm: Literal["pre", "post"] = "pre"
    """Layer normalization of what a sublayer reads (pre), or of its sum with what it read (post), as in the paper,
    which needs a warm-up."""
    positions: AnyPositions = SinusoidalPositions()
    dropout: Fraction = 0.1
    """Probability that a unit of a sublayer's output is dropped before it is added to what the sublayer read."""

    _usual_positions = usual_type("sinusoidal", "positions")

    def contradictions(self, key: str, embedding: int) -> Iterator[Problem]:
        """Options that contradict each other; ``key`` is the section's, ``embedding`` the width of its input."""
        if self.hidden != embedding:
            text = f"{self.hidden} does not fit a Transformer; must be model.embeddings.size ({embedding})"
            yield Problem(f"{key}.hidden", text)
        if self.hidden % self.heads:
            yield Problem(f"{key}.heads", f"{self.heads} heads do not divide {key}.hidden ({self.hidden}) evenly")


class TransformerEncoder(Transformer):
    """Transformer encoder; an annotation has ``hidden`` units."""

    type: Literal["transformer"]

    @property
    def width(self) -> int:
        """Width of an annotation."""
        return self.hidden


class TransformerDecoder(Transformer):
    """Transformer decoder, with ``attention: {type: transformer}``; the output layer reads ``hidden`` units."""

    type: Literal["transformer"]


class TransformerAttention(Section):
    """The Transformer decoder's attention to the source; one layer's weights are the alignments."""

    type: Literal["transformer"]
    layer: Size | None = None
    """Layer whose weights are the alignments, from 1; null: the next to last, which aligns best (Garg et al. 2019)."""
    head: Size | None = None
    """Head whose weights are the alignments, from 1; null: the mean of the heads."""

    def contradictions(self, decoder: Section) -> Iterator[Problem]:
        """A decoder of another kind, or a layer or head that it lacks."""
        if not isinstance(decoder, TransformerDecoder):
            text = "does not fit model.attention.type 'transformer'; use decoder: {type: transformer}"
            yield Problem("model.decoder.type", f"{text}, or an attention of another type")
            return
        for name, count in (("layer", decoder.layers), ("head", decoder.heads)):
            if (getattr(self, name) or 0) > count:
                text = f"must be up to model.decoder.{name}s ({count}), or null"
                yield Problem(f"model.attention.{name}", f"there is no {name} {getattr(self, name)}; {text}")
