"""Commands import what they need, and nothing that only others need."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from torch import nn

from nmt.model.initialization import Uninitialized
from tests.small_run import config, train

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
COMMANDS = [place.removeprefix("nmt.cli.").removesuffix(":main") for place in PROJECT["scripts"].values()]
UNNEEDED = (
    "datasets",
    "matplotlib",
    "pandas",
    "pyarrow",
    "sacrebleu",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "tensorboard",
)
"""Slow to import; nmt-translate needs none of them for a line of text."""


def imported(arguments: list[str], names: tuple[str, ...], cwd: Path) -> str:
    """Those of the names that are imported after a command, by a process of its own."""
    script = (
        "import sys, importlib\n"
        "command, arguments, names = sys.argv[1], sys.argv[2].split('\\n'), sys.argv[3].split()\n"
        "try:\n    importlib.import_module(command).main(arguments)\nexcept SystemExit:\n    pass\n"
        "print('imported:', *(name for name in names if name in sys.modules))\n"
    )
    command, *rest = arguments
    ended = subprocess.run(
        [sys.executable, "-c", script, f"nmt.cli.{command}", "\n".join(rest), " ".join(names)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ended.stdout.rpartition("imported:")[2].strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_does_not_wait_for_torch(command: str, tmp_path: Path) -> None:
    assert imported([command, "--help"], ("torch", "datasets", "matplotlib.pyplot"), tmp_path) == ""


@pytest.mark.parametrize("command", ["train", "prepare", "experiment"])
def test_a_wrong_configuration_does_not_wait_for_torch(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.yaml").write_text("sead: 1\n", "utf-8")
    assert imported([command, "--config", "wrong.yaml"], ("torch", "datasets", "pyarrow"), tmp_path) == ""
    assert "wrong.yaml: sead: unknown key; nearest: seed" in capfd.readouterr().err


TEXT = ["--source", "text", "--reference", "text"]
WHOLE = ["--set", "data.train.source=text"]


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["train", "--config", "run.yaml"], "data.train: nowhere.en"),
        (["train", "--config", "run.yaml", *WHOLE, "--output", "run"], "error: output"),
        (["train", "--resume", *WHOLE, "--output", "run"], "run/checkpoints/last"),
        (["prepare", "--config", "run.yaml"], "data.train: nowhere.en"),
        (["translate", "--model", "nowhere", "--input", "text"], "nowhere"),
        (["translate", "--model", "untrained", "--input", "text"], "untrained/checkpoints/best"),
        (["translate", "--model", "run", "--input", "nowhere.en"], "nowhere.en"),
        (["translate", "--model", "run", "--input", "text", "--prefix", "nowhere.en"], "nowhere.en"),
        (["score", "--model", "nowhere", "--source", "text", "--target", "text"], "nowhere"),
        (["score", "--model", "run", "--source", "text", "--target", "nowhere.fr"], "nowhere.fr"),
        (["evaluate", "--model", "nowhere", *TEXT], "nowhere"),
        (["evaluate", "--model", "run", *TEXT, "--gold", "nowhere.align"], "nowhere.align"),
        (["length_curve", "--system", "a=untrained", *TEXT, "--output", "curve"], "untrained/checkpoints/best"),
        (["report", "nowhere", "--output", "page.html"], "nowhere"),
        (["report", "run", "--test", "text", "nowhere.fr", "--output", "page.html"], "nowhere.fr"),
        (["serve", "--model", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_path_does_not_wait_for_torch(
    arguments: list[str], missing: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = {"source": "text", "target": "text"}
    values = config(tmp_path).model_dump(mode="json")
    values["data"] |= {"train": {"source": "nowhere.en", "target": "text"}, "validation": text, "test": text}
    for name in ("run", "untrained"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text(json.dumps(values), "utf-8")
    (tmp_path / "run/checkpoints/best").mkdir()
    (tmp_path / "run.yaml").write_text(json.dumps(values), "utf-8")
    (tmp_path / "text").write_text("oak\n", "utf-8")
    assert imported(arguments, ("torch", "datasets", "pyarrow"), tmp_path) == ""
    assert f"{missing}: " in capfd.readouterr().err


def test_a_line_is_translated_without_what_other_commands_need(tmp_path: Path) -> None:
    configuration = config(tmp_path, updates=2)
    train(configuration)
    (tmp_path / "line.txt").write_text("oak elm\n", "utf-8")
    arguments = ["translate", "--model", str(configuration.output), "--input", "line.txt", "--output", "line.hyp"]
    assert imported(arguments, ("torch", *UNNEEDED), tmp_path) == "torch"
    assert len((tmp_path / "line.hyp").read_text("utf-8").splitlines()) == 1


def test_an_uninitialized_network_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    with Uninitialized():
        layer = nn.Linear(3, 2)
        assert nn.init.constant_(tensor=layer.weight, val=5.0) is layer.weight
    assert torch.rand(1) == expected
    nn.init.constant_(layer.weight, 5.0)
    assert (layer.weight == 5).all()
