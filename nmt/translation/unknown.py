"""Unknown words of a translation replaced through the attention, for vocabularies of words.

Where the network writes the unknown symbol, it usually looks at a source word that is unknown, too: a name or a number.
That word is written instead, or its translation in a dictionary (Luong et al. 2015, section 4.2; Jean et al. 2015).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nmt.data.lines import read_lines
from nmt.data.links import MARK
from nmt.data.tokenizer import Tokenizers
from nmt.errors import DataError
from nmt.evaluation.alignment import Weights


def replace_unknown(
    words: Sequence[str | None], weights: Weights, sources: Sequence[str], dictionary: Mapping[str, str]
) -> str:
    """Return the translation, with each unknown word replaced by the source piece with the largest weight.

    Args:
        words: the T words of the translation, None for each unknown one.
        weights: attention of at least T rows and S columns; what follows these, as the end symbols, is not read.
        sources: the S pieces of the source as the text spells them: each a word, or a run of unknown words.
        dictionary: translations of source words; a word without one is copied.
    """
    likeliest = weights[: len(words), : len(sources)].argmax(axis=1)
    return " ".join(
        " ".join(dictionary.get(each, each) for each in sources[place].split()) if word is None else word
        for word, place in zip(words, likeliest, strict=True)
    )


@dataclass(frozen=True)
class UnknownWords:
    """What replaces unknown words: the source word that is attended to most, translated where that is possible."""

    dictionary: Mapping[str, str] = field(default_factory=dict)
    """Translations of source words."""

    def replaced(self, tokens: Sequence[int], weights: Weights, source: str, tokenizers: Tokenizers) -> str:
        """Return the translation of a line.

        Args:
            tokens: T ids of the translation, without the end symbol.
            weights: attention, (T or T + 1, S), the last column that of the end symbol.
            source: the line.
            tokenizers: of words, on both sides.
        """
        target = tokenizers.target
        words = [None if token == target.unk_id else target.decode([token]) for token in tokens]
        spelled = tokenizers.source.spelled(source, weights.shape[1] - 1)
        sources = [piece.replace(MARK, " ") for piece in spelled]
        return replace_unknown(words, weights, sources, self.dictionary)


def unsuitable(tokenizers: Tokenizers) -> str | None:
    """Return why unknown words cannot be replaced with these tokenizers, or None if they can be."""
    wrong = [side for side, tokenizer in tokenizers.sides() if tokenizer.model_type != "word"]
    if not wrong:
        return None
    return (
        f"the pieces of the {' and the '.join(wrong)} side are parts of words, of which an unknown one is a character "
        "and no word; it needs tokenizer.type: word on both sides"
    )


def read_dictionary(path: str) -> dict[str, str]:
    """Read lines of source word, tab, translation; of several lines with the same source word the first counts.

    Raises DataError for a file that cannot be read, and for a line of another form.
    """
    dictionary: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or len(columns[0].split()) != 1 or not columns[1]:
            raise DataError(f"{path}:{number}: must be a source word, a tab and its translation")
        dictionary.setdefault(*columns)
    return dictionary
