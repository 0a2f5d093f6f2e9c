"""Coverage (Tu et al. 2016): an attention that reads the sum of its earlier weights, and decoders that keep this sum.

Shapes: B sentences, T target and S source positions, R = B * Q rows (Q hypotheses of each sentence, neighbors), H
width of a query, C width of an annotation, A hidden units of the score.
"""

from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.config.schema import SCORES
from nmt.model.attention import AdditiveAttention, masked
from nmt.model.decoders import BahdanauDecoder, Decoder, LuongDecoder, RecurrentDecoder, RecurrentState
from nmt.model.records import Memory, State


@dataclass(frozen=True)
class CoveredMemory(Memory):
    """A memory with what the queries of earlier positions have looked at."""

    covered: Tensor = field(kw_only=True)
    """Sum of the weights of the steps before each query, (B, Q, S)."""


@dataclass(frozen=True)
class CoveredState(RecurrentState):
    """A recurrent decoder with coverage between two steps."""

    covered: Tensor = field(kw_only=True)
    """Sum of the weights so far, (R, S)."""


@SCORES.builds(schema.CoverageScore)
class CoverageAttention(AdditiveAttention):
    """e_ij = v·tanh(W s_i + U h_j + V C_{i-1,j}) (Tu et al. 2016, section 3.1.1).

    C_{i-1,j} is the sum of the earlier weights of j divided by its fertility, N sigmoid(U_f h_j).
    """

    MOST_WORDS = 2
    """N: the most target words that a source word can yield."""

    def __init__(self, options: schema.CoverageScore, state: int, annotation: int) -> None:
        super().__init__(options, state, annotation)
        self.fertility = nn.Linear(annotation, 1, bias=False)  # U_f
        self.coverage = nn.Linear(1, self.query.out_features, bias=False)  # V_a

    def prepare(self, memory: Memory) -> Memory:
        """Add keys with the fertility as their last unit, (B, S, A + 1)."""
        fertility = self.MOST_WORDS * torch.sigmoid(self.fertility(memory.annotations))
        return replace(memory, keys=torch.cat((self.keys(memory.annotations), fertility), -1))

    def energies(self, queries: Tensor, memory: Memory) -> Tensor:
        assert memory.keys is not None
        assert isinstance(memory, CoveredMemory)
        keys, fertility = memory.keys[..., :-1], memory.keys[..., -1].unsqueeze(1)
        coverage = self.coverage((memory.covered / fertility).unsqueeze(-1))  # (B, Q, S, A)
        hidden = torch.tanh(self.query(queries).unsqueeze(2) + keys.unsqueeze(1) + coverage)
        return masked(cast(Tensor, self.energy(hidden)).squeeze(-1), memory.source_mask)


class CoveringDecoder(RecurrentDecoder):
    """A recurrent decoder that adds up the weights of its steps; no step can be taken before the earlier ones."""

    def start(self, memory: Memory, bridge: Tensor) -> CoveredState:
        """Nothing is covered before the first token."""
        high = torch.promote_types(bridge.dtype, torch.float32)  # bf16 could not sum many weights
        covered = torch.zeros_like(memory.source_mask, dtype=high)
        return CoveredState(**vars(super().start(memory, bridge)), covered=covered)

    def attend(self, state: RecurrentState, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """Read the memory beside the sum of the weights so far: (R, H) -> contexts (R, C), weights (R, S)."""
        assert isinstance(state, CoveredState)
        covered = state.covered.unflatten(0, (-1, state.hypotheses))
        return super().attend(replace(state, memory=CoveredMemory(**vars(state.memory), covered=covered)), query)

    def after(self, state: RecurrentState, weights: Tensor | None, **changes: Any) -> RecurrentState:
        """Add the weights of the step."""
        assert isinstance(state, CoveredState)
        assert weights is not None
        return super().after(state, weights, covered=state.covered + weights, **changes)


class CoveringBahdanau(CoveringDecoder, BahdanauDecoder):
    """Bahdanau's decoder with coverage."""


class CoveringLuong(CoveringDecoder, LuongDecoder):
    """Luong's decoder with coverage."""

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Take one step after the other, fed or not."""
        return Decoder.unroll(self, embedded, state)
