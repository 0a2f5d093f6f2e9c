"""Figures, drawn from tables and arrays. The settings of matplotlib are restored afterwards."""
