"""Beam search: K hypotheses of each sentence side by side.

At each step every live hypothesis is extended by every token. Among the best 2K candidates of a sentence, those of the
first K that end in EOS are finished, and the best K that do not end live on (at most K can end, so K are left).

A sentence stops when K of its hypotheses have finished and none that lives has a better score than the best of them:
counting to K alone would let K unlikely early ends shut out a likely sentence; going on until no live one could ever
win would read most sentences to their greatest length. With K = 1 this is greedy search. A sentence also stops when
no live hypothesis can enter its n best any more, which changes no result: a log-probability only falls, so
log p / lp(max_length) bounds what a live one can still score. At the greatest length the live ones finish as they are.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from nmt.foundation.records import Record
from nmt.search.penalties import length_penalty as penalty
from nmt.search.ranking import best, best_tokens
from nmt.search.types import AttentionBuffer, Hypothesis, Limits, S, StepModel, no_finite_probability


@dataclass(frozen=True)
class Beam(Record):
    """B unfinished sentences with K live hypotheses each, likeliest first."""

    sentences: Tensor
    """(B,) indices of the unfinished sentences."""
    max_lengths: Tensor
    """(B,)"""
    log_probs: Tensor
    """(B, K) of the live hypotheses, -inf where there is none; (B, 1) before the first step: the empty one."""
    finished: Tensor
    """(B,) how many hypotheses have finished."""
    kept: Tensor
    """(B, n_best) scores of the best finished hypotheses, best first; -inf where there is none yet."""

    @classmethod
    def first(cls, limits: Limits, n_best: int) -> Self:
        """Make the beam before the first step."""
        kept = torch.full((limits.sentences, n_best), -torch.inf, device=limits.max_lengths.device)
        count = torch.arange(limits.sentences, device=limits.max_lengths.device)
        return cls(count, limits.max_lengths, torch.zeros_like(kept[:, :1]), torch.zeros_like(count), kept)


@dataclass(frozen=True)
class Extensions(Record):
    """Hypotheses made by one step: (B, N) parents as rows of the step, their last tokens, their log-probabilities."""

    parents: Tensor
    tokens: Tensor
    log_probs: Tensor


def beam_step(
    beam: Beam, log_probs: Tensor, length: int, limits: Limits, width: int, alpha: float
) -> tuple[Beam, Extensions, Extensions, Tensor]:
    """Extend each live hypothesis by one token, to ``length`` tokens.

    log_probs: a row for each live hypothesis, (B * K, V), or (B, V) at the first step; ``width`` is K. Returns the
    beam, its live hypotheses (B, K), the finished ones (B, at most 2K; -inf where a place is empty), and which
    sentences are done (B,).
    """
    sentences, parents = beam.log_probs.shape
    # K survivors and, ranked before them, perhaps EOS: no parent contributes more than its best K + 1.
    values, tokens = best_tokens(log_probs, width + 1, limits.forbidden)  # (B * parents, C)
    lacking = max(0, width + 1 - values.size(1)) if parents == 1 else 0  # a vocabulary smaller than the beam
    values, tokens = (
        functional.pad(values, (0, lacking), value=-torch.inf),
        functional.pad(tokens, (0, lacking), value=limits.bos_id),
    )
    totals = (beam.log_probs.view(-1, 1) + values).view(sentences, -1)  # (B, parents * C)
    totals, places = best(totals, min(2 * width, totals.size(1)))
    first_row = torch.arange(0, sentences * parents, parents, device=totals.device).unsqueeze(1)
    candidates = Extensions(first_row + places // values.size(1), tokens.view(sentences, -1).gather(1, places), totals)

    rank = torch.arange(totals.size(1), device=totals.device)
    ends = candidates.tokens == limits.eos_id
    alive = (rank + rank.numel() * ends).argsort(1)[:, :width]  # the best that do not end
    live = Extensions(
        candidates.parents.gather(1, alive), candidates.tokens.gather(1, alive), candidates.log_probs.gather(1, alive)
    )
    last = beam.max_lengths <= length
    ends = (ends & (rank < width)) | (last.unsqueeze(1) & torch.zeros_like(ends).scatter(1, alive, True))
    ended = Extensions(candidates.parents, candidates.tokens, totals.masked_fill(~ends, -torch.inf))

    finished = beam.finished + ended.log_probs.isfinite().sum(1)
    kept = torch.cat((beam.kept, ended.log_probs / penalty(length, alpha)), 1).topk(beam.kept.size(1)).values
    likeliest = live.log_probs[:, 0]
    beaten = (finished >= width) & (likeliest / penalty(length, alpha) <= kept[:, 0])
    hopeless = likeliest / penalty(beam.max_lengths, alpha) <= kept[:, -1]
    done = last | beaten | hopeless
    return Beam(beam.sentences, beam.max_lengths, live.log_probs, finished, kept), live, ended, done


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
    model: StepModel[S],
    state: S,
    limits: Limits,
    *,
    beam_size: int,
    length_penalty: float,
    n_best: int = 1,
    keep_attention: bool = False,
) -> list[list[Hypothesis]]:
    """Return up to n_best hypotheses of each sentence, best score first.

    ``state`` has a row for each sentence; ``n_best`` is at most ``beam_size``.
    """
    beam = Beam.first(limits, n_best)
    previous = torch.full_like(beam.sentences, limits.bos_id)
    steps: list[_BeamStep] = []
    kept = AttentionBuffer()
    while True:
        log_probs, state, attention = model.step(previous, state)
        sentences = beam.sentences
        beam, live, ended, done = beam_step(beam, log_probs, len(steps) + 1, limits, beam_size, length_penalty)
        going = (~done).nonzero().squeeze(1)
        live = live.select(going)
        steps.append(_BeamStep(sentences, ended, live, kept.add(attention) if keep_attention else None))
        if not going.numel():
            return _hypotheses(steps, limits, length_penalty, n_best)
        beam = beam.select(going)
        # at the first step a sentence had one hypothesis, which all of its present ones continue
        first = len(steps) == 1
        # each live hypothesis continues the state of its parent
        state = state.select(going).expand(beam_size) if first else state.select(live.parents.flatten())
        previous = live.tokens.flatten()


def _hypotheses(steps: list[_BeamStep], limits: Limits, alpha: float, n_best: int) -> list[list[Hypothesis]]:
    """Follow the parents of the best finished hypotheses back to the start."""
    parents = [step.live.parents.flatten().tolist() for step in steps]
    tokens = [step.live.tokens.flatten().tolist() for step in steps]
    attention = [None if step.attention is None else step.attention.cpu() for step in steps]

    def read(end: int, row: int, token: int, log_probability: float) -> Hypothesis:
        emitted, rows = [token], [row]
        for step in range(end - 1, -1, -1):
            emitted.append(tokens[step][row])
            row = parents[step][row]
            rows.append(row)
        looked = [weights[row] for weights, row in zip(attention, reversed(rows), strict=False) if weights is not None]
        return Hypothesis.from_emitted(emitted[::-1], log_probability, looked, limits.eos_id, alpha)

    found: list[list[tuple[float, int, int, int, float]]] = [[] for _ in range(limits.sentences)]
    for end, step in enumerate(steps):
        ended = step.ended
        where = ended.log_probs.isfinite().nonzero()
        columns = (
            step.sentences[where[:, 0]],
            *(each[where[:, 0], where[:, 1]] for each in (ended.parents, ended.tokens, ended.log_probs)),
        )
        for sentence, row, token, total in zip(*(column.tolist() for column in columns), strict=True):
            found[sentence].append((total / penalty(end + 1, alpha), end, row, token, total))
    if not all(found):
        raise no_finite_probability()
    # A stable sort: equal scores stay in the order in which they were found.
    return [[read(*end[1:]) for end in sorted(ends, key=lambda end: -end[0])[:n_best]] for ends in found]
