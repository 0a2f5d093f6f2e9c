import pytest

from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.watching import EMPTY, SEVERAL, TOO_SHORT, LostText, sentences


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("The cat sleeps. The dog barks! Who is there?", 3),
        ("She said: “It works.” Then she left.", 2),
        ("¿Cómo estás? ¡Bien!", 2),
        ("猫が眠る。犬が吠える。", 2),
        ("The cat sleeps.", 1),
        ("Mr. Smith of the U.S. Army pays 3.50 euros.", 1),
        ("the old cat sleeps . the dog barks .", 1),
        ("Version 2.0 Beta of example.org works", 1),
        ("", 1),
    ],
)
def test_sentences_are_counted(line: str, count: int) -> None:
    assert sentences(line) == count


def translated(source: str, text: str, read: int, written: int) -> Translation:
    return Translation(source, ["x"] * read, [TranslatedHypothesis(text, -1.0, -1.0, ["y"] * written)])


def test_each_sign_names_its_lines() -> None:
    lost = LostText()
    for number in range(1, 13):
        lost.add(number, translated("The cat sleeps. The dog barks.", "ok", 8, 7))
    lost.add(13, translated("a line", " ", 3, 1))
    lost.add(14, translated("a long line", "word", 9, 2))
    lost.add(15, translated("a long line", "word", 8, 2))  # just long enough
    lost.add(16, translated("ab", "word", 7, 1))  # too short to judge
    lost.add(17, translated("", "", 0, 0))  # a blank line has a blank translation
    assert list(lost.problems()) == [
        f"lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more: {SEVERAL}",
        f"line 13: {EMPTY}",
        f"line 14: {TOO_SHORT}",
    ]
