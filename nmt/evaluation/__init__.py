"""Scores: corpus metrics, scores by source length, word alignment. Numbers in, numbers out; no network."""
