"""How fast training and decoding are, held against what the machine multiplies."""
