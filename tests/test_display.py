"""What commands show on standard error: in a pseudo-terminal, and where there is none."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.cli.common import Terminal, Verbosity
from nmt.messages import Detail, Result, counted, duration, step
from tests.small_translator import ATTENTIONS, LINES
from tests.terminal import terminal, visible
from tests.test_cli_translate import save_run

PROGRAM = """
import argparse, sys
from nmt.cli import common
from nmt.cli.common import command, say
from nmt.errors import DataError
from nmt.messages import Detail, Result, counted, step

common.SHOWN_AFTER = common.SAY_EVERY = 0.0

def body(arguments):
    say("a message")
    say(Detail("a detail"))
    with step("outer work", 10, "updates", 3) as outer:
        outer.note("loss 1.25")
        for number in counted(range(4), "inner work", 4, "pairs"):
            outer.advance()
        say("the best row")
    with step("unknown work", None, "texts", 0):
        import time
        time.sleep(0.1)
    say(Result("a result"))
    print("42")
    raise DataError("a.txt: empty")

sys.argv[0] = "nmt-test"
sys.exit(command(lambda: argparse.ArgumentParser(prog="nmt-test"))(body)())
"""


def piped(*arguments: str) -> tuple[list[str], list[str]]:
    """Standard output and standard error of the program without a terminal."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    return done.stdout.splitlines(), done.stderr.splitlines()


def in_terminal(*arguments: str) -> str:
    """What the program leaves and has shown in a terminal."""
    with terminal(PROGRAM, *arguments) as shown:
        assert shown.end() == 2
        return shown.screen


# --- a terminal, and none ---------------------------------------------------------------------------------------------


def test_bars_at_a_terminal_and_messages_above_them() -> None:
    screen = in_terminal()
    assert re.search(r"outer work:  \d+%\|.*\| \d/10 updates \[\d\d:\d\d<.*, loss 1\.25\]", screen)
    assert re.search(r"inner work: +\d+%\|.*\| \d/4 pairs \[\d\d:\d\d<", screen)
    assert "unknown work: 0 texts [00:00" in screen
    assert visible(screen) == [
        "a message",
        "the best row",
        "a result",
        "42",
        "nmt-test: error: a.txt: empty",
    ]


def test_dated_lines_where_there_is_no_terminal() -> None:
    out, err = piped()
    assert out == ["42"]
    dated = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
    progress = [line for line in err if re.match(dated, line)]
    assert any(
        re.fullmatch(rf"{dated}inner work: 1 of 4 pairs \(25%\), .* pairs/s, .* left", line) for line in progress
    )
    outer = rf"{dated}outer work: 4 of 10 updates \(40%\), .* updates/s, .* left, loss 1\.25"
    assert any(re.fullmatch(outer, line) for line in progress)
    others = [line for line in err if line not in progress]
    assert others == ["a message", "the best row", "a result", "nmt-test: error: a.txt: empty"]
    assert not any("\x1b" in line or "\r" in line for line in err)


def test_quiet_and_verbose() -> None:
    for shown in (piped("--quiet")[1], in_terminal("--quiet").splitlines()):
        assert [line for line in shown if line != "42"] == ["a result", "nmt-test: error: a.txt: empty"]
    _, err = piped("--verbose")
    assert "a detail" in err and "Traceback (most recent call last):" in err
    assert any(re.fullmatch(r"outer work: 4 updates in \d+s", line) for line in err)
    done = subprocess.run([sys.executable, "-c", PROGRAM, "--quiet", "--verbose"], capture_output=True, check=False)
    assert b"not allowed with argument" in done.stderr


def test_a_message_and_its_end_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of torchrun share a log: a line of one must not go on in that of another."""
    written: list[str] = []
    monkeypatch.setattr("sys.stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    Terminal().write("a problem\nand another")
    assert "".join(written) == written[0] == "a problem\nand another\n"


def test_nothing_is_shown_without_a_display(capsys: pytest.CaptureFixture[str]) -> None:
    with step("work", 3, "pairs") as shown:
        shown.advance()
        shown.expect(4)
        shown.note("a note")
    assert list(counted(range(3), "more", None, "pairs")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_messages_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    for verbosity in Verbosity:
        for line in ("message", Detail("detail"), Result("result")):
            Terminal(verbosity).say(line)
    assert capsys.readouterr().err.split() == ["result", "message", "result", "message", "detail", "result"]


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (725, "12m 05s"), (12000, "3h 20m")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_translation_at_a_prompt(tmp_path: Path) -> None:
    run = str(save_run(tmp_path / "run", ATTENTIONS[0]))
    program = "import sys; from nmt.cli.translate import main; sys.exit(main())"
    with terminal(program, "--model", run, "--device", "cpu") as shown:
        assert shown.wait_for("> ") == "type a line to translate; press Ctrl-D to end\n> "
        for line in LINES[:2]:
            shown.type(f"{line}\n")
            echo, translation, prompt = shown.wait_for("\n> ").split("\n")
            assert (echo, prompt) == (line, "> ") and translation
        shown.type("\x04")
        assert shown.end() == 0
