"""Training: objective, optimizer, loop, checkpoints and log."""
