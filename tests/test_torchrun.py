"""torchrun starts killed processes again, and nothing is lost."""

import os
import signal
import sys
from pathlib import Path

import pytest

from nmt.cli.experiment import main as nmt_experiment
from tests.torture.comparison import differences, snapshot
from tests.torture.ranks import begin, children
from tests.torture.trial_folder import TrialFolder, start, wait_for

OF_A_TRIAL = ("--resume", "--overwrite", "--verbose")
"""What trials add to the arguments of ``nmt-train``; --verbose would say each error twice, in its traceback too."""


@pytest.mark.slow(seconds=40)
def test_torchrun_restarts_a_killed_rank(tmp_path: Path) -> None:
    """The run goes on from its checkpoint and ends as if nothing had happened."""
    folder = TrialFolder(tmp_path, updates=12)
    undisturbed = begin(folder, "undisturbed", restarts=0)
    _, err = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, err
    process = begin(folder, "killed", restarts=1)
    assert wait_for(process, "update ")
    os.kill(children(process)[-1], signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "nmt-train: rank 0: error: rank 0 on " in err
    assert "another process of the run has ended" in err
    assert "resumed after update " in err
    assert differences(folder.run("undisturbed"), folder.run("killed")) == []


@pytest.mark.slow
def test_a_restart_does_not_undo_a_refusal(tmp_path: Path) -> None:
    """A finished run is refused at the first start and at the second."""
    folder = TrialFolder(tmp_path, updates=4)
    assert folder.finish("finished") == []
    before = snapshot(folder.run("finished"))
    options = ["--standalone", "--nproc-per-node", "1", "--max-restarts", "1", "--no-python"]
    command = [str(Path(sys.executable).with_name("nmt-train")), *folder.arguments("finished")]
    process = start("torchrun", *options, *(part for part in command if part not in OF_A_TRIAL))
    _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    assert err.count("holds a run; continue it with --resume, or replace it with --overwrite") == 2
    assert snapshot(folder.run("finished")) == before


def test_an_experiment_refuses_to_be_several_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert nmt_experiment(["--config", "configs/experiments/demo.yaml"]) == 2
    assert "nmt-experiment: rank 1: error: nmt-experiment starts processes of its own" in capsys.readouterr().err
