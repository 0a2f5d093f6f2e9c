"""Beam search: K hypotheses of each sentence side by side.

At each step every live hypothesis is extended by every token. Among the best 2K candidates of a sentence, those of the
first K that end in EOS are finished, and the best K that do not end live on (at most K can end, so K are left).

A sentence stops when K of its hypotheses have finished and none that lives has a better score than the best of them.
With the first condition only, K unlikely early ends could shut out a likely sentence; if search went on until no live
one could ever win, most sentences would reach their greatest length. With K = 1 this is greedy search. A sentence also
stops when no live hypothesis can enter its n best any more, which changes no result: a log-probability only falls, so
log p / lp(max_length) bounds what a live one can still score. At the greatest length the live ones finish as they are.
The length penalty lp is in interface.py.

Shapes: B sentences, K hypotheses of each, R = B * K rows (the hypotheses of a sentence are neighbors), V vocabulary.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from nmt.records import Record
from nmt.search.interface import AttentionBuffer, Hypothesis, Limits, S, Searchable, no_finite_probability, penalty


@dataclass(frozen=True)
class Beam(Record):
    """B unfinished sentences with K live hypotheses each."""

    sentences: Tensor
    """(B,) indices of the unfinished sentences."""
    max_lengths: Tensor
    """(B,)"""
    log_probs: Tensor
    """(B, K) of the live hypotheses, -inf for none; (B, 1) before the first step: the empty one; best first."""
    finished: Tensor
    """(B,) how many hypotheses have finished."""
    kept: Tensor
    """(B, N) scores of the best finished hypotheses, best first; -inf where there is none yet."""

    @classmethod
    def first(cls, limits: Limits, kept_scores: int) -> Self:
        """Make the beam before the first step."""
        kept = torch.full((limits.sentences, kept_scores), -torch.inf, device=limits.max_lengths.device)
        count = torch.arange(limits.sentences, device=limits.max_lengths.device)
        return cls(count, limits.max_lengths, torch.zeros_like(kept[:, :1]), torch.zeros_like(count), kept)


@dataclass(frozen=True)
class Extensions(Record):
    """Hypotheses made by one step: (B, N) parents as rows of the step, their last tokens, their log-probabilities."""

    parents: Tensor
    tokens: Tensor
    log_probs: Tensor

    @classmethod
    def joined(cls, steps: Iterable["Extensions"]) -> Self:
        """Put the extensions of several steps one below the other."""
        return cls(*map(torch.cat, zip(*((each.parents, each.tokens, each.log_probs) for each in steps), strict=True)))


def beam_step(
    beam: Beam, log_probs: Tensor, length: int, limits: Limits, beam_size: int, alpha: float
) -> tuple[Beam, Extensions, Extensions, Tensor]:
    """Extend each live hypothesis by one token, to ``length`` tokens.

    log_probs: (R, V), a row for each live hypothesis; at the first step (B, V). ``beam_size`` is K. Returns the beam,
    its live hypotheses (B, K), the finished ones (B, 2K; -inf where a place is empty), and which sentences are done
    (B,). ``log_probs`` is overwritten.
    """
    last = beam.max_lengths <= length
    live, ended = _extend(beam, log_probs, limits, beam_size, last)
    finished = beam.finished + (ended.log_probs > -torch.inf).sum(1)
    kept = torch.cat((beam.kept, ended.log_probs / penalty(length, alpha)), 1).topk(beam.kept.size(1)).values
    best_live = live.log_probs[:, 0]
    beaten = (finished >= beam_size) & (best_live / penalty(length, alpha) <= kept[:, 0])
    hopeless = best_live / penalty(beam.max_lengths, alpha) <= kept[:, -1]
    done = last | beaten | hopeless
    return Beam(beam.sentences, beam.max_lengths, live.log_probs, finished, kept), live, ended, done


def _extend(
    beam: Beam, log_probs: Tensor, limits: Limits, beam_size: int, last: Tensor
) -> tuple[Extensions, Extensions]:
    """Extend the live hypotheses by one token: the ``beam_size`` that live on, and the ended ones.

    log_probs (B * P, V) of P live hypotheses of each sentence; last (B,): whether no other token may follow. All
    2K candidates end then, which is harmless: at most K hypotheses are returned, and the best K end in any case.

    For example, one sentence and a beam of 2: the two hypotheses have the log-probabilities -1 and -2, and their best
    three tokens are a -0.5, EOS -1, b -3 and EOS -0.1, c -0.2, a -4. The best four candidates are a -1.5 and EOS -2.0
    of the first, EOS -2.1 and c -2.2 of the second. a and c live on. EOS -2.0 ends; EOS -2.1, the third, is dropped.
    """
    (sentences, parents), vocabulary = beam.log_probs.shape, log_probs.size(1)
    totals = log_probs.view(sentences, parents, vocabulary).add_(beam.log_probs.unsqueeze(2))  # in place: it is large
    limits.exclude(totals)
    totals, places = best(totals.flatten(1), min(2 * beam_size, parents * vocabulary))  # (B, 2K)
    if (lacking := 2 * beam_size - totals.size(1)) > 0:  # the first step, with a vocabulary of fewer than 2K
        totals = functional.pad(totals, (0, lacking), value=-torch.inf)
        places = functional.pad(places, (0, lacking), value=limits.bos_id)
    first_row = torch.arange(0, sentences * parents, parents, device=log_probs.device).unsqueeze(1)
    candidates = Extensions(first_row + places // vocabulary, places % vocabulary, totals)

    ends = candidates.tokens == limits.eos_id
    alive = ends.sort(stable=True).indices[:, :beam_size]  # the best that do not end
    lives_on = candidates.map(lambda field: field.gather(1, alive))
    ends[:, beam_size:] = False
    return lives_on, replace(candidates, log_probs=totals.masked_fill(~(ends | last.unsqueeze(1)), -torch.inf))


@dataclass(frozen=True)
class _BeamStep:
    """The part of a step that the hypotheses are read from at the end."""

    sentences: Tensor
    """(B,) indices of the sentences that took the step."""
    ended: Extensions
    live: Extensions
    """Hypotheses of the sentences that go on: row r of the next step is the r-th of these."""
    attention: Tensor | None
    """(B * K, S)"""


def beam_search(
    model: Searchable[S],
    state: S,
    limits: Limits,
    *,
    beam_size: int,
    length_penalty: float,
    n_best: int = 1,
    keep_attention: bool = False,
) -> list[list[Hypothesis]]:
    """Return up to n_best hypotheses of each sentence, best score first; ``n_best`` is at most ``beam_size``."""
    beam = Beam.first(limits, n_best)
    previous = torch.full_like(beam.sentences, limits.bos_id)
    steps: list[_BeamStep] = []
    buffer = AttentionBuffer()
    while True:
        log_probs, state, attention = model.step(previous, state)
        sentences = beam.sentences
        beam, live, ended, done = beam_step(beam, log_probs, len(steps) + 1, limits, beam_size, length_penalty)
        del log_probs  # large: the next step makes others
        going = (~done).nonzero().squeeze(1)
        if going.numel() < done.numel():
            beam, live = beam.select(going), live.select(going)
        steps.append(_BeamStep(sentences, ended, live, buffer.add(attention) if keep_attention else None))
        if not going.numel():
            return _hypotheses(steps, limits, length_penalty, n_best)
        # each live hypothesis continues the state of its parent, which at the first step is that of its sentence
        one = len(steps) == 1
        state = state.select(going).expand(beam_size) if one else state.select(live.parents.flatten())
        previous = live.tokens.flatten()


def _hypotheses(steps: list[_BeamStep], limits: Limits, alpha: float, n_best: int) -> list[list[Hypothesis]]:
    """Follow the parents of the best finished hypotheses back to the start."""
    live = Extensions.joined(step.live for step in steps)
    parents, tokens = live.parents.flatten().tolist(), live.tokens.flatten().tolist()
    starts = list(accumulate((step.live.tokens.numel() for step in steps), initial=0))  # where those of a step begin
    attention = [None if step.attention is None else step.attention.cpu() for step in steps]

    def read(end: int, row: int, token: int, log_probability: float) -> Hypothesis:
        emitted, rows = [token], [row]
        for start in reversed(starts[:end]):
            emitted.append(tokens[start + row])
            row = parents[start + row]
            rows.append(row)
        looked = [weights[row] for weights, row in zip(attention, reversed(rows), strict=False) if weights is not None]
        return Hypothesis.from_emitted(emitted[::-1], log_probability, looked, limits.eos_id, alpha)

    found: list[list[tuple[float, int, int, int, float]]] = [[] for _ in range(limits.sentences)]
    taken = [(end, sentence) for end, step in enumerate(steps) for sentence in step.sentences.tolist()]
    ended = Extensions.joined(step.ended for step in steps)
    where, column = (ended.log_probs > -torch.inf).nonzero(as_tuple=True)
    fields = (each[where, column].tolist() for each in (ended.parents, ended.tokens, ended.log_probs))
    for place, row, token, total in zip(where.tolist(), *fields, strict=True):
        end, sentence = taken[place]
        found[sentence].append((total / penalty(end + 1, alpha), end, row, token, total))
    if not all(found):
        raise no_finite_probability()
    # A stable sort: equal scores stay in the order in which they were found.
    best_first = (sorted(ends, key=lambda end: -end[0]) for ends in found)
    return [[read(*end[1:]) for end in ends[:n_best]] for ends in best_first]


# --- the largest few of many values, in one order whatever the device, the batch and the ties -------------------------

BLOCK = 64


def best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest of values (R, N) fp32 and their positions, both (R, count), largest first.

    Equal values are ordered by position, which ``torch.topk`` does not promise. One pass over N and no sort: the
    largest ``count`` lie in the ``count`` blocks with the largest maxima.
    """
    rows, size = values.shape
    blocks = size // BLOCK
    if blocks <= count:
        return _best(values, count)
    maxima = values[:, : blocks * BLOCK].view(rows, blocks, BLOCK).amax(2)  # (R, blocks)
    chosen = _best(maxima, count)[1].sort(1).values  # (R, count), ascending, so that positions stay in order
    within = torch.arange(BLOCK, device=values.device)
    tail = torch.arange(blocks * BLOCK, size, device=values.device)  # the rest after the last whole block
    positions = torch.cat(((chosen.unsqueeze(2) * BLOCK + within).flatten(1), tail.expand(rows, -1)), 1)
    values, indices = _best(values.gather(1, positions), count)
    return values, positions.gather(1, indices)


def _best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    some, indices = values.topk(min(count + 1, values.size(1)), dim=1)
    # without equal values and NaN there is only one order; checking on a GPU would synchronize
    if not values.is_cuda and bool((some[:, 1:] < some[:, :-1]).all()):
        return some[:, :count], indices[:, :count]
    # a 64-bit key with the value in its upper and the position in its lower half
    bits = (values + 0.0).view(torch.int32).long()  # adding zero makes -0.0 the equal of 0.0
    ascending = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # fp32's bits, ordered as the numbers are
    keys = (ascending << 32) - torch.arange(values.size(1), device=values.device)
    indices = keys.topk(count, dim=1).indices
    return values.gather(1, indices), indices
