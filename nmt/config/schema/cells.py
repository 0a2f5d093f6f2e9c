"""Recurrent cells of encoders and decoders in the ``model`` section. ``nmt.model.cells`` has their equations."""

from typing import Literal

from nmt.config.schema.base import Layers, Registry, Width
from nmt.config.schema.network import Part

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
