"""The choice of fast twins: by the exact type of a part, as plain kernels and the loss allow."""

import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.errors import ConfigError
from nmt.fast.inference import FastSearch, PlainSearch
from nmt.fast.teacher_forcing import FastTraining
from nmt.model.attention import AdditiveAttention, GeneralAttention
from nmt.model.decoders import RecurrentDecoder
from nmt.model.encoders import GruEncoder
from tests.models import ATTENTIONS, forward, small_model

SOURCES, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), torch.tensor([4, 2])
TARGETS = torch.tensor([[2, 9, 4], [2, 3, 12]])


class Louder(GruEncoder):
    """Made from a built-in part, but not the same."""

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        annotations, summary = super().forward(embedded, lengths)
        return 2 * annotations, 2 * summary


class Sharper(AdditiveAttention):
    """Made from a built-in attention, but not the same."""

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * super().score(queries, keys)


def test_plain_kernels_are_the_network_itself() -> None:
    model = small_model()
    assert fast.training(model, "plain") is model
    assert isinstance(fast.training(model, "auto"), FastTraining)
    assert isinstance(fast.search(model, torch.float32, "plain"), PlainSearch)
    assert isinstance(fast.search(model, torch.float32, "auto"), FastSearch)


def test_plain_kernels_have_no_int8() -> None:
    with pytest.raises(ConfigError, match="int8 needs kernels: auto"):
        fast.search(small_model(), torch.int8, "plain")


def test_graphs_are_for_fast_kernels_on_a_gpu() -> None:
    cpu, gpu, model = torch.device("cpu"), torch.device("cuda"), small_model()
    assert fast.records_graphs(model, "auto", gpu)
    assert not fast.records_graphs(model, "plain", gpu) and not fast.records_graphs(model, "auto", cpu)
    model.encoder = Louder(5, 4, 1, 0.0)  # it has no twin, and may synchronize
    assert not fast.records_graphs(model, "auto", gpu)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("part", ["encoder", "attention", "score"])
def test_a_part_that_is_not_exactly_a_built_in_one_runs_as_it_is(attention: str, part: str) -> None:
    model = small_model(attention)
    decoder = model.decoder
    assert isinstance(decoder, RecurrentDecoder)
    if part == "encoder":
        model.encoder.__class__ = Louder
    elif type(decoder.attention) is not AdditiveAttention:
        return
    elif part == "attention":
        decoder.attention.__class__ = Sharper
    else:
        decoder.attention = GeneralAttention(8, 8).double()
    logits, _ = model(SOURCES, LENGTHS, TARGETS)
    found, _ = forward(fast.training(model), SOURCES, LENGTHS, TARGETS)
    assert torch.allclose(found, logits, atol=1e-12)
    for beam_size in (1, 2):
        searched = fast.search(model, torch.double, beam_size=beam_size)
        with torch.inference_mode():
            state = searched.start(searched.encode(SOURCES, LENGTHS))
            for t in range(TARGETS.size(1)):
                log_probs, state, _ = searched.step(TARGETS[:, t], state)
                assert torch.allclose(log_probs, logits[:, t].log_softmax(-1).float(), atol=1e-6)
