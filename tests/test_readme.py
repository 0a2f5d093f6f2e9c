"""Every command of README.md and docs/commands.md, and the recipes of docs/own-text.md, run as a reader runs them."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nmt.config import Config, dump_config, load_config
from nmt.config.schema import Data
from tests.small_run import write_corpus
from tests.small_translator import ATTENTIONS, SHARED, save_run
from tests.test_docs import PAGES, PROJECT, ROOT, blocks, commands
from tests.test_serving import started

README, COMMANDS, GUIDE = (PAGES[name] for name in ("README.md", "docs/commands.md", "docs/own-text.md"))
TEST_LINES = 20
SMALLER = (
    "tokenizer={type: word, vocabulary: 50}",  # the text of the tests supports no 8000 pieces
    "training.updates=2",
    "training.validation.samples=1",
    "training.average=2",
    "model.embeddings.size=16",
    "model.encoder.hidden=16",
    "model.decoder.hidden=16",
    "decoding.length_penalty=10",  # a network that has hardly learned writes nothing by itself
    "evaluation.bootstrap=10",
)


def run(command: str) -> None:
    """Run a command, or the part of it that can be run offline; fail for a command of an unknown kind."""
    words = shlex.split(re.sub(r"(?<=--set training\.updates=)\d+", "3", command))
    if words[0] == "curl":
        pass  # check_server sends it
    elif words[0] == "nmt-serve":
        check_server(words)
    elif words[:3] == ["python3", "-m", "http.server"]:  # would serve until it is stopped
        assert (Path(words[-1]) / "index.html").is_file()
    elif set("|<>") & set(re.sub("'[^']*'", "", command)) or words[0] in ("torchrun", "cat", "cp"):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, env=os.environ | {"PATH": path})
    elif words[0] in PROJECT["scripts"]:
        module, _, function = PROJECT["scripts"][words[0]].partition(":")
        main: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
        assert main(words[1:]) == 0
    elif words[0] == "make":  # to make it could run these tests again
        dry = [*words, "--dry-run", f"PYTHON={sys.executable}", "VENV=missing"]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # make test ARGS=...
        made = subprocess.run(dry, cwd=ROOT, check=True, env=ours, capture_output=True, text=True)
        assert "--editable ." in made.stdout and "[dev" not in made.stdout, "the tools of the tests are not needed"
    elif words[0] == "pip":  # to install would need a network
        assert words == ["pip", "install", "-c", "constraints.txt", "."]
        for requirement in map(Requirement, PROJECT["dependencies"]):
            assert pins()[canonicalize_name(requirement.name)] in requirement.specifier
    else:
        pytest.fail("this test does not know how to run it")


def check_server(words: list[str]) -> None:
    """Start the server at a free port, and send it the request that the page shows."""
    [(body, path)] = re.findall(r"^curl .* -d '(.*)' http://127\.0\.0\.1:8000(/\w+)$", COMMANDS, re.M)
    with started(*words[1:]) as (client, _):
        answer = client.ask("POST", path, body.encode(), content_type="application/json")
        assert len(answer.content["translations"]) == len(json.loads(body)["text"])


def pins() -> dict[str, str]:
    """The version of each package in the constraints."""
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines())
    return {canonicalize_name(name): version for name, _, version in lines if version}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a reader: the files that the pages name, made small."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, train=60)
    for path in [*tmp_path.glob("*.low"), *tmp_path.glob("*.up")]:
        path.rename(path.with_suffix({".low": ".en", ".up": ".fr"}[path.suffix]))
    (tmp_path / "test.gold").write_text("0-0\n" * TEST_LINES, "utf-8")
    for language in ("fr", "de"):
        (tmp_path / language).mkdir()
        for split in ("train", "validation", "test"):
            shutil.copy(f"{split}.en", language)
            shutil.copy(f"{split}.fr", f"{language}/{split}.{language}")
    for name in ("new.en", "new.fr", "new-validation.en", "new-validation.fr", "news.fr"):
        shutil.copy(f"train.{name[-2:]}", name)
    small = load_config(ROOT / "configs/small.yaml", SMALLER)
    [printed] = blocks(README, "yaml")
    assert Data.model_validate(yaml.safe_load(printed)["data"]) == small.data, "what is printed is what is copied"
    Path("configs").mkdir()
    Path("configs/small.yaml").write_text(dump_config(small), "utf-8")
    mix, experiment = blocks(COMMANDS, "yaml")
    assert set(yaml.safe_load(mix)["data"]["train"]["mix"]) == set(yaml.safe_load(mix)["data"]["corpora"])
    short = experiment.replace("[11, 20]", "[1, 2]").replace("[51, 70]", "[3, 4]")  # as the text of the tests
    Path("attention.yaml").write_text(short, "utf-8")
    return tmp_path


@pytest.mark.slow(seconds=60)
def test_every_command_does_what_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}

    def follow(page: str) -> None:
        for command in commands(page):
            try:
                run(command)
            except (Exception, pytest.fail.Exception) as error:
                raise AssertionError(f"{command}\n{capsys.readouterr().err}") from error
            said[command] = capsys.readouterr().out

    follow(README)
    save_run(Path("runs/transformer"), ATTENTIONS[3], SHARED, source_language="en", target_language="fr")
    follow(COMMANDS)
    for teacher in ("teacher-1", "teacher-2"):
        shutil.copytree("runs/en-fr", f"runs/{teacher}")
    [many] = [yaml.safe_load(each) for each in blocks(GUIDE, "yaml") if "<2de>" in each]
    small = load_config(ROOT / "configs/small.yaml", SMALLER).model_dump(mode="json")
    sections = small | many | {"data": small["data"] | many["data"]}
    Path("many.yaml").write_text(dump_config(Config.model_validate(sections)), "utf-8")
    [tagging] = [each.partition("nmt-train")[0] for each in blocks(GUIDE, "sh") if "many.source" in each]
    subprocess.run(["sh", "-e", "-c", tagging], check=True)
    follow(GUIDE.partition("\n## Adapt a system\n")[2])
    for program in blocks(README, "python"):
        exec(compile(program, "README.md", "exec"), {})

    [n_best] = [out for command, out in said.items() if "--n-best 3 --scores" in command]
    assert len(re.findall(r"^(?:-\d+\.\d+|-inf)\t", n_best, re.M)) == 3 * TEST_LINES
    for name in ("test.hyp", "test.align", "test.jsonl"):
        assert len(Path(name).read_text("utf-8").splitlines()) == TEST_LINES
    assert {path.suffix for path in Path("runs").glob("curve.*")} == {".png", ".svg", ".json", ".csv"}
    for name in ("confidence.json", "confidence.png"):  # a network without training translates nothing well
        (folder / "runs/en-fr" / name).touch()
    check_run_list(folder / "runs/en-fr")


def check_run_list(run_directory: Path) -> None:
    """The list of a run directory names all of its files and nothing else; N stands for any number."""
    section = COMMANDS.partition("\n## A run directory")[2].partition("\n## ")[0]
    rows = [line.partition(": ")[0] for line in section.splitlines() if line[:3] == "- `"]
    named = re.findall(r"`([^`]+)`", "".join(rows))
    patterns = {name.replace("{source,target}", side) for name in named for side in ("source", "target")}
    meant = {pattern: {*run_directory.glob(pattern.replace("-N/", "-[0-9]*/"))} for pattern in patterns}
    assert [pattern for pattern, paths in meant.items() if not paths] == []
    files = set().union(*meant.values())
    found = [path for path in run_directory.rglob("*") if path.is_file()]
    assert [path for path in found if not files & {path, *path.parents}] == []


def test_every_command_has_an_example() -> None:
    assert {name for name in PROJECT["scripts"] if not any(name in command for command in commands(COMMANDS))} == set()


def test_the_version_of_torch_is_the_tested_one() -> None:
    assert re.findall(r"`torch==([^`]+)`", README) == [pins()["torch"]]


def test_the_text_of_a_reader_is_split(tmp_path: Path) -> None:
    for side in ("en", "fr"):
        (tmp_path / f"all.{side}").write_text("".join(f"a line, number {i}\n" for i in range(2500)), "utf-8")
    block = next(each for each in blocks(GUIDE, "sh") if "shuf" in each)
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", block], cwd=tmp_path, check=True)
    splits = [(tmp_path / f"{name}.tsv").read_text("utf-8").splitlines() for name in ("train", "validation", "test")]
    assert [len(lines) for lines in splits] == [500, 1000, 1000]
    assert len({line for lines in splits for line in lines}) == 2500
    assert all(line.split("\t")[0] == line.split("\t")[1] for line in splits[0])
