"""The attention of each head under teacher forcing, for people to look at: the network itself returns one matrix.

Nothing of the network changes. Heads of a recurrent decoder are modules, whose weights are seen as they pass. Those of
a Transformer are computed again from its projected queries, which are seen, and the keys of the prepared memory.

Shapes: B sentences, S source and T target positions, L layers, N heads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nmt.model.attention import EncoderDecoderAttention, MultiHeadAttention
from nmt.model.attention.multi_head import split_heads, weighted_attention
from nmt.model.records import Memory
from nmt.model.seq2seq import Seq2Seq

ByHead = dict[tuple[int, int], Tensor]
"""Layer and head, both from 1, to weights (B, T, S)."""


def by_head(model: Seq2Seq, memory: Memory, target_input: Tensor) -> ByHead:
    """Return the weights of each head of each layer, in order; none for an attention without several heads.

    Args:
        model: in evaluation mode.
        memory: what ``model.encode`` returns, of B sentences.
        target_input: (B, T), from BOS on.
    """
    attention: Any = getattr(model.decoder, "attention", None)
    if isinstance(attention, MultiHeadAttention):
        with _outputs(attention.each) as passed:
            model.unroll(target_input, memory)
        return {(1, head): torch.cat([weights for _, weights in calls], 1) for head, calls in enumerate(passed, 1)}
    if not isinstance(attention, EncoderDecoderAttention) or len(attention.queries) * attention.heads == 1:
        return {}
    with _outputs(list(attention.queries)) as projected:
        model.unroll(target_input, memory)
    keys, mask = attention.prepare(memory).keys, memory.source_mask[:, None, None]
    assert keys is not None  # (B, L, N, S, d)
    found: ByHead = {}
    for layer, [queries] in enumerate(projected):
        _, weights = weighted_attention(split_heads(queries, attention.heads), keys[:, layer], keys[:, layer], mask)
        found |= {(layer + 1, head): of_head for head, of_head in enumerate(weights.unbind(1), 1)}
    return found


@contextmanager
def _outputs(modules: list[Any]) -> Iterator[list[list[Any]]]:
    """Collect what each of the modules returns at each call."""
    passed: list[list[Any]] = [[] for _ in modules]

    def note(calls: list[Any]) -> Any:
        return lambda module, inputs, output: calls.append(output)

    hooks = [module.register_forward_hook(note(calls)) for module, calls in zip(modules, passed, strict=True)]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()
