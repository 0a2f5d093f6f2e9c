"""Commands import what they need, and nothing that only others need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from nmt.cores import SPINS
from nmt.model.build import Uninitialized, uninitialized_model
from tests.models import model_config
from tests.small_run import config
from tests.test_docs import PROJECT

COMMANDS = [place.removeprefix("nmt.cli.").removesuffix(":main") for place in PROJECT["scripts"].values()]
UNNEEDED = ("datasets", "matplotlib", "pandas", "pyarrow", "sacrebleu", "sympy", "torch._dynamo", "tensorboard")
"""Slow to import; nmt-translate needs none of them for a line of text."""

SCRIPT = """
import contextlib, importlib, io, json, os, sys
cases, names = json.loads(sys.argv[1]), sys.argv[2].split()
found = []
for command, *arguments in cases:
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        importlib.import_module(f"nmt.cli.{command}").main(arguments)
    found.append([err.getvalue(), [name for name in names if name in sys.modules]])
print(json.dumps([os.environ.get("GOMP_SPINCOUNT"), found]))
"""


def run_commands(cases: list[list[str]], names: tuple[str, ...], cwd: Path) -> list[tuple[str, list[str]]]:
    """Run commands one after another in one new process; of each the messages, and the names imported so far.

    The commands have said how threads wait, for PyTorch to read when it is imported.
    """
    arguments = [sys.executable, "-c", SCRIPT, json.dumps(cases), " ".join(names)]
    quiet = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    ended = subprocess.run(arguments, cwd=cwd, env=quiet, stdout=subprocess.PIPE, text=True, check=True)
    spins, found = json.loads(ended.stdout)
    assert spins == str(SPINS)
    return [(messages, imported) for messages, imported in found]


TEXT = ["--source", "text", "--reference", "text"]
WRONG = [
    (["train", "--config", "wrong.yaml"], "wrong.yaml: sead: "),
    (["prepare", "--config", "wrong.yaml"], "wrong.yaml: sead: "),
    (["experiment", "--config", "wrong.yaml"], "wrong.yaml: sead: "),
    (["train", "--config", "run.yaml"], "data.train: nowhere.en: "),
    (["prepare", "--config", "run.yaml"], "data.train: nowhere.en: "),
    (["translate", "--model", "nowhere", "--input", "text"], "nowhere: "),
    (["translate", "--model", "untrained", "--input", "text"], "untrained/checkpoints/best: "),
    (["translate", "--model", "run", "--input", "nowhere.en"], "nowhere.en: "),
    (["score", "--model", "nowhere", "--source", "text", "--target", "text"], "nowhere: "),
    (["score", "--model", "run", "--source", "text", "--target", "nowhere.fr"], "nowhere.fr: "),
    (["evaluate", "--model", "nowhere", *TEXT], "nowhere: "),
    (["evaluate", "--model", "run", *TEXT, "--gold", "nowhere.align"], "nowhere.align: "),
    (["length_curve", "--system", "a=untrained", *TEXT, "--output", "curve"], "untrained/checkpoints/best: "),
    (["report", "nowhere", "--output", "page.html"], "nowhere: "),
    (["report", "run", "--source", "text", "--reference", "nowhere.fr", "--output", "page.html"], "nowhere.fr: "),
    (["serve", "--model", "nowhere"], "nowhere: "),
    (["export", "--ctranslate2", "run", "model"], "model.encoder.type: "),
]


def test_neither_help_nor_a_wrong_configuration_or_path_waits_for_torch(tmp_path: Path) -> None:
    text = {"source": "text", "target": "text"}
    values = config(tmp_path).model_dump(mode="json")
    values["data"] |= {"train": {"source": "nowhere.en", "target": "text"}, "validation": text, "test": text}
    for name in ("run", "untrained"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text(json.dumps(values), "utf-8")
    (tmp_path / "run/checkpoints/best").mkdir()
    (tmp_path / "run.yaml").write_text(json.dumps(values), "utf-8")
    (tmp_path / "wrong.yaml").write_text("sead: 1\n", "utf-8")
    (tmp_path / "text").write_text("oak\n", "utf-8")
    cases = [([command, "--help"], "") for command in COMMANDS] + WRONG
    slow = ("torch", "datasets", "pyarrow", "matplotlib.pyplot")
    found = run_commands([arguments for arguments, _ in cases], slow, tmp_path)
    for (arguments, problem), (messages, imported) in zip(cases, found, strict=True):
        assert problem in messages and not imported, arguments


def test_help_of_commands_that_name_only_files_and_runs_imports_no_numpy(tmp_path: Path) -> None:
    cases = [[command, "--help"] for command in ("train", "prepare", "score", "report", "serve", "export")]
    assert all(not imported for _, imported in run_commands(cases, ("numpy", "sentencepiece"), tmp_path))


def test_a_line_is_translated_without_what_other_commands_need(tmp_path: Path, random_run: str) -> None:
    (tmp_path / "line.txt").write_text("oak elm\n", "utf-8")
    arguments = ["translate", "--model", random_run, "--input", "line.txt", "--output", "line.hyp"]
    [(_, imported)] = run_commands([arguments], ("torch", *UNNEEDED), tmp_path)
    assert imported == ["torch"]
    assert len((tmp_path / "line.hyp").read_text("utf-8").splitlines()) == 1


def test_an_uninitialized_network_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    with Uninitialized():
        layer = torch.nn.Linear(3, 2)
        assert torch.nn.init.constant_(tensor=layer.weight, val=5.0) is layer.weight
    uninitialized_model(model_config("bahdanau"), 9, 9)
    assert torch.equal(torch.get_rng_state(), before)
    torch.nn.init.constant_(layer.weight, 5.0)
    assert (layer.weight == 5).all()
