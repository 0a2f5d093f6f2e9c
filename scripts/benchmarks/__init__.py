"""Measure training and decoding, and compare them with the matrix products of the machine."""
