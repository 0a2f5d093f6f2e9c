"""From the options of a translation to the rules of a search."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.errors import ConfigError
from nmt.search import Coverage, LeastLength, Limits, NoRepeatedNgram, Rule
from nmt.translation.options import SearchOptions


def rules_of(options: SearchOptions, limits: Limits, source_lengths: Tensor) -> Sequence[Rule]:
    """Make the rules for sentences of (B,) source pieces, EOS not counted; none for options that ask for none."""
    rules: list[Rule] = []
    if options.no_repeat_ngram:
        rules.append(NoRepeatedNgram(options.no_repeat_ngram))
    if options.min_length_factor:
        least = (source_lengths.double() * options.min_length_factor).ceil().long()
        rules.append(LeastLength(least.to(limits.max_lengths.device), limits.eos_id))
    return rules


def coverage_of(options: SearchOptions, source_lengths: Tensor, device: torch.device) -> Coverage | None:
    """Start the coverage of sentences of (B,) source pieces, EOS counted; None without a coverage penalty."""
    if not options.coverage_penalty:
        return None
    return Coverage.none_yet(options.coverage_penalty, source_lengths.to(device))


def refuse_without_attention(coverage_penalty: float, attends: bool) -> None:
    """Raise ConfigError for a coverage penalty where there are no attention weights."""
    if coverage_penalty and not attends:
        text = f"{coverage_penalty:g} needs attention weights, and the model has none; must be 0"
        raise ConfigError(f"decoding.coverage_penalty: {text}")
