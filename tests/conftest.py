"""No test reads or writes outside its own folders, and none reaches the network."""

import os
import tempfile

import torch

_SCRATCH = tempfile.TemporaryDirectory(prefix="nmt-tests-")
os.environ.update(  # here, before anything imports matplotlib or datasets, which read them once
    NMT_CACHE=f"{_SCRATCH.name}/cache",
    HF_HOME=f"{_SCRATCH.name}/hub",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    MPLBACKEND="Agg",
    MPLCONFIGDIR=f"{_SCRATCH.name}/matplotlib",
)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports a kernel
torch.set_num_threads(1)  # the models of the tests are too small to share
