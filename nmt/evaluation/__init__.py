"""Scores: BLEU, chrF, by length, alignment, significance; and the figures drawn from them."""
