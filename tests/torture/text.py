"""Translate hostile and very large text."""

import io
import os
import random
import subprocess
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from nmt.cli.translate import main as nmt_translate
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder, start

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


def hostile(folder: TrialFolder, times: int) -> Result:
    """Translate hostile text: N lines in give N lines out, or an error names the line that is not UTF-8."""
    tally, generator, undisturbed = Tally("hostile text, translated"), random.Random(8), folder.undisturbed()
    for number in range(times):
        lines = [NASTY[number % len(NASTY)], *(_any_line(generator) for _ in range(20))]
        data = "".join(f"{line}\n" for line in lines).encode()
        invalid = number % 3 == 2
        if invalid:
            data += bytes(generator.choices(range(256), k=60)) + b"\xff\n"
        code, out, err = _translate(undisturbed, folder.path / "hostile", data)
        if invalid:
            named = (f"hostile:{_first_invalid(data)}: not UTF-8 (byte 0x", "hostile:1: UTF-16 instead of UTF-8")
            explained = code == 2 and any(each in err for each in named) and "Traceback" not in err
            tally.add([] if explained else [f"bytes {number}: ended with {code}: {err[-200:]}"])
        else:
            whole = code == 0 and out.count(b"\n") == len(lines)
            tally.add([] if whole else [f"text {number}: {out.count(bytes([10]))} lines, code {code}: {err[-200:]}"])
    return tally.result()


def _first_invalid(data: bytes) -> int:
    """Return the number of the first line that is not UTF-8."""
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            line.decode()
        except UnicodeDecodeError:
            return number
    raise ValueError("all of it is UTF-8")


def _any_line(generator: random.Random) -> str:
    """Return random characters of all of Unicode, without line feeds and surrogates."""
    length = generator.randrange(60)
    codes = (generator.choice((generator.randrange(0x300), generator.randrange(0x110000))) for _ in range(length))
    return "".join(chr(code) for code in codes if code != 10 and not 0xD800 <= code < 0xE000)


def _translate(run: Path, file: Path, data: bytes) -> tuple[int, bytes, str]:
    file.write_bytes(data)
    output, err = file.with_suffix(".out"), io.StringIO()
    with redirect_stderr(err), redirect_stdout(io.StringIO()):
        code = nmt_translate(["--model", str(run), "--input", str(file), "--output", str(output), "--device", "cpu"])
    return code, output.read_bytes() if output.exists() else b"", err.getvalue()


def large(folder: TrialFolder, times: int, megabytes: int = 10, empty_lines: int = 1_000_000) -> Result:
    """Translate a line of ``megabytes`` MB, and ``empty_lines`` empty lines: as many lines come out, in bounded time
    and memory."""
    tally, undisturbed = Tally("a huge line; very many empty lines"), folder.undisturbed()
    slowest: dict[str, float] = {}
    largest = 0.0
    texts = (
        (f"a line of {megabytes} MB", b"oak elm " * (megabytes << 17) + b"\n", 1),
        (f"{empty_lines:,} empty lines", b"\n" * empty_lines, empty_lines),
    )
    for trial in range(times):
        name, content, count = texts[trial % len(texts)]
        file = folder.path / "large"
        file.write_bytes(content)
        options = {"--model": undisturbed, "--input": file, "--output": folder.path / "large.out", "--device": "cpu"}
        options["--alignments"] = folder.path / "large.align"
        words = (str(word) for option in options.items() for word in option)
        with (folder.path / "large.err").open("w+", encoding="utf-8") as output:
            process = start("nmt-translate", *words, stdout=output, stderr=output)
            seconds, peak = _used(process)
            output.seek(0)
            err = output.read()
        lines = (folder.path / "large.out").read_bytes().count(b"\n")
        links = (folder.path / "large.align").read_bytes().count(b"\n")
        whole = process.returncode == 0 and lines == links == count
        problems = [] if whole else [f"{name}: {lines} lines, code {process.returncode}: {err[-200:]}"]
        if seconds > SECONDS or peak > MEGABYTES:
            problems.append(f"{name}: {seconds:.0f} s, {peak:.0f} MB")
        tally.add(problems)
        slowest[name], largest = max(seconds, slowest.get(name, 0.0)), max(largest, peak)
    remarks = (f"{name}: {seconds:.0f} s of a core" for name, seconds in slowest.items())
    return tally.result(*remarks, f"at most {largest:.0f} MB, PyTorch included")


def _used(process: "subprocess.Popen[str]") -> tuple[float, float]:
    """Wait for a process; return its seconds of core time and its peak memory in megabytes.

    The peak is read while the process runs: at its end, the system reports one that includes the parent process.
    """
    status, peak = Path(f"/proc/{process.pid}/status"), 0
    while True:
        with suppress(OSError, IndexError):  # the process has ended
            peak = max(peak, int(status.read_text().partition("VmHWM:")[2].split()[0]))
        ended, code, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(code)
            return used.ru_utime + used.ru_stime, peak / 1024
        time.sleep(0.02)
