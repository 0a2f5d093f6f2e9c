"""Greedy search and sampling: one hypothesis for each sentence, extended by the likeliest token or by a drawn one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.errors import ConfigError
from nmt.search.interface import AttentionBuffer, Hypothesis, Limits, S, Searchable

Chooser = Callable[[Tensor, Tensor, int], Tensor]
"""(log_probs (R, V), sentences (R,), step) -> the next token of each row, (R,)."""


def greedy_search(
    model: Searchable[S], state: S, limits: Limits, *, length_penalty: float = 0.0, keep_attention: bool = False
) -> list[list[Hypothesis]]:
    """Return the hypothesis of each sentence that takes the likeliest token at each step; ties go to the lower id."""

    def likeliest(log_probs: Tensor, sentences: Tensor, step: int) -> Tensor:
        limits.exclude(log_probs)
        return log_probs.max(1).indices  # faster than argmax, and also the first of equals

    return follow(model, state, limits, likeliest, alpha=length_penalty, keep_attention=keep_attention)


def follow(
    model: Searchable[S], state: S, limits: Limits, choose: Chooser, *, alpha: float, keep_attention: bool
) -> list[list[Hypothesis]]:
    """Extend one hypothesis per sentence by the token that ``choose`` returns, until EOS or its greatest length."""
    max_lengths = limits.max_lengths
    sentences = torch.arange(limits.sentences, device=max_lengths.device)
    previous = torch.full_like(sentences, limits.bos_id)
    totals = torch.zeros(limits.sentences, device=max_lengths.device)
    steps: list[tuple[Tensor, Tensor, Tensor, Tensor | None]] = []
    buffer = AttentionBuffer()
    while sentences.numel():
        log_probs, state, attention = model.step(previous, state)
        previous = choose(log_probs, sentences, len(steps))
        totals = totals + log_probs.gather(1, previous.unsqueeze(1)).squeeze(1)
        steps.append((sentences, previous, totals, buffer.add(attention) if keep_attention else None))
        going = ((previous != limits.eos_id) & (max_lengths > len(steps))).nonzero().squeeze(1)
        if going.numel() < sentences.numel():
            sentences, max_lengths, totals, previous = (
                each[going] for each in (sentences, max_lengths, totals, previous)
            )
            if going.numel():
                state = state.select(going)
    emitted: list[list[int]] = [[] for _ in range(limits.sentences)]
    looked: list[list[Tensor]] = [[] for _ in range(limits.sentences)]
    log_probability = [0.0] * limits.sentences
    for taken, tokens, sums, weights in steps:
        rows = taken.tolist()
        for sentence, token, total in zip(rows, tokens.tolist(), sums.tolist(), strict=True):
            emitted[sentence].append(token)
            log_probability[sentence] = total
        for sentence, row in zip(rows, () if weights is None else weights.cpu(), strict=False):
            looked[sentence].append(row)
    found = zip(emitted, log_probability, looked, strict=True)
    return [[Hypothesis.from_emitted(*each, limits.eos_id, alpha)] for each in found]


# --- sampling ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled. Raises ConfigError for all values out of range at once."""

    temperature: float = 1.0
    """Log-probabilities are divided by it: above 1 flatter, below 1 sharper."""
    top_k: int | None = None
    """Sample from the k likeliest tokens (Fan et al. 2018); None: from all."""
    top_p: float | None = None
    """Sample from the smallest set of tokens whose total probability is p (Holtzman et al. 2020); None: from all."""
    seed: int = 1

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.temperature < float("inf"):
            problems.append(f"sampling temperature: {self.temperature} must be above 0")
        if self.top_k is not None and self.top_k < 1:
            problems.append(f"top-k: {self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            problems.append(f"top-p: {self.top_p} must be above 0 and at most 1")
        if self.seed < 0:
            problems.append(f"seed: {self.seed} must be at least 0")
        ConfigError.raise_if_any(problems)


def line_uniforms(seed: int, line: int, count: int) -> Tensor:
    """Draw ``count`` numbers from U[0, 1), fp64, that depend only on the seed and the line number."""
    return torch.from_numpy(np.random.default_rng((seed, line)).random(count))


def sample_step(log_probs: Tensor, uniforms: Tensor, sampling: Sampling, forbidden: tuple[int, ...]) -> Tensor:
    """Invert the distribution function: log_probs (R, V), uniforms (R,) in [0, 1) -> tokens (R,).

    Tokens stand in descending probability; the first whose cumulative probability exceeds the uniform is taken.
    """
    banned = torch.tensor(forbidden, dtype=torch.long, device=log_probs.device)
    permitted = log_probs.double().index_fill(1, banned, -torch.inf)
    scaled = (permitted - permitted.amax(1, keepdim=True)) / sampling.temperature  # no temperature overflows the best
    ordered, tokens = scaled.sort(dim=1, descending=True, stable=True)
    mass = ordered.softmax(1)
    if sampling.top_k is not None:
        mass[:, sampling.top_k :] = 0.0
    if sampling.top_p is not None:
        total = mass.sum(1, keepdim=True)
        mass = mass.masked_fill(mass.cumsum(1) - mass >= sampling.top_p * total, 0.0)
    cumulative = mass.cumsum(1)
    threshold = uniforms.unsqueeze(1) * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, threshold, right=True)
    last = (mass > 0).sum(1, keepdim=True) - 1  # rounding must not lead past the last token that can be drawn
    return tokens.gather(1, torch.minimum(place, last.clamp(min=0))).squeeze(1)


def sample_search(
    model: Searchable[S],
    state: S,
    limits: Limits,
    sampling: Sampling,
    lines: Sequence[int],
    *,
    length_penalty: float = 0.0,
    keep_attention: bool = False,
) -> list[list[Hypothesis]]:
    """Sample a hypothesis of each sentence; its line number in ``lines`` decides the random numbers.

    The log-probability of a sample is the model's own, at temperature 1.
    """
    lengths = limits.max_lengths.tolist()
    uniforms = torch.zeros(len(lengths), max(lengths, default=0), dtype=torch.double)
    for row, line, length in zip(uniforms, lines, lengths, strict=True):
        row[:length] = line_uniforms(sampling.seed, line, length)
    uniforms = uniforms.to(limits.max_lengths.device)

    def draw(log_probs: Tensor, sentences: Tensor, step: int) -> Tensor:
        return sample_step(log_probs, uniforms[sentences, step], sampling, limits.forbidden)

    return follow(model, state, limits, draw, alpha=length_penalty, keep_attention=keep_attention)
