"""The table of mutants fits the code, and the script tells a mutant that the tests notice from one that they do not."""

from pathlib import Path

import pytest

from nmt.errors import DataError
from tests.test_scripts import ROOT, script

mutation = script("mutation")


def test_every_mutant_fits_the_code_and_names_tests_that_exist() -> None:
    mutants = mutation.read_mutants(ROOT / mutation.TABLE)
    assert len({str(mutant) for mutant in mutants}) == len(mutants), "two have the same description"
    for mutant in mutants:
        code = (ROOT / mutant.file).read_text("utf-8")
        assert mutant.applied(code) != code
        for test in mutant.tests:
            file, _, name = test.partition("::")
            place = ROOT / file
            files = [place] if place.is_file() else sorted(place.glob("test_*.py"))
            assert files and all(f"def {name}(" in each.read_text("utf-8") for each in files if name), test


TABLE = """
nmt/search/toy.py:
  tests: [tests/test_toy.py]
  mutants:
    - {mistake: minus instead of plus, text: a + b, becomes: a - b}
    - {mistake: swapped arguments, text: a + b, becomes: b + a}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A checkout of one function and one test."""
    files = {
        "nmt/search/toy.py": "def add(a, b):\n    return a + b\n",
        "tests/test_toy.py": "from nmt.search.toy import add\n\n\ndef test_add():\n    assert add(2, 1) == 3\n",
        mutation.TABLE: TABLE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_what_is_killed_and_what_survives(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in toy.rglob("*") if path.is_file()}
    assert mutation.main(["--checkout", str(toy), "--jobs", "2"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "| package | mutants | killed | survived |",
        "| --- | --- | --- | --- |",
        "| search | 2 | 1 | 1 |",
        "| all | 2 | 1 | 1 |",
        "",
        "- nmt/search/toy.py: swapped arguments: survived",
    ]
    assert {path: path.read_bytes() for path in toy.rglob("*") if path.is_file()} == before


def test_a_mutant_whose_tests_do_not_end_is_killed(toy: Path) -> None:
    (toy / "tests/test_toy.py").write_text("def test_forever():\n    while True:\n        pass\n")
    [mutant, _] = mutation.read_mutants(toy / mutation.TABLE)
    assert mutation.verdict(toy, mutant, 0.2) == "killed"


def test_tests_that_fail_without_a_mutant_are_refused(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "tests/test_toy.py").write_text("def test_nothing():\n    assert 1 == 2\n")
    assert mutation.main(["--checkout", str(toy), "--only", "minus"]) == 2
    problems = capsys.readouterr().err
    assert "the tests fail without a mutant; make them pass first:" in problems and "assert 1 == 2" in problems


def test_an_unknown_mutant_is_refused(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mutation.main(["--checkout", str(toy), "--only", "decoder"]) == 2
    assert "--only decoder: no mutant in scripts/mutants.yaml has that text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (TABLE.replace("text: a + b", "text: a"), "'a' occurs 3 times in nmt/search/toy.py; it must occur once"),
        (TABLE.replace("text: a + b", "text: a * b"), "'a \\* b' occurs 0 times"),
        (TABLE.replace("becomes: a - b", "becomes: a -"), "minus instead of plus: the mutant is not Python: invalid"),
        (TABLE.replace("mistake: minus", "error: minus"), "mistake"),
        ("a: [", "expected the node content"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(toy: Path, table: str, problem: str) -> None:
    (toy / mutation.TABLE).write_text(table)
    with pytest.raises(DataError, match=problem):
        for mutant in mutation.read_mutants(toy / mutation.TABLE):
            mutant.applied((toy / mutant.file).read_text())
