"""Languages without spaces between words: BLEU's tokenizer and the unit of length, at every place that scores."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.cli import evaluate, length_curve
from nmt.config import Config
from nmt.config.schema import Evaluation
from nmt.errors import ConfigError
from nmt.evaluation import writing
from nmt.evaluation.diagnosis import Failure, failure, most_frequent, recall_by_third
from nmt.translation.translator import Translator
from tests.small_run import config, metrics, train
from tests.test_corpus import problems_of

CHINESE = ["我喜欢学习语言。", "这只老猫在睡觉，狗也在睡觉。", "今天天气很好，我们去公园散步吧。"]
JAPANESE = ["私は言語を学ぶのが好きです。", "古い猫は眠る。", "今日はとても天気がいいですね。"]
ENGLISH = ["I like to learn languages.", "The old cat sleeps, and the dog sleeps.", "The weather is fine today."]


@pytest.mark.parametrize(
    ("codes", "tokenizer", "unit"),
    [
        ("zh ZH zh-CN zh_Hans zh-Hant-TW zho chi cmn yue Chinese", "zh", "characters"),
        ("ja JA ja-JP jpn japanese", "char", "characters"),
        ("ko kor ko_KR", "char", "words"),
        ("th tha lo km khm my mya", "char", "characters"),
        ("en de fr eng zu jam kok y", "13a", "words"),
    ],
)
def test_codes_of_languages(codes: str, tokenizer: str, unit: str) -> None:
    for code in codes.split():
        assert (writing.tokenizer_for(code), writing.unit_of(code)) == (tokenizer, unit), code


def test_mecab_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = in_languages(tmp_path, "en", "ja", "ja-mecab")
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^evaluation\.bleu_tokenizer: ja-mecab needs .*'sacrebleu\[ja\]'"):
        writing.tokenizer_of_run(chosen)
    monkeypatch.setattr(writing, "find_spec", lambda name: name)
    assert writing.tokenizer_of_run(chosen) == "ja-mecab"


@pytest.mark.parametrize(
    ("lines", "language"),
    [
        ([*CHINESE, "NATO"], "zh"),
        (JAPANESE, "ja"),
        (["나는 언어를 배우는 것을 좋아한다.", "늙은 고양이가 잠을 잔다."], "ko"),
        (["ฉันชอบเรียนภาษา", "แมวแก่กำลังนอนหลับ"], "th"),
        (["ພາສາລາວ"], "lo"),
        (["ភាសាខ្មែរ"], "km"),
        (["မြန်မာဘာသာ"], "my"),
        (ENGLISH, None),
        (["Она читает «三国演义»."], None),
        (["", "1 + 1 = 2"], None),
        ([], None),
    ],
)
def test_the_script_of_a_text_tells_its_language(lines: list[str], language: str | None) -> None:
    assert writing.language_by_script(lines) == language


def test_lengths_by_hand() -> None:
    assert writing.lengths(["a  b\tc ", "", "  ", "d'e - f"], "words").tolist() == [3, 0, 0, 3]
    assert writing.lengths(["我 喜欢。", "\u3000", "ab c"], "characters").tolist() == [4, 0, 3]
    assert writing.source_length("characters") == "characters of the raw source line, whitespace left out"


def in_languages(folder: Path, source: str, target: str, tokenizer: str | None = None) -> Config:
    """A configuration of the tiny training between two languages."""
    values = config(folder).model_dump()
    values["data"] |= {"source_language": source, "target_language": target}
    values["evaluation"]["bleu_tokenizer"] = tokenizer
    return Config.model_validate(values)


def test_scores_by_script(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ja", JAPANESE), ("en", ENGLISH)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def run(main: Callable[..., int], *options: str) -> tuple[str, str]:
        assert main(["--source=en", "--reference=ja", *options]) == 0
        return capsys.readouterr()

    out, err = run(evaluate.main, "--hypotheses=ja", "--json=scores")
    assert out.startswith("BLEU 100.00  ") and "|tok:char|" in out and "BLEU's tokenizer is char" in err
    scores = json.loads((tmp_path / "scores").read_text("utf-8"))
    assert [row["bleu"] for row in scores["by_length"]] == pytest.approx([100])
    out, _ = run(evaluate.main, "--hypotheses=ja", "--bleu-tokenizer=13a")
    assert out.startswith("BLEU 0.00") and "|tok:13a|" in out
    out, err = run(length_curve.main, "--source=ja", "--system=x=ja", "--output=curve", "--bins=50")
    assert "one bin has all sentences (7 to 15 characters), so there is no curve; choose smaller" in err
    assert "  source characters  " in out and "BLEU 100.00" in out
    numbers = json.loads((tmp_path / "curve.json").read_text("utf-8"))
    assert "tok:char" in numbers["signature"] and numbers["binned_by"].startswith("characters of the raw source")


def test_a_training_is_scored_by_its_target_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation and test set, of a model whose translations are the references."""
    chinese = in_languages(tmp_path, "low", "zh")
    for side, lines in (("low", ENGLISH), ("up", CHINESE)):
        for path in tmp_path.glob(f"*.{side}"):
            path.write_text("".join(f"{line}\n" for line in lines * 4), "utf-8")
    texts = dict(zip(ENGLISH, CHINESE, strict=True))

    def translate(translator: object, sources: Iterable[str], *how: object, **options: object) -> Iterator[object]:
        return (SimpleNamespace(text=texts[source]) for source in sources)

    monkeypatch.setattr(Translator, "stream", translate)
    train(chinese)
    scores = json.loads((tmp_path / "run" / "test.scores.json").read_text("utf-8"))
    assert "|tok:zh|" in scores["bleu"]["signature"] and scores["bleu"]["score"] == pytest.approx(100)
    assert metrics(tmp_path / "run", "validation")[-1]["bleu"] == pytest.approx(100)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["bleu_tokenizer"] == "zh"
    evaluation = chinese.evaluation.model_copy(update={"bleu_tokenizer": "char"})
    with pytest.raises(ConfigError, match=r"bleu_tokenizer was zh and is now char"):
        train(chinese.model_copy(update={"evaluation": evaluation}), resume=True)


def test_the_diagnosis_counts_characters() -> None:
    assert failure("我喜", "我喜欢学习语言。", "characters") == Failure(True, False, False)
    assert failure("我喜", "我喜欢学习语言。") == Failure(False, False, False)  # one word, as whitespace has it
    assert failure("我喜欢学" * 3, CHINESE[1], "characters").repeats
    assert recall_by_third("天很", "今天很好吗。啊", frozenset("很"), "characters").tolist() == [0.5, 0, 0]
    assert most_frequent(["天天很", "很天"], 1, "characters") == {"天"}


def test_runs_that_are_scored_together_need_one_tokenizer(tmp_path: Path) -> None:
    sections = [Evaluation(bleu_tokenizer=tokenizer) for tokenizer in ("char", None)]
    char, default = (config(tmp_path).model_copy(update={"evaluation": section}) for section in sections)
    said: list[str] = []
    assert writing.tokenizer_of_systems({"a": char, "b": char}, ["x"], said.append) == "char" and not said
    assert writing.tokenizer_of_systems({"a": default}, ["日本語の文です"], said.append) == "13a" and not said
    differing = {"a": char, "b": default}
    *named, last = problems_of(ConfigError, writing.tokenizer_of_systems, differing, ["x"], said.append)
    assert [each.partition(" (")[0] for each in named] == ["a: BLEU's tokenizer is char", "b: BLEU's tokenizer is 13a"]
    assert last.startswith("scores by different tokenizers cannot be compared; ")
