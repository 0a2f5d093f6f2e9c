"""Scores: how well a query and a key agree. ``ScoredAttention`` of base.py makes weights and contexts of them.

Shapes: B sentences, S source positions, Q queries of each sentence, H width of a query, C width of an annotation, A
hidden units of a score.
"""

import torch
from torch import Tensor, nn

from nmt.model.attention.base import ScoredAttention


class AdditiveAttention(ScoredAttention):
    """e_ij = v·tanh(W s_i + U h_j): Bahdanau et al. 2015, A.1.2; Luong et al. 2015, section 3.1 ("concat")."""

    def __init__(self, state: int, annotation: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(state, hidden, bias=False)  # W_a
        self.key = nn.Linear(annotation, hidden)  # U_a
        self.energy = nn.Linear(hidden, 1, bias=False)  # v_a

    def keys(self, annotations: Tensor) -> Tensor:
        """U h_j: (B, S, C) -> (B, S, A)."""
        keys: Tensor = self.key(annotations)
        return keys

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, H), (B, S, A) -> (B, Q, S)."""
        hidden = torch.tanh(self.query(queries).unsqueeze(2) + keys.unsqueeze(1))  # (B, Q, S, A)
        energies: Tensor = self.energy(hidden)
        return energies.squeeze(-1)


class DotAttention(ScoredAttention):
    """e_ij = s_i·h_j (Luong et al. 2015, section 3.1); queries and annotations are equally wide."""

    def keys(self, annotations: Tensor) -> Tensor:
        """The annotations themselves."""
        return annotations

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(B, Q, C), (B, S, C) -> (B, Q, S)."""
        return queries @ keys.transpose(1, 2)


class GeneralAttention(DotAttention):
    """e_ij = s_i·W h_j (Luong et al. 2015, section 3.1)."""

    def __init__(self, state: int, annotation: int) -> None:
        super().__init__()
        self.key = nn.Linear(annotation, state, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j: (B, S, C) -> (B, S, H)."""
        keys: Tensor = self.key(annotations)
        return keys
