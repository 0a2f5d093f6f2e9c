"""Tensors by name, and the safetensors files that they are kept in."""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.foundation.files import require_regular_file

MOST_PROBLEMS = 50
"""Tensors that are told of; weights with more that do not fit belong to something else."""
BYTES = {
    **{"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2},
    **{"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1},
}
"""Of one number, by the name that safetensors has for its kind."""
LARGEST_HEADER, MOST_DIMENSIONS = 1 << 20, 8
"""Bytes, and dimensions of a tensor, in a file that may come from a stranger; more is never needed."""


def count_numbers(path: Path) -> int:
    """How many numbers are in a safetensors file, by its header; the rest is not read.

    Raises CheckpointError if it is no such file, or not as long as the header says.
    """
    header, length, _ = _read_header(path)
    size = path.stat().st_size
    numbers = 0
    try:
        expected = 8 + length
        for name, tensor in header.items():
            shape, (first, last) = tensor["shape"], tensor["data_offsets"]
            if len(shape) > MOST_DIMENSIONS or not all(
                type(n) is int and 0 <= n <= size for n in (*shape, first, last)
            ):
                raise ValueError(f"impossible sizes of {name[:80]}")
            count = math.prod(shape)
            if last - first != count * BYTES[tensor["dtype"]]:
                raise ValueError(f"{last - first:,} bytes for the {count:,} numbers of {name[:80]}")
            expected += last - first
            numbers += count
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({type(error).__name__}: {error})") from None
    if size != expected:
        raise CheckpointError(f"{path}: not a whole safetensors file: {size:,} bytes instead of {expected:,}")
    return numbers


def metadata(path: Path) -> dict[str, str]:
    """What was written into a safetensors file beside its tensors. Raises CheckpointError if it is no such file."""
    _, _, found = _read_header(path)
    return found


def _read_header(path: Path) -> tuple[dict[str, Any], int, dict[str, str]]:
    """-> what it says of the tensors, its length in bytes, and what else was written there."""
    require_regular_file(path, sys.maxsize)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise CheckpointError(f"{path}: not a safetensors file of weights: a header of {length:,} bytes")
            header: dict[str, Any] = json.loads(file.read(length))
        found = header.pop("__metadata__", {})
        return header, length, {str(name): str(value) for name, value in found.items()}
    except (OSError, ValueError, RecursionError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({type(error).__name__}: {error})") from None


def refuse_other_tensors(found: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], where: str, owner: str) -> None:
    """Raise CheckpointError, with every problem, unless there are tensors of numbers of just these names and shapes."""
    problems = [f"{where}: tensor {name} is missing" for name in shapes.keys() - found.keys()]
    problems += [f"{where}: tensor {name} belongs to no part of the {owner}" for name in found.keys() - shapes.keys()]
    for name in shapes.keys() & found.keys():
        shape, kind = found[name].shape, found[name].dtype
        if shape != shapes[name]:
            problems.append(f"{where}: tensor {name} has shape {tuple(shape)}, the {owner} {tuple(shapes[name])}")
        if not kind.is_floating_point:
            problems.append(f"{where}: tensor {name} holds {kind}, not floating-point numbers")
    if problems:
        raise CheckpointError(*sorted(problems)[:MOST_PROBLEMS])


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor once, under the first of its names: tied parameters share their memory."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        if tensor.data_ptr() not in seen or not tensor.numel():
            seen.add(tensor.data_ptr())
            result[name] = tensor.contiguous()
    return result


def average(weights: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several checkpoints, tensor by tensor."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, each in enumerate(weights, 1):
        for name, tensor in each.items():
            total[name] = total[name] + tensor.double() if count > 1 else tensor.double()
    return {name: (tensor / count).float() for name, tensor in total.items()}


def load_tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors file. Raises CheckpointError if it is missing, cut short or something else."""
    if not path.is_file():
        raise CheckpointError(f"{path}: missing")
    try:
        # not mapped into memory: the disk would keep the place of a file that is deleted; and of any name
        return load(path.read_bytes())
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error})") from None
