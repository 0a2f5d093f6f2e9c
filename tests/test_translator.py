"""Lines to lines through a small network with random weights: what the network says is of no account here."""

import itertools
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.schema import Decoding
from nmt.data.batching import ROWS
from nmt.data.corpus import Pair
from nmt.data.glossary import Glossary
from nmt.data.protection import Protection
from nmt.data.tokenizer import Tokenizer
from nmt.errors import ConfigError
from nmt.fast import PlainSearch
from nmt.fast.search_network import FastSearch
from nmt.search.greedy import Sampling
from nmt.translation import watching
from nmt.translation.forced import force
from nmt.translation.results import BLANK, TranslatedHypothesis, Translation
from nmt.translation.searching import (
    FIRST_WINDOW,
    WINDOW,
    WINDOW_CHARACTERS,
    Line,
    SearchOptions,
    lines_for,
    most_rows,
    side_by_side,
)
from nmt.translation.searching import batches as batches_of
from nmt.translation.translator import Translator
from nmt.translation.watching import EMPTY, SEVERAL, TOO_SHORT, LostText, joined, sentences, translate_watched
from tests.small_translator import ATTENTIONS, LINES, TOKENIZERS, network, save_run, translator_of
from tests.test_corpus import problems_of
from tests.test_protection import EVERY, HIDING

GREEDY = SearchOptions(beam_size=1, batch_tokens=400)
BEAM = SearchOptions(beam_size=4, batch_tokens=400, n_best=4)


@pytest.fixture(scope="module", params=ATTENTIONS, ids=lambda attention: str(attention["type"]))
def translator(request: pytest.FixtureRequest) -> Translator:
    return translator_of(network(request.param))


@pytest.fixture(scope="module")
def bahdanau() -> Translator:
    return translator_of(network())


def with_(options: SearchOptions, **changes: object) -> SearchOptions:
    return SearchOptions(**dict(options) | changes)


# --- sameness ---------------------------------------------------------------------------------------------------------


def test_translations_obey_the_rules_and_the_bounds_of_their_length() -> None:
    """A model that ends as soon as it may gives each line its least length; one that never ends gives the greatest, and
    repeats no pair."""
    model = network()
    eos = model.output.bias.data[TOKENIZERS.target.eos_id]
    eos += 1e3
    ended = list(translator_of(model).stream(LINES, with_(BEAM, min_length_factor=1.0)))
    assert [len(each.pieces) for each in ended] == [len(each.source_pieces) for each in ended]
    eos -= 2e3
    endless = translator_of(model)
    for each in endless.stream(LINES, with_(GREEDY, no_repeat_ngram=2)):
        assert len({*zip(each.pieces, each.pieces[1:], strict=False)}) == max(0, len(each.pieces) - 1)
    for options in (with_(GREEDY, max_length_factor=1.5), with_(BEAM, max_length_factor=1.5)):
        for each in endless.stream(LINES[:9], options):
            expected = int(1.5 * (len(each.source_pieces) - 1)) + 10
            assert [len(hypothesis.pieces) for hypothesis in each.hypotheses] == [expected] * options.n_best


@pytest.mark.parametrize("options", [GREEDY, BEAM, with_(GREEDY, sampling=Sampling(0.7, 20, 0.9))])
def test_output_does_not_depend_on_batches_or_neighbors(translator: Translator, options: SearchOptions) -> None:
    expected = list(translator.stream(LINES, options))
    assert len({translation.text for translation in expected}) > 5  # the network does not say the same to everything
    for changed, window in ((with_(options, batch_tokens=10_000), 4096), (with_(options, batch_tokens=1), 7)):
        for one, other in zip(translator.stream(LINES, changed, window=window), expected, strict=True):
            assert [each.text for each in one.hypotheses] == [each.text for each in other.hypotheses]
            scores = [each.score for each in other.hypotheses]
            assert [each.score for each in one.hypotheses] == pytest.approx(scores, rel=1e-5)
    if options.sampling is None:  # else a sample depends on the line's number
        places = random.Random(2).choices(range(len(LINES)), k=60)
        found = translator.stream([LINES[place] for place in places], options)
        assert [each.text for each in found] == [expected[place].text for place in places]


