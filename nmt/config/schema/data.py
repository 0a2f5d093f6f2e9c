"""The ``data`` section: corpora and limits."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from nmt.config.schema.base import Cores, Count, NotNegative, Section, Size, Text


class Corpus(Section):
    """Options of every kind of corpus."""

    limit: Size | None = None
    """Read only the first ``limit`` pairs; null reads all."""
    links: Text | None = None
    """Of the training set: file with the word links of each pair, a line for each, as ``i-j`` (or ``ipj``) of source
    word i and target word j, counted from 0; guided attention learns from them. null: none."""


class FileCorpus(Corpus):
    """Two text files, aligned line by line, one sentence per line; files named .gz or .xz are decompressed."""

    source: Text
    """File with the source sentences."""
    target: Text
    """File with their translations."""


class TsvCorpus(Corpus):
    """One file with tab-separated columns, one pair per line (also .gz, .xz)."""

    tsv: Text
    """The file."""
    source_column: Count = 0
    """Index of the column with the source sentences, from 0."""
    target_column: Count = 1
    """Index of the column with the translations, from 0."""


class JsonlCorpus(Corpus):
    """One file with a JSON object per line (also .gz, .xz)."""

    jsonl: Text
    """The file."""
    source_key: Text | None = None
    """Key of the source sentence, dotted for nested objects (``translation.en``); null: ``data.source_language``."""
    target_key: Text | None = None
    """Key of the translation; null: ``data.target_language``."""


class HubCorpus(Corpus):
    """A dataset of the Hugging Face hub that needs no loading script."""

    hub: Text
    """Its name, OWNER/NAME."""
    split: Text
    """Its split, such as ``train``."""
    revision: Text | None = None
    """Commit or tag of the dataset; null: the latest of its main branch."""
    subset: Text | None = None
    """Its configuration (``de-en`` of ``wmt/wmt14``); null: the only one."""
    source_key: Text | None = None
    """Key of the source sentence in a row, dotted (``translation.de``); null: ``data.source_language``."""
    target_key: Text | None = None
    """Key of the translation; null: ``data.target_language``."""


CORPUS_KINDS = {"source": FileCorpus, "tsv": TsvCorpus, "jsonl": JsonlCorpus, "hub": HubCorpus}


def _corpus_kind(value: Any) -> str:
    if isinstance(value, dict):
        return next((key for key in CORPUS_KINDS if key in value), "source")
    return next((key for key, kind in CORPUS_KINDS.items() if isinstance(value, kind)), "source")


AnyCorpus = Annotated[
    Annotated[FileCorpus, Tag("source")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[HubCorpus, Tag("hub")],
    Discriminator(_corpus_kind),
]


class Filter(Section):
    """Limits beyond which a training pair is dropped. Validation and test pairs are never dropped for their length."""

    max_words: Size | None = None
    """Words of the longer side, split at whitespace; null: no limit."""
    max_pieces: Size = 200
    """Pieces of the longer side."""
    max_ratio: Annotated[float, Field(gt=1)] | None = None
    """Words of the longer side divided by words of the shorter; null: no limit."""


class Substitution(Section):
    """Pieces of the training text replaced by random ones, again in each epoch: SwitchOut (Wang et al. 2018).

    Of L pieces n are replaced with probability p(n) ~ exp(-n / t), n = 0 ... L. The mean of a long sentence is
    1 / (exp(1 / t) - 1): 0.58 pieces with t = 1, 1.54 with t = 2.
    """

    source: NotNegative = 0.0
    """Temperature t of the source side; 0: none."""
    target: NotNegative = 0.0
    """Temperature t of the target side, of what the decoder reads and of what it is to predict; 0: none."""


class Data(Section):
    """The corpora. Relative paths start at the working directory."""

    source_language: Text
    """Code of the source language, such as ``en``."""
    target_language: Text
    """Code of the target language; it decides how BLEU splits words (``evaluation.bleu_tokenizer``)."""
    train: AnyCorpus
    """Training set."""
    validation: AnyCorpus
    """Validation set."""
    test: AnyCorpus | None = None
    """Test set, translated and scored after training; null: none."""
    reverse_source: bool = False
    """Read the pieces of each source sentence last to first, the end symbol still last (Sutskever et al. 2014). The
    attention that commands show is in the order of the text."""
    filter: Filter = Filter()
    substitution: Substitution | None = None
    """Word substitution in the training set; null: none."""
    cache: Text | None = None
    """Directory for tokenizers and encoded corpora, shared by runs; null: $NMT_CACHE, or ~/.cache/nmt."""
    processes: Cores | None = None
    """Processes that encode the corpora; null: one per core from 100,000 pairs on, else one."""
