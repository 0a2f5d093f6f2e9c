"""What a long translation gives back: freed blocks after each window, and the code of products of other shapes."""

from typing import Any

import pytest

from nmt.translation.options import SearchOptions
from nmt.translation.searching import FIRST_WINDOW, WINDOW, WINDOW_CHARACTERS
from tests.small_translator import ATTENTIONS, LINES, network, translator_of


@pytest.mark.parametrize(
    ("texts", "line", "lines", "released"),
    [
        (1, "", FIRST_WINDOW - 1, 0),  # a request
        (1, "", FIRST_WINDOW + 2 * WINDOW, 4),  # windows of 1,024, 2,048, 4,096 and 2,048 lines
        (8, "", FIRST_WINDOW // 4, 2),
        (1, " " * (WINDOW_CHARACTERS // 2), 6, 3),
    ],
    ids=["short", "long", "short ones", "long lines"],
)
def test_freed_memory_is_given_back(
    texts: int, line: str, lines: int, released: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank lines take no time."""
    calls = list[None]()
    monkeypatch.setattr("nmt.translation.translator.release_freed_memory", lambda: calls.append(None))
    translator = translator_of(network())
    for _ in range(texts):
        assert len(list(translator.stream([line] * lines, SearchOptions()))) == lines
    assert len(calls) == released


def test_a_search_compiles_no_product_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN would keep one for each number of rows; the heap falls apart around them."""

    def compiled(*arguments: Any) -> None:
        raise AssertionError("oneDNN")

    monkeypatch.setattr("nmt.fast.kernels.products._LINEAR", compiled)
    for attention in ATTENTIONS:
        assert list(translator_of(network(attention)).stream(LINES[:3], SearchOptions()))
