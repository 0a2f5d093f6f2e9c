"""Trials of a small training run: faults in the middle of training, crafted run directories and hostile text; see
``scripts/torture.py``."""
