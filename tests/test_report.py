"""``nmt-report`` on tiny trained runs whose text is hostile."""

import base64
import gzip
import html
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from nmt.cli.report import main
from nmt.config import Config, dump_config
from nmt.evaluation.metrics import METRICS, Evidence, Metric, Score, format_values, register
from nmt.pages import policy
from nmt.runs.log import best_validation, read_film, read_metrics
from nmt.translation.translator import Translator
from tests.report_page.made_up import unpacked
from tests.small_run import options, train, write_corpus

HOSTILE = {
    "oak": "</script><script>alert(1)</script>",
    "elm": "<!--",
    "ash": "{{7*7}}",
    "fir": "a\u2028b",
    "yew": "\u202eevil",
    "box": '"><img/src=x>',
    "bay": "&lt;b&gt;",
}
"""What stands in the text in place of some of its words."""
HEADS = {"type": "bahdanau", "score": {"hidden": 32}, "heads": 2}
SYSTEMS: dict[str, dict[str, Any]] = {"none": {}, "heads": {"attention": HEADS}, "transformer": {}}


def number_of_words(evidence: Evidence) -> Score:
    """How many words there are."""
    return Score(sum(len(line.split()) for line in evidence.hypotheses))


WORDS = Metric(
    "words",
    "number of words",
    number_of_words,
    higher_is_better=False,
    of_sentence=lambda hypothesis, reference, tokenizer: len(hypothesis.split()),
)
"""A metric from outside."""


def changed(text: str) -> str:
    """Put the hostile words in, of either side."""
    for word, hostile in HOSTILE.items():
        text = re.sub(rf"\b({word}|{word.upper()})\b", lambda _, to=hostile: to, text)  # type: ignore[misc]
    return text


def system(folder: Path, name: str, **training: Any) -> Config:
    attention = name if name != "heads" else "bahdanau"
    made = options(folder, attention, **training)
    made["model"] |= SYSTEMS[name]
    made["data"]["reverse_source"] = name == "heads"
    return Config.model_validate(made | {"output": str(folder / "runs" / name)})


@pytest.fixture(scope="module")
def folder(folder: Path) -> Iterator[Path]:
    write_corpus(folder, test=30)
    for path in [*folder.glob("*.low"), *folder.glob("*.up")]:
        path.write_text(changed(path.read_text("utf-8")), "utf-8")
    register(WORDS)
    for name in SYSTEMS:
        validation = {"every": 10, "samples": int(name == "heads")} | ({"metric": "words"} if name == "none" else {})
        train(system(folder, name, updates=30, validation=validation))
    lines = zip(*((folder / f"test.{side}").read_text("utf-8").split("\n") for side in ("low", "up")), strict=True)
    links = [f"0-{len(target.split()) - 1}" if target else "" for _, target in lines][:-1]
    (folder / "test.links").write_text("\n".join(links) + "\n", "utf-8")
    yield folder
    del METRICS["words"]


def report(folder: Path, *arguments: str) -> tuple[str, Any]:
    """Run the command; return the page and its data."""
    page = folder / "page.html"
    assert main([*arguments, "--output", str(page)]) == 0
    text = page.read_text("utf-8")
    [data] = re.findall(r'<script type="application/octet-stream" id="data">(.*?)</script>', text, re.DOTALL)
    return text, json.loads(gzip.decompress(base64.b64decode(data)))


@pytest.fixture(scope="module")
def made(folder: Path) -> tuple[str, Any]:
    runs = (str(folder / "runs" / name) for name in SYSTEMS)
    return report(folder, *runs, "--gold", str(folder / "test.links"))


