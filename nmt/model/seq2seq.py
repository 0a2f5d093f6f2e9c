"""The whole network: encode, start, step for search; forward for teacher forcing. Both give the same numbers."""

import torch
from torch import Tensor, nn

from nmt.model.attention import Memory, NoAttention
from nmt.model.decoder import Decoder, State
from nmt.model.dropout import Dropout
from nmt.model.encoder import GruEncoder


class Seq2Seq(nn.Module):
    """p(y | x) of a recurrent encoder and decoder.

    Shapes: B sentences, S source and T target positions, R hypotheses, V target vocabulary, O readout.
    """

    def __init__(
        self,
        source_embedding: nn.Embedding,
        target_embedding: nn.Embedding,
        encoder: GruEncoder,
        decoder: Decoder,
        output: nn.Linear,
        *,
        embedding_dropout: float,
        annotation_dropout: float,
        readout_dropout: float,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output
        self.embedding_dropout = Dropout(embedding_dropout)
        self.annotation_dropout = Dropout(annotation_dropout)
        self.readout_dropout = Dropout(readout_dropout)

    @property
    def has_attention(self) -> bool:
        """Whether steps return attention weights."""
        return not isinstance(self.decoder.attention, NoAttention)

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """source (B, S) ids, lengths (B,) real tokens of each -> memory of B sentences."""
        positions = torch.arange(source.size(1), device=source.device)
        source_mask = positions < lengths.to(source.device).unsqueeze(1)  # (B, S)
        embedded = self.embedding_dropout(self.source_embedding(source))
        annotations, summary = self.encoder(embedded, lengths)
        return Memory(self.annotation_dropout(annotations), self.annotation_dropout(summary), source_mask)

    def start(self, memory: Memory) -> State:
        """The state before the first target token, one row a sentence."""
        return self.decoder.start(memory)

    def step(self, previous: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One token further: previous (R,) ids -> log-probabilities (R, V) fp32, state, attention (R, S) or None."""
        readout, state, weights = self.decoder.step(self._embed_target(previous), state)
        logits: Tensor = self.output(self.readout_dropout(readout))
        return logits.float().log_softmax(-1), state, weights

    def readouts(self, source: Tensor, lengths: Tensor, target_input: Tensor) -> tuple[Tensor, Tensor | None]:
        """Teacher forcing up to the output layer: -> what it reads (B, T, O), attention (B, T, S) or None."""
        return self.unroll(target_input, self.encode(source, lengths))

    def unroll(self, target_input: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """The decoder's part of ``readouts``."""
        readouts, weights = self.decoder.unroll(self._embed_target(target_input), self.start(memory))
        return self.readout_dropout(readouts), weights

    def forward(self, source: Tensor, lengths: Tensor, target_input: Tensor) -> tuple[Tensor, Tensor | None]:
        """Teacher forcing: source (B, S), lengths (B,), target_input (B, T) -> logits (B, T, V), attention."""
        readouts, weights = self.readouts(source, lengths, target_input)
        return self.output(readouts), weights

    def _embed_target(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.embedding_dropout(self.target_embedding(tokens))
        return embedded
