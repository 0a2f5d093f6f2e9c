"""The run directory: configuration, tokenizers, checkpoints, metrics."""
