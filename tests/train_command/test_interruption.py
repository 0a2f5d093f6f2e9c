"""How ``nmt-train`` is interrupted, and what it leaves."""

import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.terminal import StopRequest
from nmt.cli.train import main
from nmt.errors import Stopped
from nmt.runs.directory import RunDirectory
from nmt.training.trainer import Trainer
from tests.train_command.conftest import Train


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Tests that a script started in the background inherit an ignored SIGINT; no test changes what the next hears."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_before_the_first_update_saves_and_what_to_type_next_is_said(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run knows its configuration."""
    run = tmp_path / "a run"  # which the shell would take for two words
    create = RunDirectory.create

    def signalled(*arguments: Any, **how: Any) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        create(*arguments, **how)

    monkeypatch.setattr(RunDirectory, "create", signalled)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and training then does, too
    code, err = train("--output", run)
    stopped, _, typed = err.splitlines()[-1].partition(": nmt-train ")
    again = shlex.split(typed)
    assert (code, stopped, again) == (129, "stopped; continue with", ["--resume", "--output", str(run)])
    assert main(again) == 0 and "resumed after update 0\n" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_is_noted_a_second_one_is_not(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        stop()
        os.kill(os.getpid(), number)
        with pytest.raises(Stopped):
            stop()
        assert stop.signal == number
        assert signal.getsignal(number) == signal.SIG_DFL
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert capsys.readouterr().err == "stopping after this step; press Ctrl-C again to stop immediately\n"
    monkeypatch.setenv("RANK", "1")  # torchrun passes the signal on that the process gets, too
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        assert stop.signal == number and signal.getsignal(number) != signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_nohup_or_a_script_ignores_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        stop()
        assert signal.getsignal(number) == signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped):
            stop()
        assert stop.signal == signal.SIGTERM


def test_a_signal_after_the_last_update_is_noted_too(train: Train, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(trainer: Trainer, pause: Any) -> None:
        assert trainer.progress.complete(trainer.training)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "average_best", interrupted)
    signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the signal would have ended the process"))
    code, err = train("--output", run, "--resume", "--set", "training.updates=3")
    assert code == 143
    assert err.splitlines()[-1].startswith("stopped; continue with: nmt-train ")
