"""The search for the translations of one batch of lines."""

from collections.abc import Sequence
from typing import Any

import torch

from nmt.data.batching import Specials, pad_source
from nmt.data.tokenizer import Tokenizers
from nmt.search import (
    Hypothesis,
    Limits,
    Prefixes,
    Searchable,
    StepModel,
    beam_search,
    greedy_search,
    obeying,
    sample_search,
)
from nmt.translation.options import MORE_PIECES, SearchOptions, longest
from nmt.translation.rules import coverage_of, rules_of
from nmt.translation.windows import Line


@torch.inference_mode()
def search_batch(
    searchable: Searchable[Any],
    batch: Sequence[Line],
    options: SearchOptions,
    tokenizers: Tokenizers,
    device: torch.device,
) -> list[list[Hypothesis]]:
    """Search for the hypotheses of each line, best first."""
    specials = Specials.of(tokenizers)
    source, lengths = pad_source([line.ids for line in batch], specials)
    begun = torch.tensor([len(line.prefix) for line in batch])
    most = torch.tensor([longest(len(line.ids), options.max_length_factor) for line in batch])
    limits = Limits(
        specials.target_bos,
        specials.target_eos,
        (specials.target_pad, specials.target_bos),
        torch.maximum(most, begun + MORE_PIECES).to(device),
    )
    prefixes = [line.prefix for line in batch]
    with searchable.searching():
        start = searchable.start(searchable.encode(source.to(device), lengths))
        return _search(searchable, start, limits, prefixes, lengths, batch, options)


def _search(
    model: StepModel[Any],
    state: Any,
    limits: Limits,
    prefixes: Sequence[Sequence[int]],
    lengths: torch.Tensor,
    batch: Sequence[Line],
    options: SearchOptions,
) -> list[list[Hypothesis]]:
    """Search as the options say; lengths (B,) of the sources, EOS counted."""
    device = limits.max_lengths.device
    how: dict[str, Any] = {"length_penalty": options.length_penalty, "keep_attention": options.attention}
    begin = Prefixes.of(prefixes, device)
    model, state = obeying(model, state, limits, rules_of(options, limits, lengths - 1), begin)
    if options.sampling is not None:
        numbers = [line.number for line in batch]
        return sample_search(model, state, limits, options.sampling, numbers, **how)
    if options.beam_size == 1:
        return greedy_search(model, state, limits, **how)
    return beam_search(
        model,
        state,
        limits,
        beam_size=options.beam_size,
        n_best=options.n_best,
        coverage=coverage_of(options, lengths, device),
        **how,
    )
