"""The documents tell the truth: every command of README.md and docs/commands.md is run, in order, as a reader would."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nmt.config import dump_config, load_config
from nmt.config.schema import Data
from tests.outside_make import outside_make
from tests.small_run import write_corpus

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = (ROOT / "docs/commands.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text("utf-8")
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("data/*.md"), *ROOT.glob("docs/*.md"))
)
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

TEST_LINES = 20
SMALLER = (
    "tokenizer={type: word, vocabulary: 50}",  # the text of the tests supports no 8000 pieces
    "training.updates=2",
    "training.validation.samples=1",
    "training.average=2",
    "model.embeddings.size=16",
    "model.encoder.hidden=16",
    "model.decoder.hidden=16",
    "evaluation.bootstrap=10",
)


def blocks(text: str, language: str) -> list[str]:
    """Return the content of each code block of a language."""
    return [
        code
        for found, code in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        if found == language
    ]


def commands(text: str) -> list[str]:
    """Return every command line of a page."""
    return [line for block in blocks(text, "sh") for line in block.splitlines() if line]


# --- running a command ------------------------------------------------------------------------------------------------


def run(command: str) -> None:
    """Run a command, or the part of it that can be run offline; fail for a command of an unknown kind."""
    words = shlex.split(re.sub(r"(?<=--set training\.updates=)\d+", "3", command))
    if set("|<>") & set(command) or words[0] == "torchrun":
        run_by_shell(command)
    elif words[0] == "nmt-serve":
        check_server(words)
    elif words[0] in PROJECT["scripts"]:
        module, _, function = PROJECT["scripts"][words[0]].partition(":")
        main: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
        assert main(words[1:]) == 0
    elif words[0] == "cp":
        shutil.copy(*words[1:])
    elif words[0] == "make":
        check_target(words)
    elif words[0] == "pip":
        check_install(words)
    else:
        pytest.fail("this test does not know how to run it")


def run_by_shell(command: str) -> None:
    """Run a command in a shell, with the installed commands."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, env=os.environ | {"PATH": path})


def check_server(words: list[str]) -> None:
    """Start the server, at a free port, and stop it when it says that it is ready."""
    script = "import sys; from nmt.cli.serve import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, *words[1:], "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        server.terminate()
        assert "translates at http://127.0.0.1:" in said, said
    assert server.returncode == 0


def check_target(words: list[str]) -> None:
    """Check that ``make`` would do something and has all its prerequisites; doing it could run these tests again."""
    dry = [*words, "--dry-run", f"PYTHON={sys.executable}"]  # looking for a Python takes long
    made = subprocess.run(dry, cwd=ROOT, check=True, env=outside_make(), capture_output=True, text=True)
    assert made.stdout.strip()


def check_install(words: list[str]) -> None:
    """Check that the constraints allow what the package needs; installing would need a network."""
    assert words == ["pip", "install", "-c", "constraints.txt", "."]
    pinned = pins()
    for text in PROJECT["dependencies"]:
        requirement = Requirement(text)
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier


