"""The loss against NumPy, and the fused output layer against its plain twin."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.fast.kernels.output_loss import output_loss
from nmt.model.seq2seq import cross_entropy

WIDTH, VOCABULARY = 6, 11
Inputs = tuple[Tensor, nn.Linear, Tensor]


def inputs(rows: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> Inputs:
    """Readouts (N, O), the output layer, targets (N,)."""
    generator = torch.Generator().manual_seed(seed)
    readouts = torch.randn(rows, WIDTH, generator=generator, dtype=dtype).requires_grad_()
    output = nn.Linear(WIDTH, VOCABULARY, dtype=dtype)
    for parameter in output.parameters():
        nn.init.normal_(parameter, generator=generator)
    return readouts, output, torch.randint(VOCABULARY, (rows,), generator=generator)


def numpy_loss(readouts: Tensor, output: nn.Linear, targets: Tensor, smoothing: float) -> tuple[float, float]:
    """Cross-entropy with a target distribution that is written out in full (Szegedy et al. 2016)."""
    logits: npt.NDArray[Any] = (readouts @ output.weight.T + output.bias).detach().numpy()
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    gold = np.eye(VOCABULARY)[targets.numpy()]
    smoothed = (1 - smoothing) * gold + smoothing / VOCABULARY
    return float(-(smoothed * log_probabilities).sum()), float(-(gold * log_probabilities).sum())


def fused_and_plain(given: Inputs, smoothing: float, counted: Tensor | None = None) -> list[list[Tensor]]:
    """Objective, nll, gradients of readouts, weight, bias, scaled as in training; of some rows, or of all."""
    readouts, output, targets = given
    rows = slice(None) if counted is None else counted
    results = []
    for objective, nll in (
        output_loss(readouts, output.weight, output.bias, targets, smoothing, counted),
        cross_entropy(readouts[rows], output, targets[rows], smoothing),
    ):
        gradients = torch.autograd.grad(objective / 7, (readouts, output.weight, output.bias))
        results.append([objective, nll, *gradients])
    return results


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_loss_is_the_cross_entropy_with_the_smoothed_distribution(smoothing: float) -> None:
    readouts, output, targets = inputs(9)
    objective, nll = cross_entropy(readouts, output, targets, smoothing)
    assert (objective.item(), nll.item()) == pytest.approx(numpy_loss(readouts, output, targets, smoothing))
    assert objective.requires_grad and not nll.requires_grad


def test_bf16_logits_are_normalized_in_fp32() -> None:
    readouts, output, targets = inputs(300, torch.bfloat16)
    expected = functional.cross_entropy(output(readouts).float(), targets, reduction="sum").item()
    _, nll = cross_entropy(readouts, output, targets, 0.1)
    assert nll.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("all_count", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 11])
def test_fused_equals_plain(rows: int, all_count: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.fast.kernels.output_loss.CHUNK", 4)
    counted = None if all_count else torch.arange(rows) % 3 != 1
    fused, plain = fused_and_plain(inputs(rows), smoothing, counted)
    torch.testing.assert_close(fused, plain, rtol=1e-10, atol=1e-10)


def test_in_bf16_the_sums_and_the_gradient_of_the_weight_stay_fp32() -> None:
    readouts, output, targets = inputs(300, torch.float32)
    low = readouts.detach().bfloat16().requires_grad_()
    exact, _ = fused_and_plain((low.detach().float().requires_grad_(), output, targets), 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        objective, nll = output_loss(low, output.weight, output.bias, targets, 0.1)
    gradients = torch.autograd.grad(objective / 7, (low, output.weight, output.bias))
    fp32, bf16 = torch.float32, torch.bfloat16
    assert [each.dtype for each in (objective, nll, *gradients)] == [fp32, fp32, bf16, fp32, fp32]
    for found, right in zip((objective, nll, *gradients), exact, strict=True):
        assert (found.float() - right).norm() < 0.02 * right.norm()


def test_logits_far_apart_overflow_nothing() -> None:
    readouts, output, targets = inputs(4, torch.float32)
    with torch.no_grad():
        output.weight.mul_(1e4)
    for result in fused_and_plain((readouts, output, targets), 0.1):
        assert all(bool(each.isfinite().all()) for each in result)