@pytest.mark.parametrize("options", [GREEDY, BEAM, with_(BEAM, no_repeat_ngram=2)], ids=["greedy", "beam", "ruled"])
def test_attention_has_a_row_a_piece_a_column_a_source_piece(translator: Translator, options: SearchOptions) -> None:
    assert next(translator.stream(LINES, options)).attention is None
    for translation in translator.stream(LINES, with_(options, attention=True)):
        assert translation.source_pieces[-1] == "</s>" and len(translation.hypotheses) == options.n_best
        for hypothesis in translation.hypotheses:
            weights = hypothesis.attention
            assert (weights is not None) == translator.attends
            if weights is not None:
                assert weights.shape == (len(hypothesis.pieces), len(translation.source_pieces))
                assert weights.sum(1).tolist() == pytest.approx([1.0] * len(hypothesis.pieces), abs=1e-4)


# --- lines and options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [GREEDY, BEAM])
def test_blank_lines_stay_blank(bahdanau: Translator, options: SearchOptions) -> None:
    lines = ["", LINES[0], "   ", "\t\x0b", "\u200b", "\u3000", LINES[1], ""]
    found = list(bahdanau.stream(lines, options))
    assert [place for place, each in enumerate(found) if each.source_pieces] == [1, 6]
    assert [place for place, each in enumerate(found) if each.hypotheses != [BLANK]] == [1, 6]
    assert list(bahdanau.stream([], options)) == []
    assert [each.source for each in found] == lines


def test_lines_are_counted_batch_by_batch_before_they_come_out(bahdanau: Translator) -> None:
    lines, counts = ["", *LINES, " "], list[float]()
    progress = Mock(advance=counts.append)
    first = next(found := bahdanau.stream(lines, with_(GREEDY, batch_tokens=20), progress=progress))
    assert first.text == "" and sum(counts) == len(lines)
    assert counts[0] == 2 and len(counts) > 3  # the blank lines, then batches
    assert len(list(found)) == len(lines) - 1 and sum(counts) == len(lines)


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=6))
@settings(max_examples=15)
def test_any_text_gives_a_line_for_a_line(bahdanau: Translator, lines: list[str]) -> None:
    nasty = [*lines, "\x00", "a\x00b", "a\rb", "a\u2028b\u0085c", "日本 😀 \u202e\u0301", "</s> <s> <unk> ⁇"]
    for options in (GREEDY, BEAM):
        found = list(bahdanau.stream(nasty, options))
        assert len(found) == len(nasty)
        assert not any(set("\r\n") & set(each.text) for translation in found for each in translation.hypotheses)


def test_line_ends_in_the_output_become_spaces(bahdanau: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tokenizer, "decode", lambda *_: "a\nb\rc\r\nd\u2028e")
    assert next(bahdanau.stream(["x"], GREEDY)).text == "a b c  d\u2028e"


@pytest.mark.parametrize(
    ("line", "window", "taken", "most_read"),
    [("a b", 1, 4, 4), ("a b", 200, 500, 700), (" " * 1_000_000, 4096, 1, 9)],
    ids=["typed", "a window", "much text"],
)
def test_lines_are_read_by_windows(bahdanau: Translator, line: str, window: int, taken: int, most_read: int) -> None:
    read = itertools.count()
    translations = bahdanau.stream((line for _ in read), GREEDY, window=window)
    assert len(list(itertools.islice(translations, taken))) == taken <= next(read) <= most_read


def test_contradicting_options_are_refused() -> None:
    for options, keys in (
        ({"length_penalty": 1e3, "max_length_factor": 1e9}, ["decoding.length_penalty", "decoding.max_length_factor"]),
        ({"max_length_factor": 0.0, "min_length_factor": 20.0}, ["decoding.min_length_factor"]),
        ({"beam_size": 3, "n_best": 4, "sampling": Sampling()}, ["beam size 3", "n-best 4"]),
    ):
        problems = problems_of(ConfigError, SearchOptions, **options)
        assert [problem.partition(":")[0] for problem in problems] == keys


# --- what is made ready once ------------------------------------------------------------------------------------------