def pins() -> dict[str, str]:
    """Return the version of each package in the constraints."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {
        canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version
    }


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a reader with text of their own: the files that the pages name, made small."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, train=60)
    for path in [*tmp_path.glob("*.low"), *tmp_path.glob("*.up")]:
        path.rename(path.with_suffix({".low": ".en", ".up": ".fr"}[path.suffix]))
    (tmp_path / "test.gold").write_text("0-0\n" * len((tmp_path / "test.en").read_text("utf-8").splitlines()), "utf-8")
    [printed] = blocks(README, "yaml")
    small = load_config(ROOT / "configs/small.yaml", SMALLER)
    assert Data.model_validate(yaml.safe_load(printed)["data"]) == small.data, "what is printed is what is copied"
    shutil.copytree(ROOT / "configs/experiments", tmp_path / "configs/experiments")
    (tmp_path / "configs/small.yaml").write_text(dump_config(small), "utf-8")
    mix, experiment = blocks(COMMANDS, "yaml")
    assert set(yaml.safe_load(mix)["data"]["train"]["mix"]) == set(yaml.safe_load(mix)["data"]["corpora"])
    [name] = re.findall(r"Save this one\s+as `([^`]+)`", COMMANDS)
    (tmp_path / name).write_text(experiment, "utf-8")
    return tmp_path


@pytest.mark.slow(seconds=60)
def test_every_command_does_what_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    said = {}
    for command in commands(README) + commands(COMMANDS):
        try:
            run(command)
        except (Exception, pytest.fail.Exception) as error:
            raise AssertionError(f"{command}\n{capsys.readouterr().err}") from error
        said[command] = capsys.readouterr().out
    for program in blocks(README, "python"):
        exec(compile(program, "README.md", "exec"), {})
    torch.set_num_threads(threads)

    [n_best] = [out for command, out in said.items() if "--n-best 3 --scores" in command]
    assert len(n_best.splitlines()) == 3 * TEST_LINES
    assert all(re.match(r"(-\d+\.\d+)?\t", line) for line in n_best.splitlines())
    for name in ("test.hyp", "test.align", "test.jsonl"):
        assert len((folder / name).read_text("utf-8").splitlines()) == TEST_LINES
    assert {path.suffix for path in (folder / "runs").glob("curve.*")} == {".png", ".svg", ".json", ".csv"}
    check_run_table(folder / "runs/en-fr")
    check_experiment_table(folder / "runs/attention", ["none", "bahdanau", "luong"])


def check_run_table(run_directory: Path) -> None:
    """Check that the table of a run directory names all of its files and nothing else; N stands for any number."""
    named = first_column(COMMANDS.partition("\n## A run directory")[2])
    patterns = {name.replace("{source,target}", side) for name in named for side in ("source", "target")}
    meant = {pattern: {*run_directory.glob(pattern.replace("-N/", "-[0-9]*/"))} for pattern in patterns}
    assert [pattern for pattern, paths in meant.items() if not paths] == []
    files = set().union(*meant.values())
    found = [path for path in run_directory.rglob("*") if path.is_file()]
    assert [path for path in found if not files & {path, *path.parents}] == []


def check_experiment_table(output: Path, systems: list[str]) -> None:
    """Check that the table of an experiment names its directories and files, those with seeds apart, and no others."""
    named = first_column(COMMANDS.partition("\n## nmt-experiment")[2])
    assert named == [
        *("SYSTEM/", "SYSTEM/seed-N/", "tests/TEST/SYSTEM.txt", ".json", "SYSTEM.seed-N.txt", ".json"),
        *("TEST.*", "TEST.why.*"),
        *("results.csv", "results.md", "results.json"),
    ]
    top = {path.name.partition(".")[0] for path in output.iterdir()}
    assert top == {*systems, "tests", "length_curve", "diagnosis", "results"}
    assert {path.name for path in (output / "tests/test").iterdir()} == {
        f"{system}.seed-{seed}.json" for system in systems for seed in (1, 2)
    }
    assert {path.name for path in output.glob("results.*")} == {*named[-3:]}


def first_column(text: str) -> list[str]:
    """Return the code in the first column of the first table of the text before the next heading."""
    section = text.partition("\n## ")[0]
    return re.findall(r"`([^`]+)`", "".join(line.split("|")[1] for line in section.splitlines() if line[:3] == "| `"))


@pytest.mark.parametrize("text", [README, COMMANDS], ids=["README.md", "docs/commands.md"])
def test_blocks_are_of_a_kind_that_is_tested(text: str) -> None:
    languages = set(re.findall(r"^```(\w+)$", text, re.MULTILINE))
    assert languages <= {"sh", "yaml", "python"}
    assert text.count("\n```") == 2 * sum(len(blocks(text, language)) for language in languages)


def test_every_command_has_an_example() -> None:
    assert {name for name in PROJECT["scripts"] if not any(name in command for command in commands(COMMANDS))} == set()


def test_every_make_target_has_an_example() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    examples = [shlex.split(command)[1] for command in commands(README) + commands(COMMANDS) if command[:5] == "make "]
    assert targets and set(targets) - set(examples) == set()


def test_the_version_of_torch_is_the_tested_one() -> None:
    assert re.findall(r"`torch==([^`]+)`", README) == [pins()["torch"]]


@pytest.mark.parametrize("command", ["nmt-tran --model x", "make nothing", "pip install tensorflow", "nmt-tran | cat"])
def test_a_command_that_does_not_exist_is_seen(command: str) -> None:
    with pytest.raises((pytest.fail.Exception, subprocess.CalledProcessError, AssertionError)):
        run(command)


# --- all documents ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    """Files exist, and so do the headings that a link names."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text("utf-8"))
    dead = []
    for link in links:
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        if not path.exists() or (anchor and anchor not in anchors(path.read_text("utf-8"))):
            dead.append(link)
    assert dead == []


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_exists(name: str) -> None:
    """Files of the repository and tests; a paragraph or table row that says "at commit X" may name what is gone."""
    text = (ROOT / name).read_text("utf-8")
    code = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    gone = []
    for paragraph in re.split(r"\n\n|\n(?=- )", text):
        if re.search(r"\bat\s+commit\b", paragraph):
            continue
        named = re.findall(r"\b(?:nmt|tests|scripts|configs|docs)/[\w/.-]+\.(?:py|yaml|md|sh)\b", paragraph)
        gone += [path for path in named if not (ROOT / path).exists()]
        gone += [test for test in re.findall(r"`(test_[a-z]+_\w+)`", paragraph) if f"def {test}(" not in code]
    assert gone == []


def test_the_architecture_names_every_room() -> None:
    named = re.findall(
        r"^\| `(\w+)` \|", ARCHITECTURE.partition("\n## The house\n")[2].partition("\n## ")[0], re.MULTILINE
    )
    rooms = {path.parent.name for path in (ROOT / "nmt").glob("*/__init__.py")} | {"errors"}
    assert sorted(named) == sorted(rooms)
