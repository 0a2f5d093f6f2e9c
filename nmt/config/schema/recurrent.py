"""Encoders and decoders in the ``model`` section: the recurrent ones, and any of a program of yours."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import Layers, Problem, Section, Text, Width
from nmt.config.schema.transformer import TransformerDecoder, TransformerEncoder


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

    def contradictions(self, key: str, embedding: int) -> Iterator[Problem]:
        """Options that contradict each other; ``key`` is the section's, ``embedding`` the width of its input."""
        if self.residual and self.layers == 1:
            yield Problem(f"{key}.residual", "has no effect with one layer; leave it out, or add layers")


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
