"""Recurrent cells, encoders and decoders in the ``model`` section. ``nmt.model.cells`` has the equations."""

from typing import Literal

from nmt.config.schema.base import Layers, Registry, Width
from nmt.config.schema.network import DECODERS, ENCODERS, Decoder, Encoder, Part

CELLS = Registry()


class Recurrence(Part):
    """Options of every recurrent encoder and decoder; the cell gets no other options."""

    hidden: Width = 256
    """Units of the state, in each direction."""
    layers: Layers = 1
    """Stacked layers."""
    residual: bool = False
    """Add the input of each layer above the first to its output."""
    layer_norm: bool = False
    """Layer normalization of the gates."""


class Gru(Recurrence):
    """Options of a GRU."""

    type: Literal["gru"] = "gru"
    reset: Literal["after", "before"] = "after"
    """Apply the reset gate after the recurrent product, as cuDNN, or before it."""


class Lstm(Recurrence):
    """Options of long short-term memory."""

    type: Literal["lstm"]


class Ssru(Recurrence):
    """Options of the simpler simple recurrent unit (Kim et al. 2019), whose gates depend only on the input."""

    type: Literal["ssru"]


# --- encoders ---------------------------------------------------------------------------------------------------------


class RecurrentEncoder(Recurrence, Encoder):
    """Options of every recurrent encoder."""

    directions: Literal["both", "forward"] = "both"
    """Directions in which the source is read."""

    def width(self, embedding: int) -> int:
        return self.hidden * (2 if self.directions == "both" else 1)


@ENCODERS.register
class GruEncoder(Gru, RecurrentEncoder):
    """Gated recurrent unit."""


@ENCODERS.register
class LstmEncoder(Lstm, RecurrentEncoder):
    """Long short-term memory."""


@ENCODERS.register
class SsruEncoder(Ssru, RecurrentEncoder):
    """Simpler simple recurrent unit (Kim et al. 2019)."""


# --- decoders ---------------------------------------------------------------------------------------------------------


class RecurrentDecoder(Recurrence, Decoder):
    """Options of every recurrent decoder."""

    readout: Width | None = None
    """Units that the output layer reads; null: ``model.embeddings.size``."""
    readout_activation: Literal["maxout", "tanh"] | None = None
    """null: tanh with Luong's attention, else maxout."""

    def readout_width(self, embedding: int) -> int:
        return self.readout or embedding


@DECODERS.register
class GruDecoder(Gru, RecurrentDecoder):
    """GRU conditioned on the context."""


@DECODERS.register
class LstmDecoder(Lstm, RecurrentDecoder):
    """LSTM conditioned on the context."""


@DECODERS.register
class SsruDecoder(Ssru, RecurrentDecoder):
    """SSRU conditioned on the context."""
