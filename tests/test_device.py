"""Cores and devices: which a process takes, how it computes there, and what means out of memory. GPUs are imitated."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from nmt.cores import SPINS, share_cores, time_limit
from nmt.device import out_of_memory, resolve_device
from nmt.errors import ConfigError
from nmt.training import world
from nmt.training.world import joined


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (torch.AcceleratorError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'", 2), True),
        (RuntimeError("CUDA driver error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("NCCL error: unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (Exception("out of resource: shared memory, Required: 262144, Hardware limit: 232448"), False),
        (ValueError("CUDA error: out of memory"), False),
    ],
)
def test_what_means_out_of_memory(error: Exception, expected: bool) -> None:
    assert out_of_memory(error) == expected


def test_an_error_raised_while_memory_was_short_means_so_too() -> None:
    """As the end of a capture that ran out of memory."""
    try:
        try:
            raise torch.OutOfMemoryError
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
    except RuntimeError as error:
        assert out_of_memory(error)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Imitate eight GPUs and a launcher; -> the devices that become current ones."""
    current: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    for products in ("cuda.matmul", "cudnn.conv", "cudnn.rnn"):
        monkeypatch.setattr(f"torch.backends.{products}", SimpleNamespace(fp32_precision="tf32"))
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    return current


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:1"])
def test_fp32_on_a_gpu_is_not_tf32(name: str, gpus: list[Any]) -> None:
    backends: Any = torch.backends
    assert resolve_device(name).type == "cuda"
    for products in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
        assert products.fp32_precision == "ieee"


@pytest.mark.parametrize(("count", "local", "expected"), [(8, 3, "cuda:3"), (1, 3, "cuda:0"), (1, 0, "cuda:0")])
def test_a_process_takes_its_own_gpu(
    count: int, local: int, expected: str, gpus: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only one that it sees, whatever its number among the processes of the machine."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setenv("LOCAL_RANK", str(local))
    assert world._own_device("auto") == torch.device(expected) and gpus == [torch.device(expected)]


def test_more_processes_than_gpus_are_refused(gpus: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "8")
    with pytest.raises(ConfigError, match="PyTorch sees 8"):
        world._own_device("auto")
    with pytest.raises(ConfigError, match="would be used by all processes"):
        world._own_device("cuda:1")
    problem = "NCCL error in: NCCLUtils.cpp:93\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 3d000"
    assert world._Processes._why(Mock(), problem).startswith("several processes share one GPU; start fewer")


def test_gpus_are_connected_before_the_first_batch(gpus: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum on the GPU is made at the start."""
    device, made = torch.device("cuda:0"), Mock()
    monkeypatch.setattr(world, "_store", Mock())
    monkeypatch.setattr(torch, "zeros", lambda size, device: device)
    monkeypatch.setattr(world, "distributed", made)
    with joined("cuda", 5.0):
        assert made.init_process_group.call_args.kwargs["device_id"] == device
        assert [call.args[0] for call in made.all_reduce.call_args_list] == [device]


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/job\n", {"job": "250000 100000"}, 2.5),
        ("0::/a/b/c\n", {"a": "150000 100000", "a/b": "400000 100000", "a/b/c": "max 100000"}, 1.5),
        ("0::/job\n", {"job": "max 100000"}, None),
        ("0::/../elsewhere\n", {}, None),
        ("", {}, None),
    ],
)
def test_the_tightest_limit_counts(membership: str, files: dict[str, str], limit: float | None, tmp_path: Path) -> None:
    for name, text in files.items():
        group = tmp_path / "cgroup" / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.max").write_text(f"{text}\n", "ascii")
    (tmp_path / "membership").write_text(membership, "ascii")
    assert time_limit(tmp_path / "cgroup", tmp_path / "membership") == limit


@pytest.mark.parametrize(
    ("chosen", "limit", "expected"),
    [
        ({}, 2.5, {"GOMP_SPINCOUNT": str(SPINS), "OMP_NUM_THREADS": "3"}),
        ({}, None, {"GOMP_SPINCOUNT": str(SPINS)}),
        ({}, 8.0, {"GOMP_SPINCOUNT": str(SPINS)}),
        ({"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "5"}, 2.5, {"GOMP_SPINCOUNT": "7", "OMP_NUM_THREADS": "5"}),
        ({"OMP_WAIT_POLICY": "active"}, None, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_threads_sleep_soon_and_are_as_many_as_a_limit_allows_unless_the_user_chose(
    chosen: dict[str, str], limit: float | None, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.cores.cores", lambda: 8)
    monkeypatch.setattr("nmt.cores.time_limit", lambda: limit)
    monkeypatch.setattr(os, "environ", dict(chosen))
    share_cores()
    assert os.environ == expected
