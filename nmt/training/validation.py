"""Validation during training: loss, BLEU, sample translations, attention as a film."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import torch

from nmt import fast
from nmt.config import Config
from nmt.config.schema import BleuTokenizer
from nmt.data.batching import Rows, Specials, collate, plan_by_length
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData
from nmt.data.links import Link
from nmt.device import autocast, release_freed_memory
from nmt.errors import NmtError, ProcessError, of_key
from nmt.evaluation.alignment import GoldPairs, likeliest_links, read_gold, score_alignments
from nmt.evaluation.metrics import Evidence, bleu, metric_of, scores_of
from nmt.evaluation.writing import tokenizer_of_run
from nmt.messages import Caution, counted, progress_bar
from nmt.model import Seq2Seq
from nmt.model.dropout import evaluating
from nmt.runs.log import Filmed, add_frame
from nmt.training.progress import ValidationResult
from nmt.training.reports import Log
from nmt.training.world import Machine, in_shares
from nmt.translation.forced import force, word_attention
from nmt.translation.searching import WINDOW, SearchOptions
from nmt.translation.translator import CheckStop, Translator, never_stop

FILMED, LONGEST_FILMED = 5, 40
"""Number of sentences whose attention is filmed, and their maximum number of pieces on either side."""


@dataclass(frozen=True)
class Measures:
    """The measures of translations of the validation set, beside the loss."""

    bleu_tokenizer: BleuTokenizer
    gold: GoldPairs | None
    """Pairs with gold links, for the alignment error rate."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Read them. Raises ConfigError for a metric or tokenizer that is not there, DataError for unusable links."""
        metric_of(config.training.validation.metric)
        gold, pairs = config.evaluation.gold, None
        if gold is not None:
            with of_key("evaluation.gold"):
                pairs = read_gold(gold.source, gold.target, gold.links, first=gold.first, limit=gold.limit)
        return cls(tokenizer_of_run(config), pairs)


