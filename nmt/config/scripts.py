"""The scripts in which languages are written, by the first word of the Unicode names of their letters."""

import re

LANGUAGES = {
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
"""ISO 639 codes of the languages of each script; a language of several scripts stands in each."""
ISO_15924 = {"Latn": "LATIN", "Cyrl": "CYRILLIC", "Arab": "ARABIC", "Deva": "DEVANAGARI"}
"""Script subtags (``sr-Latn``) that decide among several."""


def scripts_of(language: str) -> frozenset[str]:
    """The scripts of a language code such as ``ru``, ``pt-BR`` or ``sr-Latn``; none for an unknown one."""
    code, *subtags = re.split("[-_]", language)
    if named := {ISO_15924[tag.title()] for tag in subtags if tag.title() in ISO_15924}:
        return frozenset(named)
    return frozenset(script for script, codes in LANGUAGES.items() if code.lower() in codes.split())
