"""From raw text to batches: corpora, tokenizers, encoded splits, batches."""
