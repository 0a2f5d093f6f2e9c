"""The interface of a decoder.

Shapes: B sentences, T target positions, R = B * Q rows (Q hypotheses of each sentence, neighbours), E embedding, O
readout, S source positions.
"""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from nmt.model.records import Memory, State


class Decoder(nn.Module):
    """Reads the memory and embedded target tokens; writes what the output layer reads, the readout."""

    attends: bool
    """Whether steps return attention weights."""
    readout_width: int
    """O."""

    def with_positions(self, embedded: Tensor, first: int) -> Tensor:
        """Place embeddings at the positions from ``first`` on, before their dropout: (R, T, E) -> (R, T, E).

        A recurrent decoder need not.
        """
        return embedded

    @abstractmethod
    def start(self, memory: Memory, bridge: Tensor) -> State:
        """Make the state before the first target token, one row a sentence.

        ``bridge`` (B, ...) is the encoder's.
        """

    @abstractmethod
    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """Take one target position: (R, E) -> readout (R, O), the next state, weights (R, S) or None."""

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Take all target positions under teacher forcing: (B, T, E) -> readouts (B, T, O), weights (B, T, S) or None.

        A decoder overrides this where something can be computed for all positions at once.
        """
        readouts, weights = [], []
        for each in embedded.unbind(1):
            readout, state, step_weights = self.step(each, state)
            readouts.append(readout)
            weights.append(step_weights)
        return torch.stack(readouts, 1), stacked(weights)


def stacked(weights: list[Tensor | None]) -> Tensor | None:
    """Stack the weights of T steps: T times (B, S) -> (B, T, S), or None without attention."""
    present = [each for each in weights if each is not None]
    return torch.stack(present, 1) if present else None
