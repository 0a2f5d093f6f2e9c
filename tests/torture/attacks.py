"""Attacks on a run directory: each turns a valid run into one that must be refused."""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from nmt.config.schema import LARGEST_VOCABULARY, LearnedTokenizer
from nmt.data.corpus import Pair
from nmt.data.learning import learn
from nmt.data.tokenizer import ModelProto
from nmt.files import CHECKSUMS, LARGEST_JSON

GIGABYTES = 6 << 30
WEIGHTS = Path("checkpoints/best/model.safetensors")
Attack = Callable[[Path], None]
"""Changes a valid run directory into one that must be refused."""


class Payload:
    """An object whose pickle executes a command when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def _replace(file: str | Path, content: Callable[[Path], bytes]) -> Attack:
    """Replace the content of a file."""

    def attack(run: Path) -> None:
        (run / file).write_bytes(content(run))

    return attack


def _pickle(run: Path) -> bytes:
    return pickle.dumps(Payload(run.parent / "executed"))


def _archive(run: Path) -> bytes:
    archive = io.BytesIO()
    torch.save({"weights": Payload(run.parent / "executed")}, archive)
    return archive.getvalue()


def _zip(run: Path) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../escaped", _pickle(run))
    return archive.getvalue()


def _header(length: int, text: bytes = b"") -> Callable[[Path], bytes]:
    return lambda _: struct.pack("<Q", length) + text


def _tensors(change: Callable[[dict[str, torch.Tensor]], None]) -> Attack:
    """Change the tensors of the weights."""

    def attack(run: Path) -> None:
        tensors = load_file(run / WEIGHTS)
        change(tensors)
        save_file(tensors, run / WEIGHTS)

    return attack


def _first(tensors: dict[str, torch.Tensor]) -> str:
    return sorted(tensors)[0]


def _drop(tensors: dict[str, torch.Tensor]) -> None:
    del tensors[_first(tensors)]


def _reshape(tensors: dict[str, torch.Tensor]) -> None:
    first = tensors[_first(tensors)]
    tensors[_first(tensors)] = first.T.contiguous() if first.ndim > 1 else torch.ones(3)


def _nan(tensors: dict[str, torch.Tensor]) -> None:
    tensors[_first(tensors)].view(-1)[0] = torch.nan


def _infinite(tensors: dict[str, torch.Tensor]) -> None:
    tensors[_first(tensors)].view(-1)[-1] = torch.inf


def _integers(tensors: dict[str, torch.Tensor]) -> None:
    tensors[_first(tensors)] = tensors[_first(tensors)].long()


def _overlong(run: Path) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    return struct.pack("<Q", len(header)) + header


def _config(change: Callable[[str], str]) -> Attack:
    def attack(run: Path) -> None:
        path = run / "config.yaml"
        path.write_text(change(path.read_text("utf-8")), "utf-8")

    return attack


def _bomb(_: str) -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    return "\n".join(lines + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)])


def _link(file: str | Path, target: str) -> Attack:
    """Replace a file by a symbolic link."""

    def attack(run: Path) -> None:
        (run / file).unlink()
        (run / file).symlink_to(target)

    return attack


def _outside(run: Path) -> None:
    """Move the weights out of the run, and leave a link to them."""
    shutil.move(run / WEIGHTS, run.parent / "elsewhere.safetensors")
    (run / WEIGHTS).symlink_to("../../../elsewhere.safetensors")


def _pipe(file: str | Path) -> Attack:
    """Replace a file by a named pipe, from which nothing ever comes."""

    def attack(run: Path) -> None:
        (run / file).unlink()
        os.mkfifo(run / file)

    return attack


def _sparse(file: str | Path) -> Attack:
    """Append zeros to a valid file, up to 64 GB that take no space on the disk."""

    def attack(run: Path) -> None:
        os.truncate(run / file, 1 << 36)

    return attack


def _gigabytes(run: Path) -> None:
    """Append gigabytes that take no space on the disk to the last tensor of the weights; remove the checksums."""
    data = (run / WEIGHTS).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    last = max((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    header[last]["data_offsets"][1] = GIGABYTES
    text = json.dumps(header).encode()
    (run / WEIGHTS).write_bytes(_header(len(text), text)(run))
    os.truncate(run / WEIGHTS, 8 + len(text) + GIGABYTES)
    (run / WEIGHTS).with_name(CHECKSUMS).unlink()


def _many_tensors(_: Path) -> bytes:
    header = json.dumps({f"w{k}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for k in range(200_000)})
    return struct.pack("<Q", len(header)) + header.encode()


def _other_tokenizer(run: Path) -> None:
    config = LearnedTokenizer(type="character", vocabulary=30)
    learn(config, [Pair("abc def ghi", "jkl mno pqr")]).save(run / "tokenizer")


def _header_of(**changes: Any) -> Callable[[Path], bytes]:
    """The weights, with other entries for the first tensor in their header."""

    def content(run: Path) -> bytes:
        data = (run / WEIGHTS).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header[min(header)] |= changes
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    return content


def _header_named(name: str) -> Callable[[Path], bytes]:
    """A tensor of this name and of an impossible size, so that the error names it."""
    text = json.dumps({name: {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}).encode()
    return _header(len(text), text + bytes(4))


def _other_type(kind: torch.dtype, value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[_first(tensors)] = torch.full(tensors[_first(tensors)].shape, value, dtype=torch.float64).to(kind)

    return change


def _broken_piece(run: Path) -> bytes:
    return (run / "tokenizer/target.model").read_bytes().replace(b"OAK", b"\xff\xfeK")


def _model(change: Callable[[Any], None]) -> Callable[[Path], bytes]:
    """Change the model of a tokenizer."""

    def content(run: Path) -> bytes:
        model = ModelProto.FromString((run / "tokenizer/target.model").read_bytes())
        change(model)
        data: bytes = model.SerializeToString()
        return data

    return content


def _wild_charsmap(model: Any) -> None:
    table = model.normalizer_spec.precompiled_charsmap
    model.normalizer_spec.precompiled_charsmap = table[:4] + b"\xff\xff\xff\x7f" + table[8:]


def _pieces(count: int) -> Callable[[Any], None]:
    """Add pieces up to ``count``."""

    def change(model: Any) -> None:
        for number in range(count - len(model.pieces)):
            model.pieces.add(piece=f"{number:x}", score=0.0)

    return change


ON_CHECKSUMS: dict[str, Attack] = {
    "checksums of nested lists": _replace(WEIGHTS.with_name(CHECKSUMS), lambda _: b"[" * LARGEST_JSON),
    "a manifest of nested lists": _replace("manifest.json", lambda _: b"[" * LARGEST_JSON),
    "wrong checksums": _replace(WEIGHTS.with_name(CHECKSUMS), lambda _: b'{"model.safetensors": "00"}'),
}
"""Attacks on the checksums themselves, which are therefore not made to fit afterwards."""
ATTACKS: dict[str, Attack] = {
    "a pickle as weights": _replace(WEIGHTS, _pickle),
    "PyTorch's archive as weights": _replace(WEIGHTS, _archive),
    "a zip as weights": _replace(WEIGHTS, _zip),
    "a pickle as tokenizer": _replace("tokenizer/source.model", _pickle),
    "a pickle as configuration": _replace("config.yaml", _pickle),
    "weights cut short": _replace(WEIGHTS, lambda run: (run / WEIGHTS).read_bytes()[:-100]),
    "empty weights": _replace(WEIGHTS, lambda _: b""),
    "a header of 2^63 bytes": _replace(WEIGHTS, _header(1 << 63)),
    "a header of 99 MB that is missing": _replace(WEIGHTS, _header(99 << 20)),
    "a header of nested lists": _replace(WEIGHTS, _header(1 << 20, b"[" * (1 << 20))),
    "tensors of terabytes": _replace(WEIGHTS, _overlong),
    "another shape": _tensors(_reshape),
    "a missing tensor": _tensors(_drop),
    "an additional tensor": _tensors(lambda tensors: tensors.update(extra=torch.ones(1))),
    "integers as weights": _tensors(_integers),
    "NaN weights": _tensors(_nan),
    "infinite weights": _tensors(_infinite),
    "a tokenizer of another size": _other_tokenizer,
    "a tokenizer cut short": _replace(
        "tokenizer/target.model", lambda run: (run / "tokenizer/target.model").read_bytes()[:99]
    ),
    "a YAML tag that calls": _config(
        lambda text: f"output: !!python/object/apply:os.system ['touch executed']\n{text}"
    ),
    "a bomb of YAML aliases": _config(_bomb),
    "a megabyte of brackets": _config(lambda _: "[" * (1 << 20)),
    "a network of 10^9 units": _config(lambda text: text.replace("hidden: 16", "hidden: 1000000000")),
    "more layers than memory": _config(lambda text: text.replace("layers: 1", "layers: 1000000000")),
    "a configuration through a link": _link("config.yaml", "/etc/passwd"),
    "a tokenizer through a link": _link("tokenizer/source.model", "/etc/passwd"),
    "weights through a link": _outside,
    "a manifest through a link": _link("manifest.json", "/etc/hostname"),
    "a device in place of the weights": _link(WEIGHTS, "/dev/zero"),
    "a pipe in place of the weights": _pipe(WEIGHTS),
    "a pipe in place of the configuration": _pipe("config.yaml"),
    "a pipe in place of a tokenizer": _pipe("tokenizer/source.model"),
    "a pipe in place of the checksums": _pipe(WEIGHTS.with_name(CHECKSUMS)),
    "weights of 64 GB, nearly all a hole": _sparse(WEIGHTS),
    "a tokenizer of 64 GB, nearly all a hole": _sparse("tokenizer/source.model"),
    "a configuration of 64 GB, nearly all a hole": _sparse("config.yaml"),
    "a tensor with more bytes than its numbers take": _gigabytes,
    "a header of 200,000 tensors": _replace(WEIGHTS, _many_tensors),
    "a tensor name that is half a character": _replace(WEIGHTS, _header_named("\ud800")),
    "an offset that is not a number": _replace(WEIGHTS, _header_of(data_offsets=[0, "x"])),
    "an offset that is a list": _replace(WEIGHTS, _header_of(data_offsets=[0, []])),
    "an infinite shape": _replace(WEIGHTS, _header_of(shape=[float("inf")])),
    "a shape of four hundred digits": _replace(WEIGHTS, _header_of(shape=[10**400])),
    "a shape that multiplies text": _replace(WEIGHTS, _header_of(shape=["a", 10**11])),
    "a shape of a thousand dimensions": _replace(WEIGHTS, _header_of(shape=[1] * 1000)),
    "8-bit weights that are NaN": _tensors(_other_type(torch.float8_e4m3fn, float("nan"))),
    "weights too large for fp32": _tensors(_other_type(torch.float64, 1e300)),
    "a piece that is not UTF-8": _replace("tokenizer/target.model", _broken_piece),
    "normalization rules from beyond the table": _replace("tokenizer/target.model", _model(_wild_charsmap)),
    "a piece of ten megabytes": _replace(
        "tokenizer/target.model", _model(lambda model: setattr(model.pieces[-1], "piece", "x" * 10_000_000))
    ),
    "weights drawn from infinity": _config(
        lambda text: text.replace("    type: xavier", "    type: uniform\n    range: 1.0e+39")
    ),
    "a beam of a billion": _config(lambda text: text.replace("  beam_size: 5", "  beam_size: 1000000000")),
    "a billion resamples": _config(lambda text: text.replace("  bootstrap: 2", "  bootstrap: 1000000000")),
    "the largest tokenizer, of another run": _replace("tokenizer/target.model", _model(_pieces(LARGEST_VOCABULARY))),
    **ON_CHECKSUMS,
}
