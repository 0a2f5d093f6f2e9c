"""Large files: translations that go on after a kill."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from nmt.cli.files import Output
from nmt.cli.translate import main
from nmt.errors import ConfigError
from nmt.translation.files import growing
from tests.small_translator import LINES

TEXT = "".join(f"{line}\n" for line in [*LINES, "", f"abc. 1 {LINES[0]}", *LINES])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text(TEXT, "utf-8")
    return path


def translated(random_run: str, source: Path, output: Path, *options: str) -> str:
    assert main(["--model", random_run, "--input", str(source), "--output", str(output), *options]) == 0
    return output.read_text("utf-8")


SEARCHES = [["--beam-size", "2", "--n-best", "2"], ["--sampling-temperature", "1"], ["--paragraphs"]]


@pytest.mark.parametrize("options", SEARCHES)
def test_after_a_kill_the_same_command_goes_on(
    random_run: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    alignments = tmp_path / "links"
    options = [*options, "--alignments", str(alignments)]
    whole, links = translated(random_run, source, tmp_path / "whole", *options), alignments.read_text()
    output = tmp_path / "out"
    output.write_text("an older one\n")
    rows, write, left = options.count("--n-best") + 1, Output.write, iter(range(2 * 7))

    def write_or_die(self: Output, text: bytes) -> None:
        if next(left, None) is None:
            raise SystemExit
        write(self, text)

    with patch.object(Output, "write", write_or_die), pytest.raises(SystemExit):
        translated(random_run, source, output, *options)
    assert output.read_text() == "an older one\n"
    with (tmp_path / "out.partial").open("a") as file:
        file.write("half a li")  # the kill came while a line was written
    capsys.readouterr()
    assert translated(random_run, source, output, *options) == whole
    assert alignments.read_text() == links and not list(tmp_path.glob("*partial*"))
    assert "after 7 lines" in capsys.readouterr().err and len(whole.splitlines()) == rows * len(TEXT.splitlines())


def test_another_search_starts_over(random_run: str, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    (tmp_path / "out.partial").write_text("of another model\n")
    (tmp_path / "out.partial.json").write_text(json.dumps({"models": []}))
    assert "of another model" not in translated(random_run, source, output)


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    first, second = (growing([tmp_path / "out"], 1, {}, print) for _ in range(2))
    with first, pytest.raises(ConfigError, match="another process"), second:
        pass
