"""What a long translation gives back: freed blocks after each window, and the code of products of other shapes."""

import os
from typing import Any

import pytest

from nmt.config.schema import Decoding
from nmt.errors import DataError
from nmt.translation.options import SearchOptions
from nmt.translation.searching import FIRST_WINDOW, WINDOW, WINDOW_CHARACTERS
from nmt.translation.translator import PRODUCTS, Translator
from tests.small_translator import ATTENTIONS, LINES, network, small_tokenizers, translator_of

CACHE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


@pytest.mark.parametrize(
    ("lines", "first_window", "released"),
    [
        (1, FIRST_WINDOW, 0),
        (FIRST_WINDOW - 1, FIRST_WINDOW, 0),  # a request, not a text
        (FIRST_WINDOW, FIRST_WINDOW, 1),
        (WINDOW, WINDOW, 1),  # a chunk of a job is one window
        (FIRST_WINDOW + 2 * WINDOW, FIRST_WINDOW, 4),  # of 1,024, 2,048, 4,096 and 2,048 lines
    ],
)
def test_freed_memory_is_given_back_after_each_large_window(
    lines: int, first_window: int, released: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[None]()
    monkeypatch.setattr("nmt.translation.translator.release_freed_memory", lambda: calls.append(None))
    tokenizers = small_tokenizers()
    translator = translator_of(network(tokenizers, ATTENTIONS[0]), tokenizers)
    found = translator.stream(
        [""] * lines, SearchOptions.from_config(Decoding()), first_window=first_window
    )  # blank lines take no time
    assert len(list(found)) == lines
    assert len(calls) == released


def test_freed_memory_is_given_back_after_short_texts_and_after_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[None]()
    monkeypatch.setattr("nmt.translation.translator.release_freed_memory", lambda: calls.append(None))
    tokenizers, options = small_tokenizers(), SearchOptions.from_config(Decoding())
    translator = translator_of(network(tokenizers, ATTENTIONS[0]), tokenizers)
    for _ in range(8):
        list(translator.stream([""] * (FIRST_WINDOW // 4), options, first_window=FIRST_WINDOW // 4))
    assert len(calls) == 2
    list(translator.stream([" " * (WINDOW_CHARACTERS // 2)] * 6, options))
    assert len(calls) == 5


@pytest.mark.parametrize(("given", "expected"), [(None, str(PRODUCTS)), ("7", "7")])
def test_commands_bound_the_cache_of_products_unless_it_is_set(
    given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE, "undone after the test")
    monkeypatch.delenv(CACHE)
    if given is not None:
        monkeypatch.setenv(CACHE, given)
    seen = list[str | None]()

    def refused(*_: object, **__: object) -> None:
        seen.append(os.environ[CACHE])
        raise DataError("not loaded")

    monkeypatch.setattr("nmt.translation.translator.load_run", refused)
    with pytest.raises(DataError):
        Translator.load("run")
    assert seen == [expected]


def test_a_search_compiles_no_product_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN would keep one for each number of rows; the heap falls apart around them."""

    def compiled(*arguments: Any) -> None:
        raise AssertionError("oneDNN")

    monkeypatch.setattr("nmt.fast.kernels.products._LINEAR", compiled)
    tokenizers = small_tokenizers()
    for attention in ATTENTIONS:
        translator = translator_of(network(tokenizers, attention), tokenizers)
        assert list(translator.stream(LINES[:3], SearchOptions.from_config(Decoding())))
