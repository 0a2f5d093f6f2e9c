"""A run as files that the engine in JavaScript reads: translation in a page, in Node, in an extension."""

import json
import shutil
import zlib
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from nmt.config import Config
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError
from nmt.files import write_bytes
from nmt.pages.web import refuse_unknown_parts
from nmt.runs.checkpoints import unshared
from nmt.runs.loading import LoadedRun, load_run

STEPS = 1400
"""Into which the root mean square of a matrix is divided; rounded to these, the demo's system is smaller than 2 MB."""
FINER = ("decoder.attention.", "decoder.combine.")
"""Beginnings of names of matrices whose rounding changes log-probabilities the most: they have four times the steps."""


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


def exported(run: LoadedRun, steps: int = STEPS) -> dict[str, bytes]:
    """Return what the engine reads of a run, by file name; ``target.model`` is missing if both sides share a tokenizer.

    ``steps`` are those of :func:`rounded`.
    Raises ConfigError for a network or a tokenizer that the engine does not run.
    """
    refuse_unknown_parts(run.config.model)
    refuse_unknown_pieces(run.tokenizers)
    parts = {
        "weights.bin": compressed(save(rounded(unshared(run.model.state_dict()), steps))),
        "config.json": json.dumps(described(run.config, run.tokenizers), indent=1).encode() + b"\n",
        "source.model": run.tokenizers.source.model,
    }
    shared = run.tokenizers.target is run.tokenizers.source
    return parts if shared else parts | {"target.model": run.tokenizers.target.model}


def refuse_unknown_pieces(tokenizers: Tokenizers) -> None:
    """Raise ConfigError for a tokenizer that the engine does not run, with its file in the run and the reason."""
    problems = []
    if tokenizers.protection.kinds:
        problems.append("data.protect: the engine does not hide spans; train a run without it")
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


def rounded(weights: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """Round each matrix to whole multiples of a step, of which ``steps`` are its root mean square; vectors stay.

    The largest multiple is at most 32,767. Of a matrix NAME the result has the upper 8 bits of the multiples as NAME,
    the bits below as the upper bits of NAME.low, and NAME.step: the matrix is step (256 NAME + NAME.low).
    """
    made, matrices = dict(weights), {name: tensor for name, tensor in weights.items() if tensor.dim() == 2}
    for name, tensor in matrices.items():
        size = tensor.square().mean().sqrt() / (4 if name.startswith(FINER) else 1)
        step = torch.maximum(size / steps, tensor.abs().max() / 32767)
        multiples = (tensor / step.clamp_min(torch.finfo(torch.float32).tiny)).round().to(torch.int32)
        below = max(int(multiples.abs().max()).bit_length() - 7, 0)  # bits of NAME.low
        made[name] = (multiples >> below).to(torch.int8)
        made[f"{name}.low"] = ((multiples << 8 - below) & 255).to(torch.uint8)
        made[f"{name}.step"] = (step / 2 ** (8 - below)).reshape(1)
    return made


def compressed(content: bytes) -> bytes:
    """Compress by gzip: numbers repeat no sequences, so each byte gets a code by its frequency alone."""
    gzip = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, 31, zlib.DEF_MEM_LEVEL, zlib.Z_HUFFMAN_ONLY)
    return gzip.compress(content) + gzip.flush()
