"""The sections ``data`` and ``tokenizer``."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from nmt.config.schema.base import Choice, Count, Fraction, PathText, Positive, Problem, Section, Size, Text

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
TAG = r"<[^<>▁\s]+>"
"""The form of a corpus's tag, as a regular expression."""
LARGEST_VOCABULARY = 250_000
"""Pieces, as many as the largest multilingual models have; a run from a stranger is checked within a second."""
Span = Literal["braces", "email", "number", "tag", "url"]


def _a_piece(tag: str) -> str:
    if tag in SPECIAL or not re.fullmatch(TAG, tag):
        raise ValueError(f"'{tag}' cannot be a piece of its own; must be one word in brackets, such as <bt>")
    return tag


class Corpus(Section):
    """Options of every kind of corpus."""

    limit: Size | None = None
    """Read only the first ``limit`` pairs."""
    links: PathText | None = None
    """File with word links ``i-j``, counted from 0, one line per pair."""
    tag: Annotated[Text, AfterValidator(_a_piece)] | None = None
    """Piece put before each source sentence of a training corpus, such as ``<bt>``."""


class FileCorpus(Corpus):
    """Two text files, also .gz or .xz, aligned line by line."""

    source: PathText
    """File with the source sentences."""
    target: PathText
    """File with their translations."""


class TsvCorpus(Corpus):
    """One file with tab-separated columns."""

    tsv: PathText
    """The file."""
    source_column: Count = 0
    """Column with the source sentences, from 0."""
    target_column: Count = 1
    """Column with the translations, from 0."""


class Records(Corpus):
    """Options of corpora of records with keys."""

    source_key: Text | None = None
    """Key of the source sentence, dotted (``translation.en``); null: ``data.source_language``."""
    target_key: Text | None = None
    """Key of the translation; null: ``data.target_language``."""


class JsonlCorpus(Records):
    """One file with a JSON object per line."""

    jsonl: PathText
    """The file."""


class HubCorpus(Records):
    """A dataset of the Hugging Face hub."""

    hub: Text
    """Dataset, OWNER/NAME."""
    split: Text
    """Split, such as ``train``."""
    revision: Text | None = None
    """Commit or tag; null: the latest."""
    subset: Text | None = None
    """Dataset configuration, such as ``de-en``."""


class Mix(Section):
    """Several corpora of ``data.corpora``: from a corpus of n pairs and weight w, an epoch reads w * n pairs."""

    mix: Annotated[dict[Text, Positive], Field(min_length=1)]
    """Weight of each corpus by its name."""


def _kind(value: Any) -> str:
    """The key that only one kind of corpus has; "source" for a value without one."""
    return next((key for key in ("source", "tsv", "jsonl", "hub") if _has(value, key)), "source")


def _training_kind(value: Any) -> str:
    return "mix" if _has(value, "mix") else _kind(value)


def _has(value: Any, key: str) -> bool:
    return key in value if isinstance(value, dict) else hasattr(value, key)


