"""A run that is exported as ONNX translates as it does here. The packages for it are no dependencies."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nmt.cli.export import main as export
from nmt.errors import NmtWarning
from nmt.translation.translator import Translator
from tests.models import small_model
from tests.small_translator import ATTENTIONS, LINES, save_run


def by_name(network: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    found = network.run(None, {each.name: tensors[each.name] for each in network.get_inputs()})
    return dict(zip([each.name.removeprefix("next_") for each in network.get_outputs()], found, strict=True))


@pytest.mark.slow(seconds=60)
@pytest.mark.parametrize("variant", ["local-p", "coverage", "heads of location", "deep lstm, normalized"])
def test_steps_are_those_of_the_network(variant: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from nmt.translation.onnx import write_networks

    write_networks(small_model(variant).float(), tmp_path)
    encoder, step = (onnxruntime.InferenceSession(tmp_path / f"{name}.onnx") for name in ("encoder", "step"))
    model = small_model(variant).float()
    for lengths in ([3], [1, 12], [5, 2, 9]):
        source = torch.randint(3, 9, (len(lengths), max(lengths)))
        found = by_name(encoder, {"source": source.numpy(), "lengths": np.array(lengths)})
        state = model.start(model.encode(source, torch.tensor(lengths)))
        for previous in torch.randint(3, 9, (4, len(lengths))):
            found |= by_name(step, found | {"previous": previous.numpy()})
            log_probs, state, attention = model.step(previous, state)
            np.testing.assert_allclose(found["log_probs"], log_probs.detach(), atol=1e-5)
            if attention is not None:
                np.testing.assert_allclose(found["attention"], attention.detach(), atol=1e-5)


@pytest.mark.slow(seconds=30)
def test_the_program_translates_as_the_run(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run, folder = save_run(tmp_path / "run", reverse_source=True), tmp_path / "model"
    assert export(["--onnx", str(run), str(folder)]) == 0
    program = runpy.run_path(str(folder / "translate.py"))
    assert (folder / "translate.py").read_text("utf-8") in (folder / "README.md").read_text("utf-8")
    lines = [*LINES, "", " ".join(LINES)]
    with pytest.warns(NmtWarning, match="line 42: too long"):
        expected = Translator.load(run, "cpu").translate(lines, beam_size=1)
    for line, ours in zip(lines, expected, strict=True):
        text, log_probability = program["translate"](line)
        assert text == ours.text
        assert log_probability == pytest.approx(ours.hypotheses[0].log_probability, abs=1e-4)


def test_what_onnx_does_not_take_is_refused(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.cli.export.find_spec", lambda _: None)
    said = refused(export, "--onnx", save_run(tmp_path / "run", ATTENTIONS[3]), tmp_path / "model")
    assert "model.encoder.type: --onnx exports gru, lstm, ssru, not 'transformer'; for Transformers: --" in said
    assert "--onnx: needs the packages onnx and onnxscript; pip install onnx onnxscript" in said
    marginal = {"type": "luong", "input_feeding": False, "hard": {"type": "marginal"}}
    said = refused(export, "--onnx", save_run(tmp_path / "hard", marginal), tmp_path / "model")
    assert "model.attention.hard: --onnx does not export 'marginal'; use --web" in said
