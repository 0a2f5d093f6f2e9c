"""What commands show on standard error: in a pseudo-terminal, and where there is none."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.cli import display
from nmt.cli.display import Terminal, Verbosity, columns, cut, letters, shade
from nmt.cli.display import draw_attention as draw
from nmt.messages import Detail, Result, counted, duration, shown_on, step
from tests.small_translator import ATTENTIONS, LINES
from tests.terminal import terminal, visible
from tests.test_cli_translate import save_run

PROGRAM = """
import argparse, sys
from nmt.cli import display
from nmt.cli.common import command, say
from nmt.errors import DataError
from nmt.messages import Detail, Highlight, Result, counted, step

display.SHOWN_AFTER = display.SAY_EVERY = 0.0
display.TICK = 0.01

def body(arguments):
    say("a message")
    say(Detail("a detail"))
    with step("outer work", 10, "updates", 3) as outer:
        outer.note("loss 1.25")
        for number in counted(range(4), "inner work", 4, "pairs"):
            outer.advance()
        say(Highlight("the best row"))
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


def in_terminal(*arguments: str, **environment: str) -> str:
    """What the program leaves and has shown in a terminal."""
    with terminal(PROGRAM, *arguments, environment=environment) as shown:
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


def test_a_terminal_without_a_size_has_bars_of_80_columns() -> None:
    """As in some containers; no line is wider."""
    with terminal(PROGRAM, columns=0) as shown:
        assert shown.end() == 2
        screen = shown.screen
    assert re.search(r"inner work: +\d+%\|.*\| \d/4 pairs \[\d\d:\d\d<", screen)
    assert max(len(line) for line in visible(screen)) <= 80
    drawn = [line for line in re.split(r"[\r\n]|\x1b\[[A-Z]", screen) if "work:" in line]
    assert drawn and max(map(len, drawn)) <= 80


def test_dated_lines_where_there_is_no_terminal() -> None:
    out, err = piped()
    assert out == ["42"]
    dated = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
    progress = [line for line in err if re.match(dated, line)]
    first = rf"{dated}inner work: 1 of 4 pairs \(25%\), [\d.,]+ pairs/s, \d+s left"
    assert any(re.fullmatch(first, line) for line in progress)
    assert any(re.fullmatch(rf"{dated}outer work: 4 of 10 updates \(40%\), .* left, loss 1\.25", line) for line in err)
    others = [line for line in err if line not in progress]
    assert others == ["a message", "the best row", "a result", "nmt-test: error: a.txt: empty"]
    assert not any("\x1b" in line or "\r" in line for line in err)


def test_quiet_and_verbose() -> None:
    for shown in (piped("--quiet")[1], in_terminal("--quiet", NO_COLOR="1").splitlines()):
        assert [line for line in shown if line != "42"] == ["a result", "nmt-test: error: a.txt: empty"]
    _, err = piped("--verbose")
    assert "a detail" in err and "Traceback (most recent call last):" in err
    assert any(re.fullmatch(r"outer work: 4 updates in \d+s", line) for line in err)
    done = subprocess.run([sys.executable, "-c", PROGRAM, "--quiet", "--verbose"], capture_output=True, check=False)
    assert b"not allowed with argument" in done.stderr


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colors_are_for_terminals_that_want_them(variable: str, value: str) -> None:
    colors = re.compile(r"\x1b\[[0-9;]+m")
    found = in_terminal()
    assert "\x1b[1;32mthe best row\x1b[0m" in found and "\x1b[1;31merror:\x1b[0m" in found
    assert not colors.search(in_terminal(**{variable: value}))
    assert colors.search(in_terminal(NO_COLOR=""))  # set, but empty: no-color.org


