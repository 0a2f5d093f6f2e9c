"""What commands show on standard error: at a terminal, and where there is none."""

import io
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from nmt.cli.command import Command
from nmt.cli.terminal import Terminal, say
from nmt.errors import DataError
from nmt.messages import Detail, Result, counted, progress_bar

Show = Callable[..., str]


def show_all() -> None:
    say("a message")
    say(Detail("a detail"))
    with progress_bar("outer work", 10, "updates", 3) as outer:
        outer.note("loss 1.25")
        for _ in counted(range(4), "inner work", 4, "pairs"):
            outer.advance()
            time.sleep(0.001)
        say("the best row")
    with progress_bar("unknown work", None, "texts", 0):
        pass
    say(Result("a result"))
    print("42")
    raise DataError("a.txt: empty")


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Run the command: what it shows on standard error."""

    def call(*arguments: str, terminal: bool) -> str:
        shown = io.StringIO()
        monkeypatch.setattr(shown, "isatty", lambda: terminal)
        with monkeypatch.context() as patched:
            patched.setattr("sys.stderr", shown)
            for name in ("SHOWN_AFTER", "SAY_EVERY"):
                patched.setattr(f"nmt.cli.terminal.{name}", 0.0)
            assert Command(show_all)(arguments) == 2
        assert capsys.readouterr() == ("42\n", "")
        return shown.getvalue()

    return call


def test_bars_at_a_terminal(show: Show) -> None:
    screen = show(terminal=True)
    assert re.search(r"outer work:  \d+%\|.*\| \d/10 updates \[\d\d:\d\d<.*, loss 1\.25\]", screen)
    assert re.search(r"inner work: +\d+%\|.*\| \d/4 pairs \[\d\d:\d\d<", screen)
    assert "unknown work: 0 texts [00:00" in screen
    assert "a message\n" in screen and "the best row\n" in screen


def test_dated_lines_where_there_is_no_terminal(show: Show) -> None:
    err = show(terminal=False).splitlines()
    dated = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
    progress = [line for line in err if re.match(dated, line)]
    for pattern in (
        r"inner work: 1 of 4 pairs \(25%\), .* pairs/s, .* left",
        r"outer work: 4 of 10 updates \(40%\), .* updates/s, .* left, loss 1\.25",
    ):
        assert any(re.fullmatch(dated + pattern, line) for line in progress), pattern
    others = [line for line in err if line not in progress]
    assert others == ["a message", "the best row", "a result", "nmt-show-all: error: a.txt: empty"]
    assert not any("\x1b" in line or "\r" in line for line in err)


def test_quiet_and_verbose(show: Show) -> None:
    for terminal in (False, True):
        assert show("--quiet", terminal=terminal) == "a result\nnmt-show-all: error: a.txt: empty\n"
    err = show("--verbose", terminal=False)
    assert "a detail" in err and "Traceback (most recent call last):" in err
    assert re.search(r"^outer work: 4 updates in \d+s$", err, re.MULTILINE)


def test_a_message_and_its_end_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of torchrun share a log: a line of one must not go on in that of another."""
    written: list[str] = []
    monkeypatch.setattr("sys.stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    Terminal().write("a problem\nand another")
    assert "".join(written) == written[0] == "a problem\nand another\n"


def test_nothing_is_shown_without_a_display(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("work", 3, "pairs") as shown:
        shown.advance()
        shown.note("a note")
    assert list(counted(range(3), "more", None, "pairs")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_closed_stream_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Mock(write=Mock(side_effect=BrokenPipeError)))
    say("anyone?")