def test_a_run_is_loaded_with_its_kernels(tmp_path: Path) -> None:
    for kernels, kind in (("auto", FastSearch), ("plain", PlainSearch)):
        file = save_run(tmp_path / kernels) / "config.yaml"
        file.write_text(file.read_text().replace("kernels: auto", f"kernels: {kernels}"))
        assert isinstance(Translator.load(tmp_path / kernels, "cpu").searchable, kind)
    with pytest.raises(ConfigError, match="precision: int8 needs kernels: auto"):
        Translator.load(tmp_path / "plain", "cpu", "int8")


def test_each_thread_takes_a_task_of_its_own() -> None:
    cpu = torch.device("cpu")
    torch.set_num_threads(2)
    with side_by_side(cpu, 5) as each:
        found = list(each(lambda task: (task, torch.get_num_threads(), threading.get_ident()), range(5)))
    assert [(task, inside) for task, inside, _ in found] == [(task, 1) for task in range(5)]
    assert threading.get_ident() not in {thread for _, _, thread in found}
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), side_by_side(cpu, 5) as each:
        list(each(lambda task: 1 / task, range(5)))
    assert torch.get_num_threads() == 2
    with side_by_side(cpu, 1) as each:
        assert each is map


def test_who_stops_does_not_wait_for_tasks_that_have_not_begun() -> None:
    begun: list[int] = []

    def work(task: int) -> None:
        begun.append(task)
        time.sleep(0.1)

    torch.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt), side_by_side(torch.device("cpu"), 50) as each:
        each(work, range(50))
        raise KeyboardInterrupt
    assert len(begun) < 50


