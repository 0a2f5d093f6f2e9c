"""docs/tutorial.ipynb: it runs with its solutions, its checks know right from wrong, and git has it without outputs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tutorial
from tests.test_docs import DOCS

NOTEBOOK = tutorial.read()
CELLS: list[dict[str, Any]] = NOTEBOOK["cells"]
CODE = [cell for cell in CELLS if tutorial.is_code(cell)]
TEXT = "\n\n".join("".join(cell["source"]) for cell in CELLS)
EXERCISES = [place for place, cell in enumerate(CODE) if "exercise" in cell["metadata"].get("tags", ())]

# --- the file ---------------------------------------------------------------------------------------------------------


def test_git_has_it_without_outputs() -> None:
    ran = [{**cell, "outputs": ["seen"], "execution_count": 3} if tutorial.is_code(cell) else cell for cell in CELLS]
    assert tutorial.cleared({**NOTEBOOK, "cells": ran, "metadata": {"editor": "x"}}) == NOTEBOOK
    assert tutorial.TUTORIAL.read_text("utf-8") == tutorial.dumped(NOTEBOOK), "run python scripts/tutorial.py"


def test_its_page_has_the_sources_and_the_solutions() -> None:
    page = tutorial.to_markdown()
    assert "\n# nmt.model.attention.AdditiveAttention.score\ndef score(self" in page
    assert "show(" not in page.replace("def show(", "")
    assert page.count("<details><summary>Solution</summary>") == 3
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", TEXT)]
    assert links and all((DOCS / link).exists() for link in links)


# --- the exercises ----------------------------------------------------------------------------------------------------


def verdict(place: int, code: str) -> str:
    """What the check after an exercise says of this code."""
    said: list[Any] = []
    names: dict[str, Any] = {"torch": torch, "display": said.append, "HTML": str}
    exec("".join(next(cell["source"] for cell in CODE if cell["source"][0].startswith("def check("))), names)
    exec(code, names)
    torch.manual_seed(0)
    exec("".join(CODE[place + 1]["source"]), names)
    [text] = said
    return str(text)


@pytest.mark.parametrize("place", EXERCISES)
def test_an_exercise_that_is_not_done_says_what_to_do(place: int) -> None:
    said = verdict(place, "".join(CODE[place]["source"]))
    assert "✘" in said and "#b00020" in said
    assert "Not done yet: change the cell above" in said or "minus infinity" in said


MASKED = ".masked_fill(~mask, -torch.inf).softmax(-1)"
MISTAKES: list[tuple[int, Callable[[str], str], str]] = [
    (0, lambda code: code.replace(".softmax(-1)", ".softmax(0)"), "sum to 1"),
    (0, lambda code: code.replace(MASKED, ".softmax(-1) * mask"), "mask the energies"),
    (0, lambda code: code.replace("~mask", "mask"), "Padding still has weight"),
    (1, lambda code: code.replace(" / queries.size(-1) ** 0.5", ""), "square root of H"),
    (1, lambda code: code.replace("queries.size(-1)", "queries.size(1)"), "dot product"),
    (1, lambda code: code.replace(".transpose(1, 2)", ""), "It stops with RuntimeError"),
    (2, lambda code: code.replace("totals.unsqueeze(1) + ", ""), "Add the log-probability"),
    (2, lambda code: code.replace("// log_probs.size(1)", "// 2"), "row p // V"),
    (2, lambda code: code.replace("topk(len(totals))", "topk(3)"), "two extensions"),
]


@pytest.mark.parametrize(("exercise", "wrong", "advice"), MISTAKES)
def test_a_mistake_is_told_what_is_wrong(exercise: int, wrong: Callable[[str], str], advice: str) -> None:
    place = EXERCISES[exercise]
    right = "".join(CODE[place]["metadata"]["solution"])
    assert wrong(right) != right
    assert "✔" in verdict(place, right)
    said = verdict(place, wrong(right))
    assert "✘" in said and advice in said


@pytest.mark.slow(seconds=40)
def test_it_runs_with_its_solutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell, with trainings of a hundredth of the updates."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", f"{DOCS.parent}:{DOCS.parent / 'scripts'}")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the notebook shows its figures, as for a reader
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    whole = json.dumps(tutorial.solved(NOTEBOOK))
    short = whole.replace("updates: 600", "updates: 6")
    assert short != whole
    notebook = nbformat.reads(short, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells if tutorial.is_code(cell) for output in cell.outputs]
    said = json.dumps(outputs, ensure_ascii=False)
    assert said.count("✔") == 3 and "✘" not in said
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    gains = [int(gain) for gain in re.findall(r"attention is worth (-?\d+) BLEU", said)]
    assert len(gains) == 6
