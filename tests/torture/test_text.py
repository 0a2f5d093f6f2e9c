"""Translate hostile and very large text."""

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nmt.cli.translate import main as nmt_translate
from tests.torture.training import start

pytestmark = pytest.mark.slow(seconds=5)
SECONDS, MEGABYTES = 120.0, 700.0
"""Core time and memory, PyTorch included, that large text may take."""
NASTY = [
    "",
    " ",
    "\t\t",
    "e\u0301" * 40,  # combining marks
    "a" + "\u0300" * 3000,
    "\u202eright to left\u202c \u05d0\u05d1\u05d2 \u0627\u0644",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f4\U000e0067\U000e007f",
    "\ue000\uf8ff\U000f0000",  # private use
    "a\x00b\x00",
    "lone\rcarriage\rreturns",
    "para\u2029graph line\u2028separator next\x85line \x0b \x0c \x1c\x1d\x1e",
    "\ufeff\ufeff mark",
    "\ufffe\uffff \ufdd0",
    "<script>alert(1)</script> &amp; $x^2$ `code` [link](javascript:0) \x1b[31mred",
    "</s> <s> <unk> <pad> \u2581\u2581",
    "0" * 5000,
    "\u4e00" * 3000,
    " ".join(["oak"] * 3000),
]


def any_line(generator: random.Random) -> str:
    """Random characters of all of Unicode, without line feeds and surrogates."""
    codes = (generator.choice((generator.randrange(0x300), generator.randrange(0x110000))) for _ in range(60))
    return "".join(chr(code) for code in codes if code != 10 and not 0xD800 <= code < 0xE000)


def test_hostile_lines(
    corpus: Path, tmp_path: Path, generator: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    """N lines in give N lines out; bytes that are not UTF-8 after them are an error that names the line."""
    lines = [*NASTY, *(any_line(generator) for _ in range(30))]
    data = "".join(f"{line}\n" for line in lines).encode()
    source, output = tmp_path / "hostile", tmp_path / "out"
    options = ["--model", str(corpus / "undisturbed"), "--input", str(source), "--output", str(output)]
    source.write_bytes(data)
    assert nmt_translate(options) == 0
    assert output.read_bytes().count(b"\n") == len(lines)
    capsys.readouterr()
    source.write_bytes(data + b"\xff" + generator.randbytes(60))
    assert nmt_translate(options) == 2
    assert f"{source}:{len(lines) + 1}: not UTF-8 (byte 0x" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "lines"), [(b"oak elm " * (10 << 17) + b"\n", 1), (b"\n" * 10**6, 10**6)], ids=["10 MB", "empty lines"]
)
def test_large_text(corpus: Path, tmp_path: Path, content: bytes, lines: int) -> None:
    """A line of 10 MB, and a million empty ones: as many lines come out, in bounded time and memory."""
    (tmp_path / "source").write_bytes(content)
    files = ("--input", "source", "--output", "out", "--alignments", "links")
    with (tmp_path / "err").open("w") as err:
        process = start(
            "nmt-translate", "--model", str(corpus / "undisturbed"), *files, stdout=err, stderr=err, cwd=tmp_path
        )
        peak = 0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            # read while the process runs: at its end, the system reports a peak that includes the parent process
            with suppress(OSError, IndexError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = int(status.partition("VmHWM:")[2].split()[0])
            time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    assert process.returncode == 0, (tmp_path / "err").read_text("utf-8")
    assert all((tmp_path / name).read_bytes().count(b"\n") == lines for name in ("out", "links"))
    assert ended[2].ru_utime + ended[2].ru_stime < SECONDS and peak / 1024 < MEGABYTES
