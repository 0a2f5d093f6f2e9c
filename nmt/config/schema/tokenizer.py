"""The ``tokenizer`` section."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field

from nmt.config.schema.base import LARGEST_VOCABULARY, Section, Size, Text


class LearnedTokenizer(Section):
    """Options of every tokenizer that is learned on the training set."""

    vocabulary: Annotated[int, Field(ge=5, le=LARGEST_VOCABULARY)] | None = None
    """Pieces of a model; null: by the amount of text, up to 8,000 (word and character: up to 30,000)."""
    shared: bool = False
    """Learn one model for both sides."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """Unicode normalization; identity: none."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters of the text that get a piece."""
    most_pairs: Size = 1_000_000
    """Pairs to learn from; a million take 0.7 GiB for bpe and 3 GiB for unigram."""


class Sampling(Section):
    """Segmentations of the training text, sampled again in each epoch."""

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.1
    """bpe: probability that a merge is left out (Provilkov et al. 2020); unigram: exponent of the probability of a
    segmentation (Kudo 2018)."""
    sides: Literal["both", "source", "target"] = "both"
    """The sides that are sampled."""


class BpeTokenizer(LearnedTokenizer):
    """Byte-pair encoding (Sennrich et al. 2016)."""

    type: Literal["bpe"]
    sampling: Sampling | None = None
    """Sampled segmentations of the training text."""


class UnigramTokenizer(LearnedTokenizer):
    """Unigram language model (Kudo 2018)."""

    type: Literal["unigram"]
    sampling: Sampling | None = None
    """Sampled segmentations of the training text."""


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
    """The .model file of the target side."""
    sampling: Sampling | None = None
    """Sampled segmentations of the training text."""

    @property
    def shared(self) -> bool:
        """Whether both sides have one model."""
        return self.source == self.target


AnyTokenizer = Annotated[
    BpeTokenizer | UnigramTokenizer | WordTokenizer | CharacterTokenizer | GivenTokenizer, Discriminator("type")
]
