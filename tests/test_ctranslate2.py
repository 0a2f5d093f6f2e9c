"""A run that is exported for CTranslate2 translates as it does here. CTranslate2 itself is no dependency."""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

from nmt.cli.export import main as export
from nmt.config import Config
from nmt.translation.translator import Translator
from tests import small_run
from tests.small_translator import ATTENTIONS, SHARED, save_run

LINES = ["oak elm ash", "fir", "yew box bay fig", "pine oak", "elm elm"]


def trained(folder: Path, attention: str, **model: Any) -> Path:
    """A run that has learned a little, with changes to its encoder, decoder and embeddings."""
    options = small_run.options(folder, attention, updates=40, batch_tokens=400)
    for name, changes in model.items():
        options["model"][name] = options["model"][name] | changes
    options["decoding"] = {"beam_size": 1, "max_length_factor": 0}  # at most 10 pieces
    small_run.train(Config.model_validate(options | {"tokenizer": {"type": "bpe", "vocabulary": 45, "shared": True}}))
    return folder / "run"


OTHER: dict[str, Any] = {
    "encoder": {"norm": "post", "heads": 2, "positions": {"type": "relative", "distance": 2}},
    "decoder": {"norm": "post", "layers": 3, "positions": {"type": "relative", "distance": 3}},
}


@pytest.mark.parametrize("model", [{"embeddings": {"tie": "all"}}, OTHER], ids=["tied", "post-norm, relative"])
def test_pieces_probabilities_and_attention_are_those_of_the_run(model: dict[str, Any], tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    run, folder = trained(tmp_path, "transformer", **model), tmp_path / "model"
    assert export(["--ctranslate2", str(run), str(folder)]) == 0
    engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.model"))
    lengths = {"length_penalty": 0, "min_decoding_length": 0, "max_decoding_length": 10}
    pieces = source.encode(LINES, out_type=str)
    found = engine.translate_batch(pieces, beam_size=1, return_scores=True, return_attention=True, **lengths)
    expected = Translator.load(run, "cpu").translate(LINES)
    for ours, theirs in zip(expected, found, strict=True):
        length = len(theirs.hypotheses[0])
        assert ours.pieces in (theirs.hypotheses[0], [*theirs.hypotheses[0], "</s>"])
        assert theirs.scores[0] == pytest.approx(ours.hypotheses[0].log_probability, abs=1e-4)
        attention = np.array(ours.attention)[:length, :-1]  # without the end symbols
        np.testing.assert_allclose(np.array(theirs.attention[0]), attention, atol=1e-5)


def test_the_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    run, folder = trained(tmp_path, "transformer"), tmp_path / "model"
    assert export(["--ctranslate2", str(run), str(folder)]) == 0
    [example] = re.findall(r"^```python\n(.*?)^```$", (folder / "README.md").read_text("utf-8"), re.S | re.M)
    [written] = re.findall(r"encode\((\[.*?\])", example)
    example = example.replace(written, repr(LINES)).replace("beam_size=1", "beam_size=1, max_decoding_length=10")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", example]
    shown = subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    expected = Translator.load(run, "cpu").translate(LINES)
    assert [line.strip() for line in shown.stdout.decode().splitlines()] == [each.text for each in expected]


def test_a_package_of_argos_translate_has_the_same_model(tmp_path: Path, refused: Callable[..., str]) -> None:
    run = save_run(tmp_path / "run", ATTENTIONS[3], SHARED, source_language="low", target_language="up")
    package = tmp_path / "translate-low_up"
    for kind in ("ctranslate2", "argos"):
        assert export([f"--{kind}", str(run), str(tmp_path / kind)]) == 0
    shutil.unpack_archive(tmp_path / "argos" / f"{package.name}.argosmodel", tmp_path, "zip")
    model = ["model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json"]
    assert filecmp.cmpfiles(tmp_path / "ctranslate2", package / "model", model, shallow=False)[0] == model
    assert filecmp.cmp(tmp_path / "ctranslate2/source.model", package / "sentencepiece.model", shallow=False)
    metadata = json.loads((package / "metadata.json").read_text("utf-8"))
    assert (metadata["from_code"], metadata["to_code"]) == ("low", "up")
    config = (run / "config.yaml").read_text("utf-8").replace("shared: true", "shared: false")
    (run / "config.yaml").write_text(config.replace("target_language: up", "target_language: Up"), "utf-8")
    said = refused(export, "--argos", run, tmp_path / "other")
    assert "tokenizer: Argos Translate has one" in said and "data.target_language: 'Up' is no language code" in said


def test_what_cannot_be_exported_is_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    transformer, recurrent = (save_run(tmp_path / each["type"], each) for each in (ATTENTIONS[3], ATTENTIONS[0]))
    model = tmp_path / "model"
    said = refused(export, "--web", transformer, model)
    assert "model.encoder.type: the engine runs gru, lstm, ssru, not 'transformer'; for Transformers: nmt" in said
    config = transformer / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("reverse_source: false", "reverse_source: true"))
    said = refused(export, "--ctranslate2", transformer, model)
    assert "data.reverse_source: CTranslate2 does not reverse the source" in said
    said = refused(export, "--ctranslate2", recurrent, model)
    assert "model.decoder.type: CTranslate2 runs Transformers, not 'gru'; for others: --onnx, --web" in said
    for kinds in ([], ["--web", "--ctranslate2"]):
        said = refused(export, *kinds, recurrent, model)
        assert "give exactly one of --web, --ctranslate2, --argos, --onnx and --hub" in said
    assert f"DIR: {config} is a file; choose a new directory" in refused(export, "--web", recurrent, config)
    assert f"DIR: {tmp_path} is not empty; choose a new directory" in refused(export, "--web", recurrent, tmp_path)
    assert not model.exists()
