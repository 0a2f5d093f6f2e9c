"""The whole network: encode, start, step for search; forward for teacher forcing. Both give the same numbers.

Shapes: B sentences, S source and T target positions, N target tokens, R hypotheses, V target vocabulary, O readout.
"""

from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config import schema
from nmt.model.decoders import Decoder
from nmt.model.dropout import Dropout
from nmt.model.encoders import Encoder
from nmt.model.records import Memory, State, source_mask


class Network(Protocol):
    """The interface of a network, and of its fast twin, for training and forced decoding.

    With the exact marginal, a readout has a row for each source position, (S, O + 1): see ``nmt.model.hard``.
    """

    output: nn.Linear
    """From readouts (..., O) to logits (..., V)."""

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph may repeat it: all batches of a shape take the same operations, without waits."""

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Read the source: (B, S) ids, lengths (B,) real tokens of each -> memory of B sentences."""

    def unroll(self, target_input: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Run the decoder: (B, T) ids -> what the output layer reads (B, T, O), attention (B, T, S) or None."""

    def loss(self, readouts: Tensor, targets: Tensor, mask: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """Sum the loss over the real target tokens.

        readouts (B, T, O), targets (B, T), mask (B, T), True on real tokens -> the label-smoothed objective,
        differentiable, and the negative log-likelihood, for reporting.
        """


class Seq2Seq(nn.Module):
    """p(y | x) of an encoder and a decoder."""

    capturable: ClassVar[bool] = False

    def __init__(
        self,
        source_embedding: nn.Embedding,
        target_embedding: nn.Embedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Linear,
        dropout: schema.Dropout,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.attends = decoder.attends
        self.output = output
        self.embedding_dropout = Dropout(dropout.embedding)
        self.annotation_dropout = Dropout(dropout.annotation)
        self.readout_dropout = Dropout(dropout.readout)

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Read the source: (B, S) ids, lengths (B,) -> memory of B sentences."""
        return self.remember(self.encoder(self.embed_source(source), lengths), lengths)

    def remember(self, encoded: tuple[Tensor, Tensor], lengths: Tensor) -> Memory:
        """Make the memory of what the encoder returns, annotations (B, S, C) and summary (B, C)."""
        annotations, summary = encoded
        mask = source_mask(lengths, annotations.size(1), annotations.device)
        return Memory(self.annotation_dropout(annotations), self.annotation_dropout(summary), mask)

    def start(self, memory: Memory) -> State:
        """Make the state before the first target token, one row a sentence."""
        return self.decoder.start(memory, self.encoder.bridge(memory.summary))

    def step(self, previous: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """Go one token further: previous (R,) ids -> log-probabilities (R, V) fp32, state, attention (R, S) or None."""
        embedded = self.embed_target(previous.unsqueeze(1), state.position).squeeze(1)
        readout, state, weights = self.decoder.step(embedded, state)
        logits: Tensor = self.output(self.readout_dropout(readout)).float()
        in_place = None if logits.requires_grad else logits  # half the memory to go through
        return torch.log_softmax(logits, -1, out=in_place), state, weights

    def unroll(self, target_input: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """Run teacher forcing up to the output layer: (B, T) ids -> readouts (B, T, O), attention or None."""
        readouts, weights = self.decoder.unroll(self.embed_target(target_input, 0), self.start(memory))
        return self.readout_dropout(readouts), weights

    def loss(self, readouts: Tensor, targets: Tensor, mask: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """Sum the loss over the real target tokens -> objective and negative log-likelihood."""
        return cross_entropy(readouts[mask], self.output, targets[mask], smoothing)

    def forward(self, source: Tensor, lengths: Tensor, target_input: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run teacher forcing: source (B, S), lengths (B,), target_input (B, T) -> logits (B, T, V), attention."""
        readouts, weights = self.unroll(target_input, self.encode(source, lengths))
        return self.output(readouts), weights

    def embed_source(self, tokens: Tensor) -> Tensor:
        """Embed source ids, with dropout: (B, S) -> (B, S, E)."""
        embedded: Tensor = self.embedding_dropout(self.encoder.with_positions(self.source_embedding(tokens)))
        return embedded

    def embed_target(self, tokens: Tensor, first: int) -> Tensor:
        """Embed the target ids at the positions from ``first`` on, with dropout: (R, T) -> (R, T, E)."""
        embedded: Tensor = self.embedding_dropout(self.decoder.with_positions(self.target_embedding(tokens), first))
        return embedded


# --- the loss as in textbooks; fast/kernels/output_loss.py is its fast twin -------------------------------------------


def cross_entropy(readouts: Tensor, output: nn.Linear, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of an output layer: readouts (N, O), targets (N,) -> objective and nll, both sums.

    With smoothing e the target distribution is (1 - e) on the reference and e / V on every word (Szegedy et al. 2016).
    nll is the negative log-likelihood of the targets, for reporting; it carries no gradient.
    """
    logits = output(readouts)  # (N, V)
    log_probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    nll = functional.nll_loss(log_probabilities, targets, reduction="sum")
    uniform = -log_probabilities.mean(-1).sum()
    return (1 - smoothing) * nll + smoothing * uniform, nll.detach()
