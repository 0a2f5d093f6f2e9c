"""A run as files that the engine in JavaScript reads: translation in a page, in Node, in an extension."""

import json
import re
import shutil
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional

from nmt.config import Config
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError
from nmt.files import write_bytes
from nmt.pages.web import refuse_unknown_parts
from nmt.runs.checkpoints import unshared
from nmt.runs.loading import LoadedRun, load_run

CARRIED = re.compile(r"^encoder\..*recurrent\.|^decoder\.attention\.")
"""Matrices whose rounding errors are carried along the whole sentence; they have 16 bits where others have 12."""


def export_web(run: str | Path, output: Path) -> int:
    """Write the engine, the weights, the tokenizers and a page that uses them; return the bytes of all files.

    Raises CheckpointError for a run that cannot be used, ConfigError for a network or a tokenizer that the engine does
    not run.
    """
    parts = exported(load_run(run, torch.device("cpu")))
    output.mkdir(parents=True, exist_ok=True)
    for name, content in parts.items():
        write_bytes(output / name, content)
    with as_file(files("nmt.pages.web")) as web:
        for name in ("engine", "parts"):
            shutil.copytree(web / name, output / name, dirs_exist_ok=True)
        for path in (web / "page.js", *(web / "exported").iterdir()):
            shutil.copy(path, output / path.name)
    return sum(path.stat().st_size for path in output.rglob("*") if path.is_file())


def exported(run: LoadedRun, bits: int = 12) -> dict[str, bytes]:
    """Return what the engine reads of a run, by file name; ``target.model`` is missing if both sides share a tokenizer.

    ``bits`` are those of a weight, 8 or 12.
    Raises ConfigError for a network or a tokenizer that the engine does not run.
    """
    refuse_unknown_parts(run.config.model)
    refuse_unknown_pieces(run.tokenizers)
    parts = {
        "model.safetensors": save(quantized(unshared(run.model.state_dict()), bits)),
        "config.json": json.dumps(described(run.config, run.tokenizers), indent=1).encode() + b"\n",
        "source.model": run.tokenizers.source.model,
    }
    shared = run.tokenizers.target is run.tokenizers.source
    return parts if shared else parts | {"target.model": run.tokenizers.target.model}


def refuse_unknown_pieces(tokenizers: Tokenizers) -> None:
    """Raise ConfigError for a tokenizer that the engine does not run, with its file in the run and the reason."""
    problems = []
    for side, tokenizer in tokenizers.sides():
        if "<0x00>" in tokenizer.scores():
            problems.append(f"{side}.model: falls back to bytes, which the engine does not; learn one without")
        if tokenizer.normalized("a").endswith("▁"):
            problems.append(f"{side}.model: treats spaces as suffixes, which the engine does not; learn one without")
    if problems:
        raise ConfigError(*problems)


def described(config: Config, tokenizers: Tokenizers) -> dict[str, object]:
    """What the engine needs of a configuration."""
    return {
        "source_language": config.data.source_language,
        "target_language": config.data.target_language,
        "reverse_source": config.data.reverse_source,
        "shared": tokenizers.source is tokenizers.target,
        "model": config.model.model_dump(include={"encoder", "decoder", "attention"}),
        "decoding": config.decoding.model_dump(exclude={"batch_tokens"}),
    }


def quantized(weights: Mapping[str, Tensor], bits: int = 12) -> dict[str, Tensor]:
    """Round each matrix row by row to 8 bits, or to 12, those of ``CARRIED`` then to 16; vectors stay.

    Of a matrix NAME the result has NAME.scale, by which its rows are multiplied, and NAME: all bits, or of 12 the upper
    8, and NAME.low the lower 4, two in a byte, the first below.
    """
    made: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.dim() != 2:
            made[name] = tensor
            continue
        own = 16 if bits == 12 and CARRIED.search(name) else bits
        largest = 2 ** (own - 1) - 1
        scale = tensor.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / largest
        codes = (tensor / scale).round().to(torch.int16)
        made[name], made[f"{name}.scale"] = codes, scale.squeeze(1)
        if own == 12:
            low = functional.pad((codes & 15).flatten(), (0, codes.numel() % 2))
            made[f"{name}.low"] = (low[0::2] | low[1::2] << 4).to(torch.uint8)
        if own < 16:
            made[name] = (codes >> own - 8).to(torch.int8)
    return made
