"""Validation during training: loss, BLEU, sample translations, attention as a film."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import torch

from nmt import fast
from nmt.config import Config
from nmt.config.schema import BleuTokenizer, Decoding, GoldAlignment, Training
from nmt.data.batching import Rows, Specials
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData
from nmt.data.epochs import FirstPieces
from nmt.data.tokenizer import Tokenizers
from nmt.device import autocast
from nmt.errors import NmtError, ProcessError, of_key
from nmt.evaluation.alignment import GoldPairs, likeliest_links, read_gold, score_alignments
from nmt.evaluation.metrics import Evidence, scores_of
from nmt.evaluation.writing import tokenizer_of_run
from nmt.messages import Caution, Say, counted, step
from nmt.model import Seq2Seq
from nmt.model.dropout import evaluating
from nmt.runs.film import Filmed
from nmt.training.machine import Machine
from nmt.training.progress import ValidationResult
from nmt.training.reports import Log
from nmt.training.world import in_shares
from nmt.translation.forced import force, word_attention
from nmt.translation.searching import WINDOW, SearchOptions
from nmt.translation.translator import CheckStop, Translator, never_stop

FILMED, LONGEST_FILMED = 5, 40
"""Sentences whose attention is filmed, the first of up to so many pieces of either side."""


@dataclass(frozen=True)
class ValidationSet:
    """What a validation reads, and how it is scored."""

    corpus: FirstPieces
    """The encoded pairs, for the loss; like decoding, it reads no more than the first ``decoding.max_source`` pieces of
    a side."""
    pairs: Sequence[Pair]
    """Those that are translated, as text."""
    gold: GoldPairs | None
    bleu_tokenizer: BleuTokenizer

    @classmethod
    def of(cls, config: Config, prepared: PreparedData, gold: GoldPairs | None, say: Say) -> Self:
        """Make that of a run; say what a user may not expect of it."""
        corpus = FirstPieces(prepared.validation, most := config.decoding.max_source)
        if corpus.cut:
            say(
                f"validation set: {corpus.cut:,} of {len(prepared.validation):,} pairs are longer than "
                f"decoding.max_source; only their first {most} pieces are read"
            )
        pairs = prepared.validation_pairs[: config.training.validation.sentences]
        tokenizer, note = tokenizer_of_run(config, [pair.target for pair in pairs])
        if note is not None:
            say(note)
        return cls(corpus, pairs, gold, tokenizer)


class Validator:
    """Measures a model on the validation set by the same path that ``nmt-translate`` takes."""

    def __init__(
        self,
        config: Training,
        decoding: Decoding,
        data: ValidationSet,
        tokenizers: Tokenizers,
        model: Seq2Seq,
        log: Log,
        machine: Machine,
    ) -> None:
        self.config, self.data = config, data
        self.model, self.network = model, fast.training(model, machine.kernels)
        self.specials = Specials.of(tokenizers)
        self.tokenizers = tokenizers
        self.options = SearchOptions.from_config(decoding, beam_size=config.validation.beam_size)
        self.filmed = list(islice((pair for pair in data.pairs if self._is_short(pair)), FILMED))
        self.log = log
        self.machine, self.world = machine, machine.world

    def __call__(self, update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        """Measure; with ``samples``, log the first translations, and film.

        ``check_stop`` is called between two batches. The translations of a model that cannot translate, because its
        weights are not finite, are blank.
        """
        started = time.perf_counter()
        loss = self.loss(check_stop)
        sources, references = [pair.source for pair in self.data.pairs], [pair.target for pair in self.data.pairs]
        translated = True
        try:
            with evaluating(self.model):
                hypotheses = in_shares(self.world, sources, lambda share: self._translate(share, check_stop))
        except ProcessError:
            raise
        except NmtError as error:
            self.log.say(Caution(f"validation at update {update}: {error}"))
            hypotheses, translated = [""] * len(references), False
        evidence = Evidence(hypotheses, references, self.data.bleu_tokenizer, loss, self.alignment_error_rate())
        scores = {name: score.value for name, score in scores_of(evidence).items()}
        if translated and samples and hypotheses and self.world.writes:
            self._show(update, hypotheses)
        return ValidationResult(scores, time.perf_counter() - started)

    @property
    def translator(self) -> Translator:
        """The translator of the current weights."""
        searchable = fast.search(self.model, self.machine.precision, self.machine.kernels)
        return Translator(searchable, self.tokenizers, self.machine.device)

    @torch.inference_mode()
    def loss(self, check_stop: CheckStop = never_stop) -> float:
        """Return the negative log-likelihood per real target token."""
        plan = self.data.corpus.plan(self.config.batch_tokens)
        with evaluating(self.model), autocast(self.machine.device, self.machine.precision):
            sums = in_shares(self.world, plan, lambda share: self._losses(share, check_stop))
        losses, tokens = zip(*sums, strict=True)
        return float(sum(losses) / sum(tokens))

    def _losses(self, plan: Sequence[Rows], check_stop: CheckStop) -> Iterator[tuple[float, int]]:
        """The negative log-likelihood and the real target tokens of each batch of a plan."""
        batches = self.data.corpus.batches(self.specials, plan)
        for each in counted(batches, "validation: loss", len(plan), "batches"):
            check_stop()
            batch = each.to(self.machine.device)
            memory = self.network.encode(batch.source, batch.source_lengths)
            readouts, _ = self.network.unroll(batch.target_input, memory)
            _, likelihood = self.model.loss(readouts, batch.target_output, batch.target_mask, 0.0)
            yield likelihood.item(), batch.target_tokens

    def _translate(self, sources: Sequence[str], check_stop: CheckStop) -> Iterator[str]:
        return translated(self.translator, sources, self.options, "validation: translating", check_stop)

    def alignment_error_rate(self) -> float | None:
        """AER of the likeliest source word of each target word; None without gold links or attention."""
        gold = self.data.gold
        if gold is None or not self.model.attends:
            return None
        with evaluating(self.model):
            links = in_shares(self.world, gold.pairs, self._links)
        return score_alignments(gold.links, [{(i, j) for i, j in each} for each in links]).error_rate

    def _links(self, pairs: Sequence[Pair]) -> list[list[tuple[int, int]]]:
        """The likeliest links of each pair, as JSON holds them."""
        weights = word_attention(self.network, self.tokenizers, pairs, self.machine.device)
        return list(map(likeliest_links, weights))

    def _show(self, update: int, hypotheses: list[str]) -> None:
        """Write the samples, and a frame of the film."""
        shown = list(zip(self.data.pairs, hypotheses, strict=True))[: self.config.validation.samples]
        if not shown:
            return
        self.log.samples(update, [{"source": s, "reference": r, "hypothesis": h} for (s, r), h in shown])
        if not self.model.attends:
            return
        with evaluating(self.model):
            forced = list(force(self.network, self.tokenizers, self.filmed, self.machine.device))
        read = [(Filmed(*pair, each.source_pieces, each.target_pieces), each.attention) for pair, each in forced]
        self.log.film(update, [(filmed, weights) for filmed, weights in read if weights is not None])

    def _is_short(self, pair: Pair) -> bool:
        """Whether a pair has few enough pieces to be filmed."""
        sides = zip((self.tokenizers.source, self.tokenizers.target), pair, strict=True)
        return not any(tokenizer.encode_first([text], LONGEST_FILMED)[0][1] for tokenizer, text in sides)


def gold_pairs(gold: GoldAlignment | None) -> GoldPairs | None:
    """Read the pairs with gold links that a configuration names, if it does. Raises DataError."""
    if gold is None:
        return None
    with of_key("evaluation.gold"):
        return read_gold(gold.source, gold.target, gold.links, first=gold.first, limit=gold.limit)


def translated(
    translator: Translator, sources: Sequence[str], options: SearchOptions, what: str, check_stop: CheckStop
) -> Iterator[str]:
    """Yield the translation of each sentence, as the step ``what``. ``check_stop`` is called between batches."""
    with step(what, len(sources), "sentences") as progress:
        found = translator.stream(sources, options, first_window=WINDOW, check_stop=check_stop, progress=progress)
        yield from (translation.text for translation in found)
