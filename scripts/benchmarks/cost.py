"""Number of multiply-adds that a network needs, a lower bound for its running time.

PyTorch counts the matrix products of the plain network on the device ``meta``, where nothing is computed. Padding and
pairs of tokens that cannot see each other are not part of it.
"""

from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import schema
from nmt.model.attention import NoAttention
from nmt.model.build import uninitialized_model
from nmt.model.decoders import BahdanauDecoder
from nmt.model.seq2seq import Seq2Seq

SHAPES = [(2, 2), (3, 2), (4, 2), (2, 3), (2, 4), (3, 3)]
"""Source and target tokens of the sentences that are counted: as many as there are unknowns."""


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of teacher forcing, forward: per sentence, token, and pair of tokens."""

    sentence: int = 0
    source_token: int = 0
    target_token: int = 0
    pair: int = 0
    """Of a source and a target token."""
    source_pair: int = 0
    """Of two source tokens, in either order; a token makes a pair with itself too."""
    target_pair: int = 0
    """Of a target token and one that it may see: itself, or one before it."""

    def training_flops(self, source_lengths: npt.ArrayLike, target_lengths: npt.ArrayLike) -> int:
        """Floating-point operations of forward and backward passes: three times two for each multiply-add.

        The lengths are those of each sentence, with the end symbol.
        """
        s, t = np.asarray(source_lengths, np.int64), np.asarray(target_lengths, np.int64)
        counts = len(s), s.sum(), t.sum(), (s * t).sum(), (s * s).sum(), (t * (t + 1)).sum() // 2
        return 6 * int(np.dot(astuple(self), counts))


def cost(config: schema.Model, target_size: int) -> Cost:
    """Count the multiply-adds of a network with a target vocabulary of this size.

    With the exact marginal of hard attention, the output layer is computed for each source token. A context that is the
    same at every step is counted once a sentence. Raises RuntimeError for a custom part that cannot run on ``meta``.
    """
    with torch.device("meta"):
        model = uninitialized_model(config, target_size, target_size).eval()
    counts = [_multiply_adds(model, *shape) for shape in SHAPES]
    terms = [(1, s, t, s * t, s * s, t * t) for s, t in SHAPES]
    found = Cost(*(round(each) for each in np.linalg.solve(terms, counts)))
    decoder = model.decoder
    if isinstance(decoder, BahdanauDecoder) and isinstance(decoder.attention, NoAttention):
        readers = decoder.context_gates, decoder.context_readout
        once = sum(each.weight.numel() for each in readers if isinstance(each, nn.Linear))
        return replace(found, sentence=found.sentence + once, target_token=found.target_token - once)
    return found


@torch.inference_mode()
def _multiply_adds(model: Seq2Seq, source_tokens: int, target_tokens: int) -> int:
    """Count those of one sentence; a Transformer multiplies pairs of target tokens that the causal mask hides, too."""
    source, target = (torch.empty(1, n, dtype=torch.long, device="meta") for n in (source_tokens, target_tokens))
    with FlopCounterMode(display=False) as counter:
        memory = model.encode(source, torch.full((1,), source_tokens))
        model.output(model.unroll(target, memory)[0])
    flops: int = counter.get_total_flops()
    return flops // 2
