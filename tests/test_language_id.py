"""Which of two languages a text is in: by script or by function words."""

from collections.abc import Sequence
from functools import cache

import pytest

from demo_language.generator import Generator
from nmt.data.corpus import Pair
from nmt.data.language_id import LEAST_LETTERS, SCRIPTS, language_of, scripts_of, swapped_sides, watched

EN_FR = "en", "fr"
ENGLISH = "Two young men of the village stood outside near many bushes and watched what the others were doing."
FRENCH = (
    "Deux jeunes hommes du village se tenaient dehors, près des buissons, et regardaient ce que faisaient les autres."
)
GERMAN = "Zwei junge Männer aus dem Dorf standen draußen in der Nähe vieler Büsche und schauten den anderen dabei zu."


@cache
def demo_pairs(seed: int, count: int = 300) -> Sequence[Pair]:
    """English sentences of 12 words, and their French translations."""
    generator = Generator(seed)
    sentences = [generator.sentence(12) for _ in range(count)]
    return [Pair(sentence.english, sentence.french) for sentence in sentences]


RIGHT = demo_pairs(2, 50)
SWAPPED = [Pair(pair.target, pair.source) for pair in RIGHT]


@pytest.mark.parametrize(
    ("languages", "lines", "language"),
    [
        (EN_FR, [ENGLISH], 0),
        (("en_GB", "fr-CA"), [FRENCH.upper()], 1),
        (EN_FR, [GERMAN], None),
        (EN_FR, [ENGLISH, FRENCH], None),
        (("en", "xx"), [ENGLISH], None),
        (("en", "ru"), [ENGLISH], 0),
        (("en", "ru"), ["Это дом, в котором жил мой дед."], 1),
        (("ja", "ru"), ["日本語のテスト ｶﾅ ＡＢ" * 3], 0),
        (("ru", "hi"), ["हिन्दी में लिखा हुआ" * 3], 1),
        (EN_FR, ["1 234 567,89 - 2014 \0\u2028 \ud800"], None),
    ],
)
def test_a_text_is_in_one_of_two_languages(languages: tuple[str, str], lines: list[str], language: int | None) -> None:
    assert language_of(lines * 10, languages) == language
    assert language_of(lines[:1], languages) is None, "too short"


@pytest.mark.parametrize("wrong", [("train",), ("train", "validation", "test"), ()])
def test_the_languages_tell_which_splits_are_swapped(wrong: Sequence[str]) -> None:
    splits = {name: SWAPPED if name in wrong else RIGHT for name in ("train", "validation", "test")}
    warnings = swapped_sides(splits, EN_FR)
    assert [line.partition(":")[0] for line in warnings] == [f"data.{name}" for name in wrong]
    assert all("the source looks like fr, the target looks like en" in line for line in warnings)
    one_side = {"test": [Pair(pair.target, pair.target) for pair in RIGHT]}
    assert swapped_sides(one_side, EN_FR) == ["data.test: the source looks like fr"]


def test_lines_pass_and_a_warning_comes_once() -> None:
    source, target = ([pair[side] for pair in RIGHT] for side in (0, 1))
    warnings: list[int] = []
    seen: list[str] = []
    for line in watched(target, EN_FR, lambda: warnings.append(len(seen)), LEAST_LETTERS):
        seen.append(line)
    assert seen == target
    assert len(warnings) == 1 and 0 < warnings[0] < 10, "as soon as there is enough text"
    for lines in (source, target[:1], []):
        assert list(watched(lines, EN_FR, lambda: warnings.append(0))) == lines
    assert list(watched(target, EN_FR, lambda: warnings.append(-1))) == target
    assert warnings[1:] == [-1], "the whole file has too little text for more than one"


def test_languages_and_their_scripts() -> None:
    assert scripts_of("pt_BR") == scripts_of("PT") == {"LATIN"}
    assert scripts_of("ja") == {"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}
    assert scripts_of("sr") == {"LATIN", "CYRILLIC"} and scripts_of("sr-cyrl") == {"CYRILLIC"}
    assert scripts_of("demo") == frozenset()
    assert all(len(codes.split()) == len(set(codes.split())) for codes in SCRIPTS.values())
