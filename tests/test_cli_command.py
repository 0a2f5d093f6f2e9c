"""How every command ends, what its ``--help`` says, and how a typed function becomes one."""

import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from unittest.mock import Mock

import pytest
from pydantic import Field

from nmt import __version__
from nmt.cli.command import Command
from nmt.cli.files import Output
from nmt.cli.options import EXAMPLES, SHARED, Device, InputFile, Value, docstring, options_of
from nmt.cli.train import main as train
from nmt.cli.translate import main as translate
from nmt.config.schema import Decoding
from nmt.errors import DataError, NmtWarning
from tests.test_docs import PAGES, PROJECT


def run(body: Callable[[], int | None], *argv: str) -> int:
    def test() -> int | None:
        return body()

    return Command(test)(argv)


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_results_go_to_standard_output_and_the_code_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lambda: print("a result")) == 0
    assert capsys.readouterr() == ("a result\n", "")
    assert run(lambda: 143) == 143


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (DataError("a.txt:3: not UTF-8", "b.txt: empty"), ["a.txt:3: not UTF-8", "b.txt: empty"]),
        (FileNotFoundError(2, "No such file or directory", "out/x"), ["out/x: No such file or directory"]),
        (OSError(28, "No space left on device"), ["No space left on device"]),
        (OSError("the hub is away"), ["the hub is away"]),
        (TimeoutError(), ["TimeoutError"]),
        (MemoryError(), ["out of memory (MemoryError); use smaller batches or a smaller model"]),
    ],
)
def test_user_errors_end_with_code_2(error: Exception, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Mock(side_effect=error)) == 2
    printed = "".join(f"nmt-test: error: {line}\n" for line in lines)
    assert capsys.readouterr() == ("", printed)
    assert run(Mock(side_effect=error), "--verbose") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback") and shown.endswith(printed)


def test_a_defect_is_not_hidden_and_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        run(Mock(side_effect=ZeroDivisionError()))
    assert run(Mock(side_effect=KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "nmt-test: interrupted\n")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Mock(side_effect=AssertionError()), "--version") == 0
    assert capsys.readouterr().out == f"nmt-attention {__version__}\n"


def test_a_wrong_option_is_one_line_that_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for words, problem in {
        "--modle run": "the following arguments are required: --model; --modle: nearest: --model",
        "--model run --beam-sise=3": "unrecognized arguments: --beam-sise=3; --beam-sise: nearest: --beam-size",
        "--model run --zzz": "unrecognized arguments: --zzz",
    }.items():
        assert translate(words.split()) == 2
        assert capsys.readouterr().err == f"nmt-translate: error: {problem}; nmt-translate --help lists the options\n"
    assert train(["--learning-rate", "3"]) == 2
    assert "; --learning-rate: write --set training.optimizer.learning_rate=VALUE; " in capsys.readouterr().err


def test_the_user_names_modules_to_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NMT_IMPORT", "this, no_parts")
    assert run(Mock(side_effect=AssertionError())) == 2
    out, said = capsys.readouterr()
    assert out.startswith("The Zen of Python")
    assert said.startswith("nmt-test: error: NMT_IMPORT: cannot import 'no_parts' (No module named 'no_parts'); ")
    (tmp_path / "own_parts.py").write_text("import pandaz")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NMT_IMPORT", "own_parts")
    assert run(Mock(side_effect=AssertionError())) == 2
    assert capsys.readouterr().err.endswith("cannot import 'own_parts' (No module named 'pandaz')\n")


def test_a_warning_for_users_is_printed_once_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        for _ in range(3):
            warnings.warn("no font for it", NmtWarning, stacklevel=1)

    assert run(body) == 0
    assert capsys.readouterr() == ("", "nmt-test: warning: no font for it\n")


# --- pipes ------------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from nmt.cli.command import Command
def test():
    for number in range(int(sys.argv[1])):
        print(number)
sys.exit(Command(test)([]))
"""


def test_a_reader_that_goes_away_ends_it_without_a_word() -> None:
    for lines in 1, 100_000:  # what fits the buffer is written at the end only
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing) as stdout:
            command = [sys.executable, "-c", SCRIPT, str(lines)]
            done = subprocess.run(command, check=False, stdout=stdout, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (141, b"")


def test_a_locale_without_the_dash_of_a_table_is_no_error() -> None:
    script, how = SCRIPT.replace("number)", "'\N{EN DASH}')"), os.environ | {"PYTHONIOENCODING": "latin-1"}
    assert subprocess.check_output([sys.executable, "-c", script, "1"], env=how, stderr=subprocess.STDOUT) == b"?\n"


def test_a_reader_of_lines_that_goes_away_is_no_error_of_the_file() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as stream, pytest.raises(BrokenPipeError):
        Output("standard output", stream, str).write(b"a\n")


def test_an_output_that_is_full_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", SCRIPT, "1"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"nmt-test: error: No space left on device\n")


# --- options ----------------------------------------------------------------------------------------------------------


def test_the_list_of_commands_is_whole() -> None:
    assert re.findall("^- `(nmt-[a-z-]+)` ", PAGES["README.md"], re.M) == [*PROJECT["scripts"]]


@pytest.mark.parametrize("name", PROJECT["scripts"])
def test_help_describes_options_and_names_defaults(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    module = importlib.import_module(PROJECT["scripts"][name].partition(":")[0])
    assert module.main(["--help"]) == 0
    text = capsys.readouterr().out
    body, _, examples = text.partition(f"\n{EXAMPLES}\n")
    assert "`" not in text and "\n\n" in body
    entries = [entry for entry in re.split(r"\n(?=  -)", body) if re.match(r"  --[a-z-]+ [A-Z{]", entry)]
    options = [re.sub(r"\s+", " ", entry) for entry in entries]
    assert [entry for entry in options if not re.search(r"\(default: .+\)|required", entry)] == []
    lines = examples.splitlines()
    assert lines
    for line in lines:
        words = shlex.split(re.split(r"[<>]", line.rpartition("|")[2])[0])
        assert shlex.join(words).startswith(f"{name} ")
        module.main.parser().parse_args(words[len(name.split()) :])
    described = docstring(module.main.function)[1].keys()
    parameters = inspect.signature(module.main.function).parameters.keys() - {"decoding"}
    assert described <= parameters <= described | SHARED.keys()
    for each in options_of(module.main.function):
        assert each.default is not True, "a flag cannot be switched off"
        assert not each.many or each.default in (None, inspect.Parameter.empty), "a list would be extended"


def test_a_typed_function_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    seen = list[Any]()

    def weigh_words(
        texts: list[InputFile],
        *,
        times: Annotated[int, Field(ge=1, le=9)] = 2,
        pairs: list[Annotated[str, Value("TEXT")]] | None = None,
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
    wrong = {"--times": "10", "--beam-size": "0", "--length-penalty": "nan", "--max-length-factor": ""}
    for option, value in wrong.items():
        assert main([*here, option, value]) == 2 and f"found '{value}'; must be " in capsys.readouterr().err
    assert main(["nowhere"]) == 2
    assert "nmt-weigh-words: error: nowhere: no such file" in capsys.readouterr().err
    assert main(["--help"]) == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "more: --pairs TEXT [TEXT ...] two words (default: none) --unit {g,kg} of 100% of the weight (def" in text
    assert "--times N how often (default: 2)" in text and "--heavy add a weight" in text
    assert "--device NAME auto, cpu, " in text
    assert all(f"--{name.replace('_', '-')} " in text for name in Decoding.model_fields)
