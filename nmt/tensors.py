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
from nmt.files import refuse_unlike_file

MOST_PROBLEMS = 50
"""Tensors that are told of; weights with more that do not fit belong to something else."""
LARGEST_HEADER, MOST_DIMENSIONS = 1 << 20, 8
"""Bytes, and dimensions of a tensor, in a file that may come from a stranger; more is never needed."""


def count_numbers(path: Path) -> int:
    """How many numbers are in a safetensors file, by its header; the rest is not read.

    Raises CheckpointError if it is no such file, or not as long as the header says.
    """
    refuse_unlike_file(path, sys.maxsize)
    size = path.stat().st_size
    end = numbers = 0
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise CheckpointError(f"{path}: not a safetensors file of weights: a header of {length:,} bytes")
            header: dict[str, dict[str, Any]] = json.loads(file.read(length))
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            shape, (first, last) = tensor["shape"], tensor["data_offsets"]
            if len(shape) > MOST_DIMENSIONS or not all(
                type(n) is int and 0 <= n <= size for n in (*shape, first, last)
            ):
                raise ValueError(f"impossible sizes of {name[:80]}")
            end = max(end, last)
            numbers += math.prod(shape)
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({type(error).__name__}: {error})") from None
    if size != 8 + length + end:
        raise CheckpointError(f"{path}: not a whole safetensors file: {size:,} bytes instead of {8 + length + end:,}")
    if numbers > size:
        raise CheckpointError(f"{path}: not a whole safetensors file: more numbers than bytes")
    return numbers


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
