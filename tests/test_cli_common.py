"""How every command ends, what its ``--help`` says, and the options that several commands share."""

import argparse
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from nmt import __version__
from nmt.cli.common import EXAMPLES, Body, command, say
from nmt.cli.files import Output
from nmt.cli.signature import Command, Device, InputFile, Value, reader, whole
from nmt.cli.translate import main as translate
from nmt.config.schema import Decoding
from nmt.errors import DataError, NmtWarning

Text = Annotated[str, Value("TEXT")]
COMMANDS: dict[str, str] = tomllib.loads(Path(__file__).parent.parent.joinpath("pyproject.toml").read_text("utf-8"))[
    "project"
]["scripts"]


def run(body: Body, *argv: str) -> int:
    return command(lambda: argparse.ArgumentParser(prog="nmt-test"))(body)(list(argv))


def raising(error: BaseException) -> Body:
    def body(arguments: argparse.Namespace) -> None:
        raise error

    return body


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_results_go_to_standard_output_and_the_code_is_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lambda arguments: print("a result")) == 0
    assert capsys.readouterr() == ("a result\n", "")
    assert run(lambda arguments: 143) == 143


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            DataError("a.txt:3: not UTF-8", "b.txt: empty"),
            "nmt-test: error: a.txt:3: not UTF-8\nnmt-test: error: b.txt: empty\n",
        ),
        (
            FileNotFoundError(2, "No such file or directory", "out/x"),
            "nmt-test: error: out/x: No such file or directory\n",
        ),
        (OSError(28, "No space left on device"), "nmt-test: error: No space left on device\n"),
        (OSError("the hub is away"), "nmt-test: error: the hub is away\n"),
        (TimeoutError(), "nmt-test: error: TimeoutError\n"),
    ],
)
def test_what_a_user_can_put_right_is_told_without_a_traceback(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(error)) == 2
    assert capsys.readouterr() == ("", said)


def test_verbose_shows_where_it_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(raising(DataError("a.txt: empty")), "--verbose") == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("nmt-test: error: a.txt: empty\n")


def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run(raising(ZeroDivisionError()))


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "nmt-test: interrupted\n")


def test_version_and_wrong_options_return(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(raising(AssertionError()), "--version") == 0
    assert capsys.readouterr().out == f"nmt-attention {__version__}\n"
    assert run(raising(AssertionError()), "--nonsense") == 2
    assert capsys.readouterr().err.endswith("nmt-test: error: unrecognized arguments: --nonsense\n")


def test_the_nearest_option_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (
            ["--model", "run", "--beam-sise=3"],
            "unrecognized arguments: --beam-sise=3; --beam-sise: nearest: --beam-size",
        ),
        (["--modle", "run"], "the following arguments are required: --model; --modle: nearest: --model"),
        (["--model", "run", "--zzz"], "unrecognized arguments: --zzz"),
        (
            ["--model", "run", "--n-best", "0"],
            "argument --n-best: found '0'; must be a whole number of at least 1",
        ),
    ):
        assert translate(words) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"nmt-translate: error: {said}"


# --- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_default_and_ends_with_two_examples(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    module = importlib.import_module(COMMANDS[name].partition(":")[0])
    assert module.main(["--help"]) == 0
    text = capsys.readouterr().out
    body, _, examples = text.partition(f"\n{EXAMPLES}\n")
    assert "`" not in text and "\n\n" in body
    options = {
        option: re.sub(r"\s+", " ", entry)
        for entry in re.split(r"\n(?=  -)", body)
        if (option := re.match(r"  (--[a-z-]+) (?=[A-Z{])", entry))
    }
    assert [entry for entry in options.values() if not re.search(r"\(default: .+\)|required", entry)] == []
    lines = examples.splitlines()
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(re.split(r"[<>]", line.rpartition("|")[2])[0])
        assert shlex.join(words).startswith(f"{name} ")
        module.main.parser().parse_args(words[len(name.split()) :])