def test_batches_hold_multiples_of_16_where_more_fit_and_all_lines_of_like_length() -> None:
    """Of like length: of three quarters of the longest or more."""
    lines = [Line(number, [3] * (199 - number)) for number in range(150)]
    batches = list(batches_of(lines, with_(BEAM, batch_tokens=10**6), 40 // ROWS * ROWS))
    assert [line.number for batch in batches for line in batch] == list(range(150))
    assert all(len(batch) <= 32 for batch in batches)
    assert all(len(batch) % ROWS == 0 or 4 * batch[-1].length >= 3 * batch[0].length for batch in batches)
    for batch in batches_of(lines, with_(BEAM, batch_tokens=2000), 64):
        assert len(batch) == 1 or 4 * len(batch) * len(batch[0].ids) <= 2000
    first = next(batches_of(lines, with_(BEAM, batch_tokens=10**6), 1000))
    assert (first[0].length, first[-1].length) == (200, 150)


@pytest.mark.parametrize(("lines", "rows"), [(10, ROWS), (6 * ROWS, ROWS), (12 * ROWS, 2 * ROWS), (1000, 160)])
def test_each_thread_has_three_batches_if_lines_suffice(lines: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    assert most_rows(lines, torch.device("cpu")) == rows
    assert most_rows(lines, torch.device("cuda")) == lines
    assert most_rows(lines_for(lines, torch.device("cpu")), torch.device("cpu")) >= lines


# --- memory -----------------------------------------------------------------------------------------------------------


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
def test_memory_is_freed(texts: int, line: str, lines: int, released: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank lines take no time."""
    calls = list[None]()
    monkeypatch.setattr("nmt.translation.translator.release_freed_memory", lambda: calls.append(None))
    translator = translator_of(network())
    for _ in range(texts):
        assert len(list(translator.stream([line] * lines, SearchOptions()))) == lines
    assert len(calls) == released


def test_a_search_compiles_no_product_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN would keep one for each number of rows; the heap falls apart around them."""
    monkeypatch.setattr("nmt.fast.kernels.products._LINEAR", Mock(side_effect=AssertionError("oneDNN")))
    for attention in ATTENTIONS:
        assert list(translator_of(network(attention)).stream(LINES[:3], SearchOptions()))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("The cat sleeps. The dog barks! Who is there?", 3),
        ("She said: “It works.” Then she left.", 2),
        ("¿Cómo estás? ¡Bien!", 2),
        ("猫が眠る。「犬が吠える。」", 2),
        ("« Oui. » Il part… It is. Am 3. Mai? - No", 5),
        ('„Nein.“ Dann ging er. "Go." Then: "I am 42." She left.', 5),
        ("The cat sleeps.", 1),
        ("Mr. Smith of the U.S. Army pays 3.50 euros on Jan. 5 (art. 12)", 1),
        ("the old cat sleeps . the dog barks .", 1),
        ("Version 2.0 Beta of example.org works", 1),
        ("", 1),
    ],
)
def test_sentences_are_split(line: str, count: int) -> None:
    found = sentences(line, EVERY)
    assert len(found) == count and "".join(found) == line
    tagged = sentences(f"<bt> {line}", replace(EVERY, tags=("<bt>",)))
    assert tagged == [f"<bt> {each}" for each in found]
    assert len(sentences("We found it with Yahoo! Search today.", EVERY, Glossary({"Yahoo! Search": "Y"}))) == 1


def translated(source: str, text: str, read: int, written: int) -> Translation:
    return Translation(source, ["x"] * read, [TranslatedHypothesis(text, -1.0, -1.0, ["y"] * written)])


def test_sentences_are_joined_as_the_target_is_written() -> None:
    parts = [translated("猫。", "A.", 2, 2), translated("犬。", "B.", 2, 2)]
    for between in (" ", ""):
        for gap, kept in (("", between), (" ", between), ("  ", "  "), ("\r ", "  ")):
            assert joined(f" 猫。{gap}犬。", [f"猫。{gap}", "犬。"], parts, between).text == f" A.{kept}B."


def test_a_paragraph_keeps_its_spans_and_stays_one_line() -> None:
    translator, parts = translator_of(network(tokenizers=HIDING), HIDING), ['abc <i x="A. B">.', 'A <i x="B! C. D">']
    line, options = "\r" + "\r ".join(parts), SearchOptions.from_config(translator.decoding)
    [found] = translate_watched(translator, [line], options, name="x", between="")
    assert found.text == " " + "  ".join(translator.translate(part).text for part in parts)


def test_a_tag_goes_before_each_line_without_one() -> None:
    tokenizers = replace(HIDING, protection=Protection(tags=("<bt>",)), to="<bt>")
    model = network(tokenizers=tokenizers)
    translator, tagged = translator_of(model, tokenizers), [f"<bt> {line}" for line in LINES]
    found = translator.translate([*LINES, "", *tagged], to="<bt>")
    typed = translator.translate(tagged)
    assert [each.text for each in found[:40]] == [each.text for each in typed]
    assert [each.source_pieces for each in found] == [each.source_pieces for each in [*typed, found[40], *typed]]
    assert (found[40].source_pieces, found[0].source_pieces[0]) == ([], "<bt>")
    assert [each.text for each in typed] != [each.text for each in translator.translate(LINES)]
    with pytest.raises(ConfigError, match=r"decoding\.to: no training corpus has the tag '<x>'; the tags are: <bt>"):
        translator.translate("a", to="<x>")
    forced = [force(model, tokenizers, [Pair(line, "a")], translator.device) for line in (LINES[0], tagged[0])]
    other, line = replace(tokenizers, to=None), Pair(LINES[0], "a")
    forced += [force(model, other, [line], translator.device, limits=Decoding(to=tag)) for tag in ("<bt>", None)]
    one, *same, without = (next(each)[1].log_probability for each in forced)
    assert [one] * 2 == same and without != one


def test_each_sign_names_its_lines() -> None:
    lost = LostText(EVERY)
    for number in range(1, 13):
        lost.add(number, translated("The cat sleeps. The dog barks.", "ok", 8, 7))
    for _ in range(2):  # two sentences of a line
        lost.add(13, translated("a line", " ", 3, 1))
    lost.add(14, translated("a long line", "word", 8, 1))
    lost.add(15, translated("a long line", "word", 8, 2))  # just long enough
    lost.add(16, translated("ab", "word", 7, 1))  # too short to judge
    lost.add(17, translated("", "", 0, 0))  # a blank line has a blank translation
    for number in range(18, 28):  # ten lines are all named
        lost.add(number, replace(translated("Жж", "word", 0, 1), source_pieces=["▁", "<unk>"]))
    assert list(lost.problems()) == [
        f"lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more: {SEVERAL}",
        f"line 13: {EMPTY}",
        f"line 14: {TOO_SHORT}",
        f"lines 18, 19, 20, 21, 22, 23, 24, 25, 26, 27: {watching.UNREADABLE}",
    ]
