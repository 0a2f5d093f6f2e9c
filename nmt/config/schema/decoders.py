"""Recurrent decoders in the ``model`` section. ``nmt.model.decoders`` has the networks."""

from typing import Literal

from nmt.config.schema.base import Width
from nmt.config.schema.cells import Gru, Lstm, Recurrence, Ssru
from nmt.config.schema.network import DECODERS, Decoder


class RecurrentDecoder(Recurrence, Decoder):
    """Options of every recurrent decoder."""

    readout: Width | None = None
    """Units that the output layer reads; null: ``model.embeddings.size``."""
    readout_activation: Literal["maxout", "tanh"] | None = None
    """null: tanh with Luong's attention, else maxout."""

    def readout_width(self, embedding: int) -> int:
        """``readout``, or the width of the embeddings."""
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
