"""A run as files that the engine in JavaScript reads: translation in a page, in Node, in an extension."""

import json
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import torch
from safetensors.torch import save

from nmt.config import Config, schema
from nmt.data.tokenizer import MOST_CHARACTERS, Tokenizers
from nmt.errors import ConfigError
from nmt.files import write_bytes
from nmt.pages.web import refuse_unknown_parts
from nmt.runs.checkpoints import unshared
from nmt.runs.loading import LoadedRun, load_run
from nmt.translation.searching import MORE_PIECES


def export_web(run: str | Path, output: Path) -> None:
    """Write the engine, the weights, the tokenizers and a page that uses them. Raises FileError for a run that
    cannot be used, ConfigError for a network or a tokenizer that the engine does not run."""
    parts = exported(load_run(run, torch.device("cpu")))
    output.mkdir(parents=True, exist_ok=True)
    for name, content in parts.items():
        write_bytes(output / name, content)
    with as_file(files("nmt.pages.web")) as web:
        for name in ("engine", "parts"):
            shutil.copytree(web / name, output / name, dirs_exist_ok=True)
        for path in (web / "page.js", *(web / "exported").iterdir()):
            shutil.copy(path, output / path.name)


def exported(run: LoadedRun) -> dict[str, bytes]:
    """Return what the engine reads of a run, by file name; ``target.model`` is missing if both sides share a tokenizer.
    Raises ConfigError for a network or tokenizer that the engine does not run."""
    refuse_unknown_parts(run.config.model)
    refuse_unknown_pieces(run.tokenizers)
    parts = {
        "weights.safetensors": save({name: each.half() for name, each in unshared(run.model.state_dict()).items()}),
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
    ConfigError.raise_if_any(problems)


def described(config: Config, tokenizers: Tokenizers) -> dict[str, object]:
    """The part of a configuration that the engine needs."""
    return {
        "source_language": config.data.source_language,
        "target_language": config.data.target_language,
        "reverse_source": config.data.reverse_source,
        "shared": tokenizers.source is tokenizers.target,
        "model": config.model.model_dump(include={"encoder", "decoder", "attention"}),
        "decoding": config.decoding.model_dump(exclude={"batch_tokens", "to"})
        | {"more_pieces": MORE_PIECES, "largest_beam": schema.LARGEST_BEAM}
        | {"max_characters": MOST_CHARACTERS * config.decoding.max_source},
        "tags": list(tokenizers.tags.items()),
        "to": None if tokenizers.to is None else tokenizers.source.piece_id(tokenizers.to),
    }
