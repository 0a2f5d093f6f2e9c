"""The sentences of the page, each under every system."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from nmt.data.corpus import Pair
from nmt.data.tokenizer import Tokenizer, Tokenizers
from nmt.evaluation.metrics import Floats, bleu_of_statistics, sentence_statistics
from nmt.evaluation.writing import Unit, unit_of, units
from nmt.report.collecting import Collected
from nmt.report.measuring import failures_of
from nmt.report.reading import DECIMALS, ReadSentence, candidates
from nmt.report.records import Reading, Sentence, Words
from nmt.report.weights import packed
from nmt.report.words import gold_groups, grouped


@dataclass(frozen=True)
class Readings:
    """What one system made of the sentences that are shown."""

    tokenizers: Tokenizers
    sentences: list[ReadSentence]

    @property
    def views(self) -> list[str]:
        """The names of the attention matrices, in order."""
        return list(dict.fromkeys(name for each in self.sentences for name in each.views))


def sentence_records(collected: Collected, shown: Sequence[int], readings: Sequence[Readings]) -> list[Sentence]:
    """Return a record of each sentence of the test set that is ``shown``, as every system read it."""
    test, data = collected.test, collected.systems[0].config.data
    source_unit, target_unit = unit_of(data.source_language), unit_of(data.target_language)
    names = [system.name for system in collected.systems]
    scores = [_bleu(collected, shown, each.sentences) for each in readings]
    records = []
    for place, index in enumerate(shown):
        pair = test.pairs[index]
        first = readings[0]
        groups, words = _source_words(first.tokenizers.source, first.sentences[place], source_unit)
        gold = None
        if test.gold is not None:
            gold = gold_groups(test.gold[index].possible, words, pair.target, target_unit)
        systems = {}
        for name, each, bleu in zip(names, readings, scores, strict=True):
            own, _ = _source_words(each.tokenizers.source, each.sentences[place], source_unit)
            systems[name] = _reading(
                each.sentences[place],
                pair,
                each.tokenizers.target,
                target_unit,
                float(bleu[place]),
                None if own == groups else own,
            )
        length = len(units(pair.source, source_unit))
        records.append(Sentence(index + 1, pair.source, pair.target, length, groups, gold, systems))
    return records


def _bleu(collected: Collected, shown: Sequence[int], sentences: Sequence[ReadSentence]) -> Floats:
    """BLEU of each sentence, exponential smoothing, effective order."""
    references = [collected.test.pairs[index].target for index in shown]
    statistics = sentence_statistics([each.translation.text for each in sentences], references, collected.tokenizer)
    return bleu_of_statistics(statistics, effective_order=True)


def _source_words(tokenizer: Tokenizer, sentence: ReadSentence, unit: Unit) -> tuple[Words, list[int]]:
    return grouped(sentence.translation.source_pieces, sentence.translation.source, unit, _end(tokenizer))


def _end(tokenizer: Tokenizer) -> str:
    return tokenizer.pieces([tokenizer.eos_id])[0]


def _reading(
    sentence: ReadSentence, pair: Pair, target: Tokenizer, unit: Unit, bleu: float, source_words: Words | None
) -> Reading:
    best, forced = sentence.translation.hypotheses[0], sentence.forced
    rows = len(best.pieces)
    groups, _ = grouped(best.pieces, best.text, unit, _end(target))
    probabilities = np.exp(forced.log_probabilities[:rows]).tolist()
    return Reading(
        text=best.text,
        bleu=bleu,
        chrf=float(CHRF().sentence_score(best.text, [pair.target]).score),
        log_probability=float(forced.log_probabilities[:rows].sum(dtype=np.float64)),
        failures=failures_of(best.text, pair.target, unit),
        target_words=groups,
        source_words=source_words,
        steps=candidates(forced, target, rows),
        chosen=[round(each, DECIMALS) for each in probabilities],
        attention={name: packed(matrix) for name, matrix in sentence.views.items()} or None,
    )
