"""Language identification by scripts and function words, to detect swapped files.

A text is compared with the two languages that a configuration names. There is no answer for a short text, for one in a
third language, and for languages that are alike or unknown here.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from nmt.data.corpus import Pair

JUDGED_LINES, LONGEST_LINE = 500, 1000
"""Lines of a split that are judged, and characters of a line."""
LEAST_LETTERS, MOST_LETTERS = 150, 20_000
"""Minimum of letters for an answer, about thirty words, and the letters of a file that are judged."""
SHARE = 0.1
"""Minimum share of the words of a text that must be frequent words of its language and not of the other one."""
TIMES_AS_MANY = 4
"""How many letters or frequent words of its language there must be for one of the other language."""
SCRIPTS = {
    "LATIN": "af az bs ca cs cy da de en eo es et eu fi fil fo fr ga gl ha hr ht hu id ig is it la lb lt lv mg mi ms "
    "mt nb nl nn no oc pl pt rm ro sk sl sm so sq sr su sv sw tl tk tr uz vi wo xh yo zu",
    "CYRILLIC": "ba be bg ce cv kk ky mk mn ru sah sr tg tt uk",
    "GREEK": "el",
    "ARABIC": "ar ckb fa ps sd ug ur",
    "HEBREW": "he yi",
    "DEVANAGARI": "bho hi mai mr ne sa",
    "BENGALI": "as bn",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "KHMER": "km",
    "MYANMAR": "my",
    "TIBETAN": "bo dz",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am ti",
    "CJK": "ja ko yue zh",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "KATAKANA-HIRAGANA": "ja",
    "HANGUL": "ko",
    "BOPOMOFO": "zh",
}
"""ISO 639 codes of the languages of each script; the Unicode names of its letters begin with its name."""
ISO_15924 = {"Latn": "LATIN", "Cyrl": "CYRILLIC", "Arab": "ARABIC", "Deva": "DEVANAGARI"}
"""Script subtags (``sr-Latn``) that decide among several."""
NOT_LETTERS = re.compile(r"[\W\d_]+")
FUNCTION_WORDS = {
    "bg": "и на в да се за не от с са по като че това е си ще към след които",
    "ca": "de la el i que a en les els per un una del amb no és es al dels més",
    "cs": "a v se na je že o s z do i to jako za k ve pro by jsou který",
    "da": "og i at det er en til af på den for de ikke med et jeg har som der vi",
    "de": "der die das und in den von zu mit ist sich nicht ein eine auf für dem des im auch",
    "en": "the of and to in is that a for it on with as are this be was not by have",
    "es": "de la que el en y los se del las por un para con no una su al es lo",
    "et": "ja on ei et see ta mis oli kui ka ma oma aga siis mida või kes nii seda meie",
    "fi": "ja on ei se että oli hän mutta kun ovat myös tai kuin joka sen ole jos niin mitä voi",
    "fr": "de la le et les des en un du une que est pour qui dans a par sur pas au",
    "hu": "a az és hogy nem is egy ez meg volt de csak ha már mint van azt el vagy ki",
    "it": "di e che la il un a per in è una del con non si le della sono da i",
    "lt": "ir kad į iš su tai yra bei buvo kaip ne o apie dėl už nuo bet jis taip prie",
    "lv": "un ir ka ar no par uz kas tas bet to kā ja vai pēc gan arī nav bija tikai",
    "nb": "og i det er en til av på for at som med ikke de den et jeg har om vi",
    "nl": "de het een van en in is dat op te zijn met voor niet die aan er om ook als",
    "no": "og i det er en til av på for at som med ikke de den et jeg har om vi",
    "pl": "w i na z się nie że to do jest o jak za od przez po są który oraz dla",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as",
    "ro": "de și în a la cu pe nu că o din este care un mai să pentru o sunt au",
    "ru": "и в не на что я с он как это по но из у за от так о же для",
    "sk": "a v sa na je že o s z do to ako za k vo pre by sú ktorý nie",
    "sl": "in je v na se da za so ki pa z s ne bi kot tudi to po iz ni",
    "sv": "och i att det som en på är av för med till den har de inte om ett jag vi",
    "tr": "ve bir bu da de için ile çok ne ama o gibi daha var en olarak olan kadar sonra mi",
    "uk": "і в не на що я з він як це та до за від у але або є по для",
}
"""Frequent words of common languages, by ISO 639 code."""


def language_of(lines: Iterable[str], languages: tuple[str, str]) -> int | None:
    """Return which of two languages, 0 or 1, a text is written in; None if that cannot be known."""
    text = NOT_LETTERS.sub(" ", " ".join(line[:LONGEST_LINE] for line in lines)).lower()
    scripts = [scripts_of(language) for language in languages]
    if all(scripts) and not scripts[0] & scripts[1]:
        written = [_script(letter) for letter in text]
        return _likely([sum(script in own for script in written) for own in scripts], LEAST_LETTERS)
    words = text.split()
    known = [set(FUNCTION_WORDS.get(re.split("[-_]", name)[0].lower(), "").split()) for name in languages]
    if not all(known) or sum(map(len, words)) < LEAST_LETTERS:
        return None
    only = known[0] - known[1], known[1] - known[0]
    return _likely([sum(word in own for word in words) for own in only], SHARE * len(words))


def _likely(found: Sequence[int], least: float) -> int | None:
    side = int(found[1] > found[0])
    return side if found[side] >= max(least, TIMES_AS_MANY * found[1 - side]) else None


def swapped_sides(splits: Mapping[str, Sequence[Pair]], languages: tuple[str, str]) -> list[str]:
    """Return a warning for each split, by its key in the section ``data``, with a side in the language of the other."""
    warnings = []
    for key, pairs in splits.items():
        wrong = [
            f"the {name} looks like {languages[1 - side]}"
            for side, name in enumerate(("source", "target"))
            if language_of((pair[side] for pair in pairs[:JUDGED_LINES]), languages) == 1 - side
        ]
        if wrong:
            swapped = "source and target seem to be swapped: " if len(wrong) == 2 else ""
            warnings.append(f"data.{key}: {swapped}{', '.join(wrong)}")
    return warnings


def watched(
    lines: Iterable[str], languages: tuple[str, str], warn: Callable[[], None], letters: int = MOST_LETTERS
) -> Iterator[str]:
    """Pass source lines through; call ``warn`` once if their first ``letters`` are in the target language."""
    judged: list[str] = []
    seen = 0
    for line in lines:
        if seen < letters:
            judged.append(line[:LONGEST_LINE])
            seen += sum(map(str.isalpha, judged[-1]))
            if seen >= letters and language_of(judged, languages) == 1:
                warn()
        yield line
    if seen < letters and language_of(judged, languages) == 1:
        warn()


@cache
def _script(character: str) -> str:
    """The script of a letter, "" for anything else."""
    if unicodedata.category(character)[0] != "L":
        return ""
    first, *others = unicodedata.name(character, "UNKNOWN").split()
    return others[0] if first in ("FULLWIDTH", "HALFWIDTH") and others else first


@cache
def scripts_of(language: str) -> frozenset[str]:
    """The scripts of a language code such as ``ru``, ``pt-BR`` or ``sr-Latn``; none for an unknown one."""
    code, *subtags = re.split("[-_]", language)
    if named := {ISO_15924[tag.title()] for tag in subtags if tag.title() in ISO_15924}:
        return frozenset(named)
    return frozenset(script for script, codes in SCRIPTS.items() if code.lower() in codes.split())
