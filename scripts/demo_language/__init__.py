"""The embedded demo corpus: a small English-French language with gold word alignments, written for this toolkit."""

from demo_language.corpus import write_corpus

__all__ = ["write_corpus"]