def test_lines_of_progress_are_not_frequent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nested steps share one clock."""
    now = [0.0]
    monkeypatch.setattr("nmt.cli.display.time.monotonic", lambda: now[0])
    with shown_on(Terminal()), step("outer", 100, "updates") as outer:
        for _ in range(100):
            for _ in counted(range(2), "inner", 2, "batches"):
                now[0] += 1
            outer.advance()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 200 // display.SAY_EVERY
    assert all("outer: " in line for line in lines)  # an inner step of two seconds says nothing
    assert lines[0].endswith("outer: 15 of 100 updates (15%), 0.5 updates/s, 2m 50s left")


@pytest.mark.parametrize(
    ("seconds", "said"), [(1, "4,190 pairs/s"), (1000, "4.19 pairs/s"), (100_000, "0.0419 pairs/s")]
)
def test_rates_have_no_powers_of_ten(
    seconds: float, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "SAY_EVERY", 0.5)
    now = [0.0]
    monkeypatch.setattr("nmt.cli.display.time.monotonic", lambda: now[0])
    with shown_on(Terminal()), step("work", 8380, "pairs") as shown:
        now[0] += seconds
        shown.advance(4190)
    assert f"work: 4,190 of 8,380 pairs (50%), {said}, " in capsys.readouterr().err


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


# --- attention in shades ----------------------------------------------------------------------------------------------


def test_shades_grow_with_the_weight() -> None:
    assert [shade(weight) for weight in (0.0, 0.19, 0.2, 0.4, 0.6, 0.8, 1.0)] == list("  ░▒▓██")


def test_a_drawing_by_hand() -> None:
    weights = np.array([[0.9, 0.1], [0.0, 1.0], [0.25, 0.5]])
    assert draw(weights, ["the", "cat"], ["die", "Katze", "!"], 80) == [
        "      t c",
        "      h a",
        "      e t",
        "die   ██",
        "Katze   ██",
        "!     ░░▒▒",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("words", [["a", "bb", "ccc"] * 12, ["猫", "が", "好き"] * 12, ["नमस्ते", "café"] * 18])
def test_drawings_fit_the_terminal_and_show_every_weight(width: int, words: list[str]) -> None:
    weights = np.ones((2, len(words)))
    lines = draw(weights, words, ["longest-target-word-of-all", "b"], width)
    assert max(map(columns, lines)) <= max(width, 17 + 8)
    cells = sum(line.count("█") for line in lines)
    assert cells in (2 * len(words), 4 * len(words))


def test_letters_columns_and_cuts() -> None:
    assert letters("cafe\u0301") == ["c", "a", "f", "e\u0301"] and columns("cafe\u0301") == 4
    assert columns("猫が") == 4 and cut("猫がいる", 5) == "猫が…"
    assert letters("a\x1b[31m") == ["a", "[", "3", "1", "m"]  # control characters never reach the terminal
    assert draw(np.zeros((0, 3)), ["a"] * 3, [], 80) == []


# --- commands ---------------------------------------------------------------------------------------------------------

COMMAND = "import sys; from nmt.cli.{} import main; sys.argv[0] = 'nmt-{}'; sys.exit(main())"


def test_translation_at_a_prompt_with_attention(tmp_path: Path) -> None:
    run = str(save_run(tmp_path / "run", ATTENTIONS[0]))
    program = COMMAND.format("translate", "translate")
    with terminal(program, "--model", run, "--device", "cpu", "--show-attention", columns=60) as shown:
        assert shown.wait_for("> ") == "type a line to translate; press Ctrl-D to end\n> "
        for line in LINES[:2]:
            shown.type(f"{line}\n")
            echo, _, *drawing, prompt = shown.wait_for("\n> ").split("\n")
            assert (echo, prompt) == (line, "> ")
            assert any(each in "".join(drawing) for each in "░▒▓█") and max(map(len, drawing)) <= 60
        shown.type("\x04")
        assert shown.end() == 0


def test_attention_that_is_not_there_cannot_be_shown(tmp_path: Path) -> None:
    run = str(save_run(tmp_path / "run", ATTENTIONS[2]))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format("translate", "translate"), "--model", run, "--show-attention"],
        input="a\n",
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert done.returncode == 2
    assert f"--show-attention: {run} has no attention (model.attention.type is none)" in done.stderr
