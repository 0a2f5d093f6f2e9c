"""The scores of scripts/textbook.py: what a run is judged by, from its translations, its network or its log."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import compress
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from aligner import align
from nmt.config.schema import FileCorpus
from nmt.data.batching import Batch, Specials, collate
from nmt.data.corpus import Pair, read_lines
from nmt.evaluation.alignment import GoldPairs, read_gold, score_alignments
from nmt.evaluation.diagnosis import by_third, recall_by_third
from nmt.evaluation.metrics import Evidence, bleu, bleu_of
from nmt.evaluation.writing import lengths
from nmt.experiments.evaluation import score_alignment
from nmt.experiments.plan import DEFAULT_TEST, Plan, Run
from nmt.model.hard import MixtureOutput, one_hot
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import LoadedRun, load_run
from nmt.runs.log import best_validation, read_metrics
from nmt.translation.translator import Translator

MIX = MixtureOutput.mix
RARE = 20
"""A word is rare if the training text has it at most this often: 220 words of the test set. With 5 it would be 68."""
Changes = dict[str, int | float]
"""Options of decoding, and their values."""
TEACHER_FORCING, LIKELIEST = "teacher_forcing", "likeliest_position"
"""In place of options of decoding: the decoder reads the reference; hard attention reads one position."""


class Score(NamedTuple):
    """One way to score a run. The higher, the better."""

    unit: str
    decimals: int
    compute: Callable[[Plan, Run, Changes], float]
    """From the plan, a run, and what differs from its decoding."""
    sign: int = 1
    """-1 for the negative of a loss or an error rate, which a page shows as it is."""


def bleu_of_run(plan: Plan, run: Run, changes: Changes) -> float:
    """The BLEU of the test set."""
    references = list(read_lines(plan.tests[DEFAULT_TEST].reference))
    return bleu(Evidence(translations(plan, run, changes), references, "13a")).value


def minus_loss(_: Plan, run: Run, __: Changes) -> float:
    """The negative of the loss on the validation set."""
    return -float(best_validation(read_metrics(RunDirectory(run.path).metrics))["loss"])


def minus_error_rate(plan: Plan, run: Run, _: Changes) -> float:
    """The negative of the alignment error rate of the attention on the test set, in percent."""
    report = score_alignment(run.path, gold_pairs(plan))
    assert report is not None
    return -100 * float(report["likeliest"]["error_rate"])


def recall_late(plan: Plan, run: Run, changes: Changes) -> float:
    """The recall of reference words in their last third minus that in their first third, in percent."""
    early, _, late = np.nanmean([recall_by_third(*pair) for pair in with_references(plan, run, changes)], axis=0)
    return 100 * float(late - early)


def recall_rare(plan: Plan, run: Run, changes: Changes) -> float:
    """The recall of reference words that are rare in the training text, in percent."""
    train = plan.runs[0].config.data.train
    assert isinstance(train, FileCorpus)
    seen = Counter(word for line in read_lines(train.target) for word in words(line))
    found = total = 0
    for hypothesis, reference in with_references(plan, run, changes):
        rare = Counter(word for word in words(reference) if seen[word] <= RARE)
        found, total = found + (rare & Counter(words(hypothesis))).total(), total + rare.total()
    return 100 * found / total


def with_references(plan: Plan, run: Run, changes: Changes) -> list[tuple[str, str]]:
    """Pair each translation of the test set with its reference."""
    return list(zip(translations(plan, run, changes), read_lines(plan.tests[DEFAULT_TEST].reference), strict=True))


def words(line: str) -> list[str]:
    """Split into words without punctuation."""
    return re.findall(r"\w+", line)


def gradient_early(plan: Plan, run: Run, changes: Changes) -> float:
    """The share of the gradient of the reference's log-probability that reaches the first third of the source, in
    percent: a third if all positions receive as much.

    A position receives the norm of the gradient with respect to its embedding.
    """
    loaded, shares = load_run(run.path, torch.device("cpu")), []
    model = loaded.model
    for batch in batches(plan, loaded):
        embedded = model.embed_source(batch.source).detach().requires_grad_()
        memory = model.remember(model.encoder(embedded, batch.source_lengths), batch.source_lengths)
        readouts = model.unroll(batch.target_input, memory)[0]
        loss = model.loss(readouts, batch.target_output, batch.target_mask, 0.0)[0]
        [gradient] = torch.autograd.grad(loss, embedded)
        thirds = by_third(gradient[0].norm(dim=-1).tolist())
        shares.append(thirds[0] / thirds.sum())
    return 100 * float(np.mean(shares))


def recall(plan: Plan, run: Run, changes: Changes) -> float:
    """The share of the pieces that begin a word of the reference that the network predicts, in percent.

    With ``teacher_forcing`` a prediction is the likeliest piece after the reference so far, otherwise a piece of the
    translation.
    """
    loaded = load_run(run.path, torch.device("cpu"))
    target, found, total = loaded.tokenizers.target, 0, 0
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
        found, total = found + (wanted & Counter(predicted)).total(), total + wanted.total()
    return 100 * found / total


def minus_gap(plan: Plan, run: Run, changes: Changes) -> float:
    """The negative of the recall that teacher forcing adds."""
    return recall(plan, run, changes) - recall(plan, run, {TEACHER_FORCING: 1})


def batches(plan: Plan, loaded: LoadedRun) -> Iterator[Batch]:
    """Each sentence of the test set with its reference."""
    test, specials = plan.tests[DEFAULT_TEST], Specials.of(loaded.tokenizers)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    texts = source.encode(list(read_lines(test.source))), target.encode(list(read_lines(test.reference)))
    for pair in zip(*texts, strict=True):
        source_ids, target_ids = (np.array(ids, np.int32) for ids in pair)
        yield collate([source_ids], [target_ids], specials)


def retained(plan: Plan, run: Run, changes: Changes, *, brevity: bool = True) -> float:
    """BLEU of long sources in percent of that of short ones, or of both without their brevity penalties."""
    test = plan.tests[DEFAULT_TEST]
    assert test.short is not None
    assert test.long is not None
    sources, references = list(read_lines(test.source)), list(read_lines(test.reference))
    hypotheses, scores = translations(plan, run, changes), []
    for low, high in (test.long, test.short):
        rows = [row for row, length in enumerate(lengths(sources, "words")) if low <= length <= high]
        score = bleu_of("13a").corpus_score([hypotheses[row] for row in rows], [[references[row] for row in rows]])
        scores.append(score.score if brevity else score.score / score.bp)
    return 100 * float(scores[0] / scores[1])


def aligner(plan: Plan) -> float:
    """The negative of the error rate of the statistical aligner, which reads the training text and the test set."""
    gold, text = gold_pairs(plan), plan.runs[0].config.data.train
    assert isinstance(text, FileCorpus)
    train = [Pair(*each) for each in zip(read_lines(text.source), read_lines(text.target), strict=True)]
    found = align([*gold.pairs, *train])[: len(gold.pairs)]
    return -100 * score_alignments(gold.links, found).error_rate


def gold_pairs(plan: Plan) -> GoldPairs:
    """Read the test set with its gold links."""
    test = plan.tests[DEFAULT_TEST]
    assert test.gold is not None
    return read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)


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


SCORES = {
    "bleu": Score("BLEU", 1, bleu_of_run),
    "loss": Score("nats", 3, minus_loss, -1),
    "aer": Score("points", 1, minus_error_rate, -1),
    "recall_late": Score("% recall", 1, recall_late),
    "recall_rare": Score("% recall", 1, recall_rare),
    "recall": Score("% recall", 1, recall),
    "gap": Score("% recall", 1, minus_gap, -1),
    "gradient_early": Score("% of the gradient", 1, gradient_early),
    "retained": Score("% retained", 1, retained),
    "retained_unpenalized": Score("% retained", 1, partial(retained, brevity=False)),
}
BASELINES = {"aligner": aligner}
"""Systems without runs."""
