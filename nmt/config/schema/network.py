"""The common base of the parts of the ``model`` section, and what they ask about each other."""

from collections.abc import Iterator
from typing import Literal

from nmt.config.schema.base import Problem, Registry, Section, Width

ENCODERS, DECODERS = Registry(), Registry()


class Embeddings(Section):
    """Embeddings of source and target pieces."""

    size: Width = 256
    """Units of an embedding."""
    tie: Literal["none", "target", "all"] = "none"
    """target: output layer and target embedding share one matrix; all: so does the source embedding."""


class Part(Section):
    """Options of a part of the network that a configuration chooses by its ``type``."""

    type: str  # here, so that it is the first key of a dumped section

    def contradictions(self, key: str, model: "Network") -> Iterator[Problem]:
        """Find options that contradict each other or other parts; ``key`` is this section's."""
        yield from ()


class Encoder(Part):
    """Options of every encoder; built around the ``model`` section."""

    def width(self, embedding: int) -> int:
        """Width of an annotation, for embeddings of this width."""
        return embedding


class Decoder(Part):
    """Options of every decoder; built around the ``model`` section, the encoder and the attention."""

    hidden: Width = 256
    """Units of the state."""

    def readout_width(self, embedding: int) -> int:
        """Width of what the output layer reads, for embeddings of this width."""
        return embedding


class Network(Section):
    """The section ``model``, as far as its parts ask about each other."""

    attention: Part
    embeddings: Embeddings = Embeddings()
    encoder: Encoder
    decoder: Decoder
