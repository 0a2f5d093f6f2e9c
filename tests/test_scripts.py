"""The scripts that stand beside the package."""

import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest

from tests.small_run import config, metrics, train

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "scripts"


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
    seeds = [shutil.copytree(run, tmp_path / "copies" / run.name / "seed-1") for run in runs]
    assert script("results_table").main(list(map(str, seeds))) == 0
    assert "| none/seed-1 |" in capsys.readouterr().out
    (seeds[1] / "metrics.jsonl").write_text('{"step": 2')
    assert script("results_table").main(list(map(str, seeds))) == 2
    assert "not all of them are finished runs" in capsys.readouterr().err


def test_the_lowest_versions_are_those_that_are_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    lowest = script("lowest_versions")
    assert lowest.lowest(["a>=1.2", "b", "c>=3,<4; sys_platform == 'linux'"]) == ["a==1.2", "c==3"]
    assert lowest.main([]) == 0
    pins = dict(line.split("==") for line in capsys.readouterr().out.splitlines())
    tested = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line
    )
    assert pins["torch"] == tested["torch"] and pins["pytest"] == tested["pytest"]
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {f"{name}>={version}" for name, version in pins.items()} >= {
        each for each in claimed if not each.startswith("torch")
    }


def as_tested(line: str) -> bool:
    """Whether the package of a line of constraints.txt is here, in this version."""
    name, _, tested = line.partition("==")
    try:
        return version(name).partition("+")[0] == tested
    except PackageNotFoundError:
        return False


def test_every_package_has_its_licence_listed(capsys: pytest.CaptureFixture[str]) -> None:
    packages = [line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line]
    if not all(map(as_tested, packages)):
        pytest.skip("the versions here are not those of constraints.txt")
    assert script("licences").main([]) == 0
    printed = capsys.readouterr().out
    assert "unknown" not in printed
    assert printed == (ROOT / "docs/licences.md").read_text("utf-8"), "write it anew"


def build(source: Path, kind: str, place: Path) -> Path:
    """Build a source distribution or a wheel of a checkout, offline; -> the one file that it becomes."""
    code = f"import setuptools.build_meta, sys; setuptools.build_meta.build_{kind}(sys.argv[1])"
    place.mkdir()
    subprocess.run([sys.executable, "-c", code, str(place)], cwd=source, check=True, capture_output=True)
    [file] = place.iterdir()
    return file


def test_the_package_is_built_and_works_where_nothing_else_is(tmp_path: Path) -> None:
    """The wheel, and a wheel of the source distribution, put into empty folders: the commands run from there."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(lambda name: (ROOT / name).is_file(), tracked.stdout.splitlines()):
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    with tarfile.open(build(tmp_path / "copy", "sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()
    wheels = build(tmp_path / "copy", "wheel", tmp_path / "one"), build(source, "wheel", tmp_path / "other")
    for number, file in enumerate(wheels):
        place = tmp_path / f"installed-{number}"
        with zipfile.ZipFile(file) as archive:
            assert not [name for name in archive.namelist() if name.startswith(("tests", "scripts"))]
            archive.extractall(place)
        assert (place / "nmt/py.typed").exists()
        smoke = (
            f"import nmt; from nmt.cli.translate import main; assert {str(place)!r} in nmt.__file__; main(['--help'])"
        )
        shown = subprocess.run(
            [sys.executable, "-c", smoke],
            cwd=tmp_path,
            env={"PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert shown.stdout.startswith("usage: nmt-translate"), shown.stderr
