"""CUDA graphs imitated on a CPU: a recording is a list of operations, which a replay repeats in the same memory."""

from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from nmt.data.batching import Batch
from nmt.fast.kernels.output_loss import output_loss
from nmt.fast.teacher_forcing import FastTraining
from nmt.training.gradients import GraphedGradients


class Graph:
    """In place of ``torch.cuda.CUDAGraph``."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    @torch.no_grad()
    def replay(self) -> None:
        for function, arguments, options, results in self.operations:
            again = function(*arguments, **options)
            for old, new in zip(tree_leaves(results), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class _Recorder(TorchDispatchMode):
    def __init__(self, graph: Graph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = graph

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_map(_as_now, (args, kwargs or {}))
        results = function(*args, **(kwargs or {}))
        self.graph.operations.append((function, *given, tree_map(_as_now, results)))
        return results


def _as_now(value: Any) -> Any:
    """The same memory in the shape that it has now, which an operation may change in place."""
    return value.detach() if isinstance(value, Tensor) else value


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let graphs be recorded on a CPU. Recording leaves the gradients alone, as on a GPU, which only notes it."""
    record = GraphedGradients._record

    def recorded(self: GraphedGradients, batch: Batch) -> Any:
        parameters = list(self.eager.model.parameters())
        before = [None if parameter.grad is None else parameter.grad.clone() for parameter in parameters]
        recording = record(self, batch)
        for parameter, gradient in zip(parameters, before, strict=True):
            assert parameter.grad is not None and gradient is not None
            parameter.grad.copy_(gradient)
        return recording

    def loss(
        self: FastTraining, readouts: Tensor, targets: Tensor, mask: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """As on a GPU: shapes do not depend on the mask."""
        rows = readouts.flatten(0, 1), self.output.weight, self.output.bias, targets.flatten()
        return output_loss(*rows, smoothing, counted=mask.flatten())

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **how: _Recorder(graph))
    monkeypatch.setattr(GraphedGradients, "_record", recorded)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda device: Mock(spec=["wait_stream"]))
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    monkeypatch.setattr(FastTraining, "loss", loss)
