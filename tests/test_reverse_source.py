"""A source that is read last to first: the same run as on text whose words are reversed; users see the text's order."""

import shutil
from pathlib import Path

import numpy as np

from nmt.translation.searching import SearchOptions
from nmt.translation.translator import Translator
from tests.small_run import metrics, train
from tests.test_epochs import WORD, configuration

OPTIONS = SearchOptions(beam_size=3, batch_tokens=1000, n_best=2, attention=True)


def reversed_words(line: str) -> str:
    return " ".join(reversed(line.split()))


def test_it_is_the_run_on_reversed_text(tmp_path: Path) -> None:
    """Training, validation and the test set; the run goes on where it was stopped."""
    for name in ("option", "text"):
        (tmp_path / name).mkdir()
    option = configuration(tmp_path / "option", WORD, data={"reverse_source": True}, updates=6)
    text = configuration(tmp_path / "text", WORD, updates=6)
    for path in (tmp_path / "text").glob("*.low"):
        path.write_text("".join(f"{reversed_words(line)}\n" for line in path.read_text("utf-8").splitlines()))
    train(option, stop_after=3)
    train(option, resume=True)
    train(text)
    one, other = tmp_path / "option" / "run", tmp_path / "text" / "run"
    for split, names in (("train", ["loss"]), ("validation", ["loss", "bleu"]), ("test", ["bleu", "chrf"])):
        measured = [[line[name] for name in names] for line in metrics(one, split)]
        assert measured and measured == [[line[name] for name in names] for line in metrics(other, split)]
    assert (one / "test.hypotheses.txt").read_text() == (other / "test.hypotheses.txt").read_text()

    moved = tmp_path / "moved"
    shutil.move(one, moved)
    lines = ["oak elm fir", "ash", "yew box bay fig oak"]
    mine = list(Translator.load(moved, "cpu").stream(lines, OPTIONS))
    theirs = list(Translator.load(other, "cpu").stream(map(reversed_words, lines), OPTIONS))
    for one_line, found_line, other_line in zip(lines, mine, theirs, strict=True):
        assert found_line.source_pieces == [*(f"▁{word}" for word in one_line.split()), "</s>"]
        for found, expected in zip(found_line.hypotheses, other_line.hypotheses, strict=True):
            assert (found.text, found.score) == (expected.text, expected.score)
            assert found.attention is not None and expected.attention is not None
            assert np.array_equal(found.attention[:, :-1], expected.attention[:, -2::-1])
            assert np.array_equal(found.attention[:, -1], expected.attention[:, -1])
