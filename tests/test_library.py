"""The library: its names, its kinds of results, its examples, and that it computes what the commands compute."""

import doctest
import importlib
import inspect
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nmt
from nmt.cli.evaluate import main as evaluate_command
from nmt.cli.length_curve import main as curve_command
from nmt.errors import ConfigError, DataError, NmtWarning
from nmt.translation.searching import SearchOptions
from tests.small_run import options

TRAINING: dict[str, Any] = {
    "updates": 200,
    "batch_tokens": 200,
    "optimizer": {"type": "adam", "learning_rate": 8e-3},
    "schedule": {"type": "inverse_square_root", "warmup": 40},
    "validation": {"every": 100, "sentences": None},
}
DOCUMENTED = (
    "nmt",
    "nmt.model.attention",
    "nmt.translation.translator",
    "nmt.experiments.evaluation",
    "nmt.experiments.length_curve",
    "nmt.training.train",
)


@pytest.fixture(scope="module")
def folder(folder: Path) -> Path:
    """A folder with the texts of the small task, ``tiny.yaml``, and ``runs/tiny``, which has learned the task."""
    content = options(folder, "bahdanau", **TRAINING) | {"output": str(folder / "runs" / "tiny")}
    (folder / "tiny.yaml").write_text(json.dumps(content), "utf-8")
    nmt.train(nmt.load_config(folder / "tiny.yaml"))
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the working directory."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def translator(folder: Path) -> nmt.Translator:
    return nmt.Translator.load(folder / "runs" / "tiny", "cpu")


def lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines()


# --- names ------------------------------------------------------------------------------------------------------------


def test_each_public_name_has_a_text_and_can_be_listed() -> None:
    assert set(nmt.__all__) <= set(dir(nmt))
    for name in set(nmt.__all__) - {"__version__"}:
        assert inspect.getdoc(getattr(nmt, name)), name
    with pytest.raises(AttributeError, match="module 'nmt' has no attribute 'translator_of'"):
        _ = nmt.translator_of


