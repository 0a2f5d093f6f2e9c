"""The network: padding, teacher forcing against stepping, an independent GRU, gradients, state as a value."""

import pytest
import torch
from torch import nn

from nmt.model.decoder import GatedUpdate
from nmt.model.encoder import GruEncoder
from tests.models import ATTENTIONS, SOURCE, TARGET, model_config, small_model


@pytest.fixture(params=ATTENTIONS)
def attention(request: pytest.FixtureRequest) -> str:
    return str(request.param)


SOURCES = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0]])
LENGTHS = torch.tensor([4, 2, 1])
TARGETS = torch.tensor([[2, 9, 4], [2, 3, 12], [2, 8, 8]])


def test_forward_and_step_give_the_same_numbers(attention: str) -> None:
    model = small_model(attention)
    logits, weights = model(SOURCES, LENGTHS, TARGETS)
    state = model.start(model.encode(SOURCES, LENGTHS))
    for t in range(TARGETS.size(1)):
        log_probs, state, alpha = model.step(TARGETS[:, t], state)
        # step reports in fp32 whatever the model computes in
        assert torch.allclose(log_probs, logits[:, t].log_softmax(-1).float(), atol=1e-6)
        assert (alpha is None) == (weights is None) == (attention == "none")
        if alpha is not None and weights is not None:
            assert torch.allclose(alpha, weights[:, t])


def test_padding_and_neighbours_change_nothing(attention: str) -> None:
    model = small_model(attention)
    together, _ = model(SOURCES, LENGTHS, TARGETS)
    for i, length in enumerate(LENGTHS.tolist()):
        alone, _ = model(SOURCES[i : i + 1, :length], LENGTHS[i : i + 1], TARGETS[i : i + 1])
        assert torch.allclose(together[i], alone[0], atol=1e-12)


def test_what_stands_in_the_padding_is_never_read(attention: str) -> None:
    model = small_model(attention)
    other = SOURCES.masked_fill(torch.arange(4) >= LENGTHS.unsqueeze(1), 10)
    assert torch.equal(model(SOURCES, LENGTHS, TARGETS)[0], model(other, LENGTHS, TARGETS)[0])


