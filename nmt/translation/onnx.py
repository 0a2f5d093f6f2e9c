"""Two networks in the format ONNX: ``encoder.onnx`` makes the first state of a source, ``step.onnx`` takes one step.

The tensors of a state and of its memory have the names of their fields; the new value of NAME is ``next_NAME``.

Shapes: B sentences, S source positions, H hidden, W state, V target vocabulary.
"""

import logging
import warnings
from dataclasses import replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from nmt.files import write_text
from nmt.model import Seq2Seq, State
from nmt.model.encoders import Direction, RecurrentEncoder
from nmt.records import Record
from nmt.runs.loading import load_run
from nmt.translation.searching import MORE_PIECES


def export_onnx(path: str | Path, output: Path) -> None:
    """Write the networks of a recurrent run, its SentencePiece models, a program that translates with them, and a
    README. Raises FileError for a run that cannot be used."""
    run = load_run(path, torch.device("cpu"))
    output.mkdir(parents=True, exist_ok=True)
    write_networks(run.model, output)
    run.tokenizers.save(output)
    data, decoding = run.config.data, run.config.decoding
    values = {"source": data.source_language, "target": data.target_language, "reverse": data.reverse_source}
    template = Template(files("nmt.translation").joinpath("onnx.md").read_text("utf-8"))
    readme = template.substitute(values, most=decoding.max_source, factor=decoding.max_length_factor, more=MORE_PIECES)
    write_text(output / "README.md", readme)
    write_text(output / "translate.py", readme.partition("```python\n")[2].partition("```")[0])


@torch.no_grad()
def write_networks(model: Seq2Seq, output: Path) -> None:
    """Write both networks; the encoder of ``model`` is changed to read a sentence in a loop of ONNX."""
    assert isinstance(model.encoder, RecurrentEncoder)
    directions = model.encoder.directions
    model.encoder.layers = nn.ModuleList(nn.ModuleList(map(Scanned, layer)) for layer in directions)
    # of the example that the networks are exported with: a number that no layer has as its width
    positions = next(n for n in count(7) if all(n not in each.shape for each in model.parameters()))
    first, source = First(model), torch.zeros(2, positions, dtype=torch.long)
    lengths = torch.full_like(source[:, 0], source.size(1))
    state = first.state(source, lengths)
    write(first, {"source": source, "lengths": lengths}, list(tensors(state)), output / "encoder.onnx", positions)
    step = Following(model, state)
    outputs = ["log_probs", *(["attention"] if model.attends else []), *(f"next_{name}" for name in changing(state))]
    write(step, {"previous": source[:, 0]} | tensors(state), outputs, output / "step.onnx", positions)


def write(network: nn.Module, inputs: dict[str, Tensor], outputs: list[str], path: Path, positions: int) -> None:
    """Write a network of tensors with these names; a second axis of size ``positions`` is dynamic."""
    shapes = tuple(
        ({0: "sentences"} if each.ndim else {}) | ({1: "source_positions"} if positions in each.shape[1:2] else {})
        for each in inputs.values()
    )
    logging.disable(logging.WARNING)  # torchvision is not there, for example
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network,
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=outputs,
                dynamic_shapes=(shapes,),
                dynamo=True,
                verbose=False,
            )
    finally:
        logging.disable(logging.NOTSET)
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces and file names of this machine
    program.save(path)


def tensors(record: Record) -> dict[str, Tensor]:
    """Return the tensors of a record and of those in it, in the order of :meth:`Record.map`, by the names of fields."""
    found: dict[str, Tensor] = {}
    for name, value in vars(record).items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, Record):
            found |= tensors(value)
        elif isinstance(value, tuple):
            found |= {f"{name}_{place}": each for place, each in enumerate(value)}
    return found


class First(nn.Module):
    """From a source, (B, S) ids and (B,) lengths, to the tensors of the first state."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def state(self, source: Tensor, lengths: Tensor) -> State:
        """Make the first state; its position is a tensor, as any other."""
        position: Any = torch.zeros((), dtype=torch.long)
        return replace(self.model.start(self.model.encode(source, lengths)), position=position)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Ids (B, S), lengths (B,) -> state."""
        return tuple(tensors(self.state(*inputs)).values())


class Following(nn.Module):
    """From previous ids, (B,), and the tensors of a state like ``example`` to those of the next."""

    def __init__(self, model: Seq2Seq, example: State) -> None:
        super().__init__()
        self.model, self.example = model, example

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Ids (B,), state -> log-probabilities (B, V), attention (B, S) if there is any, what the step changes."""
        given = iter(inputs)
        previous, state = next(given), self.example.map(lambda _: next(given))
        log_probs, following, attention = self.model.step(previous, state)
        return log_probs, *([] if attention is None else [attention]), *changing(following).values()


def changing(state: State) -> dict[str, Tensor]:
    """Return the tensors of a state that are not the memory's."""
    memory = tensors(state.memory)
    return {name: each for name, each in tensors(state).items() if name not in memory}


class Scanned(nn.Module):
    """A direction of an encoder's layer, of the same parameters, whose loop takes sentences of any length in ONNX."""

    def __init__(self, direction: Direction) -> None:
        super().__init__()
        self.input_gates, self.cell = direction.input_gates, direction.cell

    def forward(self, below: Tensor, mask: Tensor, *, backward: bool) -> tuple[Tensor, Tensor]:
        """Read a sentence: below (B, S, ...), mask (B, S) -> outputs (B, S, H) and the last one (B, H)."""

        def step(state: Tensor, position: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            gates, real = position
            state = torch.where(real, self.cell(gates, state), state)
            return state, self.cell.output(state).clone()

        gates = self.input_gates(below)
        state = gates.new_zeros(len(gates), self.cell.width * self.cell.hidden)
        over = gates.transpose(0, 1), mask.t().unsqueeze(-1)
        last, outputs = scan(step, state, over, reverse=backward)
        return outputs.transpose(0, 1), self.cell.output(last)