@pytest.fixture(autouse=True)
def without_figures(made: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One page with figures is enough: drawing them is most of the time of a report."""
    monkeypatch.setattr("nmt.pages.report.making._figures", lambda *_: {})


# --- the page ---------------------------------------------------------------------------------------------------------


def test_hostile_text_comes_back_and_none_of_its_markup_is_in_the_page(folder: Path, made: tuple[str, Any]) -> None:
    text, data = made
    sources, references = ((folder / f"test.{side}").read_text("utf-8").split("\n")[:-1] for side in ("low", "up"))
    assert [each["source"] for each in data["sentences"]] == sources
    assert [each["reference"] for each in data["sentences"]] == references
    assert "alert(1)" in "".join(sources) and "\u2028" in "".join(sources) and "{{7*7}}" in "".join(references)
    for hostile in ("<script>alert(1)", "<!--", "<img/src"):
        assert hostile not in text
    assert any("alert(1)" in each["systems"]["heads"]["text"] for each in data["sentences"]), "systems write it, too"


class Attributes(HTMLParser):
    """The attributes of all elements of a page, as ``found``."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += attrs


def test_the_policy_allows_what_is_inlined_and_nothing_else(made: tuple[str, Any]) -> None:
    page, _ = made
    [allowed] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', page)
    [inlined] = re.findall(r"<style>(.*?)</style>.*<script>(.*?)</script>", page, re.DOTALL)
    assert html.unescape(allowed) == policy(*inlined, "img-src data:")
    data = page.count('<script type="application/octet-stream" id="')
    assert (page.count("<style"), page.count("<script") - data) == (1, 1)
    parser = Attributes()
    parser.feed(page)
    assert not [name for name, _ in parser.found if name == "style" or name.startswith("on")]
    linked = [str(value) for name, value in parser.found if name in {"src", "href"}]
    figures = re.findall(r'<script type="application/octet-stream" id="figure-\d">(.*?)</script>', page, re.DOTALL)
    assert len(figures) == 5, "every figure"
    for packed in figures:  # as text, in fonts of one width
        drawn = gzip.decompress(base64.b64decode(packed)).decode()
        assert "'DejaVu Sans', Verdana, sans-serif" in drawn and ElementTree.fromstring(drawn).tag.endswith("svg")
    assert [value for value in linked if not value.startswith(("#", "data:"))] == []


# --- the data ---------------------------------------------------------------------------------------------------------


def test_scores_are_those_that_the_runs_have(folder: Path, made: tuple[str, Any]) -> None:
    for each in made[1]["systems"]:
        scores = json.loads((folder / "runs" / each["name"] / "test.scores.json").read_text("utf-8"))
        found = each["scores"]
        for name in ("bleu", "chrf"):
            assert found[name]["value"] == pytest.approx(scores[name]["score"], rel=1e-5)
        assert [row["n"] for row in each["length"]] == [row["n"] for row in scores["by_length"]]
        assert found["bleu"]["low"] <= found["bleu"]["value"] <= found["bleu"]["high"]
        assert sum(row["n"] for row in each["length"]) == 30
        assert '<th scope="col">BLEU, 95% interval</th><th scope="col">chrF</th>' in made[0]
        best = best_validation(read_metrics(folder / "runs" / each["name"] / "metrics.jsonl"))
        assert each["update"] == best["step"] and found["perplexity"]["value"] == best["perplexity"]
        assert (found["perplexity"]["split"], found["bleu"]["split"]) == ("validation", "test")
        assert ("aer" in found) == (each["name"] != "none") == bool(each["views"])


def test_a_registered_metric_is_in_every_part_of_a_run_and_on_the_page(folder: Path, made: tuple[str, Any]) -> None:
    """The log, the choice of the checkpoint, the scores of the test set, the table, single sentences."""
    run = folder / "runs/none"
    metrics = read_metrics(run / "metrics.jsonl")
    assert [each["words"] for each in metrics if each["split"] in ("validation", "test")]
    validations = [each for each in metrics if each["split"] == "validation"]
    assert best_validation(metrics)["words"] == min(each["words"] for each in validations), "fewer is better"
    assert json.loads((run / "test.scores.json").read_text("utf-8"))["words"]["score"] > 0
    assert made[1]["systems"][0]["scores"]["words"]["split"] == "test"
    assert made[1]["sentences"][0]["systems"]["none"]["scores"]["number of words"] >= 0
    assert '<th scope="col">number of words</th>' in made[0] and "<dd>How many words there are.</dd>" in made[0]


def test_every_step_is_explained(made: tuple[str, Any]) -> None:
    """What was chosen has its probability among the candidates or is no likelier than these; the log-probability is the
    sum over the steps."""
    for sentence in made[1]["sentences"]:
        for reading in sentence["systems"].values():
            pieces = [piece for word in reading["target_words"] for piece in word]
            assert len(pieces) == len(reading["steps"]) == len(reading["chosen"])
            for piece, step, probability in zip(pieces, reading["steps"], reading["chosen"], strict=True):
                likely = dict(step)
                assert 1 <= len(likely) == len(step) <= 5
                assert likely[piece] == probability if piece in likely else probability <= min(likely.values())
                assert list(likely.values()) == sorted(likely.values(), reverse=True) and sum(likely.values()) < 1.01
            if min(reading["chosen"]) > 0.05:
                total = sum(map(math.log, reading["chosen"]))
                assert reading["log_probability"] == pytest.approx(total, abs=0.02 * len(pieces))


def test_attention_is_that_of_each_view(folder: Path, made: tuple[str, Any]) -> None:
    _, data = made
    views = {each["name"]: each["views"] for each in data["systems"]}
    layers = [f"layer {layer} head {head}" for layer in (1, 2) for head in (1, 2, 3, 4)]
    assert views == {"none": [], "heads": ["mean", "head 1", "head 2"], "transformer": ["mean", *layers]}
    for name in SYSTEMS:
        translator = Translator.load(folder / "runs" / name, "cpu")
        for sentence in data["sentences"]:
            reading, translation = sentence["systems"][name], translator.translate(sentence["source"])
            assert reading["text"] == translation.text
            weights = {view: unpacked(codes, len(reading["chosen"])) for view, codes in reading["attention"].items()}
            assert list(weights) == views[name]
            if weights:
                assert reading["gold"] == [[0, len(sentence["reference"].split()) - 1]]
                np.testing.assert_allclose(weights["mean"], translation.attention, atol=0.01)
                heads = [weights[view] for view in views[name][1:5]]  # of a Transformer, the last layer but one
                np.testing.assert_allclose(np.mean(heads, axis=0), weights["mean"], atol=0.015)


def test_the_film_has_the_attention_and_the_scores_of_each_validation(folder: Path, made: tuple[str, Any]) -> None:
    films = {each["name"]: each["film"] for each in made[1]["systems"]}
    assert films["none"] is films["transformer"] is None
    found, recorded = films["heads"], read_film(folder / "runs/heads/film.safetensors")
    assert recorded is not None and found["updates"] == recorded.updates.tolist() == [10, 20, 30]
    validations = [each for each in read_metrics(folder / "runs/heads/metrics.jsonl") if each["split"] == "validation"]
    assert found["scores"] == [format_values(each) for each in validations]
    for sentence, filmed, weights in zip(found["sentences"], recorded.sentences, recorded.weights, strict=True):
        pieces = [[piece for word in sentence[words] for piece in word] for words in ("source_words", "target_words")]
        assert pieces == [filmed.source_pieces, filmed.target_pieces]
        shown = [unpacked(codes, len(pieces[1])) for codes in sentence["frames"]]
        np.testing.assert_allclose(shown, weights, atol=0.015)


def test_an_experiment_by_its_file_and_by_its_directory(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(dump_config(system(folder, "none", updates=30)), "utf-8")
    systems = {"none": {}, "later": {"seed": 5}}
    tests = {"test": {"source": str(folder / "test.low"), "reference": str(folder / "test.up"), "bins": [2, 3]}}
    values = {"base": str(base), "output": str(folder / "runs"), "systems": systems, "tests": tests}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
    _, by_file = report(tmp_path, str(tmp_path / "experiment.yaml"))
    assert [each["name"] for each in by_file["systems"]] == ["none"] and by_file["title"] == "experiment"
    assert [row["high"] for row in by_file["systems"][0]["length"]][:-1] == [2, 3], "the bins of the experiment"
    for content, order in (("", sorted(SYSTEMS)), ("none\ntest,heads", ["none", "heads", "transformer"])):
        (folder / "runs/results.csv").write_text(f"test,system\ntest,{content}\n", "utf-8")
        _, by_folder = report(tmp_path, str(folder / "runs"))
        assert [each["name"] for each in by_folder["systems"]] == order
        assert by_folder["title"] == "runs"
    (folder / "runs/results.csv").unlink()


def changed_run(folder: Path, run: Path, changes: dict[str, Any]) -> None:
    """A copy of a run with another ``data`` section."""
    shutil.copytree(folder / "runs/none", run)
    values = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    values["data"] |= changes
    (run / "config.yaml").write_text(yaml.safe_dump(values), "utf-8")


# --- errors -----------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_named(folder: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    out = f"--output={tmp_path}/page.html"
    assert f"{tmp_path}/nowhere: no such run directory or file" in refused(main, f"{tmp_path}/nowhere", out)
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path}/empty: holds no run; give a run directory, or" in refused(main, f"{tmp_path}/empty", out)
    said = refused(main, f"{folder}/runs/none/checkpoints/best", out)
    assert said.endswith(f"holds no run; give {folder}/runs/none\n")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/config.yaml").write_text((folder / "runs/none/config.yaml").read_text("utf-8"), "utf-8")
    said = refused(main, f"{tmp_path}/begun", out)
    assert f"{tmp_path}/begun/checkpoints/best: missing; a run has it after its first validation" in said
    said = refused(main, str(tmp_path), out)
    assert f"{tmp_path}/begun: no checkpoint yet" in said
    run = str(folder / "runs/none")
    assert "is inside the run directory" in refused(main, run, f"--output={run}/page.html")
    assert "--sentences: found '1'" in refused(main, run, out, "--sentences=1")


def test_runs_that_do_not_compare_are_refused(folder: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    run, output = str(folder / "runs/none"), f"--output={tmp_path}/page.html"
    changed_run(folder, tmp_path / "gone", {"test": {"source": "gone.low", "target": "gone.up"}})
    assert "the runs have different test sets" in refused(main, run, str(tmp_path / "gone"), output)
    said = refused(main, str(tmp_path / "gone"), output)
    assert "gone.low: no such file" in said and "name one by --source and --reference" in said
    changed_run(folder, tmp_path / "other", {"target_language": "sideways"})
    said = refused(main, run, str(tmp_path / "other"), output)
    assert "translate in one direction; found none low to up, other low to sideways" in said


def test_runs_without_a_test_set_take_that_of_others(folder: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    files = {"source": str(folder / "test.low"), "target": str(folder / "test.up")}
    changed_run(folder, tmp_path / "one", {"test": None})
    changed_run(folder, tmp_path / "other", {"test": files | {"limit": 5}})
    said = refused(main, str(tmp_path / "one"), str(tmp_path / "other"), f"--output={tmp_path}/page.html")
    assert "no system has a test set to report on: data.test of two whole files; name one by --source" in said
    _, data = report(tmp_path, str(tmp_path / "one"), str(folder / "runs/none"))
    later, none = (each["scores"]["bleu"]["value"] for each in data["systems"])
    assert later == none, "the same weights"
