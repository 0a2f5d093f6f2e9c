"""Progress messages during training, and the description of a run before it."""

import math
from dataclasses import dataclass

import torch

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
from nmt.training.progress import Extent, Progress
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
    """Records how training goes, and says it."""

    def __init__(self, config: Training, extent: Extent, log: Log, device: torch.device) -> None:
        self.config = config
        self.extent = extent
        self.log = log
        self.device = device
        self._began: Progress | None = None
        """The first progress, until the expected time has been said; then None."""
        self._heading = True
        """Whether the next row of the table of validations needs a heading."""

    def begin(self, progress: Progress) -> None:
        """Note where training begins, or goes on."""
        self._began = progress

    def shown(self, progress: Progress, step: Step) -> None:
        """Show an update, which ``progress`` counts; once, after a few seconds, say how long the rest will take."""
        window, total = progress.window, self.config.updates
        step.note(f"loss {window.mean:.2f}, {window.rate:,.0f} tokens/s")
        step.advance()
        began, more = self._began, total - progress.update
        if began is None or progress.update - began.update < FIRST_UPDATES:
            return
        if progress.seconds - began.seconds >= FIRST_LINE:
            self._began = None
            left, counted, uncounted = self._left(progress, total)
            self.log.say(
                f"expected time: {duration(left)} for {number_of(more, 'more update')}{counted}{uncounted}, at "
                f"{window.rate:,.0f} target tokens/s; {peak_memory(self.device) / 1e9:.1f} GB of memory so far"
            )

    def record(self, progress: Progress, made: Update) -> None:
        """Record the updates of the window, the last of which is ``made``."""
        window, total = progress.window, self.config.updates
        self.log.record(
            progress.update,
            "train",
            loss=window.mean,
            perplexity=math.exp(min(window.mean, 700)),
            target_tokens_per_second=window.rate,
            seconds=progress.seconds,
            learning_rate=made.learning_rate,
            gradient_norm=made.gradient_norm,
            epoch=progress.epoch,
            skipped=progress.skipped,
            halved=progress.halved,
        )
        left, _, uncounted = self._left(progress, total)
        self.log.say(
            Detail(
                f"update {progress.update}/{total}  epoch {progress.epoch}  loss {window.mean:.3f}  "
                f"{window.rate:,.0f} target tokens/s  {duration(left)} left{uncounted}"
            )
        )

    def _left(self, progress: Progress, total: int) -> tuple[float, str, str]:
        """Return the seconds that are left, and in words the validations that they count and those that they do not:
        before the first validation, nobody knows how long one takes."""
        seconds = progress.seconds / progress.update * (total - progress.update)
        made, left = self.extent.validations(self.config, progress)
        if not left:
            return seconds, "", ""
        validations = number_of(left, "validation")
        if not made:
            return seconds, "", f", not counting {validations}"
        return seconds + left * progress.validation_seconds / made, f" and {validations}", ""

    def validation(self, progress: Progress, result: ValidationResult, *, best: bool) -> None:
        """Record a validation, and say it as a row of a table."""
        self.log.record(progress.update, "validation", **result.as_dict(), best=best)
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
    attention = getattr(model.decoder, "attention", None)
    attending = {id(each) for each in attention.parameters()} if isinstance(attention, torch.nn.Module) else set()
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = "attention" if id(parameter) in attending else name.partition(".")[0].replace("_", " ")
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def summary(config: Config, prepared: PreparedData, model: Seq2Seq, device: torch.device, extent: Extent) -> list[str]:
    """Describe data, vocabulary, model, memory, machine and length of a run, a line each."""
    training, tokenizers, pairs = config.training, prepared.tokenizers, len(prepared.train)
    parts = parameters_by_part(model)
    parameters = sum(parts.values())
    moments = sum(each.dim() > 0 for each in state_of_one(training.optimizer).values())
    attention = "no" if config.model.attention.type == "none" else config.model.attention.type
    processes = extent.per_update // training.accumulation
    tested = f"{len(prepared.test_pairs):,} in the test set" if prepared.test_pairs else "no test set"
    length = f"{training.updates:,} updates, {extent.epochs(training.updates):,.1f} epochs"
    lines = [
        f"data: {pairs:,} training pairs, {extent.tokens:,} target tokens in an epoch; "
        f"{len(prepared.validation_pairs):,} pairs for validation, {tested}",
        f"vocabulary: {tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"
        + (" (one for both)" if tokenizers.source is tokenizers.target else ""),
        f"model: {parameters:,} parameters, {attention} attention, "
        f"{format_of(resolve_precision(config.precision, device))} on {device}"
        + (f", {processes} processes" if processes > 1 else ""),
        f"parameters: {', '.join(f'{part} {count:,}' for part, count in parts.items())}",
        f"memory: {4e-6 * parameters * (2 + moments):,.1f} MB for weights, gradients and the optimizer; "
        f"PyTorch itself and batches of up to {training.batch_tokens:,} tokens need more",
        f"machine: {torch.cuda.get_device_name(device) if device.type == 'cuda' else _threads()}, "
        f"{'fused' if config.kernels == 'auto' else 'plain'} kernels",
        f"training: {length}, {extent.batches:,} batches an epoch; "
        f"validation every {training.validation.every:,} updates",
    ]
    if pairs < ENOUGH:
        lines.append(
            Caution(
                f"warning: data.train: {pairs:,} pairs are too few; with fewer than {ENOUGH:,} a network hardly learns "
                "to translate a natural language"
            )
        )
    return lines


def _threads() -> str:
    count, limit = torch.get_num_threads(), time_limit()
    threads = f"{number_of(count, 'thread')} on {number_of(cores(), 'core')}"
    return threads if limit is None else f"{threads} (limited to the time of {limit:g})"
