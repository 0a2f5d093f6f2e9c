"""Looking at the model while it trains: loss, BLEU, sample translations, an attention image."""

import html
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch

from nmt import fast
from nmt.config import Config
from nmt.data.batching import FirstPieces, Rows, Specials
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData
from nmt.errors import NmtError, ProcessError, of_key
from nmt.evaluation.links import GoldPairs, likeliest, read_gold, score_alignments
from nmt.evaluation.metrics import bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.foundation.device import autocast, resolve_precision
from nmt.foundation.world import ONE_PROCESS, World, in_shares
from nmt.model import Seq2Seq
from nmt.model.dropout import evaluating
from nmt.plots.attention import attention_image
from nmt.training.log import Log
from nmt.translation.forced import word_attention
from nmt.translation.options import SearchOptions
from nmt.translation.rules import refuse_without_attention
from nmt.translation.translator import CheckStop, Translator, never_stop
from nmt.translation.windows import WINDOW


@dataclass(frozen=True)
class ValidationResult:
    """Loss in nats per real target token, without label smoothing; BLEU of detokenized output."""

    loss: float
    perplexity: float
    bleu: float
    seconds: float
    aer: float | None = None
    """Alignment error rate of the attention, where evaluation.gold is configured."""

    def as_dict(self) -> dict[str, float]:
        """Return the measured values by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        aer = "" if self.aer is None else f"  AER {self.aer:.3f}"
        return f"loss {self.loss:.3f}  perplexity {self.perplexity:.2f}  BLEU {self.bleu:.2f}{aer}"


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
        refuse_without_attention(config.decoding.coverage_penalty, model.attends)  # else the test set would be too late
        self.options = SearchOptions.from_config(config.decoding, beam_size=config.training.validation.beam_size)
        self.log = log
        self.world = world
        self.gold = gold_pairs(config) if model.attends else None
        if self.corpus.cut:
            log.say(
                f"validation set: {self.corpus.cut:,} of {len(prepared.validation):,} pairs are longer than "
                f"decoding.max_source; only their first {config.decoding.max_source} pieces are read"
            )
        self.tokenizer, note = tokenizer_of_run(config, [pair.target for pair in self.pairs])
        if note is not None:
            log.say(note)

    def __call__(self, update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        """Measure; with ``samples``, show translations, and the attention of the first, in TensorBoard too.

        ``check_stop`` is called between two batches. A model that cannot translate, because its weights are not finite,
        has a BLEU of 0.
        """
        started = time.perf_counter()
        loss = self.loss(check_stop)
        try:
            sources = [pair.source for pair in self.pairs]
            with evaluating(self.model):
                hypotheses = in_shares(self.world, sources, lambda share: self._translate(share, check_stop))
        except ProcessError:
            raise
        except NmtError as error:
            self.log.say(f"validation at update {update}: {error}")
            score = 0.0
        else:
            score = bleu(hypotheses, [pair.target for pair in self.pairs], self.tokenizer).value
            if samples and self.world.writes:
                self._show(update, hypotheses)
        perplexity, aer = math.exp(min(loss, 700)), self.alignment_error_rate()
        return ValidationResult(loss, perplexity, score, time.perf_counter() - started, aer)

    @torch.inference_mode()
    def loss(self, check_stop: CheckStop = never_stop) -> float:
        """Negative log-likelihood per real target token of the validation set; like decoding, it reads no more than the
        first ``decoding.max_source`` pieces of a side."""
        plan = self.corpus.plan(self.config.training.batch_tokens)
        with evaluating(self.model), autocast(self.device, self.precision):
            sums = in_shares(self.world, plan, lambda share: self._losses(share, check_stop))
        losses, tokens = zip(*sums, strict=True)
        return float(sum(losses) / sum(tokens))

    def _losses(self, plan: Sequence[Rows], check_stop: CheckStop) -> Iterator[tuple[float, int]]:
        """The negative log-likelihood of each batch of a plan, and its real target tokens."""
        for each in self.corpus.batches(self.specials, plan):
            check_stop()
            batch = each.to(self.device)
            memory = self.network.encode(batch.source, batch.source_lengths)
            readouts, _ = self.network.unroll(batch.target_input, memory)
            _, likelihood = self.model.loss(readouts, batch.target_output, batch.target_mask, 0.0)
            yield likelihood.item(), batch.target_tokens

    def _translate(self, sources: Sequence[str], check_stop: CheckStop) -> Iterator[str]:
        translations = self.translator.stream(sources, self.options, first_window=WINDOW, check_stop=check_stop)
        return (translation.text for translation in translations)

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
        shown = range(min(self.config.training.validation.samples, len(self.pairs)))
        lines = [
            f"source: {_plain(self.pairs[i].source)}\n\nreference: {_plain(self.pairs[i].target)}\n\n"
            f"hypothesis: {_plain(hypotheses[i])}"
            for i in shown
        ]
        if not lines:
            return
        self.log.text(update, "validation/samples", "\n\n---\n\n".join(lines))
        if not self.model.attends:
            return
        options = SearchOptions.from_config(self.config.decoding, beam_size=1, attention=True)
        with evaluating(self.model):
            [translation] = self.translator.stream([self.pairs[0].source], options)
        best = translation.hypotheses[0]
        if best.attention is not None and best.pieces:
            pixels = attention_image(best.attention, translation.source_pieces, best.pieces)
            self.log.image(update, "validation/attention", pixels)


def gold_pairs(config: Config) -> GoldPairs | None:
    """The pairs with gold links that the configuration names, if it does and there is attention to hold against them.

    Raises DataError.
    """
    gold = config.evaluation.gold
    if gold is None:
        return None
    with of_key("evaluation.gold"):
        return read_gold(gold.source, gold.target, gold.links, first=gold.first, limit=gold.limit)


def _plain(text: str) -> str:
    """Escape text for Markdown and HTML, on one line: an empty line would end the block."""
    return "`" + html.escape(re.sub(r"\s", " ", text).replace("`", "'")) + "`"
