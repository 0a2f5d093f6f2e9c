"""Every shipped configuration loads, builds and trains; systems that are compared differ as their experiment says."""

from pathlib import Path
from typing import Any

import pytest

from nmt.cli.train import main
from nmt.config import load_config
from nmt.experiments.plan import Run, make_plan
from nmt.experiments.schema import load_experiment
from tests.small_run import write_corpus

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "configs"
EXPERIMENTS = sorted((FOLDER / "experiments").glob("*.yaml"))
SHIPPED = sorted(set(FOLDER.rglob("*.yaml")) - set(EXPERIMENTS))
LARGE = {"benchmark/reference.yaml", "europarl/gpu.yaml"}
"""Configurations whose networks are large."""
BASES: dict[str, list[str | None]] = {path.stem: [None] for path in EXPERIMENTS}
BASES["europarl"] = ["configs/europarl/cpu.yaml", "configs/europarl/gpu.yaml"]
"""By experiment: the configurations that it is made for; None is the one that it names."""


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


def runs(experiment: str, base: str | None = None) -> list[Run]:
    """The runs of a shipped experiment; its paths start at the root of the repository."""
    path = FOLDER / "experiments" / f"{experiment}.yaml"
    return list(make_plan(load_experiment(path, base=base), str(path)).runs)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_there_are_configurations() -> None:
    assert {"demo.yaml", "multi30k.yaml", "europarl/cpu.yaml", "small.yaml"} <= set(map(name, SHIPPED))
    assert {path.stem for path in EXPERIMENTS} == {"attention", "demo", "europarl", "family", "multi30k"}


def rehearse(path: str, settings: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One update at full size, a validation, a checkpoint and the test set: a dry run, on a corpus that is at hand."""
    corpora = write_corpus(tmp_path, train=50, longest=8)
    small = [
        f"data.{split}={{source: {files['source']}, target: {files['target']}}}" for split, files in corpora.items()
    ]
    small += ["tokenizer.vocabulary=50", "training.validation.samples=0", "evaluation.gold=null"]
    arguments = [word for setting in (*settings, *small) for word in ("--set", setting)]
    code = main(["--config", path, "--output", str(tmp_path / "run"), "--dry-run", *arguments])
    assert code == 0, capsys.readouterr().err
    assert "update 1/" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] * (name(path) in LARGE), id=name(path)) for path in SHIPPED]
)
def test_it_trains(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rehearse(str(path), (), tmp_path, capsys)


def systems() -> list[Any]:
    """Every system of every experiment, as the arguments of a test."""
    return [
        pytest.param(path.stem, base, number, marks=[pytest.mark.slow] * (path.stem == "europarl"))
        for path in EXPERIMENTS
        for base in BASES[path.stem]
        for number in range(len(load_experiment(path).systems))
    ]


@pytest.mark.parametrize(("experiment", "base", "number"), systems())
def test_every_system_trains(
    experiment: str, base: str | None, number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs(experiment, base)[number]
    path = base or load_experiment(FOLDER / "experiments" / f"{experiment}.yaml").base
    rehearse(path, run.settings, tmp_path, capsys)


def comparable(run: Run) -> dict[str, Any]:
    """Everything but the attention and where the run goes."""
    values = run.config.model_dump()
    del values["output"], values["model"]["attention"]
    return values


@pytest.mark.parametrize("experiment", ["demo", "multi30k"])
def test_runs_that_are_compared_differ_in_their_attention_alone(experiment: str) -> None:
    first, *others = runs(experiment)
    assert all(comparable(other) == comparable(first) for other in others)
    attentions = {run.system: run.config.model.attention.type for run in (first, *others)}
    assert attentions == {system: system for system in attentions}


def test_the_demo_leaves_its_runs_where_the_readme_says() -> None:
    assert [str(run.path) for run in runs("demo")] == ["runs/demo/none", "runs/demo/bahdanau", "runs/demo/luong"]


@pytest.mark.parametrize("base", BASES["europarl"])
def test_the_systems_of_the_length_curve_differ_in_attention_and_length_alone(base: str) -> None:
    """As their names say: without attention or with whose, and the most words of a training pair."""
    kinds = {"rnnencdec": "none", "rnnsearch": "bahdanau", "luong": "luong"}
    every = runs("europarl", base)
    assert {run.system for run in every} == {
        "luong-50",
        *(f"rnn{k}-{n}" for k in ("encdec", "search") for n in (30, 50)),
    }
    rest = []
    for run in every:
        kind, words = run.system.split("-")
        assert (run.config.model.attention.type, run.config.data.filter.max_words) == (kinds[kind], int(words))
        values = comparable(run)
        del values["data"]["filter"]["max_words"]
        rest.append(values)
    assert all(values == rest[0] for values in rest)


def test_every_run_has_a_place_of_its_own() -> None:
    outputs = [load_config(path).output for path in SHIPPED]
    assert None not in outputs and len(set(outputs)) == len(outputs)
    every = [str(run.path) for experiment in BASES for run in runs(experiment)]
    assert len(set(every)) == len(every)