class Validator:
    """Measures a model on the validation set by the same path that ``nmt-translate`` takes."""

    def __init__(
        self, config: Config, prepared: PreparedData, model: Seq2Seq, log: Log, machine: Machine, measures: Measures
    ) -> None:
        self.decoding = decoding = config.decoding
        self.validation, self.measures = config.training.validation, measures
        self.corpus, self.most = prepared.validation, decoding.max_source
        lengths = self.corpus.source_lengths, self.corpus.target_lengths
        source, target = (np.minimum(each, self.most) for each in lengths)
        self.plan = plan_by_length(source, target, config.training.batch_tokens)
        self.pairs = prepared.validation_pairs[: self.validation.sentences]
        self.model, self.network = model, fast.training(model, machine.kernels)
        self.tokenizers, self.specials = prepared.tokenizers, Specials.of(prepared.tokenizers)
        self.options = SearchOptions.from_config(decoding, beam_size=self.validation.beam_size)
        self.filmed = list(islice(filter(self._is_short, self.pairs), FILMED))
        self.log, self.machine, self.world = log, machine, machine.world
        if cut := int((np.maximum(*lengths) > self.most).sum()):
            long = f"{cut:,} of {len(self.corpus):,} pairs are longer than decoding.max_source"
            log.say(f"validation set: {long}; only their first {self.most} pieces are read")

    def __call__(self, update: int, *, samples: bool = True, check_stop: CheckStop = never_stop) -> ValidationResult:
        """Measure; with ``samples``, log the first translations, and film. A model whose weights are not finite cannot
        translate: it has blank translations."""
        started = time.perf_counter()
        loss = self.loss(check_stop)
        sources, references = [pair.source for pair in self.pairs], [pair.target for pair in self.pairs]
        translated, precision = True, self.machine.precision
        try:
            hypotheses = self.translate(sources, self.options, precision, "validation: translating", check_stop)
        except ProcessError:
            raise
        except NmtError as error:
            self.log.say(Caution(f"validation at update {update}: {error}"))
            hypotheses, translated = [""] * len(references), False
        evidence = Evidence(hypotheses, references, self.measures.bleu_tokenizer, loss, self.alignment_error_rate())
        scores = {name: score.value for name, score in scores_of(evidence).items()}
        if translated and samples and self.world.writes:
            self._show(update, hypotheses)
        by_tag = self._by_tag(hypotheses)
        return ValidationResult(scores, time.perf_counter() - started, by_tag)

    def _by_tag(self, hypotheses: Sequence[str]) -> dict[str, float]:
        """Return BLEU of the sentences with each tag, as ``BLEU TAG``, if there are several tags."""
        parts = defaultdict[str, tuple[list[str], list[str]]](lambda: ([], []))
        for pair, hypothesis in zip(self.pairs, hypotheses, strict=True):
            tag, _ = self.tokenizers.protection.parted(pair.source)
            translations, references = parts[f"BLEU {tag or self.tokenizers.to or 'without tag'}"]
            translations.append(hypothesis)
            references.append(pair.target)
        if len(parts) < 2:
            return {}
        return {name: bleu(Evidence(*part, self.measures.bleu_tokenizer)).value for name, part in parts.items()}

    def translate(
        self, sources: Sequence[str], options: SearchOptions, precision: torch.dtype, what: str, check_stop: CheckStop
    ) -> list[str]:
        """Translate with the current weights, as the step ``what``; each process translates a share."""
        release_freed_memory()
        searchable = fast.search(self.model, precision, self.machine.kernels)
        translator = Translator(searchable, self.tokenizers, self.machine.device)

        def translate(share: Sequence[str]) -> Iterator[str]:
            with progress_bar(what, len(share), "sentences") as progress:
                found = translator.stream(share, options, first_window=WINDOW, check_stop=check_stop, progress=progress)
                yield from (translation.text for translation in found)

        with evaluating(self.model):
            return in_shares(self.world, sources, translate)

    @torch.inference_mode()
    def loss(self, check_stop: CheckStop = never_stop) -> float:
        """Return the negative log-likelihood per real target token."""
        release_freed_memory()  # what updates have freed lies in pieces that other batches do not fit into
        with evaluating(self.model), autocast(self.machine.device, self.machine.precision):
            sums = in_shares(self.world, self.plan, lambda share: self._losses(share, check_stop))
        losses, tokens = zip(*sums, strict=True)
        return float(sum(losses) / sum(tokens))

    def _losses(self, plan: Sequence[Rows], check_stop: CheckStop) -> Iterator[tuple[float, int]]:
        """The negative log-likelihood and the real target tokens of each batch of a plan."""
        for rows in counted(plan, "validation: loss", len(plan), "batches"):
            check_stop()
            sources, targets = self.corpus.rows(rows)
            batch = collate([row[: self.most] for row in sources], [row[: self.most] for row in targets], self.specials)
            for place, target in enumerate(targets):
                if len(target) > self.most:
                    batch.target_output[place, self.most] = int(target[self.most])  # it does not end here
            batch = batch.to(self.machine.device)
            memory = self.network.encode(batch.source, batch.source_lengths)
            readouts, _ = self.network.unroll(batch.target_input, memory)
            _, nll = self.model.loss(readouts, batch.target_output, batch.target_mask, 0.0)
            yield nll.item(), batch.target_tokens

    def alignment_error_rate(self) -> float | None:
        """AER of the likeliest source word of each target word; None without gold links or attention."""
        gold = self.measures.gold
        if gold is None or not self.model.attends:
            return None

        def likeliest(pairs: Sequence[Pair]) -> Iterator[list[Link]]:
            found = word_attention(self.network, self.tokenizers, pairs, self.machine.device, self.decoding)
            return map(likeliest_links, found)

        with evaluating(self.model):
            links = in_shares(self.world, gold.pairs, likeliest)
        return score_alignments(gold.links, [{(i, j) for i, j in each} for each in links]).error_rate

    def _show(self, update: int, hypotheses: list[str]) -> None:
        shown = list(zip(self.pairs, hypotheses, strict=True))[: self.validation.samples]
        if not shown:
            return
        self.log.samples(update, [{"source": s, "reference": r, "hypothesis": h} for (s, r), h in shown])
        if not self.model.attends:
            return
        with evaluating(self.model):
            forced = list(force(self.network, self.tokenizers, self.filmed, self.machine.device, limits=self.decoding))
        read = [(Filmed(*pair, each.source_pieces, each.target_pieces), each.attention) for pair, each in forced]
        add_frame(self.log.run.film, update, [(filmed, weights) for filmed, weights in read if weights is not None])

    def _is_short(self, pair: Pair) -> bool:
        """Whether a pair has few enough pieces to be filmed."""
        sides = zip((self.tokenizers.source, self.tokenizers.target), pair, strict=True)
        return not any(tokenizer.encode_first([text], LONGEST_FILMED)[0][1] for tokenizer, text in sides)
