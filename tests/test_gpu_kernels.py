"""The Triton kernels of the recurrences against PyTorch's operations: on a GPU, or elsewhere in Triton's interpreter.

The interpreter truncates where a GPU rounds to bf16, so that bounds in bf16 are wide.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.fast.kernels import recurrence, torch_steps
from nmt.fast.kernels.attending import attending_sequence
from nmt.fast.kernels.recurrence import cell_sequence
from tests.test_fast_training import check_equal, network, outcome

gpu = pytest.importorskip("nmt.fast.kernels.triton_steps", reason="needs Triton")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, gpu)


def use(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    monkeypatch.setattr(recurrence, "steps_on", lambda device: module)


def attending(dtype: torch.dtype, sentences: int, positions: int, units: int, width: int) -> list[Tensor]:
    """Results and gradients of three steps, the sentences of all lengths."""
    generator = torch.Generator().manual_seed(1)
    hidden = 5
    of_memory = (3, 3 * hidden, sentences), (hidden, sentences), (sentences, positions, units)
    of_layers = (3 * hidden, hidden), (3 * hidden,), (3 * hidden, width), (units, hidden), (units,)
    gates, initial, keys, annotations, recurrent, bias, context, query, energy = inputs = [
        (torch.randn(shape, generator=generator) / 2).to(DEVICE, dtype).requires_grad_()
        for shape in (*of_memory, (sentences, positions, width), *of_layers)
    ]
    lengths = torch.linspace(1, positions, sentences).long()
    mask = (torch.arange(positions) < lengths.unsqueeze(1)).to(DEVICE)
    layers: dict[str, Any] = {"recurrent": (recurrent, bias), "feeding": context, "additive": (query, energy)}
    states, contexts, weights = attending_sequence(
        "gru", gates, initial, keys, annotations, mask, combine=None, **layers
    )
    gradients = torch.autograd.grad((states.sin() + 1).sum() + (contexts.cos() * 2).sum(), inputs)
    assert not weights[:, ~mask].any()
    return [states.detach(), contexts.detach(), weights, *gradients]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 4, 7, 9), (2, 300, 20, 33), (4, 5, 16, 40)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_attending(
    dtype: torch.dtype, tolerance: float, sizes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of odd sizes, of several blocks of units, and of whole ones."""
    found = attending(dtype, *sizes)
    use(monkeypatch, torch_steps)
    for one, other in zip(attending(torch.float64, *sizes), found, strict=True):
        assert (one - other).norm() <= tolerance * max(one.norm().item(), 1)


@pytest.mark.parametrize(("hidden", "sentences"), [(1, 1), (3, 5), (40, 30)])
@pytest.mark.parametrize("padded", [False, True])
def test_gru_in_both_directions(padded: bool, hidden: int, sentences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(2)
    shapes = [(2, 2, 3 * hidden, sentences), (2, hidden, sentences), (2, 3 * hidden, hidden), (2, 3 * hidden)]
    gates, initial, weight, bias = inputs = [
        torch.randn(shape, generator=generator, dtype=torch.double).to(DEVICE).requires_grad_() for shape in shapes
    ]
    padding = (torch.rand(2, 2, sentences, generator=generator) < 0.5).to(DEVICE) if padded else None

    def run() -> list[Tensor]:
        states = cell_sequence("gru", gates, initial, weight, bias, padding)
        return [states.detach(), *torch.autograd.grad((states.sin() + 1).sum(), inputs)]

    found = run()
    use(monkeypatch, torch_steps)
    torch.testing.assert_close(run(), found, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="tests/test_gpu.py compares networks on a GPU")
@pytest.mark.parametrize("name", ["none, two layers", "bahdanau, two layers", "luong concat", "one direction"])
def test_a_network_of_them_is_the_plain_network(name: str) -> None:
    check_equal(outcome(network(name), "plain"), outcome(network(name), "auto"))


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from nmt.fast.kernels import triton_steps as gpu

TYPES = {"count": "i32", "inner": "i32", "sentences": "i32", "positions": "i32", "mask": "*i8", "energy": "*fp32"}
HIGH = {"state", "gates", "candidate", "next_state", "carry", "next_carry", "d_keys", "d_energy"}
STEPS = (gpu._advance, gpu._advance_back, {"BLOCK": 1024})
ATTENTION = (gpu._attend, gpu._attend_back, {"UNITS": 512, "WIDTH": 1024, "POSITIONS": 32, "BLOCK": 128})
SMALL = (gpu._attend, gpu._attend_back, {"UNITS": 1, "WIDTH": 1, "POSITIONS": 1, "BLOCK": 1})
for low, cases in (("*bf16", (STEPS, ATTENTION)), ("*fp32", (SMALL,))):
    for *kernels, constants in cases:
        for kernel in kernels:
            names = [parameter.name for parameter in kernel.params]
            signature = {
                name: "constexpr" if name in constants else TYPES.get(name, "*fp32" if name in HIGH else low)
                for name in names
            }
            source = ASTSource(kernel, signature, constants)
            print(len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]) > 0)
"""


@pytest.mark.slow
def test_a_gpu_would_be_given_machine_code(tmp_path: Path) -> None:
    """The interpreter runs what the compiler refuses, so compile for a GPU too: that needs none."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.split() == ["True"] * 6, run.stderr
