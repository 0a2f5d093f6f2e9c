"""Experiments: systems, seeds and test sets that are compared, as one value."""
