"""No test reads or writes outside its own folders, and none reaches the network."""

import os
import tempfile

import pytest
import torch

_SCRATCH = tempfile.TemporaryDirectory(prefix="nmt-tests-")
os.environ.update(  # here, before anything imports matplotlib or datasets, which read them once
    NMT_CACHE=f"{_SCRATCH.name}/cache",
    HF_HOME=f"{_SCRATCH.name}/hub",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    MPLBACKEND="Agg",
    MPLCONFIGDIR=f"{_SCRATCH.name}/matplotlib",
    OMP_NUM_THREADS="1",  # of the commands that tests start: there are as many workers as cores
)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports a kernel
torch.set_num_threads(1)  # the models of the tests are too small to share


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have slow tests, so that no worker is left alone with them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
