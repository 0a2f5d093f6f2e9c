"""Recurrent encoders in the ``model`` section. ``nmt.model.encoders`` has the network."""

from typing import Literal

from nmt.config.schema.cells import Gru, Lstm, Recurrence, Ssru
from nmt.config.schema.network import ENCODERS, Encoder


class RecurrentEncoder(Recurrence, Encoder):
    """Options of every recurrent encoder."""

    directions: Literal["both", "forward"] = "both"
    """Directions in which the source is read."""

    def width(self, embedding: int) -> int:
        """``hidden`` in each direction."""
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
