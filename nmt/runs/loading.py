"""From a run directory to a network that translates."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from nmt import fast
from nmt.config import Config, load_run_config
from nmt.data.tokenizer import Tokenizers
from nmt.errors import CheckpointError, NmtError
from nmt.files import read_json
from nmt.model import Network, Seq2Seq, build_model
from nmt.model.initialization import Uninitialized
from nmt.runs.checkpoints import inspect, refuse_other_tensors, unshared
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
    """Load the model of a run directory.

    The run may be untrusted: nothing in it is executed, and no file outside it is opened.
    Raises CheckpointError naming the file that is missing, does not fit or cannot be trusted.
    """
    run = RunDirectory(path)
    run.refuse_links()
    try:
        config = load_run_config(run.path)
        tokenizers = replace(Tokenizers.load(run.tokenizer), reverse_source=config.data.reverse_source)
    except NmtError as error:
        raise CheckpointError(*error.problems) from None
    _refuse_other_tokenizers(run, tokenizers)
    sizes = tokenizers.source.size, tokenizers.target.size
    run.whole(checkpoint, lambda: _refuse_other_size(run, checkpoint, config, sizes))
    weights = run.weights(checkpoint)
    with Uninitialized():
        model = build_model(config.model, *sizes)
    where = f"{run.checkpoints / checkpoint}"
    load_weights(model, weights, where)
    # sums, because isfinite() of every number would take memory
    wrong = [name for name, tensor in unshared(model.state_dict()).items() if not tensor.sum().isfinite()]
    if wrong:
        raise CheckpointError(*(f"{where}: tensor {name} holds values that are not finite" for name in wrong))
    return LoadedRun(config, tokenizers, model.to(device).eval())


def _refuse_other_tokenizers(run: RunDirectory, tokenizers: Tokenizers) -> None:
    """Raise CheckpointError for tokenizers other than those of the manifest, if there is a manifest."""
    manifest = read_json(run.manifest) if run.manifest.exists() else {}
    known = manifest.get("tokenizer_sha256") if isinstance(manifest, dict) else None
    if known is not None and known != tokenizers.sha256:
        raise CheckpointError(f"{run.tokenizer}: damaged, or of another run: {run.manifest} has other checksums")


def _refuse_other_size(run: RunDirectory, checkpoint: str, config: Config, sizes: tuple[int, int]) -> None:
    """Raise CheckpointError for a network and weights of very different sizes, before either takes time or memory."""
    if checkpoint == "best" and not run.has("best"):
        raise CheckpointError(f"{run.checkpoints / 'best'}: missing; a run has it after its first validation")
    weights = run.folder(checkpoint) / "model.safetensors"
    with Uninitialized(), torch.device("meta"):  # sizes alone
        parameters = build_model(config.model, *sizes).parameters()
        described = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    found, _ = inspect(weights)
    if found > 2 * described or described > 2 * found:
        raise CheckpointError(f"{run.config}: describes a network of {described:,} bytes; {weights} holds {found:,}")


def load_weights(model: Seq2Seq, weights: dict[str, Tensor], where: str) -> None:
    """Move weights into a model, out of ``weights``: none is in memory twice. Raises CheckpointError that lists every
    name or shape that differs."""
    shapes = {name: tensor.shape for name, tensor in unshared(model.state_dict()).items()}
    refuse_other_tensors(weights, shapes, where, "model")
    places = model.state_dict()
    for name in shapes:  # tied tensors are in the file once
        places[name].copy_(weights.pop(name))
