"""A corpus, and trainers that have not begun."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import Config
from nmt.data.dataset import prepare
from nmt.device import resolve_device
from nmt.model import build_model
from nmt.runs.directory import RunDirectory
from nmt.training.log import Log
from nmt.training.trainer import Trainer
from tests.small_run import config
from tests.training.trainers import Make


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and its cache; each test names a run of its own."""
    return tmp_path_factory.mktemp("training")


@pytest.fixture
def make(folder: Path, tmp_path: Path) -> Iterator[Make]:
    """Trainers in double precision that have not begun; what they say is in ``said``."""
    logs: list[Log] = []

    def make(said: list[str] | None = None, sections: dict[str, Any] | None = None, **training: Any) -> Trainer:
        configuration = config(folder, **training)
        if sections:
            configuration = Config.model_validate(configuration.model_dump() | sections)
        prepared = prepare(configuration)
        torch.manual_seed(1)
        sizes = prepared.tokenizers.source.size, prepared.tokenizers.target.size
        model = build_model(configuration.model, *sizes).double()
        run = RunDirectory(tmp_path / f"run-{len(logs)}")
        run.path.mkdir()
        logs.append(Log(run, (said if said is not None else []).append))
        return Trainer(configuration, prepared, model, run, logs[-1], resolve_device("cpu"))

    yield make
    for log in logs:
        log.close()
