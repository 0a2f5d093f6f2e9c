"""Training that starts from another run: its tokenizer and, by name and shape, its best weights."""

from pathlib import Path

import torch

from nmt.config import Config, load_run_config
from nmt.errors import ConfigError, of_key
from nmt.files import digest
from nmt.messages import Say
from nmt.model import Seq2Seq
from nmt.runs.changes import differences
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.runs.tensors import unshared

PARTS = ("", "encoder.", "decoder.")
TAKEN_OVER = ("tokenizer", "model", "data.reverse_source")
OWN = ("tokenizer.dropout", "model.attention", "model.initialization", *(f"model.{part}dropout" for part in PARTS))
"""Keys, or sections of them, that must be those of the other run, and those in them that need not be."""


def started_from(config: Config, run: Path | None) -> Config:
    """The configuration with ``run`` instead of the one that training starts from, if it starts from any: a run that
    resumes has its own tokenizer, and does not need the other run again."""
    if config.training.start_from is None:
        return config
    changed = config.training.model_copy(update={"start_from": run and str(run)})
    return config.model_copy(update={"training": changed})


def refuse_other_parts(config: Config) -> None:
    """Raise the error of a run in ``training.start_from`` that is missing, or whose tokenizer or network differs in
    more than attention and dropout: ConfigError, CheckpointError."""
    if (path := config.training.start_from) is None:
        return
    with of_key("training.start_from"):
        before = {"config": load_run_config(path).model_dump(mode="json")}
    if changed := [each for each in differences(before, config, OWN) if each.startswith(TAKEN_OVER)]:
        taken = "takes over the tokenizer and the network, but for attention and dropout"
        raise ConfigError(*changed, f"training.start_from: {path}: training {taken}; use the configuration of this run")


def start(model: Seq2Seq, path: str, say: Say) -> dict[str, str]:
    """Copy the best weights of a run into a network, and say which; return what the manifest records of the run.

    Raises CheckpointError for a run that cannot be used, ConfigError for weights of the same name and another shape.
    """
    with of_key("training.start_from"):
        found = unshared(load_run(path, torch.device("cpu")).model.state_dict())
    own = unshared(model.state_dict())
    both = {name: found[name] for name in own if name in found}
    if other := [name for name, tensor in both.items() if tensor.shape != own[name].shape]:
        shapes = f"has shape {tuple(own[other[0]].shape)}, in {path} {tuple(found[other[0]].shape)}"
        raise ConfigError(f"model.attention: does not fit training.start_from: tensor {other[0]} {shapes}")
    model.load_state_dict(both, strict=False)
    counts: dict[str, list[int]] = {}
    for name, tensor in (found | own).items():
        part = "attention" if name.startswith("decoder.attention.") else name.partition(".")[0]
        column = 0 if name in both else 1 if name in found else 2
        counts.setdefault(part, [0, 0, 0])[column] += tensor.numel()
    rows = [f"{part:<18}{loaded:>12,}{left:>12,}{new:>12,}" for part, (loaded, left, new) in counts.items()]
    say("\n".join([f"{'weights':<18}{'loaded':>12}{'left out':>12}{'new':>12}", *rows]))
    return {"run": path, "model_sha256": digest(RunDirectory(path).folder("best") / "model.safetensors")}
