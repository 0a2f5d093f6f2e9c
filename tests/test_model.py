"""The network: padding, teacher forcing against stepping, the papers' equations, state as a value, first weights."""

from typing import Any

import pytest
import torch
from torch import nn

from nmt.model import build_model
from tests.models import SOURCE, TARGET, VARIANTS, model_config, small_model


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


SOURCES = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0]])
LENGTHS = torch.tensor([4, 2, 1])
TARGETS = torch.tensor([[2, 9, 4], [2, 3, 12], [2, 8, 8]])


def test_forward_and_step_give_the_same_numbers(variant: str) -> None:
    model = small_model(variant)
    logits, weights = model(SOURCES, LENGTHS, TARGETS)
    state = model.start(model.encode(SOURCES, LENGTHS))
    assert (weights is not None) == model.attends
    for t in range(TARGETS.size(1)):
        log_probs, state, alpha = model.step(TARGETS[:, t], state)
        # step reports in fp32 whatever the model computes in
        assert torch.allclose(log_probs, logits[:, t].log_softmax(-1).float(), atol=1e-6)
        torch.testing.assert_close(alpha, None if weights is None else weights[:, t], rtol=1e-5, atol=1e-8)


def test_padding_and_neighbors_change_nothing(variant: str) -> None:
    model = small_model(variant)
    together, _ = model(SOURCES, LENGTHS, TARGETS)
    for i, length in enumerate(LENGTHS.tolist()):
        alone, _ = model(SOURCES[i : i + 1, :length], LENGTHS[i : i + 1], TARGETS[i : i + 1])
        assert torch.allclose(together[i], alone[0], atol=1e-12)


def test_only_the_lengths_stay_on_the_cpu(variant: str) -> None:
    """Any other tensor of the CPU would fail on ``meta``, as on a GPU."""
    model, source, target = small_model(variant).to("meta"), SOURCES.to("meta"), TARGETS.to("meta")
    readouts, _ = model.unroll(target, model.encode(source, LENGTHS))
    assert readouts.device.type == "meta"


def test_rows_of_a_state_are_repeated_reordered_and_dropped_in_every_field(variant: str) -> None:
    """After a step, so that what is fed back is no longer zero; a step leaves its state as it was."""
    model = small_model(variant)
    _, state, _ = model.step(TARGETS[:, 0], model.start(model.encode(SOURCES, LENGTHS)))
    expected, _, _ = model.step(TARGETS[:, 1], state)
    assert torch.equal(model.step(TARGETS[:, 1], state)[0], expected)
    twice = state.expand(2)
    expanded, _, _ = model.step(TARGETS[:, 1].repeat_interleave(2), twice)
    assert torch.allclose(expanded, expected.repeat_interleave(2, 0), atol=1e-6)
    _, state, _ = model.step(torch.tensor([1, 2, 3, 4, 5, 6]), twice)
    rows, tokens = torch.tensor([5, 4, 0, 0]), torch.tensor([3, 9, 1, 7, 2, 2])
    expected, _, _ = model.step(tokens, state)
    selected, _, _ = model.step(tokens[rows], state.select(rows))
    assert torch.allclose(selected, expected[rows], atol=1e-6)


def test_bahdanau_step_by_the_papers_equations() -> None:
    """One step recomputed from the weights with no code of the package: attention, gates, maxout, output."""
    model = small_model("bahdanau")
    memory = model.encode(SOURCES[:1], LENGTHS[:1])
    state: Any = model.start(memory)
    after: Any
    weights = dict(model.decoder.named_parameters())
    h, s = memory.annotations[0], state.hidden[0]
    assert torch.allclose(s, torch.tanh(weights["initial.weight"] @ h[0, 4:] + weights["initial.bias"]))
    keys = h @ weights["attention.key.weight"].T + weights["attention.key.bias"]
    energies = torch.tanh(weights["attention.query.weight"] @ s + keys) @ weights["attention.energy.weight"][0]
    alpha = energies.exp() / energies.exp().sum()
    c = alpha @ h
    y = model.target_embedding.weight[2]
    x = weights["embedding_gates.weight"] @ y + weights["embedding_gates.bias"] + weights["context_gates.weight"] @ c
    u = weights["cell.recurrent.weight"] @ s + weights["cell.recurrent.bias"]
    r, z = torch.sigmoid(x[:8] + u[:8]), torch.sigmoid(x[8:16] + u[8:16])
    s = (1 - z) * torch.tanh(x[16:] + r * u[16:]) + z * s
    t = weights["state_readout.weight"] @ s + weights["state_readout.bias"]
    t = t + weights["embedding_readout.weight"] @ y + weights["context_readout.weight"] @ c
    readout = torch.stack([torch.maximum(t[2 * k], t[2 * k + 1]) for k in range(5)])
    expected = (model.output.weight @ readout + model.output.bias).log_softmax(-1)
    log_probs, after, attention = model.step(torch.tensor([2]), state)
    torch.testing.assert_close(attention, alpha.unsqueeze(0), rtol=1e-5, atol=1e-8)
    assert torch.allclose(after.hidden[0], s)
    assert torch.allclose(log_probs[0], expected.float(), atol=1e-6)


