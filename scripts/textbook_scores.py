"""The scores of scripts/textbook.py: computed from the translations or the network of a run.

Each sentence of the test set (for the loss, of the validation set) gives K statistics, and the score depends on their
sums, as BLEU does. So the sentences can be resampled.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from aligner import align
from nmt.config.schema import AnyCorpus, Data, FileCorpus
from nmt.data.batching import Batch, Specials, collate
from nmt.data.corpus import Pair, read_lines, read_pairs
from nmt.data.links import Link
from nmt.evaluation.alignment import Alignment, GoldPairs, likeliest_links, read_gold, symmetrized
from nmt.evaluation.diagnosis import by_third, recall_by_third
from nmt.evaluation.metrics import STATISTICS, Floats, bleu_of_statistics, draws, sentence_statistics
from nmt.evaluation.writing import lengths
from nmt.experiments.plan import DEFAULT_TEST, Plan, Run
from nmt.model.hard import MixtureOutput, one_hot
from nmt.runs.loading import LoadedRun, load_run
from nmt.translation.forced import force, word_attention
from nmt.translation.translator import Translator

CPU = torch.device("cpu")
MIX = MixtureOutput.mix
RARE = 20
"""A word is rare if the training text has it at most this often."""
RESAMPLES = 1000
Changes = dict[str, int | float]
"""Options of decoding, and their values."""
TEACHER_FORCING, LIKELIEST = "teacher_forcing", "likeliest_position"
"""In place of options of decoding: the decoder reads the reference; hard attention reads one position."""


class Score(NamedTuple):
    """One way to score a run. The higher, the better."""

    unit: str
    decimals: int
    statistics: Callable[[Plan, Run, Changes], Floats]
    """Those of the test sentences, (sentences, K), from the plan, a run, and what differs from its decoding."""
    value: Callable[[Floats], Floats]
    """From their sums, (..., K) -> (...)."""
    sign: int = 1
    """-1 for the negative of a loss or an error rate, which a page shows as it is."""
    unpenalized: Callable[[Floats], Floats] | None = None
    """The value without brevity penalties, which a page shows too."""


def sentence_error(value: Callable[[Floats], Floats], first: Sequence[Floats], second: Sequence[Floats]) -> float:
    """The standard error of the mean gain over the seeds that comes from the choice of test sentences, by the paired
    bootstrap (Koehn 2004), given the statistics of both systems with each seed."""
    systems = np.stack([first, second])  # (2, seeds, sentences, K)
    sums = np.stack([draw @ systems for draw in draws(systems.shape[2], RESAMPLES, seed=0)])  # (resamples, 2, seeds, K)
    means = value(sums).mean(-1)
    return float((means[:, 0] - means[:, 1]).std())


# --- from translations ------------------------------------------------------------------------------------------------


def ngrams(plan: Plan, run: Run, changes: Changes) -> Floats:
    """The statistics of BLEU."""
    hypotheses, references = zip(*with_references(plan, run, changes), strict=True)
    return sentence_statistics(hypotheses, references, "13a").astype(np.float64)


def ngrams_by_length(plan: Plan, run: Run, changes: Changes) -> Floats:
    """The statistics of BLEU for long sources beside those for short ones, with zeros for the other sentences."""
    test = plan.tests[DEFAULT_TEST]
    assert test.short is not None
    assert test.long is not None
    words = lengths(read_lines(test.source), "words")
    found = ngrams(plan, run, changes)
    return np.hstack([found * ((low <= words) & (words <= high))[:, None] for low, high in (test.long, test.short)])


def recall_by_part(plan: Plan, run: Run, changes: Changes) -> Floats:
    """The recall of the words in the last third of the reference, and 1, beside the same of the first third; zeros for
    a third without words."""
    recalls = np.array([recall_by_third(*pair) for pair in with_references(plan, run, changes)])[:, [-1, 0]]
    return np.stack([np.nan_to_num(recalls), ~np.isnan(recalls)], -1).reshape(len(recalls), -1)


def rare_words(plan: Plan, run: Run, changes: Changes) -> Floats:
    """How many rare words of the reference the translation has, and how many there are, beside the same of the other
    words."""
    train = plan.runs[0].config.data.train
    assert isinstance(train, FileCorpus)
    seen = Counter(word for line in read_lines(train.target) for word in words_of(line))
    rows = []
    for hypothesis, reference in with_references(plan, run, changes):
        found, counts = Counter(words_of(hypothesis)), np.zeros((2, 2))
        for word, wanted in Counter(words_of(reference)).items():
            counts[int(seen[word] > RARE)] += min(wanted, found[word]), wanted
        rows.append(counts.ravel())
    return np.array(rows)


def words_of(line: str) -> list[str]:
    """Split into words without punctuation."""
    return re.findall(r"\w+", line)


def with_references(plan: Plan, run: Run, changes: Changes) -> list[tuple[str, str]]:
    """Pair each translation of the test set with its reference."""
    return list(zip(translations(plan, run, changes), read_lines(plan.tests[DEFAULT_TEST].reference), strict=True))


def translations(plan: Plan, run: Run, changes: Changes) -> list[str]:
    """Read the translations of the test set, or make them with other decoding."""
    if not changes:
        return list(read_lines(plan.translations(run, DEFAULT_TEST)))
    sources, options = list(read_lines(plan.tests[DEFAULT_TEST].source)), changes.copy()
    mix = likeliest if options.pop(LIKELIEST, 0) else MIX
    with patch.object(MixtureOutput, "mix", mix):
        return [each.text for each in Translator.load(run.path).translate(sources, **options, attention=False)]


def likeliest(output: MixtureOutput, readouts: Tensor) -> Tensor:
    """As ``MixtureOutput.mix``, of the position with the largest probability alone."""
    read = one_hot(readouts[..., -1]).to(readouts.dtype)
    return MIX(output, torch.cat((readouts[..., :-1], read.unsqueeze(-1)), -1))


# --- from the network -------------------------------------------------------------------------------------------------


def nats(_: Plan, run: Run, __: Changes) -> Floats:
    """The log-probability of the references of the validation set, and their pieces."""
    return log_probabilities(run.path, run.config.data, run.config.data.validation)


def log_probabilities(run: Path, data: Data, text: AnyCorpus, limit: int | None = None) -> Floats:
    """The log-probability of each reference of a text, of the first ``limit`` if given, and its pieces, (pairs, 2)."""
    loaded = load_run(run, CPU)
    pairs = islice(read_pairs(text, data.source_language, data.target_language), limit)
    forced = force(loaded.network, loaded.tokenizers, pairs, CPU, keep_attention=False)
    return np.array([(each.log_probability, len(each.target_pieces)) for _, each in forced])


def attention_links(plan: Plan, run: Run, _: Changes) -> Floats:
    """As :func:`right_links`, of the attention."""
    gold = gold_pairs(plan)
    return right_links(gold, links_of(run, gold.pairs))


def attention_links_of_both(plan: Plan, run: Run, _: Changes) -> Floats:
    """As :func:`right_links`, of the attention joined with that of the system ``back``, of the other direction."""
    reverse = next(each for each in plan.runs_of("back") if each.seed == run.seed)
    gold = gold_pairs(plan)
    back = links_of(reverse, [swapped(pair) for pair in gold.pairs])
    return right_links(gold, joined(links_of(run, gold.pairs), back))


def links_of(run: Run, pairs: Sequence[Pair]) -> list[Alignment]:
    """The likeliest source word of each target word, by the attention of a run."""
    loaded = load_run(run.path, CPU)
    weights = word_attention(loaded.network, loaded.tokenizers, pairs, CPU, run.config.decoding)
    return [frozenset(likeliest_links(each)) for each in weights]


def aligner_links(plan: Plan) -> Floats:
    """As :func:`right_links`, of the statistical aligner, which reads the training text and the test set."""
    gold, pairs = gold_pairs(plan), text_of(plan)
    return right_links(gold, align(pairs)[: len(gold.pairs)])


def aligner_links_of_both(plan: Plan) -> Floats:
    """As :func:`aligner_links`, joined with the links of the other direction."""
    gold, pairs = gold_pairs(plan), text_of(plan)
    both = (align(each)[: len(gold.pairs)] for each in (pairs, [swapped(pair) for pair in pairs]))
    return right_links(gold, joined(*both))


def text_of(plan: Plan) -> list[Pair]:
    """The test set and the training text."""
    text = plan.runs[0].config.data.train
    assert isinstance(text, FileCorpus)
    return [*gold_pairs(plan).pairs, *map(Pair, read_lines(text.source), read_lines(text.target))]


def swapped(pair: Pair) -> Pair:
    """The pair of the other direction."""
    return Pair(pair.target, pair.source)


def joined(ahead: Sequence[Alignment], back: Sequence[Alignment]) -> list[Alignment]:
    """Join the links of both directions, as nmt-score does."""
    turned = [frozenset((i, j) for j, i in each) for each in back]
    return list(map(symmetrized, ahead, turned))


def right_links(gold: GoldPairs, proposed: Sequence[Collection[Link]]) -> Floats:
    """|A ∩ S| + |A ∩ P| and |A| + |S| of the proposed links A, the sure S and the possible P."""
    rows = [
        (len(each.sure.intersection(links)) + len(each.possible.intersection(links)), len(links) + len(each.sure))
        for each, links in zip(gold.links, proposed, strict=True)
    ]
    return np.array(rows, np.float64)


def gold_pairs(plan: Plan) -> GoldPairs:
    """Read the test set with its gold links."""
    test = plan.tests[DEFAULT_TEST]
    assert test.gold is not None
    return read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)


def gradient_early(plan: Plan, run: Run, _: Changes) -> Floats:
    """The share of the gradient of the reference's log-probability that reaches the first third of the source, and 1:
    a third if all positions receive as much.

    A position receives the norm of the gradient with respect to its embedding.
    """
    loaded = load_run(run.path, CPU)
    model, rows = loaded.model, []
    for batch in batches(plan, loaded):
        embedded = model.embed_source(batch.source).detach().requires_grad_()
        memory = model.remember(model.encoder(embedded, batch.source_lengths), batch.source_lengths)
        readouts = model.unroll(batch.target_input, memory)[0]
        loss = model.loss(readouts, batch.target_output, batch.target_mask, 0.0)[0]
        [gradient] = torch.autograd.grad(loss, embedded)
        thirds = by_third(gradient[0].norm(dim=-1).tolist())
        rows.append((thirds[0] / thirds.sum(), 1))
    return np.array(rows)


def beginnings(plan: Plan, run: Run, changes: Changes) -> Floats:
    """How many pieces that begin a word of the reference the network predicts, and how many there are.

    With ``teacher_forcing`` a prediction is the likeliest piece after the reference so far, otherwise a piece of the
    translation.
    """
    loaded, rows = load_run(run.path, CPU), []
    target = loaded.tokenizers.target
    hypotheses = None if TEACHER_FORCING in changes else target.encode(translations(plan, run, changes))
    for row, batch in enumerate(batches(plan, loaded)):
        reference = batch.target_output[0, :-1].tolist()
        begins = [piece.startswith("▁") for piece in target.pieces(reference)]
        if hypotheses is None:
            with torch.inference_mode():
                logits, _ = loaded.model(batch.source, batch.source_lengths, batch.target_input)
            predicted = list(compress(logits[0].argmax(-1).tolist(), begins))
        else:
            predicted = hypotheses[row]
        wanted = Counter(compress(reference, begins))
        rows.append(((wanted & Counter(predicted)).total(), wanted.total()))
    return np.array(rows, np.float64)


def beginnings_twice(plan: Plan, run: Run, changes: Changes) -> Floats:
    """As :func:`beginnings`, of greedy search beside teacher forcing."""
    greedy, forced = changes | {"beam_size": 1}, changes | {TEACHER_FORCING: 1}
    return np.hstack([beginnings(plan, run, each) for each in (greedy, forced)])


def batches(plan: Plan, loaded: LoadedRun) -> Iterator[Batch]:
    """Each sentence of the test set with its reference."""
    test, specials = plan.tests[DEFAULT_TEST], Specials.of(loaded.tokenizers)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    texts = source.encode(list(read_lines(test.source))), target.encode(list(read_lines(test.reference)))
    for pair in zip(*texts, strict=True):
        source_ids, target_ids = (np.array(ids, np.int32) for ids in pair)
        yield collate([source_ids], [target_ids], specials)


# --- from statistics to scores ----------------------------------------------------------------------------------------


def ratio(sums: Floats) -> Floats:
    """The first statistic over the second."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def percent(sums: Floats) -> Floats:
    """The first statistic in percent of the second."""
    return 100 * ratio(sums)