def test_every_parameter_gets_a_gradient(attention: str) -> None:
    model = small_model(attention)
    logits, _ = model(SOURCES, LENGTHS, TARGETS)
    logits.square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_expanded_rows_share_the_memory_and_go_their_own_ways(attention: str) -> None:
    model = small_model(attention)
    state = model.start(model.encode(SOURCES, LENGTHS)).expand(2)
    assert state.rows == 6
    assert state.memory.annotations.size(0) == 3
    tokens = torch.tensor([1, 2, 3, 4, 5, 6])
    log_probs, _, _ = model.step(tokens, state)
    for r in range(6):
        one = model.start(model.encode(SOURCES[r // 2 : r // 2 + 1], LENGTHS[r // 2 : r // 2 + 1]))
        assert torch.allclose(model.step(tokens[r : r + 1], one)[0][0], log_probs[r], atol=1e-6)


def test_select_reorders_every_field(attention: str) -> None:
    """Swapping hypotheses inside a sentence and dropping whole sentences commutes with stepping."""
    model = small_model(attention)
    state = model.start(model.encode(SOURCES, LENGTHS)).expand(2)
    _, state, _ = model.step(torch.tensor([1, 2, 3, 4, 5, 6]), state)
    rows = torch.tensor([5, 4, 0, 0])
    tokens = torch.tensor([3, 9, 1, 7, 2, 2])
    expected, _, _ = model.step(tokens, state)
    selected, _, _ = model.step(tokens[rows], state.select(rows))
    assert torch.allclose(selected, expected[rows], atol=1e-6)


def test_stepping_leaves_the_state_as_it_was(attention: str) -> None:
    model = small_model(attention)
    state = model.start(model.encode(SOURCES, LENGTHS))
    first, _, _ = model.step(TARGETS[:, 0], state)
    model.step(TARGETS[:, 1], state)
    assert torch.equal(first, model.step(TARGETS[:, 0], state)[0])


def test_gated_update_is_pytorchs_gru_cell() -> None:
    cell, update = nn.GRUCell(3, 4).double(), GatedUpdate(4).double()
    update.recurrent.weight.data, update.recurrent.bias.data = cell.weight_hh.data, cell.bias_hh.data
    inputs, hidden = torch.randn(5, 3, dtype=torch.double), torch.randn(5, 4, dtype=torch.double)
    gates = inputs @ cell.weight_ih.T + cell.bias_ih
    assert torch.allclose(update(gates, hidden), cell(inputs, hidden))


def test_encoder_against_two_gru_cells_walked_by_hand() -> None:
    encoder = GruEncoder(3, 4, layers=1, dropout=0.0).double()
    embedded = torch.randn(2, 5, 3, dtype=torch.double)
    annotations, summary = encoder(embedded, torch.tensor([5, 3]))
    for i, length in enumerate((5, 3)):
        halves = []
        for suffix, order in (("", range(length)), ("_reverse", reversed(range(length)))):
            cell = nn.GRUCell(3, 4).double()
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(cell, name).data = getattr(encoder.rnn, f"{name}_l0{suffix}").data
            hidden, states = torch.zeros(4, dtype=torch.double), {}
            for j in order:
                hidden = cell(embedded[i, j], hidden)
                states[j] = hidden
            halves.append((torch.stack([states[j] for j in range(length)]), hidden))
        assert torch.allclose(annotations[i, :length], torch.cat([states for states, _ in halves], -1))
        assert torch.allclose(summary[i], torch.cat([last for _, last in halves]))
        assert (annotations[i, length:] == 0).all()


def test_bahdanau_step_by_the_papers_equations() -> None:
    """One step recomputed from the weights with no code of the package: attention, gates, maxout, output."""
    model = small_model("bahdanau")
    memory = model.encode(SOURCES[:1], LENGTHS[:1])
    state = model.start(memory)
    weights = dict(model.decoder.named_parameters())
    h, s = memory.annotations[0], state.hidden[0]
    assert torch.allclose(s, torch.tanh(weights["initial.weight"] @ h[0, 4:] + weights["initial.bias"]))
    keys = h @ weights["attention.key.weight"].T + weights["attention.key.bias"]
    energies = torch.tanh(weights["attention.query.weight"] @ s + keys) @ weights["attention.energy.weight"][0]
    alpha = energies.exp() / energies.exp().sum()
    c = alpha @ h
    y = model.target_embedding.weight[2]
    x = weights["embedding_gates.weight"] @ y + weights["embedding_gates.bias"] + weights["context_gates.weight"] @ c
    u = weights["update.recurrent.weight"] @ s + weights["update.recurrent.bias"]
    r, z = torch.sigmoid(x[:8] + u[:8]), torch.sigmoid(x[8:16] + u[8:16])
    s = (1 - z) * torch.tanh(x[16:] + r * u[16:]) + z * s
    t = weights["state_readout.weight"] @ s + weights["state_readout.bias"]
    t = t + weights["embedding_readout.weight"] @ y + weights["context_readout.weight"] @ c
    readout = torch.stack([torch.maximum(t[2 * k], t[2 * k + 1]) for k in range(5)])
    expected = (model.output.weight @ readout + model.output.bias).log_softmax(-1)
    log_probs, after, attention = model.step(torch.tensor([2]), state)
    assert attention is not None
    assert torch.allclose(attention[0], alpha)
    assert torch.allclose(after.hidden[0], s)
    assert torch.allclose(log_probs[0], expected.float(), atol=1e-6)


def test_luong_feeds_the_attentional_vector_only_where_asked() -> None:
    for attention, fed in (("luong general", True), ("luong general without feeding", False)):
        model = small_model(attention)
        state = model.start(model.encode(SOURCES, LENGTHS))
        _, after, _ = model.step(TARGETS[:, 0], state)
        assert (after.attentional is not None) == fed


@pytest.mark.parametrize("tie", ["target", "all"])
def test_tied_embeddings_are_one_tensor(tie: str) -> None:
    from nmt.model import build_model

    model = build_model(model_config(embeddings={"size": 5, "tie": tie}), TARGET, TARGET)
    assert model.output.weight is model.target_embedding.weight
    assert (model.source_embedding.weight is model.target_embedding.weight) == (tie == "all")


@pytest.mark.parametrize("kind", ["xavier", "bahdanau"])
def test_recurrent_matrices_start_orthogonal(kind: str) -> None:
    from nmt.model import build_model

    model = build_model(model_config(initialisation={"type": kind}), SOURCE, TARGET)
    parameters = dict(model.named_parameters())
    matrices = [parameters[name] for name in ("decoder.update.recurrent.weight", "encoder.rnn.weight_hh_l0")]
    for block in (block for matrix in matrices for block in matrix.chunk(3)):
        assert torch.allclose(block @ block.T, torch.eye(len(block)), atol=1e-5)


def test_uniform_initialisation_keeps_its_range() -> None:
    from nmt.model import build_model

    model = build_model(model_config(initialisation={"type": "uniform", "range": 0.05}), SOURCE, TARGET)
    values = torch.cat([p.flatten() for p in model.parameters()])
    assert values.abs().max() <= 0.05
    assert values.std().item() == pytest.approx(0.05 / 3**0.5, rel=0.1)


def test_stacked_encoder_ignores_padding_too() -> None:
    model = small_model("bahdanau", encoder={"hidden": 4, "layers": 3})
    together, _ = model(SOURCES, LENGTHS, TARGETS)
    alone, _ = model(SOURCES[1:2, :2], LENGTHS[1:2], TARGETS[1:2])
    assert torch.allclose(together[1], alone[0], atol=1e-12)
