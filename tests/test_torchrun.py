"""A rank of torchrun is killed, and the run goes on with --resume."""

import os
import signal
from pathlib import Path

import pytest

from nmt.cli.experiment import main as nmt_experiment
from tests.torture.comparison import differences
from tests.torture.ranks import begin, children
from tests.torture.trial_folder import TrialFolder, wait_for


@pytest.mark.slow(seconds=40)
def test_a_run_whose_rank_was_killed_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path, updates=12)
    undisturbed = begin(folder, "undisturbed")
    _, err = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, err
    killed = begin(folder, "killed")
    assert wait_for(killed, "update ")
    os.kill(children(killed)[-1], signal.SIGKILL)
    _, err = killed.communicate(timeout=300)
    assert killed.returncode != 0
    assert "nmt-train: rank 0: error: rank 0 on " in err and "another process of the run has ended" in err
    resumed = begin(folder, "killed")
    _, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0 and "resumed after update " in err, err
    assert differences(folder.run("undisturbed"), folder.run("killed")) == []


def test_an_experiment_refuses_to_be_several_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert nmt_experiment(["--config", "configs/experiments/demo.yaml"]) == 2
    assert "nmt-experiment: rank 1: error: nmt-experiment starts processes of its own" in capsys.readouterr().err
