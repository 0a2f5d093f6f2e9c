"""Recurrent neural machine translation with attention, from raw text to the length-decay figure."""

__version__ = "0.1.0"
