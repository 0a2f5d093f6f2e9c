"""The Transformer in the ``model`` section. ``nmt.model.transformer`` has the networks."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from nmt.config.schema.base import Choice, Fraction, Layers, Problem, Section, Size, Width
from nmt.config.schema.network import DECODERS, ENCODERS, Decoder, Encoder, Network, Part


class SinusoidalPositions(Section):
    """Sines and cosines, added to the embeddings."""

    type: Literal["sinusoidal"] = "sinusoidal"


class RelativePositions(Section):
    """Learned vectors for the distance of two positions, in self-attention."""

    type: Literal["relative"]
    distance: Annotated[int, Field(ge=1, le=1 << 12)] = 16
    """Largest distance with a vector of its own."""


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
    positions: Annotated[SinusoidalPositions | RelativePositions, Choice("sinusoidal")] = SinusoidalPositions()
    dropout: Fraction = 0.1
    """Probability that a unit of a sublayer's output is dropped."""

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
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

    def contradictions(self, key: str, model: Network) -> Iterator[Problem]:
        """An attention of another kind."""
        if model.attention.type != "transformer":
            text = f"does not fit {key}.type 'transformer'; use attention: {{type: transformer}}"
            yield Problem("model.attention.type", f"{text}, or decoder: {{type: gru}}")
        yield from super().contradictions(key, model)
