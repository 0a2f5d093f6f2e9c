"""The scripts that stand beside the package."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.small_run import config, metrics, train

SCRIPTS = Path(__file__).parent.parent / "scripts"


def script(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_demo_corpus_is_written_in_the_sizes_asked_for(tmp_path: Path) -> None:
    main = script("make_demo_corpus").main
    sizes = ("--train", "7", "--validation", "3", "--test-per-bin", "1", "--seed", "2")
    assert main(["--output", str(tmp_path), *sizes]) == 0
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in tmp_path.iterdir()}
    expected = {"train": 7, "validation": 3, "test": 6}
    assert lines == {f"{split}.{kind}": n for split, n in expected.items() for kind in ("en", "fr", "align")}


def test_results_are_those_of_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [tmp_path / name for name in ("none", "bahdanau")]
    for run in runs:
        train(config(tmp_path, run.name, run.name, updates=4, average=2))
    assert script("results_table").main(list(map(str, runs))) == 0
    reached, signatures, lengths = capsys.readouterr().out.split("\n\n")
    head, _, *rows = map(cells, reached.splitlines())
    _, _, *bins = map(cells, lengths.splitlines())
    assert len(rows) == 2
    for place, (row, run) in enumerate(zip(rows, runs, strict=True)):
        facts = dict(zip(head, row, strict=True))
        scores = json.loads((run / "test.scores.json").read_text("utf-8"))
        best = [each for each in metrics(run) if each.get("best")][-1]
        assert (facts["run"], facts["attention"], facts["updates"]) == (run.name, run.name, "4")
        assert facts["validation BLEU"] == f"{best['bleu']:.2f}"
        assert facts["validation perplexity"] == f"{best['perplexity']:.2f}"
        assert facts["test BLEU"] == f"{scores['BLEU']['score']:.2f}"
        assert facts["test chrF"] == f"{scores['chrF']['score']:.2f}"
        assert scores["BLEU"]["signature"] in signatures
        for cell, each in zip(bins, scores["by_length"], strict=True):
            assert cell[:2] == [f"{each['low']}-{each['high']}", str(each["n"])]
            assert cell[2 + 2 * place].startswith(f"{each['bleu']:.1f} [")
            assert cell[3 + 2 * place] == f"{each['length_ratio']:.2f}"
