"""Dropout from our own generator."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nmt.model import Seq2Seq
from nmt.model.decoders import RecurrentState
from nmt.model.dropout import Dropout, VariationalDropout, WordDropout, dropout
from nmt.model.encoders import RecurrentEncoder
from tests.models import AFTER, BAHDANAU, LUONG, recurrent, small_model


@pytest.mark.parametrize("p", [0.1, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_so_many_are_dropped_and_the_mean_stays(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    out = dropout(torch.ones(400, 501, dtype=dtype), p)  # 2 * 10^5 draws: a standard deviation is at most 0.0011
    assert out.dtype == dtype
    kept = out != 0
    assert 1 - kept.double().mean().item() == pytest.approx(p, abs=0.006)
    assert torch.equal(out[kept], torch.full_like(out[kept], 1 / (1 - p)))
    rows = kept.double().mean(1)  # no row or column is treated differently
    assert (rows - (1 - p)).abs().max() < 0.15 and (kept.double().mean(0) - (1 - p)).abs().max() < 0.17


def test_the_seed_of_pytorch_is_the_seed() -> None:
    x = torch.ones(7, 9)
    torch.manual_seed(2)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    assert not torch.equal(first, second)
    torch.manual_seed(2)
    assert torch.equal(dropout(x, 0.5), first)
    torch.manual_seed(3)
    assert not torch.equal(dropout(x, 0.5), first)


def test_neighbours_are_independent() -> None:
    """Four numbers come from one word of the generator."""
    torch.manual_seed(4)
    kept = (dropout(torch.ones(200_000), 0.5) != 0).double() - 0.5
    for apart in (1, 2, 3, 4):
        assert abs((kept[apart:] * kept[:-apart]).mean().item()) < 0.25 * 0.02


def test_all_or_nothing() -> None:
    x = torch.randn(50)
    assert torch.equal(dropout(x, 0.0), x)
    assert not dropout(x, 1.0).any()
    layer = Dropout(0.5)
    assert not torch.equal(layer(x), x)
    assert torch.equal(layer.eval()(x), x)


def test_the_gradient_is_that_of_what_was_kept() -> None:
    x = torch.randn(100, requires_grad=True)
    torch.manual_seed(5)
    out = dropout(x, 0.4)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad != 0, out != 0)
    assert torch.allclose(x.grad[out != 0], torch.tensor(1 / 0.6))


@pytest.mark.parametrize("shape", [(300, 7, 40), (1, 1, 40), (300, 40)])
def test_variational_dropout_draws_one_mask_a_sentence(shape: tuple[int, ...]) -> None:
    """As many units as with dropout, the mean stays, and the masks of two sentences are independent."""
    torch.manual_seed(6)
    x = torch.ones(shape)
    out = VariationalDropout(0.3)(x)
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    if len(shape) == 3:
        assert torch.equal(out, out[:, :1].expand(shape))
        out = out[:, 0]
    if len(out) > 1:  # 12,000 draws: a standard deviation is 0.004
        kept = (out != 0).double()
        assert kept.mean().item() == pytest.approx(0.7, abs=0.02)
        assert (kept[1:] * kept[:-1]).mean().item() == pytest.approx(0.49, abs=0.02)


@pytest.mark.parametrize("layer", [VariationalDropout(0.5), VariationalDropout(0.0)])
def test_variational_dropout_at_test_time_and_of_nothing_is_the_identity(layer: VariationalDropout) -> None:
    x, before = torch.randn(3, 4, 5), torch.get_rng_state()
    if layer.p:
        layer.eval()
    assert torch.equal(layer(x), x) and torch.equal(torch.get_rng_state(), before)


def test_a_word_is_dropped_wherever_it_stands_in_its_sentence() -> None:
    torch.manual_seed(7)
    tokens = torch.randint(20, (500, 12))
    out = WordDropout(0.3)(torch.ones(500, 12, 3), tokens)
    assert torch.equal(out, out[..., :1].expand(-1, -1, 3)), "an embedding is dropped as a whole"
    assert set(out.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    kept = [
        dict(zip(row, (mask != 0).tolist(), strict=True))
        for row, mask in zip(tokens.tolist(), out[..., 0], strict=True)
    ]
    for row, mask, by_word in zip(tokens.tolist(), out[..., 0], kept, strict=True):
        assert [by_word[word] for word in row] == (mask != 0).tolist()
    draws = torch.tensor([stays for by_word in kept for stays in by_word.values()], dtype=torch.double)
    assert draws.mean().item() == pytest.approx(0.7, abs=0.025)  # 4,600 draws: a standard deviation is 0.007
    of_one_word = [by_word[3] for by_word in kept if 3 in by_word]
    assert 0.5 < sum(of_one_word) / len(of_one_word) < 0.9, "each sentence draws its own"


def test_word_dropout_of_one_position_is_that_of_a_sentence_of_one_word() -> None:
    layer, tokens, embedded = WordDropout(0.5), torch.tensor([4, 4, 4, 4, 4, 4, 4, 4]), torch.ones(8, 2)
    torch.manual_seed(8)
    one = layer(embedded, tokens)
    torch.manual_seed(8)
    assert torch.equal(one, layer(embedded.unsqueeze(1), tokens.unsqueeze(1)).squeeze(1))
    assert 0 < (one[:, 0] != 0).sum() < 8, "rows are sentences of their own"


# --- between layers ---------------------------------------------------------------------------------------------------

SOURCES, LENGTHS = torch.tensor([[5, 4, 3, 6], [4, 5, 7, 0]]), torch.tensor([4, 3])
TARGETS = torch.tensor([[1, 4, 3, 5, 6], [1, 5, 7, 3, 2]])


def inputs_above(model: Seq2Seq, call: Callable[[], object]) -> dict[str, Tensor]:
    """What each layer above the first reads in a call, (B, T, H); its gates may be computed step by step."""
    seen: dict[str, list[Tensor]] = {}

    def reader(name: str) -> Callable[..., None]:
        return lambda module, inputs: seen.setdefault(name, []).append(inputs[0])

    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoder)
    above = {f"encoder {k}": ways[0].input_gates for k, ways in enumerate(encoder.directions[1:], 1)}
    above |= {f"decoder {k}": layer.input_gates for k, layer in enumerate(layers_of(model), 1)}
    hooks = [module.register_forward_pre_hook(reader(name)) for name, module in above.items()]
    call()
    for hook in hooks:
        hook.remove()
    return {name: each[0] if each[0].dim() == 3 else torch.stack(each, 1) for name, each in seen.items()}


def layers_of(model: Seq2Seq) -> list[Any]:
    upper = model.decoder.upper
    assert isinstance(upper, nn.ModuleList)
    return list(upper)


STACKED = {
    "bahdanau": recurrent({"layers": 3}, {"layers": 3}, BAHDANAU),
    "fed": recurrent({"layers": 2, "type": "lstm"}, {"layers": 3, "type": "lstm"}, LUONG),
    "after": recurrent({"layers": 2, "residual": True}, {"layers": 2, "residual": True}, AFTER),
    "coverage": recurrent({"layers": 2}, {"layers": 2}, BAHDANAU | {"score": "coverage"}),
}
PLACES = {"embedding": 0.0, "annotation": 0.5, "readout": 0.0}


def stacked(name: str, *, variational: bool) -> Seq2Seq:
    return small_model(dropout=PLACES | {"variational": variational}, **STACKED[name]).train()


@pytest.mark.parametrize("name", STACKED)
def test_variational_dropout_between_layers_drops_the_same_units_at_every_position(name: str) -> None:
    """Whether a decoder takes one step after the other or all at once; and others of another sentence and layer."""
    model = stacked(name, variational=True)
    found = inputs_above(model, lambda: model(SOURCES, LENGTHS, TARGETS))
    assert len(found) == sum(STACKED[name][part]["layers"] - 1 for part in ("encoder", "decoder"))
    for layer, read in found.items():
        zero = (read == 0)[:, : int(LENGTHS.min())]  # padding is not zero, but nothing is known of it
        assert 0.2 < zero.float().mean() < 0.8, layer
        assert torch.equal(zero, zero[:, :1].expand_as(zero)), layer
        assert (zero[0] != zero[1]).any(), layer
    masks = [(read == 0)[:, 0] for layer, read in found.items() if layer.startswith("decoder")]
    assert len(masks) == 1 or not torch.equal(masks[0], masks[1])


@pytest.mark.parametrize("name", STACKED)
def test_a_step_after_the_other_is_all_at_once(name: str) -> None:
    """With variational dropout, too: the state carries what is dropped."""
    model = stacked(name, variational=True)
    torch.manual_seed(3)
    logits, _ = model(SOURCES, LENGTHS, TARGETS)
    torch.manual_seed(3)
    state = model.start(model.encode(SOURCES, LENGTHS))
    for position, token in enumerate(TARGETS.unbind(1)):
        log_probs, state, _ = model.step(token, state)
        assert torch.allclose(log_probs, logits[:, position].log_softmax(-1).float(), atol=1e-6)


def test_what_stays_between_layers_is_scaled() -> None:
    """By 1 / (1 - p), so that its mean is that of evaluation mode; in training mode alone."""
    torch.manual_seed(9)
    like, layer = torch.randn(300, 40), VariationalDropout(0.3)
    mask = layer.mask(like)
    assert mask is not None and mask.shape == like.shape
    assert set(mask.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert mask.mean().item() == pytest.approx(1, abs=0.03)
    assert layer.eval().mask(like) is None and Dropout(0.3).mask(like) is None


def test_other_dropout_draws_its_own_numbers_at_every_position() -> None:
    """Masks are carried by the state in training mode and where dropout is variational only."""
    model = stacked("after", variational=False)
    for read in inputs_above(model, lambda: model(SOURCES, LENGTHS, TARGETS)).values():
        zero = read == 0
        assert not torch.equal(zero, zero[:, :1].expand_as(zero))
    for each in (model, stacked("after", variational=True).eval()):
        state = each.start(each.encode(SOURCES, LENGTHS))
        assert isinstance(state, RecurrentState) and state.kept == (None,)
