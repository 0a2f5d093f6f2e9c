"""Load a run's network, to translate or to start another run from."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt import fast
from nmt.config import Config, load_run_config
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError, FileError, NmtError, of_key
from nmt.files import digest, read_json
from nmt.messages import Caution, Say, aligned
from nmt.model import Network, Seq2Seq
from nmt.model.build import uninitialized_model
from nmt.runs.checkpoints import inspect, load_weights, unshared
from nmt.runs.directory import RunDirectory


@dataclass(frozen=True)
class LoadedRun:
    """A trained run, ready to translate."""

    config: Config
    tokenizers: Tokenizers
    model: Seq2Seq

    @property
    def network(self) -> Network:
        """The model for forced decoding, with the kernels of the configuration."""
        return fast.training(self.model, self.config.kernels)


def load_run(path: str | Path, device: torch.device, checkpoint: str = "best") -> LoadedRun:
    """Load the model of a run directory, which may be untrusted: nothing in it is executed, no file outside it opened.
    Raises FileError naming the file that is missing, does not fit or cannot be trusted."""
    run = RunDirectory(path)
    run.refuse_links()
    try:
        config = load_run_config(run.path)
        tokenizers = Tokenizers.load(run.tokenizer).used_as(config)
    except NmtError as error:
        raise FileError(*error.problems) from None
    manifest = read_json(run.manifest) if run.manifest.exists() else {}
    known = manifest.get("tokenizer_sha256") if isinstance(manifest, dict) else None
    if known is not None and known != tokenizers.sha256:
        raise FileError(f"{run.tokenizer}: damaged, or of another run: {run.manifest} has other checksums")
    run.whole(checkpoint, lambda: _refuse_other_size(run, checkpoint, config, tokenizers.sizes))
    weights = run.weights(checkpoint)
    model = uninitialized_model(config.model, *tokenizers.sizes)
    where = f"{run.checkpoints / checkpoint}"
    load_weights(model, weights, where)
    # sums, because isfinite() of every number would take memory
    wrong = [name for name, tensor in unshared(model.state_dict()).items() if not tensor.sum().isfinite()]
    if wrong:
        raise FileError(*(f"{where}: tensor {name} holds values that are not finite" for name in wrong))
    return LoadedRun(config, tokenizers, model.to(device).eval())


def _refuse_other_size(run: RunDirectory, checkpoint: str, config: Config, sizes: tuple[int, int]) -> None:
    """Raise FileError for a network and weights of very different sizes, before either takes time or memory."""
    if checkpoint == "best" and not run.has("best"):
        raise FileError(f"{run.checkpoints / 'best'}: missing; a run has it after its first validation")
    weights = run.folder(checkpoint) / "model.safetensors"
    with torch.device("meta"):  # only sizes
        parameters = uninitialized_model(config.model, *sizes).parameters()
        described = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    found, _ = inspect(weights)
    if found > 2 * described or described > 2 * found:
        raise FileError(f"{run.config}: describes a network of {described:,} bytes; {weights} holds {found:,}")


def start(model: Seq2Seq, path: str, tags: Collection[str], say: Say) -> dict[str, str]:
    """Copy the best weights of a run into a network, and say which, and which of its tags the new run, with ``tags``,
    does not have; return what the manifest records of the run.

    Raises FileError for a run that cannot be used, ConfigError for weights of the same name and another shape.
    """
    with of_key("training.start_from"):
        other = load_run(path, torch.device("cpu"))
    file = RunDirectory(path).folder("best") / "model.safetensors"
    found, own = unshared(other.model.state_dict()), unshared(model.state_dict())
    both = {name: found[name] for name in own if name in found}
    if unlike := [name for name, tensor in both.items() if tensor.shape != own[name].shape]:
        shapes = f"has shape {tuple(own[unlike[0]].shape)}, in {path} {tuple(found[unlike[0]].shape)}; use those sizes"
        raise ConfigError(f"model.attention: does not fit training.start_from: tensor {unlike[0]} {shapes}")
    model.load_state_dict(both, strict=False)
    counts: dict[str, list[int]] = {}
    for name, tensor in (found | own).items():
        part = "attention" if name.startswith("decoder.attention.") else name.partition(".")[0]
        column = 0 if name in both else 1 if name in found else 2
        counts.setdefault(part, [0, 0, 0])[column] += tensor.numel()
    rows = [[part, *(f"{count:,}" for count in each)] for part, each in counts.items()]
    say(f"starting from the best checkpoint of {path}, with its tokenizer; learning rate and schedule begin again")
    if lost := [tag for tag in dict.fromkeys(other.config.data.tags) if tag not in tags]:
        say(Caution(f"training.start_from: no corpus has the tag {', '.join(lost)} of {path}; training unlearns it"))
    say(aligned([["weights", "loaded", "left out", "new"], *rows]))
    return {"run": path, "model_sha256": digest(file)}
