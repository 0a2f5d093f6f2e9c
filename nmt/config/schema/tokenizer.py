"""The ``tokenizer`` section."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import LARGEST_VOCABULARY, Section, Size, Text


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
    most_pairs: Size = 1_000_000
    """Pairs to learn from, at most, drawn evenly from the training set: SentencePiece holds its text in memory. A
    million pairs of Europarl take 0.7 GiB for bpe and about 3 GiB for unigram."""


class Sampling(Section):
    """Segmentations of the training text, sampled again in each epoch; everything else reads the best ones.

    A sample of more than ``data.filter.max_pieces`` pieces gives way to the best segmentation.
    """

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.1
    """bpe: probability that a merge is left out (BPE-dropout, Provilkov et al. 2020). unigram: exponent of the
    probability of a segmentation (subword regularization, Kudo 2018); less is more varied."""
    sides: Literal["both", "source", "target"] = "both"
    """The sides that are sampled."""


class BpeTokenizer(LearnedTokenizer):
    """Byte-pair encoding (Sennrich et al. 2016)."""

    type: Literal["bpe"]
    sampling: Sampling | None = None
    """Sampled segmentations of the training text; null: the best ones."""


class UnigramTokenizer(LearnedTokenizer):
    """Unigram language model (Kudo 2018)."""

    type: Literal["unigram"]
    sampling: Sampling | None = None
    """Sampled segmentations of the training text; null: the best ones."""


class WordTokenizer(LearnedTokenizer):
    """Words, split at whitespace."""

    type: Literal["word"]

    @property
    def sampling(self) -> None:
        """None: a text has one segmentation."""


class CharacterTokenizer(LearnedTokenizer):
    """Single characters."""

    type: Literal["character"]

    @property
    def sampling(self) -> None:
        """None: a text has one segmentation."""


class GivenTokenizer(Section):
    """SentencePiece models that exist already."""

    type: Literal["given"]
    source: Text
    """The .model file of the source side."""
    target: Text
    """The .model file of the target side; the same file for a shared vocabulary."""
    sampling: Sampling | None = None
    """Sampled segmentations of the training text, by a model of type bpe or unigram; null: the best ones."""

    @property
    def shared(self) -> bool:
        """Whether both sides have one model."""
        return self.source == self.target


AnyTokenizer = Annotated[
    BpeTokenizer | UnigramTokenizer | WordTokenizer | CharacterTokenizer | GivenTokenizer, Discriminator("type")
]
