"""Run directories that strangers crafted are refused, quickly and with little memory, and nothing is executed."""

import io
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentencepiece import sentencepiece_model_pb2

from nmt.cli.translate import main as nmt_translate
from nmt.config.schema import LARGEST_VOCABULARY
from nmt.errors import NmtError
from nmt.files import LARGEST_JSON, digest
from nmt.runs.checkpoints import CHECKSUMS, LARGEST_HEADER
from nmt.runs.loading import load_run
from tests.comparison import is_small, reseal
from tests.small_run import options

SECONDS, MEGABYTES = 1.0, 150.0
"""Most core time and additional memory of a refusal."""
CONFIG, WEIGHTS, SUMS = "config.yaml", "checkpoints/best/model.safetensors", f"checkpoints/best/{CHECKSUMS}"
SOURCE, TARGET = "tokenizer/source.model", "tokenizer/target.model"
Attack = Callable[[Path], object]
"""Turns a valid run directory into one that must be refused."""


class Payload:
    """An object whose pickle executes a command when it is loaded."""

    def __init__(self, run: Path) -> None:
        self.mark = run / "executed"

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def replace(file: str, content: bytes | Callable[[Path], bytes]) -> Attack:
    """Replace the content of a file."""
    return lambda run: (run / file).write_bytes(content if isinstance(content, bytes) else content(run))


def pickled(run: Path) -> bytes:
    return pickle.dumps(Payload(run))


def archive(run: Path) -> bytes:
    written = io.BytesIO()
    torch.save({"weights": Payload(run)}, written)
    return written.getvalue()


def header(text: bytes, length: int = -1) -> bytes:
    """A safetensors file with this header, and no tensors."""
    return struct.pack("<Q", len(text) if length < 0 else length) + text


