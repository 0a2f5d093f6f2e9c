"""The two decoders: Bahdanau's attends before the state is updated, Luong's after.

Shapes: B sentences, T target positions, R = B * Q rows (Q hypotheses of each sentence, neighbours), E embedding,
H hidden, C context, O readout. A state is a value: passed in, returned, never kept by a module.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from nmt.kernels.recurrence import attending_sequence, gru_sequence, input_gates
from nmt.model.attention import AdditiveAttention, Attention, Memory, NoAttention


@dataclass(frozen=True)
class State:
    """A decoder between two steps: R rows that share the memory of B sentences."""

    memory: Memory
    hidden: Tensor
    """s_i, (R, H)."""
    attentional: Tensor | None = None
    """Luong's h~_i, (R, O), where the next step is fed it."""

    @property
    def rows(self) -> int:
        """R: how many hypotheses there are, of all sentences."""
        return self.hidden.size(0)

    @property
    def width(self) -> int:
        """Q: how many hypotheses each sentence has."""
        return self.rows // self.memory.summary.size(0)

    def expand(self, width: int) -> Self:
        """Each row ``width`` times, neighbours; they share the sentence's memory, which is not copied."""
        attentional = None if self.attentional is None else self.attentional.repeat_interleave(width, 0)
        return replace(self, hidden=self.hidden.repeat_interleave(width, 0), attentional=attentional)

    def select(self, rows: Tensor) -> Self:
        """Row r of the result is row ``rows[r]``; each group of Q neighbours must come from one sentence."""
        sentences = rows[:: self.width] // self.width
        unmoved = sentences.size(0) == self.memory.summary.size(0) and bool(
            (sentences == torch.arange(sentences.size(0), device=rows.device)).all()
        )
        return replace(
            self,
            memory=self.memory if unmoved else self.memory.select(sentences),
            hidden=self.hidden[rows],
            attentional=None if self.attentional is None else self.attentional[rows],
        )


