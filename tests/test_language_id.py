"""Which side a text is like: two languages of which one is learned from a few hundred sentences of the demo corpus."""

import base64
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demo_language.generator import Generator
from nmt.data.corpus import Pair
from nmt.data.language_id import FILE_NAME, LEAST_LETTERS, LanguageId, language_of
from nmt.errors import FileError

LANGUAGES = "en", "fr"
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


@pytest.fixture(scope="module")
def language_id() -> LanguageId:
    return LanguageId.learn(demo_pairs(1))


def swapped(pairs: Sequence[Pair]) -> list[Pair]:
    return [Pair(pair.target, pair.source) for pair in pairs]


def test_either_side_is_told_in_lower_and_upper_case(language_id: LanguageId) -> None:
    for side, expected in ((0, 1.0), (1, 0.0)):
        text = [pair[side] for pair in demo_pairs(2, 50)]
        assert language_id.likeness(text) == pytest.approx(expected, abs=0.1)
        assert language_id.likeness(map(str.upper, text)) == pytest.approx(expected, abs=0.1)


def test_other_domains_are_told_and_other_languages_are_not(language_id: LanguageId) -> None:
    english, french, german = (language_id.likeness([text] * 2) for text in (ENGLISH, FRENCH, GERMAN))
    assert english is not None and french is not None and german is not None
    assert french < 0.3 < german < 0.7 < english


@pytest.mark.parametrize("lines", [[], ["1 234 567,89 - 2014"] * 500, ["Le chat dort."], ["\0\u2028 \ud800"]])
def test_little_text_is_not_told(language_id: LanguageId, lines: list[str]) -> None:
    assert language_id.likeness(lines) is None


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [Pair("one", "un")],
        demo_pairs(1)[:50],
        [Pair(pair.source, pair.source) for pair in demo_pairs(1)],
        [Pair(pair.source, pair.source.upper()) for pair in demo_pairs(1)],
        [Pair(pair.source, " ".join(pair.source.split()[::-1])) for pair in demo_pairs(1)],
    ],
)
def test_sides_that_are_alike_or_tiny_are_never_told_apart(pairs: list[Pair]) -> None:
    learned = LanguageId.learn(pairs)
    assert learned.likeness([FRENCH] * 10) is None
    assert learned.likeness([ENGLISH] * 10) is None


RIGHT = demo_pairs(2, 50)


@pytest.mark.parametrize("wrong", [("train",), ("train", "validation", "test"), ("test",), ()])
def test_named_languages_tell_which_splits_are_swapped(wrong: Sequence[str]) -> None:
    splits = {name: swapped(RIGHT) if name in wrong else RIGHT for name in ("train", "validation", "test")}
    report = LanguageId.learn([*splits["train"], *splits["train"]]).report(splits, LANGUAGES)
    assert [line.partition(":")[0] for line in report["warnings"]] == [f"data.{name}" for name in wrong]
    assert all("the source looks like fr and the target like en" in line for line in report["warnings"])


def test_unknown_languages_disagree_with_the_training_text(language_id: LanguageId) -> None:
    splits = {
        "train": RIGHT,
        "swapped": swapped(RIGHT),
        "source": [Pair(pair.target, pair.target) for pair in RIGHT],
        "short": RIGHT[:1],
    }
    report = language_id.report(splits, ("xx", "yy"))
    assert [line.partition(":")[0] for line in report["warnings"]] == [
        f"data.train and data.{name} disagree" for name in ("swapped", "source")
    ]
    assert "swapped" in report["warnings"][0]
    assert report["warnings"][1].endswith("the source of data.source looks like the target of data.train")
    assert report["likeness_to_source"]["train"] == pytest.approx({"source": 1.0, "target": 0.0}, abs=0.1)
    assert report["likeness_to_source"]["short"] == {"source": None, "target": None}


@pytest.mark.parametrize(
    ("languages", "lines", "language"),
    [
        (("en", "fr"), [ENGLISH], 0),
        (("en_GB", "fr-CA"), [FRENCH], 1),
        (("fr", "de"), [FRENCH.upper()], 0),
        (("en", "fr"), [GERMAN], None),
        (("en", "xx"), [ENGLISH], None),
        (("en", "ru"), [ENGLISH], 0),
        (("en", "ru"), ["да"], 1),
        (("en", "fr"), [ENGLISH, FRENCH], None),
    ],
)
def test_a_text_is_in_one_of_two_languages(languages: tuple[str, str], lines: list[str], language: int | None) -> None:
    assert language_of(lines * 100, languages) == language
    assert language_of(lines[:0], languages) is None


def test_lines_are_handed_on_and_a_warning_comes_once(language_id: LanguageId) -> None:
    source, target = ([pair[side] for pair in demo_pairs(2, 50)] for side in (0, 1))
    warnings: list[int] = []
    seen: list[str] = []
    for line in language_id.watched(target, lambda: warnings.append(len(seen)), LEAST_LETTERS):
        seen.append(line)
    assert seen == target
    assert len(warnings) == 1 and 0 < warnings[0] < 10, "as soon as there is enough text"
    for lines in (source, target[:1], []):
        assert list(language_id.watched(lines, lambda: warnings.append(0))) == lines
    assert list(language_id.watched(target, lambda: warnings.append(-1))) == target
    assert warnings[1:] == [-1], "the whole file has too little text for more than one"


# --- the file ---------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded(language_id: LanguageId, tmp_path: Path) -> None:
    assert LanguageId.load(tmp_path) is None
    language_id.save(tmp_path)
    loaded = LanguageId.load(tmp_path)
    assert loaded is not None
    assert (loaded.source, loaded.target) == (language_id.source, language_id.target)
    assert np.array_equal(loaded.weights, language_id.weights)
    assert (tmp_path / FILE_NAME).stat().st_size < 30_000


WEIGHTS = base64.b64encode(bytes(1 << 14)).decode()


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"source": 1, "target": 0},
        {"source": 1, "target": 0, "weights": WEIGHTS[:-8]},
        {"source": 1, "target": 0, "weights": "é" * 100},
        {"source": 1, "target": 0, "weights": ["AAAA"]},
        {"source": 1, "target": None, "weights": WEIGHTS},
        {"source": float("nan"), "target": 0, "weights": WEIGHTS},
        {"source": 10**400, "target": 0, "weights": WEIGHTS},
        {"source": 1, "target": 0, "weights": WEIGHTS, "more": " " * (1 << 20)},
    ],
)
def test_a_strangers_file_is_checked(tmp_path: Path, content: Any) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps(content), "utf-8")
    with pytest.raises(FileError, match=FILE_NAME):
        LanguageId.load(tmp_path)


def test_a_link_out_of_the_run_is_not_followed(language_id: LanguageId, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    language_id.save(tmp_path)
    (run / FILE_NAME).symlink_to(tmp_path / FILE_NAME)
    with pytest.raises(FileError, match="a link out of the run directory"):
        LanguageId.load(run)
