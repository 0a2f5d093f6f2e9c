"""Greedy search: one hypothesis for each sentence, extended by the likeliest token or by another choice."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.search.ranking import best_tokens
from nmt.search.types import AttentionBuffer, Hypothesis, Limits, S, StepModel

Chooser = Callable[[Tensor, Tensor, int], Tensor]
"""(log_probs (R, V), sentences (R,), step) -> the next token of each row, (R,)."""


def greedy_search(
    model: StepModel[S], state: S, limits: Limits, *, length_penalty: float = 0.0, keep_attention: bool = False
) -> list[list[Hypothesis]]:
    """Return the hypothesis of each sentence that takes the likeliest token at each step; ties go to the lower id.

    ``state`` has a row for each sentence. The length penalty only scales the score.
    """

    def likeliest(log_probs: Tensor, sentences: Tensor, step: int) -> Tensor:
        values, tokens = best_tokens(log_probs, 1, limits.forbidden)
        return tokens.gather(1, values.argmax(1, keepdim=True)).squeeze(1)

    return follow(model, state, limits, likeliest, alpha=length_penalty, keep_attention=keep_attention)


@dataclass(frozen=True)
class _GreedyStep:
    """The output of one step for R unfinished sentences."""

    sentences: Tensor
    tokens: Tensor
    log_probs: Tensor
    """Totals over all tokens of each sentence so far."""
    attention: Tensor | None


def follow(
    model: StepModel[S], state: S, limits: Limits, choose: Chooser, *, alpha: float, keep_attention: bool
) -> list[list[Hypothesis]]:
    """Extend one hypothesis per sentence by the token that ``choose`` returns, until EOS or its greatest length."""
    max_lengths = limits.max_lengths
    sentences = torch.arange(limits.sentences, device=max_lengths.device)
    previous = torch.full_like(sentences, limits.bos_id)
    totals = torch.zeros(limits.sentences, device=max_lengths.device)
    steps: list[_GreedyStep] = []
    kept = AttentionBuffer()
    while sentences.numel():
        log_probs, state, attention = model.step(previous, state)
        tokens = choose(log_probs, sentences, len(steps))
        totals = totals + log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
        steps.append(_GreedyStep(sentences, tokens, totals, kept.add(attention) if keep_attention else None))
        going = ((tokens != limits.eos_id) & (max_lengths > len(steps))).nonzero().squeeze(1)
        if going.numel() < sentences.numel():
            sentences, max_lengths, totals = sentences[going], max_lengths[going], totals[going]
            tokens = tokens[going]
            if going.numel():
                state = state.select(going)
        previous = tokens
    return _hypotheses(steps, limits, alpha)


def _hypotheses(steps: list[_GreedyStep], limits: Limits, alpha: float) -> list[list[Hypothesis]]:
    emitted: list[list[int]] = [[] for _ in range(limits.sentences)]
    attention: list[list[Tensor]] = [[] for _ in range(limits.sentences)]
    totals = [0.0] * limits.sentences
    for step in steps:
        sentences = step.sentences.tolist()
        for sentence, token, total in zip(sentences, step.tokens.tolist(), step.log_probs.tolist(), strict=True):
            emitted[sentence].append(token)
            totals[sentence] = total
        if step.attention is not None:
            for sentence, row in zip(sentences, step.attention.cpu(), strict=True):
                attention[sentence].append(row)
    return [
        [Hypothesis.from_emitted(*each, limits.eos_id, alpha)] for each in zip(emitted, totals, attention, strict=True)
    ]
