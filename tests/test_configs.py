"""Every shipped configuration loads, builds and trains; those to be compared differ in nothing else."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.train import main
from nmt.config import load_config
from tests.small_run import write_corpus

FOLDER = Path(__file__).parent.parent / "configs"
SHIPPED = sorted(FOLDER.rglob("*.yaml"))


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def test_there_are_configurations() -> None:
    assert {"demo/none.yaml", "demo/bahdanau.yaml", "demo/luong.yaml"} <= set(map(name, SHIPPED))


LARGE = {"benchmark", "gpu"}
"""Directories of configurations whose networks are large."""


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.parent.name in LARGE), id=name(path)) for path in SHIPPED],
)
def test_it_trains(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One update at full size, a validation, a checkpoint and the test set: a dry run, on a corpus that is at hand."""
    corpora = write_corpus(tmp_path, train=50, longest=8)
    settings = [
        f"data.{split}={{source: {files['source']}, target: {files['target']}}}" for split, files in corpora.items()
    ]
    settings += ["tokenizer.vocabulary=50", "training.validation.samples=0", "evaluation.gold=null"]
    arguments = [word for setting in settings for word in ("--set", setting)]
    code = main(["--config", str(path), "--output", str(tmp_path / "run"), "--dry-run", *arguments])
    assert code == 0, capsys.readouterr().err
    assert "update 1/" in capsys.readouterr().err


def comparable(path: Path) -> dict[str, Any]:
    """Everything but the attention and where the run goes."""
    values = load_config(path).model_dump()
    del values["output"], values["model"]["attention"]
    return values


COMPARED = [
    pair
    for folder in ("demo", "multi30k")
    for pair in itertools.combinations(sorted((FOLDER / folder).glob("*.yaml")), 2)
]


@pytest.mark.parametrize(("one", "other"), COMPARED, ids=name)
def test_runs_that_are_compared_differ_in_their_attention_alone(one: Path, other: Path) -> None:
    assert comparable(one) == comparable(other)
    first, second = load_config(one), load_config(other)
    assert first.model.attention != second.model.attention and first.output != second.output


@pytest.mark.parametrize("size", ["cpu", "gpu"])
def test_the_systems_of_the_length_curve_differ_in_attention_and_length_alone(size: str) -> None:
    """As their names say: without attention or with whose, and the most words of a training pair."""
    paths = sorted((FOLDER / "europarl" / size).glob("*.yaml"))
    kinds = {"rnnencdec": "none", "rnnsearch": "bahdanau", "luong": "luong"}
    assert {path.stem for path in paths} == {
        "luong-50",
        *(f"rnn{k}-{n}" for k in ("encdec", "search") for n in (30, 50)),
    }
    rest = []
    for path in paths:
        kind, words = path.stem.split("-")
        config = load_config(path)
        assert (config.model.attention.type, config.data.filter.max_words) == (kinds[kind], int(words))
        values = comparable(path)
        del values["data"]["filter"]["max_words"]
        rest.append(values)
    assert all(values == rest[0] for values in rest)


@pytest.mark.parametrize("path", SHIPPED, ids=name)
def test_its_run_has_a_place_of_its_own(path: Path) -> None:
    assert load_config(path).output == f"runs/{name(path).removesuffix('.yaml')}"