def test_importing_the_package_imports_nothing_else() -> None:
    script = (
        "import sys, nmt; before = [name for name in sys.modules if name.startswith('nmt.')]; "
        "nmt.load_config, nmt.evaluate, nmt.length_curve; print(before, 'torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "[] False\n"


# --- examples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", DOCUMENTED)
def test_the_examples_run(here: Path, module: str) -> None:
    names = {name: getattr(nmt, name) for name in nmt.__all__}
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, tried = doctest.testmod(importlib.import_module(module), extraglobs=names, optionflags=flags)
    assert tried > 0 and failed == 0


def test_the_page_of_the_library_runs(here: Path) -> None:
    page = str(Path(__file__).parent.parent / "docs/library.md")
    failed, tried = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert tried > 10 and failed == 0


# --- translation ------------------------------------------------------------------------------------------------------


def test_a_result_is_of_the_kind_of_its_input(translator: nmt.Translator) -> None:
    [line, *others] = ["oak elm", "", "yew"]
    one = translator.translate(line)
    assert isinstance(one, nmt.Translation) and one.source == "oak elm"
    for given in ([line, *others], (line, *others)):
        several = translator.translate(given)
        assert isinstance(several, list) and [each.text for each in several] == [one.text, "", "YEW"]
    assert translator.translate([]) == []
    assert translator.translate("").text == ""


def test_an_iterator_is_read_while_its_translations_are_taken(translator: nmt.Translator) -> None:
    taken = itertools.count()
    translations = translator.translate(("fig" for _ in taken), beam_size=1)
    assert iter(translations) is translations and next(taken) == 0
    assert next(translations).text == "FIG" and next(taken) == 1 + 1024


def test_keywords_are_options_of_the_search(translator: nmt.Translator) -> None:
    sources = ["oak elm", "fig bay box"]
    how = SearchOptions.from_config(translator.decoding, beam_size=3, n_best=3)
    with_keywords = translator.translate(sources, beam_size=3, n_best=3, attention=False)
    assert with_keywords == list(translator.stream(sources, how))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"beam_size": 0}, "decoding.beam_size: found 0; "),
        ({"beam_size": "5"}, "decoding.beam_size: found '5'; "),
        ({"n_best": 9}, "n-best 9: "),
        ({"sampling": 3}, "decoding.sampling: "),
        ({"beam_sise": 5}, "decoding.beam_sise: unknown"),
    ],
)
def test_wrong_options_are_config_errors(translator: nmt.Translator, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        translator.translate("oak", **changes)
    assert problem in str(error.value)


def test_arguments_are_checked_at_the_call(here: Path, translator: nmt.Translator) -> None:
    with pytest.raises(ConfigError, match="precision: 'bf17' is not one of fp32, bf16, int8; nearest: bf16"):
        nmt.Translator.load("runs/tiny", "cpu", precision="bf17")
    config: Any = Path("tiny.yaml")
    with pytest.raises(TypeError, match=r"config .*tiny\.yaml"):
        nmt.train(config)
    lines: Any = 2.5
    with pytest.raises(TypeError, match=r"lines .*2\.5"):
        translator.translate(lines)


def test_a_line_that_is_cut_off_is_a_warning(translator: nmt.Translator) -> None:
    with pytest.warns(NmtWarning, match="line 2: too long: only its first 2 pieces are translated") as caught:
        translator.translate(["oak", "oak elm fir"], max_source=2)
    assert caught[0].filename == __file__


# --- what the commands compute ----------------------------------------------------------------------------------------


def test_evaluate_agrees_with_the_command_and_with_the_training(here: Path) -> None:
    files = ["--source", "test.low", "--reference", "test.up", "--json", "scores.json"]
    assert evaluate_command([*files, "--model", "runs/tiny", "--bins", "1,3"]) == 0
    expected = json.loads((here / "scores.json").read_text("utf-8"))
    del expected["binned_by"]
    assert json.loads(json.dumps(nmt.evaluate("runs/tiny", "test.low", "test.up", bins=(1, 3)).as_dict())) == expected
    saved = json.loads((here / "runs" / "tiny" / "test.scores.json").read_text("utf-8"))
    assert expected["bleu"] == saved["bleu"]
    as_lines = nmt.evaluate(lines(here / "test.up"), lines(here / "test.low"), lines(here / "test.up"))
    assert as_lines.bleu.value == pytest.approx(100) and as_lines.scores["chrf"].value == 100


def test_curves_of_the_command(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.evaluation.significance.MIN_SENTENCES", 2)
    systems = ["--system", "tiny=runs/tiny", "--system", "copy=test.low", "--system", "copy=test.up"]
    files = ["--source", "test.low", "--reference", "test.up", "--output", "of-command"]
    how = ["--bins", "1,2,3", "--beam-size", "1"]
    assert curve_command([*files, *systems, *how]) == 0
    named = [("tiny", "runs/tiny"), ("copy", "test.low"), ("copy", lines(here / "test.up"))]
    curve = nmt.length_curve(named, "test.low", "test.up", bins=[1, 2, 3], beam_size=1, length_penalty=None)
    assert capsys.readouterr().out == f"{curve}\n"
    assert [len(each.seeds) for each in curve.systems] == [0, 2], "a name given again is another seed"
    curve.write("of-library")
    for kind in ("json", "csv", "png"):
        assert (here / f"of-library.{kind}").read_bytes() == (here / f"of-command.{kind}").read_bytes()


def test_unusable_texts_and_systems_are_errors(here: Path) -> None:
    with pytest.raises(DataError, match="the source has 2 lines and its translation has 1: "):
        nmt.evaluate(["A"], ["a", "b"], ["A", "B"])
    with pytest.raises(DataError, match="the source has 2 lines and the reference has 1: "):
        nmt.evaluate(["A", "B"], ["a", "b"], ["A"])
    with pytest.raises(DataError, match="runs/nothing: no such file"):
        nmt.evaluate("runs/nothing", ["a"], ["A"])
    with pytest.raises(ConfigError, match="systems: none is given"):
        nmt.length_curve({}, ["a"], ["A"])
