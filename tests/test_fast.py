"""The choice of fast twins: which systems have them; by a part's exact type, as plain kernels and the loss allow."""

import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.config.schema import Kernels
from nmt.data.batching import Batch
from nmt.device import autocast
from nmt.errors import ConfigError
from nmt.fast.recurrent import WALKED, reads
from nmt.fast.search_network import FastSearch, PlainSearch
from nmt.fast.teacher_forcing import FastTraining, unroll_of
from nmt.model import Seq2Seq
from nmt.model.attention import AdditiveAttention
from nmt.model.cells import GruCell
from nmt.model.decoders import Layer, Maxout, RecurrentDecoder
from nmt.model.encoders import RecurrentEncoder
from nmt.training.objective import TeacherForcing, hard_objective
from tests.models import ATTENTIONS, REGISTERED, TRANSFORMERS, VARIANTS, forward, model_config, score, small_model

SOURCES, LENGTHS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]), torch.tensor([4, 2])
TARGETS = torch.tensor([[2, 9, 4], [2, 3, 12]])


class Louder(RecurrentEncoder):
    """Made from a built-in part, but not the same."""

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        annotations, summary = super().forward(embedded, lengths)
        return 2 * annotations, 2 * summary


class Slower(GruCell):
    """Made from a built-in cell, but not the same."""

    def forward(self, input_gates: Tensor, state: Tensor) -> Tensor:
        return torch.lerp(super().forward(input_gates, state), state, 0.5)


class Higher(Layer):
    """Made from a built-in layer, but not the same."""

    def add(self, below: Tensor, state: Tensor) -> Tensor:
        return super().add(below, state) + 1


class Minimum(Maxout):
    """Made from a built-in readout, but not the same."""

    def forward(self, units: Tensor) -> Tensor:
        return -super().forward(-units)


class Sharper(AdditiveAttention):
    """Made from a built-in attention, but not the same."""

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * super().score(queries, keys)


NORMALIZED_OR_DEEP = {name for name in VARIANTS if "normalized" in name or "deep transition" in name}
"""Cells with layer normalization, and deep transitions."""
TRANSFORMER_ENCODERS = {name for name in TRANSFORMERS if not name.startswith("recurrent encoder")}
TRANSFORMER_DECODERS = {name for name in TRANSFORMERS if not name.startswith("transformer encoder")}
COVERAGE = {"coverage", "coverage after"}
STEP_BY_STEP = {
    # another score than the additive one before the update
    "bahdanau location",
    "local-p before",
    "heads",
    "hard by gumbel",
    # input feeding with another score than the dot product, general and additive ones, another readout, or layers
    "deep luong",
    "luong, maxout",
    "luong low rank",
    "local-m",
    "local-p",
    "hard by reinforce",
}
"""Decoders whose steps run one by one in training: a state depends on a context, and no kernel walks both."""
WITHOUT_WALK = {"gru, reset before", "ssru before", "ssru"}
"""Cells whose sequences no kernel walks: the second product of a step waits for the first, or there is none."""


def test_which_systems_have_fast_twins() -> None:
    """All but these, of the variants that are named by hand."""
    models = {name: small_model(name) for name in VARIANTS.keys() - REGISTERED.keys()}
    assert {name for name, model in models.items() if not reads(model.encoder, WALKED)} == (
        NORMALIZED_OR_DEEP | TRANSFORMER_ENCODERS | WITHOUT_WALK
    )
    assert {name for name, model in models.items() if unroll_of(model.decoder) is None} == (
        NORMALIZED_OR_DEEP | TRANSFORMER_DECODERS | COVERAGE | STEP_BY_STEP | WITHOUT_WALK
    )
    searched = {name: fast.search(model, torch.float32) for name, model in models.items()}
    assert {name for name, each in searched.items() if isinstance(each, PlainSearch)} == (
        NORMALIZED_OR_DEEP | TRANSFORMER_DECODERS | COVERAGE
    )


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
    model.encoder.__class__ = Louder  # it has no twin, and may synchronize
    assert not fast.records_graphs(model, "auto", gpu)
    assert not fast.records_graphs(small_model("hard by reinforce"), "auto", gpu)  # nor has its objective


def test_graphs_are_for_the_networks_of_the_textbooks() -> None:
    """No other twin has run on a GPU, and another attention may wait for it."""
    recorded = {name for name in VARIANTS if fast.records_graphs(small_model(name), "auto", torch.device("cuda"))}
    assert recorded == {*ATTENTIONS, "bahdanau without bias"}


@pytest.mark.parametrize(
    ("variant", "kernels"), [*((name, "auto") for name in VARIANTS), *((name, "plain") for name in ATTENTIONS)]
)
def test_every_network_trains_and_searches_in_bf16(variant: str, kernels: Kernels) -> None:
    """Close to its fp32 self, with finite gradients of every parameter."""
    model = small_model(variant).float()
    objective = hard_objective(model_config(variant), model, 0.0) or TeacherForcing()
    batch = Batch(SOURCES, LENGTHS, TARGETS, TARGETS.roll(-1, 1), torch.ones_like(TARGETS, dtype=torch.bool), 6)
    losses = []
    for precision in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        network = fast.training(model, kernels, attention_gradients=objective.attention_gradients)
        with autocast(torch.device("cpu"), precision):
            loss = objective(network, batch)
        loss.objective.backward()
        losses.append(loss.likelihood.item())
        searched = fast.search(model, precision, kernels)
        with torch.inference_mode(), searched.searching():
            log_probs, _, _ = searched.step(TARGETS[:, 0], searched.start(searched.encode(SOURCES, LENGTHS)))
        assert log_probs.isfinite().all()
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("attention", ["none", "bahdanau", "luong concat"])
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
        decoder.attention = score("general", 8, 8)
    check_that_twins_agree(model)


@pytest.mark.parametrize("part", ["cell", "layer", "readout", "cell of the encoder"])
@pytest.mark.parametrize("variant", ["deep", "none"])
def test_a_smaller_part_that_is_not_exactly_a_built_in_one_runs_as_it_is(variant: str, part: str) -> None:
    model = small_model(variant)
    decoder, encoder = model.decoder, model.encoder
    assert isinstance(decoder, RecurrentDecoder)
    if part == "cell":
        decoder.cell.__class__ = Slower
    elif part == "readout":
        decoder.nonlinearity.__class__ = Minimum
    elif part == "layer" and decoder.above:
        decoder.above[0].__class__ = Higher
    elif part == "cell of the encoder":
        assert isinstance(encoder, RecurrentEncoder)
        encoder.directions[-1][0].cell.__class__ = Slower
    else:
        return
    before, _ = small_model(variant)(SOURCES, LENGTHS, TARGETS)
    assert not torch.allclose(before, model(SOURCES, LENGTHS, TARGETS)[0])
    check_that_twins_agree(model)


def check_that_twins_agree(model: Seq2Seq) -> None:
    """In training and in search."""
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