def test_a_warning_for_users_is_told_once_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def body(arguments: argparse.Namespace) -> None:
        for _ in range(3):
            warnings.warn("no font for it", NmtWarning, stacklevel=1)

    assert run(body) == 0
    assert capsys.readouterr() == ("", "nmt-test: warning: no font for it\n")


# --- pipes ------------------------------------------------------------------------------------------------------------

SCRIPT = """
import argparse, sys
from nmt.cli.common import command, say
def body(arguments):
    for number in range(int(sys.argv[1])):
        print(number)
sys.argv[0] = "nmt-test"
sys.exit(command(lambda: argparse.ArgumentParser())(body)([]))
"""


def test_a_reader_that_goes_away_ends_it_without_a_word() -> None:
    for lines in 1, 100_000:  # what fits the buffer is written at the end only
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(lines)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 141


def test_a_reader_of_lines_that_goes_away_is_no_error_of_the_file() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as stream, pytest.raises(BrokenPipeError):
        Output("standard output", stream, str).write(["a"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_an_output_that_is_full_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", SCRIPT, "1"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"nmt-test: error: No space left on device\n")


def test_nobody_needs_to_listen_to_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    say("anyone?")


# --- options ----------------------------------------------------------------------------------------------------------


def test_a_typed_function_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    seen = list[Any]()

    def weigh_words(
        texts: list[InputFile],
        *,
        times: Annotated[int, Field(ge=1, le=9)] = 2,
        pairs: list[Text] | None = None,
        unit: Literal["g", "kg"] | None = None,
        heavy: bool = False,
        device: Device = "auto",
        **decoding: Any,
    ) -> None:
        """Weigh words.

        Args:
            texts: what is weighed
            times: how often

        More:
            pairs: two
                words
            unit: of 100% of the weight (default: that of the text)
            heavy: add a weight

        examples:
          nmt-weigh-words a
        """
        seen.append((texts, times, pairs, unit, heavy, decoding))

    main = Command(weigh_words)
    here = [__file__]
    assert main([*here, "--quiet"]) == 0
    assert main([*here, "--times", "3", "--pairs", "a", "b", "--unit", "kg", "--heavy", "--beam-size", "4"]) == 0
    assert main([*here, "--pairs", "a", "--pairs", "b"]) == 0
    assert seen == [
        (here, 2, None, None, False, {}),
        (here, 3, ["a", "b"], "kg", True, {"beam_size": 4}),
        (here, 2, ["a", "b"], None, False, {}),
    ]
    assert main([*here, "--times", "10"]) == 2 and main([*here, "--beam-size", "0"]) == 2 and main(["nowhere"]) == 2
    assert "nmt-weigh-words: error: nowhere: no such file" in capsys.readouterr().err
    assert main(["--help"]) == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "more: --pairs TEXT [TEXT ...] two words (default: none) --unit {g,kg} of 100% of the weight (def" in text
    assert "--times N how often (default: 2)" in text and "--heavy add a weight" in text
    assert "--device NAME auto, cpu, " in text
    assert all(f"--{name.replace('_', '-')} " in text for name in Decoding.model_fields)


@pytest.mark.parametrize("text", ["0", "11", "-1", "1.5", "ten", "", "9" * 23])
def test_whole_numbers_out_of_bounds_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        whole(1, 10)(text)
    assert str(caught.value) == f"found '{text}'; must be a whole number of at least 1 and up to 10"
    assert whole(1, 10)("10") == 10 and whole(1)("11") == 11


@pytest.mark.parametrize("text", ["-0.1", "2", "nan", "inf", "-inf", "1e999", "x"])
def test_numbers_out_of_bounds_are_refused(text: str) -> None:
    read = reader(Annotated[float, Field(ge=0, le=1)])
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        read(text)
    assert str(caught.value) == f"found '{text}'; must be a number of at least 0 and up to 1"
    assert read("0.5") == 0.5
