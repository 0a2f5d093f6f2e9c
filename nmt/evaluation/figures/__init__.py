"""Figures, drawn from tables and arrays. Nothing here touches matplotlib's global state for good."""
