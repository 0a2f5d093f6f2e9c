"""A corpus, and trainers that have not begun."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import Config
from nmt.data.dataset import prepare
from nmt.runs.directory import RunDirectory
from nmt.training.machine import Machine
from nmt.training.reports import Log
from nmt.training.train import make_model, make_trainer
from nmt.training.trainer import Trainer
from tests.small_run import config
from tests.training.trainers import Make


@pytest.fixture
def make(folder: Path, tmp_path: Path) -> Make:
    """Trainers in double precision that have not begun; what they say is in ``said``."""
    numbers = count()

    def make(said: list[str] | None = None, sections: dict[str, Any] | None = None, **training: Any) -> Trainer:
        configuration = config(folder, **training)
        if sections:
            configuration = Config.model_validate(configuration.model_dump() | sections)
        prepared = prepare(configuration)
        torch.manual_seed(1)
        model = make_model(configuration.model, prepared.tokenizers).double()
        run = RunDirectory(tmp_path / f"run-{next(numbers)}")
        run.path.mkdir()
        log = Log(run, (said if said is not None else []).append)
        machine = Machine(torch.device("cpu"), torch.float64, configuration.kernels)
        return make_trainer(configuration, prepared, model, run, log, machine)

    return make
