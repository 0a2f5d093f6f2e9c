"""Dropout from our own generator."""

import pytest
import torch

from nmt.model.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
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


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 4), (2, 3, 5)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    out = dropout(torch.ones(shape), 0.5)
    assert out.shape == shape and set(out.flatten().tolist()) <= {0.0, 2.0}


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
