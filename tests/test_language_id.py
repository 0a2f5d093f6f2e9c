"""Which of two languages a text is in."""

import re
from collections.abc import Sequence
from functools import cache

import pytest

from demo_language.generator import Generator
from nmt.data.corpus import Pair
from nmt.data.language_id import language_of, swapped_sides

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
        (("en", "ru"), ["Это дом, в котором жил мой дед, и он не знал, что я с ним."], 1),
        (("ja", "zh"), ["私は昨日友達と一緒に東京へ行って、美味しい料理を食べました。"], 0),
        (("ja", "zh"), ["在这个世界上，没有什么比和家人在一起更重要的了，他们说。"], 1),
        (("en", "ko"), ["나는 어제 친구와 함께 서울에 가서 맛있는 음식을 먹었습니다."], 1),
        (EN_FR, ["1 234 567,89 - 2014 \0\u2028 \ud800"], None),
    ],
)
def test_a_text_is_in_one_of_two_languages(languages: tuple[str, str], lines: list[str], language: int | None) -> None:
    assert language_of(lines * 10, languages) == language
    assert language_of(lines[:1], languages) is None, "too short"


@pytest.mark.parametrize("wrong", [("train",), ("train", "validation", "test"), ()])
def test_the_languages_tell_which_splits_are_swapped(wrong: Sequence[str]) -> None:
    splits = {name: SWAPPED if name in wrong else RIGHT for name in ("train", "validation", "test")}
    warnings = {name: swapped_sides(pairs, EN_FR) for name, pairs in splits.items()}
    assert [name for name, warning in warnings.items() if warning] == list(wrong)
    for name in wrong:
        assert re.findall(r"(source|target) looks like (..)", warnings[name]) == [("source", "fr"), ("target", "en")]
    one_side = [Pair(pair.target, pair.target) for pair in RIGHT]
    assert swapped_sides(one_side, EN_FR) == "the source looks like fr (data.source_language: en)"
