"""What a run is made of, in a few lines before its first update, and for TensorBoard's table of runs."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nmt.config import Config
from nmt.cores import cores, time_limit
from nmt.data.dataset import PreparedData
from nmt.device import format_of, resolve_precision
from nmt.messages import Caution
from nmt.model import Seq2Seq
from nmt.training.extent import Extent
from nmt.training.progress import Progress

ENOUGH = 5_000
"""Pairs, of about 100,000 words: the smallest corpora that networks learned to translate a natural language from
(Sennrich & Zhang 2019)."""
FLOATS = {"adam": 2, "adamw": 2, "adadelta": 2, "sgd": 0}
"""Numbers that an optimizer keeps for each parameter; SGD has one with momentum."""


def parameters_by_part(model: Seq2Seq) -> dict[str, int]:
    """Count the parameters of the encoder, the attention, the rest of the decoder, ..., in the model's order; one that
    several parts share counts for the first of them."""
    attention = {id(each) for each in _attention_parameters(model.decoder)}
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = name.partition(".")[0].replace("_", " ")
        part = "attention" if id(parameter) in attention else part
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def _attention_parameters(decoder: nn.Module) -> Iterator[nn.Parameter]:
    attention = getattr(decoder, "attention", None)
    return attention.parameters() if isinstance(attention, nn.Module) else iter(())


def state_bytes(config: Config, parameters: int) -> int:
    """Return the bytes of weights, gradients, the optimizer's moments and the moving average, in fp32."""
    optimizer = config.training.optimizer
    moments = FLOATS[optimizer.type] + bool(getattr(optimizer, "momentum", 0))
    return 4 * parameters * (2 + moments + (config.training.ema is not None))


def summary(
    config: Config,
    prepared: PreparedData,
    model: Seq2Seq,
    device: torch.device,
    extent: Extent,
    rate: float | None,
) -> list[str]:
    """Describe data, vocabulary, model, memory, machine and length of a run, a line each.

    ``rate``: FLOP/s of the machine's matrix product, of all processes.
    """
    training, tokenizers = config.training, prepared.tokenizers
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    attention = "no" if config.model.attention.type == "none" else config.model.attention.type
    precision = format_of(resolve_precision(config.precision, device))
    processes = extent.per_update // training.accumulation
    crowd = f", {processes} processes" if processes > 1 else ""
    tested = f"{len(prepared.test_pairs):,} in the test set" if prepared.test_pairs else "no test set"
    held_out = f"{len(prepared.validation_pairs):,} pairs for validation, {tested}"
    if training.updates is not None:
        length = f"{training.updates:,} updates, {extent.epochs(training):,.1f} epochs"
    else:
        length = f"{training.epochs:,} epochs, about {extent.total(training, Progress()):,} updates"
    speed = "" if rate is None else f", matrix products at {rate / 1e9:,.0f} GFLOP/s"
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else _threads()
    return [
        f"data: {len(prepared.train):,} training pairs, {extent.tokens:,} target tokens in an epoch; {held_out}",
        f"vocabulary: {tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"
        + (" (one for both)" if tokenizers.source is tokenizers.target else ""),
        f"model: {parameters:,} parameters, {attention} attention, {precision} on {device}{crowd}",
        f"parameters: {', '.join(f'{part} {count:,}' for part, count in parts.items())}",
        f"memory: {_size(state_bytes(config, parameters))} for weights, gradients and the optimizer; "
        f"PyTorch itself and batches of up to {training.batch_tokens:,} tokens need more",
        f"machine: {where}, {'fused' if config.kernels == 'auto' else 'plain'} kernels{speed}",
        f"training: {length}, {extent.batches:,} batches an epoch; "
        f"validation every {training.validation.every:,} updates",
        *_cautions(prepared),
    ]


def _cautions(prepared: PreparedData) -> list[Caution]:
    """Warn of data from which nothing can be expected."""
    pairs = len(prepared.train)
    if pairs >= ENOUGH:
        return []
    return [
        Caution(
            f"warning: data.train: {pairs:,} pairs are too few; with fewer than {ENOUGH:,} a network hardly learns to "
            "translate a natural language"
        )
    ]


def _threads() -> str:
    count, limit = torch.get_num_threads(), time_limit()
    threads = f"{count} thread{'s' if count > 1 else ''} on {cores()} core{'s' if cores() > 1 else ''}"
    return threads if limit is None else f"{threads} (limited to the time of {limit:g})"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def hyperparameters(config: Config) -> dict[str, float | str | bool]:
    """Return what distinguishes runs, by dotted key: numbers and words of the configuration, without files."""
    values = config.model_dump(mode="json")
    chosen = {name: values[name] for name in ("seed", "precision", "tokenizer", "model", "training", "decoding")}
    return {key: value for key, value in _leaves(chosen, "") if isinstance(value, int | float | str)}


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, f"{key}.{name}" if key else name)
    else:
        yield key, str(value) if isinstance(value, list) else value
