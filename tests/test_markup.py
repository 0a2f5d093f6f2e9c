"""Inline tags: taken out, put back around the words that attend to the tagged ones, always balanced."""

import numpy as np
import pytest

from nmt.translation.markup import Element, with_tags, without_tags
from tests.test_corpus import error_of

TAGGED = [
    "<b>a</b><b>a<i> a</i></b>",
    "<b><i>a<x/><br></i><i> b </i><b><br>a</b></b><i></i>a",
    "3 < 4 <b> , <i>a b</i>, <b>b <i>, a</i></b></b>a <br>",
    "<i><b><b>a b</b> c</b>d</i> e, <i>f</i><i/>",
    "<p>a <br/></p><g><x/><y><x/></y></g> <b>a <x/>c</B> d",
    "<b></b>",
    "a b",
]


def path(element: Element, elements: list[Element]) -> list[tuple[str, str]]:
    """The tags of an element and of those around it, the innermost first."""
    around = path(elements[element.parent], elements) if element.parent >= 0 else []
    return [(element.opening, element.closing), *around]


@pytest.mark.parametrize("line", TAGGED)
def test_each_element_is_there_once_and_balanced_whatever_the_weights(line: str) -> None:
    generator, (text, elements) = np.random.default_rng(1), without_tags(line)
    for words in [*range(7)] * 30:
        target = " ".join(["x", "(y", "z,", ".", "«", "l'x"][:words])
        weights = generator.random((words, len(text.split())))
        for some in (weights, weights[: words // 2], np.zeros((0, 0)), 0 * weights):
            again, found = without_tags(with_tags(text, target, elements, some))
            assert again == target
            assert sorted(map(path, found, [found] * 99)) == sorted(map(path, elements, [elements] * 99))


@pytest.mark.parametrize(
    "line",
    [
        "The <b>red apple</b>, <i>it</i>.<br/>",
        "a <b>b <i>c</i> d</b>",
        "(<u>a</u>) <br>b",
        '<i>(a)</i>, <b>50%</b>; (<b>C++</b>) <q>"stop!"</q>.',
        "<p x='1 > 2'><b>a!</b></p>",
    ],
)
def test_equal_words_have_equal_tags(line: str) -> None:
    text, elements = without_tags(line)
    assert with_tags(text, text, elements, np.eye(len(text.split()))) == line


def test_tags_follow_the_attention() -> None:
    text, elements = without_tags("the <b>red</b> <i>apple</i> <br/>here")
    weights = np.array([[0.1, 0.0, 0.0, 0.9], [0.9, 0.05, 0.05, 0.0], [0.0, 0.3, 0.6, 0.0], [0.0, 0.6, 0.4, 0.0]])
    assert with_tags(text, "ici la pomme rouge", elements, weights) == "<br/>ici la <i>pomme</i> <b>rouge</b>"
    text, elements = without_tags("<fr> A<BR> <b>b</b>", first=4)
    assert (text, [each.opening for each in elements]) == ("<fr> A b", ["<BR>", "<b>"])
    text, elements = without_tags("<b>a</b> b")
    weights = np.array([[0.2, 0.0], [0.4, 0.6], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.9, 0.1]])
    assert with_tags(text, "u v w x y z", elements, weights) == "<b>u v w</b> x y z"
    text, elements = without_tags("l'<b>ami</b>")
    assert with_tags(text, text, elements, np.eye(1)) == "<b>l'ami</b>", "no tag within a word"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a <b>b <i>c</b></i>", "tag </b> at character 12, where </i> was expected: tags may not overlap"),
        ("a</b>", "tag </b> at character 2 closes nothing"),
        ("<b>a", "tag <b> is not closed; add </b>, or write <b/>"),
    ],
)
def test_tags_that_overlap_or_miss_another_are_refused(line: str, problem: str) -> None:
    assert error_of(without_tags, line, "text:3: ") == f"text:3: {problem}"
