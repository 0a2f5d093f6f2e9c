"""Local attention (Luong et al. 2015, section 3.2): windows, centers, Gaussians, the ends of sentences."""

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.config import schema
from nmt.model import Memory
from nmt.model.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from tests.models import score

LENGTHS = [7, 3, 1]


def predictive(window: int, *, normalize: bool = True) -> PredictiveLocalAttention:
    torch.manual_seed(3)
    scope = schema.PredictiveScope(type="local_p", window=window, hidden=5, normalize=normalize)
    return PredictiveLocalAttention(score("dot"), scope, 4).double()


def remembered() -> Memory:
    annotations = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    mask = torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1)
    return score("dot").prepare(Memory(annotations * mask.unsqueeze(-1), annotations.sum(1), mask))


def queries(count: int) -> Tensor:
    return torch.randn(3, count, 4, generator=torch.Generator().manual_seed(2), dtype=torch.double)


def test_local_m_by_hand() -> None:
    """Equal energies: at the left end two of three positions, in the middle three, behind the end the last two."""
    annotations = torch.zeros(1, 4, 2)
    plain = Memory(annotations, annotations.sum(1), torch.ones(1, 4, dtype=torch.bool), annotations)
    alpha = MonotonicLocalAttention(score("dot"), 1).weights(torch.ones(1, 7, 2), torch.arange(7), plain)[0]
    third = [1 / 3] * 3
    end = [0, 0, 0.5, 0.5]
    for t, expected in enumerate(([0.5, 0.5, 0, 0], [*third, 0], [0, *third], end, end, end, end)):
        assert alpha[t].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("normalize", [True, False])
def test_local_p_against_numpy(normalize: bool) -> None:
    """Eq. 9 and 10, position by position."""
    attention, memory, query = predictive(2, normalize=normalize), remembered(), queries(4)
    alpha = attention.weights(query, torch.arange(4), memory).detach().numpy()
    hidden, center = attention.hidden.weight.detach().numpy(), attention.center.weight.detach().numpy()[0]
    for b, length in enumerate(LENGTHS):
        for t in range(4):
            s, h = query[b, t].numpy(), memory.annotations[b, :length].numpy()
            p = length / (1 + np.exp(-center @ np.tanh(hidden @ s)))
            places = np.arange(length)
            energies = np.exp(h @ s) * (abs(places - p) <= 2)
            expected = energies / energies.sum() * np.exp(-((places - p) ** 2) / (2 * 1.0**2))  # sigma = D / 2 = 1
            expected = expected / expected.sum() if normalize else expected
            assert np.allclose(alpha[b, t, :length], expected)
            assert (alpha[b, t, length:] == 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_center_at_the_very_end_leaves_something_to_read(sign: int) -> None:
    """The sigmoid is 0 or 1 to the last digit, so that the center is the first position, or one behind the last."""
    attention = predictive(1)
    attention.hidden.weight.data.fill_(sign * 1e3)
    attention.center.weight.data.fill_(1e3)
    query = queries(2).abs().requires_grad_()
    alpha = attention.weights(query, torch.arange(2), remembered())
    assert (alpha.sum(-1) > 0).all() and alpha.isfinite().all()
    (gradient,) = torch.autograd.grad(alpha[..., 0].sum(), query)
    assert gradient.isfinite().all()
