"""Batches filled up to few shapes, as CUDA graphs need them; graphs, imitated here and recorded in ``test_gpu``."""

from contextlib import closing
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from nmt.config.schema import Kernels
from nmt.data.batching import Batch
from nmt.training.gradients import Accumulation, EagerGradients, GraphedGradients, filled_up
from nmt.training.objective import TeacherForcing
from nmt.training.world import Machine
from tests import graphs_on_cpu
from tests.models import ATTENTIONS, SPECIALS, VARIANTS, random_batch, small_model
from tests.test_objectives import batch

CPU = torch.device("cpu")


@pytest.mark.parametrize("kernels", ["auto", "plain"])
@pytest.mark.parametrize("attention", VARIANTS)
def test_what_is_filled_up_changes_neither_loss_nor_gradients(attention: str, kernels: Kernels) -> None:
    results: list[tuple[dict[str, Tensor | None], Tensor]] = []
    for each in (batch(), filled_up(batch(), SPECIALS)):
        model = small_model(attention).train()
        compute = EagerGradients(model, TeacherForcing(0.1), Machine(CPU, kernels=kernels))
        nll = compute(each, each.target_tokens)
        results.append(({name: p.grad for name, p in model.named_parameters()}, nll))
        compute.reset()
        assert all(parameter.grad is None for parameter in model.parameters())
    (first, one), (second, other) = results
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
    torch.testing.assert_close(second, first, rtol=1e-9, atol=1e-14)


def graphs_of(monkeypatch: pytest.MonkeyPatch, attention: str = "bahdanau") -> GraphedGradients:
    """Graphs on a CPU, of a network in double precision."""
    graphs_on_cpu.install(monkeypatch)
    model = small_model(attention).train()
    return GraphedGradients(EagerGradients(model, TeacherForcing(0.1), Machine(CPU)), SPECIALS)


@pytest.mark.parametrize("where", ["eager", "recording", "ending"])
def test_recordings_give_up_their_memory_where_it_is_short(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = graphs_of(monkeypatch)
    full = graphs.prepared(batch())
    expected = [graphs(full, 1) for _ in range(3)]  # computed, recorded, replayed
    pool, kept = graphs.pool, graphs.recordings.copy()
    assert kept
    streams = []
    with monkeypatch.context() as patch:
        other = full.map(lambda tensor: torch.cat((tensor, tensor)))
        if where == "ending":
            short = Mock(side_effect=torch.AcceleratorError("CUDA error: out of memory", 2))  # at the end of a capture
            patch.setattr(torch.cuda, "graph", lambda graph, **how: closing(Mock(close=short)))
            patch.setattr(torch.cuda, "stream", lambda stream: closing(Mock(close=lambda: streams.append(stream))))
        else:
            patch.setattr(graphs.eager, "loss", Mock(side_effect=torch.OutOfMemoryError))
        if where != "eager":
            graphs.seen.add((*other.source.shape, other.target_input.size(1)))
        with pytest.raises(RuntimeError):
            graphs(other, 1)
    assert not graphs.recordings and graphs.pool is not pool
    assert streams == ([graphs.stream] if where == "ending" else [])  # it is no longer the current one
    assert [graphs(full, 1) for _ in range(3)] == expected and graphs.recordings.keys() == kept.keys()


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("most", [1, 128])
def test_graphs_give_the_eager_gradients(attention: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shapes in turns, so that each is computed, recorded and replayed with another content; two batches an update,
    and one that was halved. They add up in the gradients, whose memory stays, or in float64 outside of them."""
    monkeypatch.setattr("nmt.training.gradients.MOST_GRAPHS", most)
    graphs = graphs_of(monkeypatch, attention)
    eager, model = graphs.eager, graphs.eager.model
    gradient_sum = Accumulation(model, Machine(CPU), 3)

    def drawn(longest: int, sentences: int = 6) -> Batch:
        lengths = torch.randint(1, longest, (sentences,)).tolist()
        return random_batch(lengths, lengths)

    for _ in range(4):
        *others, last = drawn(5, 2), graphs.prepared(drawn(7)), graphs.prepared(drawn(15))
        found = []
        for compute, summed in ((eager, False), (graphs, False), (graphs, True)):
            graphs.reset()
            nll = torch.zeros(())
            for each in (*others, last):
                nll = nll + compute(each, 20)
                if summed:
                    gradient_sum.add()
            if summed:
                gradient_sum.finish()
            gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
            found.append((nll, gradients))
        torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found[2], found[0], rtol=1e-9, atol=1e-12)
    assert len(graphs.recordings) == min(2, most)
