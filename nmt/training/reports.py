"""What a person hears of a run: what it is made of, its speed, the time left, its validations, why it ended early."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from nmt.config import Config
from nmt.config.schema import Training
from nmt.cores import cores, time_limit
from nmt.data.dataset import PreparedData
from nmt.device import format_of, peak_memory, resolve_precision
from nmt.evaluation.metrics import METRICS
from nmt.messages import Caution, Detail, Step, duration
from nmt.model import Seq2Seq
from nmt.training.log import Log
from nmt.training.optimizer import state_of_one
from nmt.training.progress import Extent, Progress, Window
from nmt.training.validation import ValidationResult

ENOUGH = 5_000
"""Pairs, of about 100,000 words: the smallest corpora that networks learned to translate a natural language from
(Sennrich & Zhang 2019)."""
FIRST_LINE, FIRST_UPDATES = 5.0, 5
"""Seconds and updates after which the expected time is said; the first update is slow."""


@dataclass(frozen=True)
class Update:
    """The measurements of one update."""

    loss: float
    """Negative log-likelihood per real target token, nats."""
    tokens: int
    gradient_norm: float
    learning_rate: float


class Reports:
    """Records and says how training goes.

    Args:
        config: of training.
        extent: how long the run is.
        log: of the run.
        device: whose memory is told.
        token_seconds: the time that the machine's own matrix product needs for the work of one target token, with which
            the speed is compared; None if it is unknown.
    """

    def __init__(
        self, config: Training, extent: Extent, log: Log, device: torch.device, token_seconds: float | None = None
    ) -> None:
        self.config = config
        self.extent = extent
        self.log = log
        self.device = device
        self.token_seconds = token_seconds
        self._expected_since: Progress | None = None
        """The first progress, until the expected time has been said; then None."""
        self._heading = True
        """Whether the next row of the table of validations needs a heading."""

    def begin(self, progress: Progress) -> None:
        """Note where training begins, or goes on."""
        self._expected_since = progress

    def update(self, progress: Progress, made: Update, shown: Step) -> Progress:
        """Show an update, which ``progress`` counts; record it every ``log_every`` updates, which begins a new window.

        Once, after a few seconds, say how long the rest will take.
        """
        window, total = progress.window, self.extent.total(self.config, progress)
        left, counted, uncounted = self._left(progress, total)
        share = None if self.token_seconds is None else window.rate * self.token_seconds
        speed = f"{window.rate:,.0f} target tokens/s" + ("" if share is None else f" ({share:.1%} of the matrix rate)")
        shown.expect(total)
        shown.note(
            f"loss {window.mean:.2f}, {window.rate:,.0f} tokens/s" + ("" if share is None else f" ({share:.1%})")
        )
        shown.advance()
        if progress.update % self.config.log_every == 0 or progress.complete(self.config):
            self._record(progress, made, share)
            self.log.say(
                Detail(
                    f"update {progress.update}/{total}  epoch {progress.epoch}  loss {window.mean:.3f}  "
                    f"{speed}  {duration(left)} left{uncounted}"
                )
            )
            progress = replace(progress, window=Window())
        start = self._expected_since
        if (
            start is not None
            and progress.seconds - start.seconds >= FIRST_LINE
            and progress.update - start.update >= FIRST_UPDATES
        ):
            self._expected_since = None
            self.log.say(
                f"expected time: {duration(left)} for {number_of(total - progress.update, 'more update')}{counted}"
                f"{uncounted}, at {speed}; {peak_memory(self.device) / 1e9:.1f} GB of memory so far"
            )
        return progress

    def _left(self, progress: Progress, total: int) -> tuple[float, str, str]:
        """Return the seconds that are left, and in words the validations that they count and those that they do not:
        the first validation is not made yet, so that nobody knows how long one takes."""
        seconds = progress.seconds / progress.update * (total - progress.update)
        made, left = self.extent.validations(self.config, progress)
        if not left:
            return seconds, "", ""
        validations = number_of(left, "validation")
        if not made:
            return seconds, "", f", not counting {validations}"
        return seconds + left * progress.validation_seconds / made, f" and {validations}", ""

    def _record(self, progress: Progress, made: Update, share: float | None) -> None:
        window = progress.window
        self.log.record(
            progress.update,
            "train",
            loss=window.mean,
            perplexity=math.exp(min(window.mean, 700)),
            target_tokens_per_second=window.rate,
            seconds=progress.seconds,
            matrix_share=share,
            learning_rate=made.learning_rate,
            gradient_norm=made.gradient_norm,
            epoch=progress.epoch,
            skipped=progress.skipped,
            halved=progress.halved,
        )

    def validation(self, progress: Progress, result: ValidationResult, *, best: bool) -> None:
        """Record a validation, and say it as a row of a table."""
        self.log.record(progress.update, "validation", **result.as_dict(), best=best)
        if best:
            self.log.scalars(progress.update, "best", result.as_dict())
        heading, row = result.table_row(progress.update, self.extent.read(progress), best=best)
        if self._heading:
            self.log.say(heading)
            self._heading = False
        self.log.say(row)

    def end(self, progress: Progress) -> None:
        """Say why training has ended early, if it has."""
        if not progress.complete(self.config) and progress.best is not None:
            name = METRICS[self.config.validation.metric].label
            self.log.say(
                f"stopped early after update {progress.update}: the validation {name} has not improved in "
                f"{progress.waited} validations (training.validation.patience); the best is that of update "
                f"{progress.best.update}"
            )


def number_of(count: int, noun: str) -> str:
    """A count and its noun: ``1 validation``, ``2 validations``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# --- before the first update ------------------------------------------------------------------------------------------


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
    """Return the bytes of weights, gradients and the optimizer's moments, in fp32."""
    moments = sum(each.dim() > 0 for each in state_of_one(config.training.optimizer).values())
    return 4 * parameters * (2 + moments)


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