class GatedUpdate(nn.Module):
    """s_i = GRU(s_{i-1}, x_i), its input gates given, so that they can be computed for all steps at once.

    As PyTorch's GRU: r = sigmoid(x_r + U_r s), z = sigmoid(x_z + U_z s), s' = tanh(x_n + r * (U_n s)),
    s_i = (1 - z) * s' + z * s, with x = W [input] and U including their biases.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.Linear(hidden, 3 * hidden)

    def unroll(self, input_gates: Tensor, hidden: Tensor) -> Tensor:
        """All steps where no input depends on a state: gates (B, T, 3H), s_0 (B, H) -> states (B, T, H)."""
        states = []
        for gates in input_gates.unbind(1):
            hidden = self(gates, hidden)
            states.append(hidden)
        return torch.stack(states, 1)

    def unroll_fused(self, input_gates: Tensor, hidden: Tensor) -> Tensor:
        """The same in one operation: gates (T, 3H, B), s_0 (B, H) -> states (B, T, H)."""
        weight, bias = self.recurrent.weight.unsqueeze(0), self.recurrent.bias.unsqueeze(0)
        states = gru_sequence(input_gates.unsqueeze(1), hidden.T.unsqueeze(0), weight, bias)  # (T, 1, H, B)
        return states.squeeze(1).permute(2, 0, 1)

    def forward(self, input_gates: Tensor, hidden: Tensor) -> Tensor:
        """input_gates (R, 3H), hidden (R, H) -> (R, H)."""
        input_reset, input_update, input_candidate = input_gates.chunk(3, -1)
        hidden_reset, hidden_update, hidden_candidate = self.recurrent(hidden).chunk(3, -1)
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        candidate = torch.tanh(input_candidate + reset * hidden_candidate)
        return torch.lerp(candidate, hidden, update)


class Decoder(nn.Module):
    """What both decoders share: the attention, the gates, and the first state."""

    def __init__(self, attention: Attention, embedding: int, context: int, hidden: int, *, fused: bool) -> None:
        super().__init__()
        self.attention = attention
        self.fused = fused
        self.initial = nn.Linear(context // 2, hidden)  # W_s
        self.embedding_gates = nn.Linear(embedding, 3 * hidden)
        self.update = GatedUpdate(hidden)

    def start(self, memory: Memory) -> State:
        """s_0 = tanh(W_s backward_1) (Bahdanau et al. 2015, A.2.2)."""
        backward = memory.summary.chunk(2, -1)[1]  # (B, C / 2)
        return State(replace(memory, keys=self.attention.keys(memory.annotations)), torch.tanh(self.initial(backward)))

    def attend(self, state: State, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """Read the memory: queries (R, H) -> contexts (R, C), weights (R, S) or None."""
        context, weights = self.attention(query.reshape(-1, state.width, query.size(-1)), state.memory)
        return context.flatten(0, 1), None if weights is None else weights.flatten(0, 1)

    def fused_gates(self, embedded: Tensor) -> Tensor:
        """The embeddings' part of the gates of all positions, as the kernels read it: (B, T, E) -> (T, 3H, B)."""
        inputs = embedded.transpose(0, 1).unsqueeze(1)
        weight, bias = self.embedding_gates.weight.unsqueeze(0), self.embedding_gates.bias.unsqueeze(0)
        return input_gates(inputs, weight, bias).squeeze(1)

    @abstractmethod
    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One target position: (R, E) -> readout (R, O), the next state, weights (R, S) or None."""

    @abstractmethod
    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """All target positions under teacher forcing: (B, T, E) -> readouts (B, T, O), weights (B, T, S) or None."""


class BahdanauDecoder(Decoder):
    """Attend, update, read out (Bahdanau et al. 2015, A.2.2).

    The readout takes s_i where the paper's formula prints s_{i-1}, so that it sees the update.
    """

    def __init__(
        self, attention: Attention, embedding: int, context: int, hidden: int, readout: int, *, fused: bool
    ) -> None:
        super().__init__(attention, embedding, context, hidden, fused=fused)
        self.context_gates = nn.Linear(context, 3 * hidden, bias=False)  # C, C_z, C_r
        self.state_readout = nn.Linear(hidden, 2 * readout)  # U_o
        self.embedding_readout = nn.Linear(embedding, 2 * readout, bias=False)  # V_o
        self.context_readout = nn.Linear(context, 2 * readout, bias=False)  # C_o

    def advance(self, embedding_gates: Tensor, state: State) -> tuple[Tensor, Tensor, Tensor | None]:
        """c_i from s_{i-1}, then s_i: gates (R, 3H) -> contexts (R, C), states (R, H), weights (R, S) or None."""
        context, weights = self.attend(state, state.hidden)
        hidden = self.update(embedding_gates + self.context_gates(context), state.hidden)
        return context, hidden, weights

    def readout(self, embedded: Tensor, context: Tensor, hidden: Tensor) -> Tensor:
        """t_i = maxout(U_o s_i + V_o E y_{i-1} + C_o c_i): pairs of units, the larger of each."""
        units = self.state_readout(hidden) + self.embedding_readout(embedded) + self.context_readout(context)
        larger: Tensor = units.unflatten(-1, (-1, 2)).max(-1).values
        return larger

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position: (R, E) -> readout (R, O), state, weights."""
        context, hidden, weights = self.advance(self.embedding_gates(embedded), state)
        return self.readout(embedded, context, hidden), replace(state, hidden=hidden), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Walk the recurrence alone; gates and readouts of all positions are single products."""
        recur = self._recur_fused if self.fused else self._recur
        contexts, states, weights = recur(embedded, state)
        return self.readout(embedded, contexts, states), weights

    def _recur(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor, Tensor | None]:
        """Step by step: (B, T, E) -> contexts (B, T, C), states (B, T, H), weights (B, T, S) or None."""
        contexts, states, alphas = [], [], []
        for gates in self.embedding_gates(embedded).unbind(1):  # (B, 3H)
            context, hidden, weights = self.advance(gates, state)
            state = replace(state, hidden=hidden)
            contexts.append(context)
            states.append(hidden)
            alphas.append(weights)
        return torch.stack(contexts, 1), torch.stack(states, 1), _stack(alphas)

    def _recur_fused(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor, Tensor | None]:
        """The same numbers in one operation."""
        memory, attention = state.memory, self.attention
        if isinstance(attention, NoAttention):
            context, _ = attention(state.hidden.unsqueeze(1), memory)  # (B, 1, C), the same at every step
            gates = self.fused_gates(embedded) + self.context_gates(context.squeeze(1)).T
            return context, self.update.unroll_fused(gates, state.hidden), None
        if not isinstance(attention, AdditiveAttention) or memory.keys is None:
            return self._recur(embedded, state)
        states, contexts, weights = attending_sequence(
            self.fused_gates(embedded),
            state.hidden.T,
            memory.keys,
            memory.annotations,
            memory.source_mask,
            recurrent=self.update.recurrent.weight,
            bias=self.update.recurrent.bias,
            query=attention.query.weight,
            energy=attention.energy.weight.squeeze(0),
            context=self.context_gates.weight,
        )
        return contexts.transpose(0, 1), states.permute(2, 0, 1), weights.transpose(0, 1)


class LuongDecoder(Decoder):
    """Update, attend, combine: h~_i = tanh(W_c [c_i ; s_i]) (Luong et al. 2015, section 3.1).

    With input feeding (section 3.3) the update also reads h~_{i-1}.
    """

    def __init__(
        self,
        attention: Attention,
        embedding: int,
        context: int,
        hidden: int,
        readout: int,
        *,
        input_feeding: bool,
        fused: bool,
    ) -> None:
        super().__init__(attention, embedding, context, hidden, fused=fused)
        self.feeding_gates = nn.Linear(readout, 3 * hidden, bias=False) if input_feeding else None
        self.combine = nn.Linear(context + hidden, readout)  # W_c

    def start(self, memory: Memory) -> State:
        """As Bahdanau's; what is fed to the first step is zero."""
        state = super().start(memory)
        if self.feeding_gates is None:
            return state
        return replace(state, attentional=state.hidden.new_zeros(state.rows, self.combine.out_features))

    def readout(self, context: Tensor, hidden: Tensor) -> Tensor:
        """h~_i: contexts (..., C), states (..., H) -> (..., O)."""
        return torch.tanh(self.combine(torch.cat((context, hidden), -1)))

    def advance(self, gates: Tensor, state: State) -> Tensor:
        """s_i: gates (R, 3H) -> (R, H)."""
        if self.feeding_gates is not None:
            gates = gates + self.feeding_gates(state.attentional)
        hidden: Tensor = self.update(gates, state.hidden)
        return hidden

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        """One position: (R, E) -> readout (R, O), state, weights."""
        return self._step(self.embedding_gates(embedded), state)

    def _step(self, gates: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        hidden = self.advance(gates, state)
        context, weights = self.attend(state, hidden)
        attentional = self.readout(context, hidden)
        fed = None if self.feeding_gates is None else attentional
        return attentional, replace(state, hidden=hidden, attentional=fed), weights

    def unroll(self, embedded: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Step by step with input feeding; without it the states first, then all attention at once."""
        if self.feeding_gates is not None:
            readouts, alphas = [], []
            for gates in self.embedding_gates(embedded).unbind(1):
                readout, state, weights = self._step(gates, state)
                readouts.append(readout)
                alphas.append(weights)
            return torch.stack(readouts, 1), _stack(alphas)
        # (B, T, H): each target position is one query
        if self.fused:
            queries = self.update.unroll_fused(self.fused_gates(embedded), state.hidden)
        else:
            queries = self.update.unroll(self.embedding_gates(embedded), state.hidden)
        contexts, weights = self.attention(queries, state.memory)
        return self.readout(contexts, queries), weights


def _stack(weights: list[Tensor | None]) -> Tensor | None:
    """T weights (B, S) -> (B, T, S), or None without attention."""
    present = [each for each in weights if each is not None]
    return torch.stack(present, 1) if present else None