@pytest.mark.parametrize("feeding", [True, False], ids=["fed", "not fed"])
def test_luong_steps_by_the_papers_equations(feeding: bool) -> None:
    """Two steps recomputed from the weights with no code of the package: gates, score, context, h~, output."""
    model = small_model({"type": "luong", "score": "general", "input_feeding": feeding})
    memory = model.encode(SOURCES[:1], LENGTHS[:1])
    state: Any = model.start(memory)
    weights = dict(model.decoder.named_parameters())
    used = {"initial", "embedding_gates", "cell.recurrent", "attention.key", "combine"}
    assert {name.rpartition(".")[0] for name in weights} == used | ({"feeding_gates"} if feeding else set())
    h = memory.annotations[0]
    s, fed = torch.tanh(weights["initial.weight"] @ h[0, 4:] + weights["initial.bias"]), torch.zeros(5).double()
    for token in (2, 9):
        x = weights["embedding_gates.weight"] @ model.target_embedding.weight[token] + weights["embedding_gates.bias"]
        if feeding:
            x = x + weights["feeding_gates.weight"] @ fed
        u = weights["cell.recurrent.weight"] @ s + weights["cell.recurrent.bias"]
        r, z = torch.sigmoid(x[:8] + u[:8]), torch.sigmoid(x[8:16] + u[8:16])
        s = (1 - z) * torch.tanh(x[16:] + r * u[16:]) + z * s
        energies = h @ weights["attention.key.weight"].T @ s
        alpha = energies.exp() / energies.exp().sum()
        fed = torch.tanh(weights["combine.weight"] @ torch.cat((alpha @ h, s)) + weights["combine.bias"])
        expected = (model.output.weight @ fed + model.output.bias).log_softmax(-1)
        log_probs, state, attention = model.step(torch.tensor([token]), state)
        torch.testing.assert_close(attention, alpha.unsqueeze(0), rtol=1e-5, atol=1e-8)
        assert torch.allclose(state.hidden[0], s)
        assert (state.attentional is not None) == feeding
        assert torch.allclose(log_probs[0], expected.float(), atol=1e-6)


# --- parameters -------------------------------------------------------------------------------------------------------


def test_the_readout_has_the_configured_width_or_that_of_an_embedding() -> None:
    for decoder, width in (({"hidden": 8, "readout": 3}, 3), ({"hidden": 8}, 5)):
        model = build_model(model_config("luong dot", decoder=decoder), SOURCE, TARGET)
        assert model.output.in_features == model.decoder.readout_width == width


def standard_deviation(kind: str, name: str, shape: torch.Size) -> float:
    """With which a parameter is documented to start."""
    if kind == "uniform":
        return 0.1 / 3**0.5
    if name.endswith("recurrent.weight"):
        return float(shape[1] ** -0.5)  # orthogonal: rows of length one
    if len(shape) == 1:
        return 0.0
    if kind == "xavier":
        return float(shape[1] ** -0.5 if name.endswith("_embedding.weight") else (2 / sum(shape)) ** 0.5)
    attention = {"query": 0.001, "key": 0.001, "energy": 0.0}
    return {f"decoder.attention.{part}.weight": std for part, std in attention.items()}.get(name, 0.01)


@pytest.mark.parametrize("kind", ["xavier", "uniform", "bahdanau"])
def test_parameters_start_with_their_standard_deviation(kind: str) -> None:
    torch.manual_seed(2)
    sizes = {"embeddings": {"size": 48}, "encoder": {"hidden": 64}, "decoder": {"hidden": 96, "readout": 64}}
    attention = {"type": "bahdanau", "score": {"hidden": 256}}
    config = model_config(attention, initialization={"type": kind}, **sizes)
    model = build_model(config, 200, 300)
    for name, parameter in model.named_parameters():
        if name.endswith("recurrent.weight") and kind != "uniform":
            for block in parameter.chunk(3):
                assert torch.allclose(block @ block.T, torch.eye(len(block)), atol=1e-5), name
        expected = standard_deviation(kind, name, parameter.shape)
        assert parameter.square().mean().sqrt().item() == pytest.approx(expected, rel=0.2), name
        assert abs(parameter.mean().item()) <= 4 * expected / parameter.numel() ** 0.5, name


@pytest.mark.parametrize("kind", ["xavier", "uniform", "bahdanau"])
@pytest.mark.parametrize("variant", ["deep lstm, normalized", "transformer relative"])
def test_normalizations_start_as_the_identity_and_every_matrix_at_random(variant: str, kind: str) -> None:
    model = build_model(model_config(variant, initialization={"type": kind}), SOURCE, TARGET)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert norms and all((norm.weight == 1).all() and (norm.bias == 0).all() for norm in norms)
    assert all(0 < parameter.std() < 1 for parameter in model.parameters() if parameter.ndim > 1)


def test_a_scale_starts_as_its_module_has_it() -> None:
    model = build_model(model_config({"type": "luong", "score": "cosine"}), SOURCE, TARGET)
    assert dict(model.named_parameters())["decoder.attention.log_scale"].exp().item() == pytest.approx(10)