def minus_error_rate(sums: Floats) -> Floats:
    """The negative of the alignment error rate in percent (Och & Ney 2003)."""
    return percent(sums) - 100


def difference(sums: Floats) -> Floats:
    """The first statistic in percent of the second, minus the third in percent of the fourth."""
    return percent(sums[..., :2]) - percent(sums[..., 2:])


def bleu(sums: Floats) -> Floats:
    """BLEU."""
    return bleu_of_statistics(sums.astype(np.int64))


def retained(sums: Floats) -> Floats:
    """BLEU of long sources in percent of that of short ones."""
    return 100 * bleu(sums[..., :STATISTICS]) / bleu(sums[..., STATISTICS:])


def retained_unpenalized(sums: Floats) -> Floats:
    """The same without brevity penalties."""
    parts = np.stack([sums[..., :STATISTICS], sums[..., STATISTICS:]], -2)
    parts[..., 1] = np.minimum(parts[..., 1], parts[..., 0])  # references no longer than translations
    return retained(parts.reshape(sums.shape))


SCORES = {
    "bleu": Score("BLEU", 1, ngrams, bleu),
    "loss": Score("nats", 3, nats, ratio, -1),
    "aer": Score("points", 1, attention_links, minus_error_rate, -1),
    "aer_both": Score("points", 1, attention_links_of_both, minus_error_rate, -1),
    "recall_late": Score("% recall", 1, recall_by_part, difference),
    "recall_rare": Score("% recall", 1, rare_words, difference),
    "recall": Score("% recall", 1, beginnings, percent),
    "gap": Score("% recall", 1, beginnings_twice, difference, -1),
    "gradient_early": Score("% of the gradient", 1, gradient_early, percent),
    "retained": Score("% retained", 1, ngrams_by_length, retained, unpenalized=retained_unpenalized),
    "retained_unpenalized": Score("% retained", 1, ngrams_by_length, retained_unpenalized),
}
BASELINES = {"aligner": aligner_links, "aligner-both": aligner_links_of_both}
"""Systems without runs."""