def overlong(run: Path) -> bytes:
    return header(json.dumps({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode())


def endless_side(run: Path) -> bytes:
    """Valid weights, and a tensor with a side too long for PyTorch but without numbers."""
    data = (run / WEIGHTS).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    tensor = {"dtype": "F32", "shape": [0, 1 << 63], "data_offsets": [len(data) - end] * 2}
    return header(json.dumps(json.loads(data[8:end]) | {"w": tensor}).encode()) + data[end:]


def gigabytes(run: Path) -> None:
    """Append gigabytes that take no space on the disk to the last tensor of the weights."""
    data = (run / WEIGHTS).read_bytes()
    tensors = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    last = max((name for name in tensors if name != "__metadata__"), key=lambda name: tensors[name]["data_offsets"])
    tensors[last]["data_offsets"][1] = 6 << 30
    text = json.dumps(tensors).encode()
    (run / WEIGHTS).write_bytes(header(text))
    os.truncate(run / WEIGHTS, 8 + len(text) + (6 << 30))
    (run / SUMS).unlink()


def first_weight(value: float, kind: torch.dtype = torch.float32) -> Attack:
    """Fill the first tensor of the weights with a value."""

    def attack(run: Path) -> None:
        tensors = load_file(run / WEIGHTS)
        tensors[min(tensors)] = torch.full(tensors[min(tensors)].shape, value, dtype=torch.float64).to(kind)
        save_file(tensors, run / WEIGHTS)

    return attack


def configured(old: str, new: str) -> Attack:
    """Replace text of the configuration."""
    return replace(CONFIG, lambda run: (run / CONFIG).read_bytes().replace(old.encode(), new.encode()))


def largest(run: Path) -> bytes:
    """The target's tokenizer, with as many pieces as a vocabulary may have."""
    model_proto: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
    model = model_proto.FromString((run / TARGET).read_bytes())
    for number in range(LARGEST_VOCABULARY - len(model.pieces)):
        model.pieces.add(piece=f"{number:x}", score=0.0)
    data: bytes = model.SerializeToString()
    return data


def pipe(file: str) -> Attack:
    """Replace a file by a named pipe, from which nothing ever comes."""

    def attack(run: Path) -> None:
        (run / file).unlink()
        os.mkfifo(run / file)

    return attack


def sparse(file: str) -> Attack:
    """Append zeros to a valid file, up to 64 GB that take no space on the disk."""
    return lambda run: os.truncate(run / file, 1 << 36)


ON_CHECKSUMS: dict[str, Attack] = {
    "checksums of nested lists": replace(SUMS, b"[" * LARGEST_JSON),
    "a manifest of nested lists": replace("manifest.json", b"[" * LARGEST_JSON),
}
"""Attacks on the checksums themselves, which are therefore not made to fit afterwards."""
ATTACKS: dict[str, Attack] = {
    "a pickle as weights": replace(WEIGHTS, pickled),
    "PyTorch's archive as weights": replace(WEIGHTS, archive),
    "a pickle as tokenizer": replace(SOURCE, pickled),
    "a pickle as configuration": replace(CONFIG, pickled),
    "a header of 2^63 bytes": replace(WEIGHTS, header(b"", 1 << 63)),
    "a header of nested lists": replace(WEIGHTS, header(b"[" * LARGEST_HEADER)),
    "tensors of terabytes": replace(WEIGHTS, overlong),
    "a side of 2^63 numbers": replace(WEIGHTS, endless_side),
    "a tensor with more bytes than its numbers take": gigabytes,
    "weights that are NaN": first_weight(float("nan")),
    "8-bit weights that are NaN": first_weight(float("nan"), torch.float8_e4m3fn),
    "8-bit whole numbers as weights": first_weight(1, torch.int8),
    "weights that are true or false": first_weight(1, torch.bool),
    "weights too large for fp32": first_weight(1e300, torch.float64),
    "a megabyte of brackets": replace(CONFIG, b"[" * (1 << 20)),
    "a network of 10^9 units": configured("hidden: 32", "hidden: 1000000000"),
    "more layers than memory": configured("layers: 1", "layers: 1000000000"),
    "a beam of a billion": configured("  beam_size: 2", "  beam_size: 1000000000"),
    "a piece that is not UTF-8": replace(TARGET, lambda run: (run / TARGET).read_bytes().replace(b"OAK", b"\xff\xfeK")),
    "the largest tokenizer, of another run": replace(TARGET, largest),
    **{f"a pipe in place of {file}": pipe(file) for file in (CONFIG, SOURCE, WEIGHTS, SUMS)},
    **{f"64 GB in {file}, nearly all a hole": sparse(file) for file in (CONFIG, SOURCE, WEIGHTS)},
    **ON_CHECKSUMS,
}


@pytest.fixture(scope="module")
def loaded(corpus: Path) -> Path:
    """A valid run, which was loaded in this process: imports are not part of a refusal."""
    load_run(corpus / "undisturbed", torch.device("cpu"))
    return corpus / "undisturbed"


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_crafted_run_is_refused(loaded: Path, tmp_path: Path, attack: str) -> None:
    run = shutil.copytree(loaded, tmp_path / "run")
    ATTACKS[attack](run)
    if attack not in ON_CHECKSUMS:  # all others fit, as an attacker would make them
        if (run / SUMS).is_file():
            reseal((run / SUMS).parent)
        manifest = json.loads((run / "manifest.json").read_text("utf-8"))
        models = filter(is_small, (run / "tokenizer").iterdir())
        manifest["tokenizer_sha256"] |= {path.stem: digest(path) for path in models}
        (run / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        problem, seconds, megabytes = pool.submit(refusal, run).result()
    assert problem == ""
    assert not list(tmp_path.rglob("executed")) and not Path("executed").exists()
    assert seconds < SECONDS and megabytes < MEGABYTES


def refusal(run: Path) -> tuple[str, float, float]:
    """Load a run; return what is wrong with the refusal, or "", its seconds of core time and its megabytes of
    additional memory. A process of its own does it, which a signal ends if it hangs."""
    signal.setitimer(signal.ITIMER_REAL, 60 * SECONDS)  # the machine may be busy
    problem = "it was not refused"
    used = resource.getrusage(resource.RUSAGE_SELF)
    try:
        load_run(run, torch.device("cpu"))
    except NmtError:
        problem = ""
    except BaseException as error:  # reported to the parent process
        problem = f"{type(error).__name__}: {error}"
    now = resource.getrusage(resource.RUSAGE_SELF)
    seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return problem, seconds, (now.ru_maxrss - used.ru_maxrss) / 1024


def test_translating_opens_nothing_that_a_configuration_names(corpus: Path, tmp_path: Path) -> None:
    run = shutil.copytree(corpus / "undisturbed", tmp_path / "run")
    names = [f"{tmp_path}/secret", "../../secret", "/etc/passwd", "~/secret"]
    values = options(corpus)
    values |= {
        "output": names[0],
        "data": values["data"] | {"train": {"source": names[2], "target": names[1]}, "cache": names[3]},
        "evaluation": {"gold": {"source": names[0], "target": names[1], "links": names[2]}},
    }
    (run / CONFIG).write_text(json.dumps(values))
    (tmp_path / "lines").write_text("oak elm\n")
    opened: list[str] = []
    listening = True
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if listening and event == "open" else None)
    files = {"--model": run, "--input": tmp_path / "lines", "--output": tmp_path / "out"}
    assert nmt_translate([word for option, path in files.items() for word in (option, str(path))]) == 0
    listening = False
    assert str(run / CONFIG) in opened, "the hook hears"
    assert [path for path in opened if "secret" in path or "passwd" in path] == []
