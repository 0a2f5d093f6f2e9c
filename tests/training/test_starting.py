"""Training that starts from another run."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.prepare import main as nmt_prepare
from nmt.config import Config, dump_config
from nmt.errors import ConfigError, DataError, FileError
from nmt.files import digest
from nmt.runs.directory import RunDirectory, read_manifest
from nmt.training.dry_run import dry_run
from tests.small_run import ATTENTIONS, options, train, write_corpus
from tests.test_corpus import problems_of


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A run, which tests may delete; beside it a corpus of other sentences."""
    train(Config.model_validate(options(tmp_path, "none")))
    write_corpus(tmp_path, train=100, longest=3, seed=2)
    return tmp_path / "run"


def config(first: Path, output: str, start_from: Path | None = None, **model: Any) -> Config:
    values = options(first.parent, "none", start_from=str(start_from or first))
    values["model"] |= model
    return Config.model_validate(values | {"output": str(first.parent / output)})


def weights(run: Path, name: str) -> dict[str, list[Any]]:
    return {key: tensor.tolist() for key, tensor in RunDirectory(run).weights(name).items()}


def test_it_has_the_weights_and_the_tokenizer_of_the_other_run_and_resumes_without_it(first: Path) -> None:
    whole, parts = config(first, "whole"), config(first, "parts")
    said = train(parts, stop_after=0)
    assert weights(first.parent / "parts", "last") == weights(first, "best")
    assert digest(first.parent / "parts/tokenizer/source.model") == digest(first / "tokenizer/source.model")
    sizes = {name: len(rows) for name, rows in weights(first, "best").items()}
    [table] = [line.splitlines() for line in said if line.startswith("weights ")]
    assert table[0].split() == ["weights", "loaded", "left", "out", "new"]
    assert ["source_embedding", str(32 * sizes["source_embedding.weight"]), "0", "0"] in [row.split() for row in table]
    recorded = digest(first / "checkpoints/best/model.safetensors")
    expected = {"run": str(first), "model_sha256": recorded}
    assert read_manifest(RunDirectory(parts.output or ""))["start_from"] == expected
    train(whole)
    shutil.rmtree(first)
    dry_run(parts, resume=True, overwrite=False, say=said.append)
    assert train(parts, stop_after=2, resume=True)
    assert not [line for line in train(parts, resume=True) if line.startswith("weights ")]
    assert weights(first.parent / "parts", "last") == weights(first.parent / "whole", "last")
    assert read_manifest(RunDirectory(parts.output or ""))["start_from"]["model_sha256"] == recorded


def test_another_attention_begins_new(first: Path) -> None:
    said: list[str] = []
    dry_run(config(first, "dry", attention=ATTENTIONS["bahdanau"]), resume=False, overwrite=False, say=said.append)
    assert not (first.parent / "dry").exists()
    (first / "config.yaml").write_text((first / "config.yaml").read_text().replace("tag: null", "tag: <x>", 1))
    said = train(config(first, "attention", attention=ATTENTIONS["bahdanau"]), stop_after=0)
    assert f"training.start_from: no corpus has the tag <x> of {first}; training unlearns it" in said
    [table] = [line.splitlines() for line in said if line.startswith("weights ")]
    rows = {row.split()[0]: row.split()[1:] for row in table[1:]}
    assert rows["attention"][:2] == ["0", "0"] and rows["attention"][2] != "0"
    assert rows["decoder"][0] != "0" and rows["decoder"][1:] == ["0", "0"]


def test_a_run_that_does_not_fit_is_refused(first: Path, refused: Callable[..., str]) -> None:
    wide = config(first, "new", encoder={"hidden": 16}, embeddings={"size": 32, "tie": "target"})
    expected = ["model.embeddings.tie was 'none' and is now 'target'", "model.encoder.hidden was 32 and is now 16"]
    for refuse in (train, lambda each: dry_run(each, resume=False, overwrite=False, say=print)):
        *problems, last = problems_of(ConfigError, refuse, wide)
        assert problems == expected
        assert last.startswith(f"training.start_from: {first}: training takes over the tokenizer and the network, but")
    (first.parent / "wide.yaml").write_text(dump_config(wide))
    said = refused(nmt_prepare, "--config", first.parent / "wide.yaml")
    assert "error: model.encoder.hidden was 32 and is now 16\n" in said
    tagged = config(first, "new").model_dump()
    tagged["data"]["train"]["tag"] = "<x>"
    without = "run was trained without it; leave it out"
    with pytest.raises(DataError, match=rf"^data.train.tag: '<x>' is not .* source vocabulary; .*{without}$"):
        train(Config.model_validate(tagged))
    other = config(first, "new").model_dump() | {"tokenizer": {"type": "word", "vocabulary": 40}}
    with pytest.raises(ConfigError, match=r"tokenizer.vocabulary was 50 and is now 40"):
        train(Config.model_validate(other))
    train(config(first, "attention", attention=ATTENTIONS["bahdanau"]))
    with pytest.raises(ConfigError, match=r"model.attention: does not fit training.start_from: tensor decoder"):
        train(config(first, "new", first.parent / "attention", attention={"type": "bahdanau", "score": {"hidden": 16}}))
    with pytest.raises(FileError, match=r"^training.start_from: .*missing: no such"):
        train(config(first, "new", first.parent / "missing"))
    with_terms = options(first.parent, "none")
    with_terms["data"] |= {"glossary": {"file": "terms.tsv"}, "rough": {}}
    with_terms["tokenizer"] = {"type": "bpe", "shared": True}
    kept = (first / "config.yaml").read_text()
    (first / "config.yaml").write_text(dump_config(Config.model_validate(with_terms)))
    with pytest.raises(ConfigError, match=r"(?ms)^data.glossary was set and is now null; .*^data.rough was set and"):
        train(config(first, "new"))
    (first / "config.yaml").write_text(kept)
    (first / "tokenizer/source.model").unlink()
    with pytest.raises(DataError, match=r"^training.start_from: .*source.model: no such file"):
        train(config(first, "new"))
    assert not (first.parent / "new").exists()
