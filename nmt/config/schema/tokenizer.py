"""The ``tokenizer`` section."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import LARGEST_VOCABULARY, Section, Text


class LearnedTokenizer(Section):
    """Options of every tokenizer that is learned on the training set."""

    vocabulary: Annotated[int, Field(ge=5, le=LARGEST_VOCABULARY)] | None = None
    """Pieces of each side's model, or of the shared one, including four special pieces; null: a number that suits the
    amount of training text, at most 8,000 (word and character: at most 30,000)."""
    shared: bool = False
    """Learn one model for both sides."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """SentencePiece's Unicode normalization of the text; identity: none."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters in the training set that get a piece; the rest are unknown."""


class BpeTokenizer(LearnedTokenizer):
    """Byte-pair encoding (Sennrich et al. 2016)."""

    type: Literal["bpe"]


class UnigramTokenizer(LearnedTokenizer):
    """Unigram language model (Kudo 2018)."""

    type: Literal["unigram"]


class WordTokenizer(LearnedTokenizer):
    """Words, split at whitespace."""

    type: Literal["word"]


class CharacterTokenizer(LearnedTokenizer):
    """Single characters."""

    type: Literal["character"]


class GivenTokenizer(Section):
    """SentencePiece models that exist already."""

    type: Literal["given"]
    source: Text
    """The .model file of the source side."""
    target: Text
    """The .model file of the target side; the same file for a shared vocabulary."""

    @property
    def shared(self) -> bool:
        """Whether both sides have one model."""
        return self.source == self.target


AnyTokenizer = Annotated[
    BpeTokenizer | UnigramTokenizer | WordTokenizer | CharacterTokenizer | GivenTokenizer, Discriminator("type")
]
