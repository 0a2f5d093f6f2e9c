"""The embedded demo corpus: a small English-French language with gold word alignments, written for this toolkit."""

from demo_language.corpus import LONGEST, write_corpus

__all__ = ["LONGEST", "write_corpus"]
