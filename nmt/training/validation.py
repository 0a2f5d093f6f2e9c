"""Validation during training: loss, BLEU, sample translations, an attention image."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from nmt import fast
from nmt.config import Config
from nmt.data.batching import Rows, Specials
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData
from nmt.data.epochs import FirstPieces
from nmt.device import autocast, resolve_precision
from nmt.errors import ConfigError, NmtError, ProcessError, of_key
from nmt.evaluation.alignment import GoldPairs, likeliest, read_gold, score_alignments
from nmt.evaluation.by_length import bleu_by_length
from nmt.evaluation.figures.attention import attention_image
from nmt.evaluation.metrics import METRICS, Evidence, format_values, scores_of
from nmt.evaluation.writing import lengths, tokenizer_of_run, unit_of
from nmt.messages import Caution, counted, counted_early, duration
from nmt.model import Seq2Seq
from nmt.model.dropout import evaluating
from nmt.training.log import Log
from nmt.training.world import ONE_PROCESS, World, in_shares
from nmt.translation.forced import word_attention
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.searching import WINDOW
from nmt.translation.translator import CheckStop, Done, Translator, never_stop

MOST_IMAGES = 2
"""Samples whose attention is drawn: a picture takes a few tenths of a second."""


@dataclass(frozen=True)
class ValidationResult:
    """The scores of a model on the validation set, and what they took."""

    scores: Mapping[str, float]
    """By the name of the metric."""
    seconds: float
    attention_entropy_bits: float | None = None
    """Mean entropy of the attention over the source, per real target token; None without attention."""

    def merit(self, metric: str) -> float:
        """Return the score of a metric as a number that is higher for a better model.

        Raises ConfigError for a metric that this run does not measure.
        """
        if metric not in self.scores:
            measured = ", ".join(self.scores)
            raise ConfigError(f"training.validation.metric: this run does not measure {metric}; it measures {measured}")
        return METRICS[metric].merit(self.scores[metric])

    def as_dict(self) -> dict[str, float]:
        """Return the measured values by name."""
        values = {**self.scores, "seconds": self.seconds}
        if self.attention_entropy_bits is not None:
            values["attention_entropy_bits"] = self.attention_entropy_bits
        return values

    def __str__(self) -> str:
        return format_values(self.scores)

    def table_row(self, update: int, epochs: float, *, best: bool) -> tuple[str, str]:
        """Return the heading of a table of validations, and the row of this one."""
        cells = [("update", 9, f"{update:,}"), ("epochs", 7, f"{epochs:.2f}")]
        for name, value in self.scores.items():
            metric = METRICS[name]
            cells.append((metric.label, max(len(metric.label), 5) + 1, metric.format(value)))
        cells.append(("time", 8, duration(self.seconds)))
        heading = " ".join(name.rjust(width) for name, width, _ in cells)
        row = " ".join(text.rjust(width) for _, width, text in cells)
        return f"validation {heading}", f"validation {row}{'  best' if best else ''}"


class Validator:
    """Measures a model on the validation set by the same path that ``nmt-translate`` takes."""

    def __init__(
        self,
        config: Config,
        prepared: PreparedData,
        model: Seq2Seq,
        device: torch.device,
        log: Log,
        world: World = ONE_PROCESS,
    ) -> None:
        self.config = config
        self.corpus = FirstPieces(prepared.validation, config.decoding.max_source)
        self.pairs = prepared.validation_pairs[: config.training.validation.sentences]
        self.model = model
        self.device, self.precision = device, resolve_precision(config.precision, device)
        self.specials = Specials.of(prepared.tokenizers)
        self.network = fast.training(model, config.kernels)
        self.translator = Translator(
            lambda beam_size: fast.search(model, self.precision, config.kernels, beam_size=beam_size),
            prepared.tokenizers,
            device,
        )
        self.options = SearchOptions.from_config(config.decoding, beam_size=config.training.validation.beam_size)
        self.log = log
        self.world = world
        self.gold = gold_pairs(config) if model.attends else None
        if self.corpus.cut:
            log.say(
                f"validation set: {self.corpus.cut:,} of {len(prepared.validation):,} pairs are longer than "
                f"decoding.max_source; only their first {config.decoding.max_source} pieces are read"
            )
        self.source_unit = unit_of(config.data.source_language)
        self.tokenizer, note = tokenizer_of_run(config, [pair.target for pair in self.pairs])
        if note is not None:
            log.say(note)

    def __call__(self, update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        """Measure; with ``samples``, show translations, and the attention of the first, in TensorBoard too.

        ``check_stop`` is called between two batches. The translations of a model that cannot translate, because its
        weights are not finite, are blank.
        """
        started = time.perf_counter()
        loss, entropy = self.loss(check_stop)
        references = [pair.target for pair in self.pairs]
        translated = True
        try:
            sources = [pair.source for pair in self.pairs]
            with evaluating(self.model):
                hypotheses = in_shares(self.world, sources, lambda share: self._translate(share, check_stop))
        except ProcessError:
            raise
        except NmtError as error:
            self.log.say(Caution(f"validation at update {update}: {error}"))
            hypotheses, translated = [""] * len(references), False
        evidence = Evidence(hypotheses, references, self.tokenizer, loss, self.alignment_error_rate())
        scores = {name: score.value for name, score in scores_of(evidence).items()}
        if translated and samples and self.world.writes:
            self._show(update, hypotheses)
        return ValidationResult(scores, time.perf_counter() - started, entropy)

    @torch.inference_mode()
    def loss(self, check_stop: CheckStop = never_stop) -> tuple[float, float | None]:
        """Negative log-likelihood per real target token of the validation set, and the mean entropy of the attention
        in bits; like decoding, it reads no more than the first ``decoding.max_source`` pieces of a side."""
        plan = self.corpus.plan(self.config.training.batch_tokens)
        with evaluating(self.model), autocast(self.device, self.precision):
            sums = in_shares(self.world, plan, lambda share: self._losses(share, check_stop))
        losses, entropies, tokens = zip(*sums, strict=True)
        return float(sum(losses) / sum(tokens)), sum(entropies) / sum(tokens) if self.model.attends else None

    def _losses(self, plan: Sequence[Rows], check_stop: CheckStop) -> Iterator[tuple[float, float, int]]:
        """The negative log-likelihood of each batch of a plan, the entropy of its attention, its real target tokens."""
        batches = self.corpus.batches(self.specials, plan)
        for each in counted(batches, "validation: loss", len(plan), "batches"):
            check_stop()
            batch = each.to(self.device)
            memory = self.network.encode(batch.source, batch.source_lengths)
            readouts, weights = self.network.unroll(batch.target_input, memory)
            _, likelihood = self.model.loss(readouts, batch.target_output, batch.target_mask, 0.0)
            entropy = 0.0 if weights is None else entropy_sum(weights, batch.target_mask).item()
            yield likelihood.item(), entropy, batch.target_tokens

    def _translate(self, sources: Sequence[str], check_stop: CheckStop) -> Iterator[str]:
        return translated(self.translator, sources, self.options, "validation: translating", check_stop)

    def alignment_error_rate(self) -> float | None:
        """AER of the likeliest source word of each target word; None without gold links."""
        if self.gold is None:
            return None
        with evaluating(self.model):
            links = in_shares(self.world, self.gold.pairs, self._links)
        return score_alignments(self.gold.links, [{(i, j) for i, j in each} for each in links]).error_rate

    def _links(self, pairs: Sequence[Pair]) -> list[list[tuple[int, int]]]:
        """The likeliest links of each pair, as JSON holds them."""
        weights = word_attention(self.network, self.translator.tokenizers, pairs, self.device)
        return [sorted(links) for links in likeliest(weights)]

    def _show(self, update: int, hypotheses: list[str]) -> None:
        """Write BLEU by length, the samples, and the attention in some of them."""
        if not self.pairs:
            return
        measured = lengths([pair.source for pair in self.pairs], self.source_unit)
        references, bins = [pair.target for pair in self.pairs], self.config.evaluation.bins
        bleu = bleu_by_length(measured, hypotheses, references, self.tokenizer, bins)
        width = len(str(max(high for _, high in bleu)))
        values = {f"{low:0{width}}-{high:0{width}}": value for (low, high), value in bleu.items()}
        self.log.scalars(update, "validation/bleu_by_length", values)
        shown = list(zip(self.pairs, hypotheses, strict=True))[: self.config.training.validation.samples]
        if not shown:
            return
        lines = [
            {"source": pair.source, "reference": pair.target, "hypothesis": hypothesis} for pair, hypothesis in shown
        ]
        self.log.samples(update, lines)
        if self.model.attends:
            self._show_attention(update, [pair.source for pair, _ in shown[:MOST_IMAGES]])

    def _show_attention(self, update: int, sources: list[str]) -> None:
        options = SearchOptions.from_config(self.config.decoding, beam_size=1, attention=True)
        with evaluating(self.model):
            translations = list(self.translator.stream(sources, options))
        for number, translation in enumerate(translations, 1):
            best = translation.hypotheses[0]
            if best.attention is not None and best.pieces:
                pixels = attention_image(best.attention, translation.source_pieces, best.pieces)
                self.log.image(update, f"validation/attention/{number}", pixels)


def entropy_sum(weights: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Add up the entropy -sum_j alpha_j log2 alpha_j of the attention (B, T, S) of the real target tokens of a mask
    (B, T), in bits: (), float64."""
    nats = -torch.xlogy(weights.float(), weights.float()).sum(-1).masked_fill(~mask, 0.0)
    return nats.sum(dtype=torch.float64) / math.log(2)


def gold_pairs(config: Config) -> GoldPairs | None:
    """Read the pairs with gold links that the configuration names, if it does. Raises DataError."""
    gold = config.evaluation.gold
    if gold is None:
        return None
    with of_key("evaluation.gold"):
        return read_gold(gold.source, gold.target, gold.links, first=gold.first, limit=gold.limit)


def translated(
    translator: Translator, sources: Sequence[str], options: SearchOptions, what: str, check_stop: CheckStop
) -> Iterator[str]:
    """Yield the translation of each sentence, as the step ``what``. ``check_stop`` is called between batches."""

    def stream(done: Done) -> Iterator[Translation]:
        return translator.stream(sources, options, first_window=WINDOW, check_stop=check_stop, done=done)

    return (translation.text for translation in counted_early(stream, what, len(sources), "sentences"))