Corpora = (
    Annotated[FileCorpus, Tag("source")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[HubCorpus, Tag("hub")]
)
AnyCorpus = Annotated[Corpora, Discriminator(_kind)]
AnyTrainingSet = Annotated[Corpora | Annotated[Mix, Tag("mix")], Discriminator(_training_kind)]


class Filter(Section):
    """Which training pairs are dropped."""

    max_words: Size | None = None
    """Most words on either side."""
    max_pieces: Size = 200
    """Most pieces on either side."""
    max_ratio: Annotated[float, Field(gt=1)] | None = None
    """Most words of the longer side per word of the shorter."""
    copies: bool = False
    """Drop pairs whose sides are equal but for case and spaces."""
    duplicates: bool = False
    """Drop pairs that repeat an earlier one of the corpus."""


class Terms(Section):
    """Terms whose translation some training pairs show, so that ``nmt-translate --glossary`` can give others."""

    file: PathText
    """File with a term, a tab and its translation on each line."""
    share: Fraction = 0.15
    """Share of the training pairs that show translations: 85% of them for some terms, 15% the whole target."""


class Rough(Section):
    """Shares of the training pairs whose source is changed, drawn again in each epoch."""

    upper: Fraction = 0.05
    """Lower-cased, which is how the network reads sources in capitals."""
    title: Fraction = 0.05
    """Capital Initials."""
    typos: Fraction = 0.4
    """Up to 10% of the letters mistyped."""
    accents: Fraction = 0.05
    """Without accents."""
    stop: Fraction = 0.05
    """Without the final full stop."""


class Data(Section):
    """The corpora. Relative paths start at the working directory."""

    source_language: Text
    """Code of the source language, such as ``en``."""
    target_language: Text
    """Code of the target language."""
    train: AnyTrainingSet
    """Training set."""
    validation: AnyCorpus
    """Validation set."""
    test: AnyCorpus | None = None
    """Test set, translated and scored after training."""
    corpora: dict[Text, AnyCorpus] = Field(default_factory=dict)
    """The corpora that ``train.mix`` names."""
    reverse_source: bool = False
    """Read each source sentence last piece first."""
    protect: Annotated[tuple[Span, ...], AfterValidator(lambda kinds: tuple(sorted({*kinds})))] = ()
    """Spans to copy untranslated; braces: ``{name}``, tag: ``<x>``."""
    glossary: Terms | None = None
    rough: Rough | None = None
    filter: Filter = Filter()
    cache: PathText | None = None
    """Directory for tokenizers and encoded corpora; null: $NMT_CACHE, or ~/.cache/nmt."""

    @property
    def training_corpora(self) -> dict[str, AnyCorpus]:
        """The corpora of the training set by their keys here: ``train``, or ``corpora.NAME`` of a mix, sorted."""
        if isinstance(self.train, Mix):
            return {f"corpora.{name}": self.corpora[name] for name in sorted(self.train.mix) if name in self.corpora}
        return {"train": self.train}

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the training corpora."""
        return tuple(dict.fromkeys(each.tag for each in self.training_corpora.values() if each.tag is not None))

    @property
    def linked(self) -> list[str]:
        """The dotted keys of the word links of the training set."""
        return [f"data.{key}.links" for key, corpus in self.training_corpora.items() if corpus.links is not None]

    def contradictions(self) -> Iterator[Problem]:
        """Options that nothing reads, and a mix of corpora that do not exist."""
        mixed = self.train.mix if isinstance(self.train, Mix) else {}
        known = ", ".join(self.corpora) or "none"
        for name in sorted(mixed.keys() - self.corpora.keys()):
            yield Problem(f"data.train.mix.{name}", f"there is no data.corpora.{name}; the corpora are: {known}")
        if mixed.keys() <= self.corpora.keys():
            for name in sorted(self.corpora.keys() - mixed.keys()):
                yield Problem(f"data.corpora.{name}", "has no effect; add it to data.train.mix, or leave it out")
        for split, corpus in (("validation", self.validation), ("test", self.test)):
            for key in ("tag", "links"):
                if getattr(corpus, key, None) is not None:
                    yield Problem(f"data.{split}.{key}", "has no effect, only that of training is read; leave it out")


# --- tokenizers -----------------------------------------------------------------------------------------------------


class LearnedTokenizer(Section):
    """Learned on the training set: byte-pair encoding (Sennrich et al. 2016), a unigram language model (Kudo 2018),
    words split at whitespace, or characters."""

    type: Literal["bpe", "unigram", "word", "character"]
    vocabulary: Annotated[int, Field(ge=5, le=LARGEST_VOCABULARY)] | None = None
    """Number of pieces; null: by the amount of text, up to 8,000 (word and character: up to 30,000)."""
    shared: bool = False
    """Learn one model for both sides."""
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """Unicode normalization; identity: none."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters of the text that get a piece."""
    most_pairs: Size = 1_000_000
    """Pairs to learn from; a million need 1 GiB for bpe and 3.5 GiB for unigram."""
    dropout: Fraction = 0.0
    """Probability that a merge of bpe is left out, drawn again in each epoch (Provilkov et al. 2020)."""


class GivenTokenizer(Section):
    """SentencePiece models that exist already."""

    type: Literal["given"]
    source: PathText
    """The .model file of the source side."""
    target: PathText
    """The .model file of the target side."""
    dropout: ClassVar[float] = 0.0
    """Segmentations are never sampled."""

    @property
    def shared(self) -> bool:
        """Whether both sides have one model."""
        return self.source == self.target


AnyTokenizer = Annotated[LearnedTokenizer | GivenTokenizer, Choice()]
