"""Measurements of runs: scores of a test set, the length curve, systems x seeds x test sets of one file."""
