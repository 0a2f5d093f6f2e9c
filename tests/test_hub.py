"""A run goes to the Hugging Face hub and comes back. The download is a stand-in: tests have no network."""

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.cli.export import main as export
from nmt.cli.translate import main as translate
from nmt.config import Config
from nmt.errors import FileError
from nmt.files import run_name
from nmt.runs.hub import local
from nmt.translation.translator import Translator
from tests import small_run

LINES = ["oak elm ash", "fir", "yew box bay fig"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What ``hf:owner/name`` downloads."""
    folder = tmp_path / "hub"

    def download(name: str, *, revision: str | None, local_dir: Path, allow_patterns: list[str]) -> None:
        if (name, revision) != ("owner/name", None):
            raise Exception(f"no {name}\nat all")
        for file in folder.rglob("*"):
            inside = file.relative_to(folder)
            if file.is_file() and any(fnmatch(str(inside), pattern) for pattern in allow_patterns):
                (local_dir / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, local_dir / inside)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setenv("NMT_CACHE", str(tmp_path / "cache"))
    return folder


def test_a_run_of_the_hub_translates_as_here_and_its_card_has_its_scores(
    hub: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run: Any = small_run.options(tmp_path, updates=20, batch_tokens=400)
    run["data"]["train"]["tag"] = "<x>"
    small_run.train(Config.model_validate(run))
    manifest = Path(run["output"], "manifest.json")
    first = {"start_from": {"run": "runs/first/seed-1", "model_sha256": "1f"}}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | first))
    assert export(["--hub", run["output"], str(hub)]) == 0
    there, here = (Translator.load(each).translate(LINES) for each in ("hf:owner/name", run["output"]))
    assert [each.text for each in there] == [each.text for each in here]
    assert (run_name(local("hf:owner/name")), run_name(".")) == ("name", Path.cwd().name)
    _, front, card = (hub / "README.md").read_text("utf-8").split("---\n", 2)
    assert yaml.safe_load(front)["language"] == [run["data"]["source_language"], run["data"]["target_language"]]
    [test] = small_run.metrics(Path(run["output"]), "test")
    assert f"bleu: {test['bleu']:.2f} ({test['signature']})" in card and "300 pairs" in card
    assert "the weights of first (SHA-256 1f)\n" in card and "before a line: `<x>`; default: none" in card
    weights, other = Path(run["output"]) / "checkpoints/best/model.safetensors", tmp_path / "other"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    assert export(["--hub", run["output"], str(other)]) == 2 and not other.exists()
    assert not (hub / "samples.jsonl").exists() and not (hub / "checkpoints/last").exists()
    with pytest.raises(FileError, match=r"^hf:owner/other: cannot be downloaded: no owner/other; must be"):
        Translator.load("hf:owner/other")
    capfd.readouterr()
    assert translate(["--model", "hf:owner/other"]) == 2
    assert "argument --model: hf:owner/other: cannot be downloaded" in capfd.readouterr().err
