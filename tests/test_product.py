"""Products by either library are products."""

import pytest
import torch
from torch import Tensor

from nmt.fast.kernels import products as module
from nmt.fast.kernels.products import add_product, product


@pytest.fixture(params=["fastest", "PyTorch's"], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "PyTorch's":
        monkeypatch.setattr(module, "_LINEAR", None)


def close(found: Tensor, exact: Tensor) -> None:
    assert found.shape == exact.shape
    tolerance = 2e-2 if found.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(found.double(), exact.double(), rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 5, 7), (33, 17, 1), (0, 4, 3)])
@pytest.mark.parametrize("transposed", ["neither", "left", "right", "both"])
def test_two_matrices(m: int, k: int, n: int, transposed: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    left, right = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    if transposed in ("left", "both"):
        left = left.T.contiguous().T
    if transposed in ("right", "both"):
        right = right.T.contiguous().T
    exact = left.double() @ right.double()
    close(product(left, right), exact)
    addend = torch.randn(m, 1, dtype=dtype)
    close(add_product(addend, left, right), exact + addend)
    left_slice = torch.randn(m, k + 3, dtype=dtype)[:, :k]
    close(product(left_slice, right), left_slice.double() @ right.double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_several_side_by_side(dtype: torch.dtype) -> None:
    left, right, addend = (torch.randn(2, *shape, dtype=dtype) for shape in ((3, 4), (4, 5), (3, 1)))
    exact = left.double() @ right.double()
    close(product(left, right), exact)
    close(add_product(addend, left, right), exact + addend)
