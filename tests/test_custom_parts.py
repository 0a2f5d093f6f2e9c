"""Parts from outside the package, each by one registry entry: they train, resume and translate as the built-in ones.

Shapes: B sentences, S source positions, R rows, Q queries, E embedding, C context, H hidden.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt import fast
from nmt.config import Config, schema
from nmt.errors import ConfigError
from nmt.model import Memory, State, build, build_model
from nmt.model.attention import Attention
from nmt.model.decoders import Decoder
from nmt.model.encoders import Encoder
from nmt.runs.loading import load_run
from nmt.translation.ensemble import load_translator
from nmt.translation.options import SearchOptions
from nmt.translation.translator import Translator
from tests.small_run import options, train

CPU = torch.device("cpu")


# --- an encoder that is not bidirectional -----------------------------------------------------------------------------


class ForwardEncoder(Encoder):
    """A GRU that reads from left to right; the decoder starts from its last state."""

    def __init__(self, config: schema.Model) -> None:
        super().__init__()
        self.width = self.bridge_width = config.encoder.hidden
        self.rnn = nn.GRU(config.embeddings.size, self.width, batch_first=True)

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self.rnn(packed)
        annotations, _ = pad_packed_sequence(output, batch_first=True, total_length=embedded.size(1))
        return annotations, last[-1]


# --- a decoder without a hidden vector --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CacheState(State):
    cache: Tensor
    """The embeddings of all tokens so far, (R, t, E)."""


class CacheDecoder(Decoder):
    """Attends from the mean of all target embeddings so far, which it keeps in a cache."""

    def __init__(self, config: schema.Model, encoder: Encoder, attention: Attention) -> None:
        super().__init__()
        width = self.readout_width = config.embeddings.size
        self.attention, self.attends = attention, attention.attends
        self.query = nn.Linear(width, config.decoder.hidden)
        self.combine = nn.Linear(width + encoder.width, width)

    def start(self, memory: Memory, bridge: Tensor) -> CacheState:
        cache = bridge.new_zeros(len(bridge), 0, self.readout_width)
        return CacheState(self.attention.prepare(memory), 0, 1, cache)

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        assert isinstance(state, CacheState)
        cache = torch.cat((state.cache, embedded.unsqueeze(1)), 1)
        mean = cache.mean(1)  # (R, E)
        queries = self.query(mean).unflatten(0, (-1, state.width))  # (B, Q, H)
        context, weights = self.attention(queries, torch.full((state.width,), state.position), state.memory)
        readout = torch.tanh(self.combine(torch.cat((mean, context.flatten(0, 1)), -1)))
        return readout, state.advanced(cache=cache), None if weights is None else weights.flatten(0, 1)


# --- a location attention ---------------------------------------------------------------------------------------------


class LocationAttention(Attention):
    """alpha_i = softmax(W s_i) (Luong et al. 2015, eq. 8), within D positions of the target position (local-m)."""

    def __init__(self, config: schema.Model, encoder: Encoder) -> None:
        super().__init__()
        assert isinstance(config.attention, schema.CustomAttention)
        self.window: int = config.attention.options["window"]
        self.location = nn.Linear(config.decoder.hidden, 64, bias=False)

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        mask = memory.source_mask.unsqueeze(1)  # (B, 1, S)
        source = torch.arange(mask.size(2))
        last = memory.source_mask.sum(1) - 1  # (B,)
        middle = torch.minimum(positions, last.unsqueeze(1)).unsqueeze(2)  # (B, Q, 1)
        near = (source - middle).abs() <= self.window
        energies = self.location(queries)[..., : mask.size(2)].masked_fill(~(near & mask), -torch.inf)
        weights = energies.softmax(-1)
        return weights @ memory.annotations, weights


class MeanAttention(Attention):
    """The mean of the annotations, without weights; with a layer that is never used."""

    attends = False

    def __init__(self, config: schema.Model, encoder: Encoder) -> None:
        super().__init__()
        self.unused = nn.LayerNorm(encoder.width)

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, None]:
        mean = memory.annotations.sum(1) / memory.source_mask.sum(1, keepdim=True)
        return mean.unsqueeze(1).expand(-1, queries.size(1), -1), None


# --- each of them trains, resumes and translates ----------------------------------------------------------------------

PARTS: dict[str, dict[str, Any]] = {
    "encoder": {"encoder": {"type": "custom", "name": "forward", "hidden": 24}},
    "decoder": {"decoder": {"type": "custom", "name": "cache", "hidden": 24}},
    "attention": {"attention": {"type": "custom", "name": "location", "options": {"window": 2}}},
    "attention without weights": {"attention": {"type": "custom", "name": "mean"}},
    "attention after the update": {
        "attention": {"type": "custom", "name": "location", "after_update": True, "options": {"window": 2}}
    },
}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(build.ENCODERS, "forward", ForwardEncoder)
    monkeypatch.setitem(build.DECODERS, "cache", CacheDecoder)
    monkeypatch.setitem(build.ATTENTIONS, "location", LocationAttention)
    monkeypatch.setitem(build.ATTENTIONS, "mean", MeanAttention)


def configured(folder: Path, part: str, output: str, updates: int, kernels: str = "auto") -> Config:
    values = options(folder, updates=updates)
    values["model"] |= PARTS.get(part, {})
    return Config.model_validate(values | {"output": str(folder / output), "kernels": kernels})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


@pytest.mark.parametrize("kernels", ["auto", "plain"])
@pytest.mark.parametrize("part", PARTS)
def test_it_trains_resumes_and_translates(folder: Path, part: str, kernels: str) -> None:
    whole, parts = f"whole-{part}-{kernels}", f"parts-{part}-{kernels}"
    train(configured(folder, part, whole, 3, kernels))
    train(configured(folder, part, parts, 2, kernels))
    train(configured(folder, part, parts, 3, kernels), resume=True)
    for name, tensor in load_run(folder / whole, CPU, "last").model.state_dict().items():
        assert torch.equal(load_run(folder / parts, CPU, "last").model.state_dict()[name], tensor), name
    check_beam_search(Translator.load(folder / whole, "cpu"))


def check_beam_search(translator: Translator) -> None:
    """Batches of one line and of many give the same hypotheses, and the scores of forced decoding."""
    lines = ["ga bu zo", "meu", "ga ga bu zo meu ga", "zo bu", "", "bu"] * 3

    def translated(batch_tokens: int) -> Iterator[tuple[str, float]]:
        how = SearchOptions(3, 1.0, batch_tokens, 100, 2.0, n_best=2)
        for translation in translator.translate(lines, how):
            yield from ((each.text, each.score) for each in translation.hypotheses)

    for one, many in zip(translated(1), translated(10_000), strict=True):
        assert one[0] == many[0]
        assert one[1] == pytest.approx(many[1], rel=1e-4)


@pytest.mark.parametrize("part", PARTS)
def test_teacher_forcing_is_stepping_and_the_twin_is_the_part_itself(folder: Path, part: str) -> None:
    torch.manual_seed(1)
    model = build_model(configured(folder, part, "x", 3).model, 9, 9).double().eval()
    source, lengths, target = torch.randint(9, (2, 4)), torch.tensor([4, 2]), torch.randint(9, (2, 3))
    logits, _ = model(source, lengths, target)
    network = fast.training(model)
    readouts, _ = network.unroll(target, network.encode(source, lengths))
    assert torch.allclose(network.output(readouts), logits, atol=1e-12)
    for searched in (fast.search(model, torch.double, beam_size=2), fast.search(model, torch.double, "plain")):
        state = searched.start(searched.encode(source, lengths))
        for t in range(3):
            log_probs, state, _ = searched.step(target[:, t], state)
            assert torch.allclose(log_probs, logits[:, t].log_softmax(-1).float(), atol=1e-5)


def test_an_ensemble_of_two_runs(folder: Path) -> None:
    runs = [("ensemble-attention", "attention"), ("ensemble-bahdanau", "bahdanau")]
    for output, part in runs:
        train(configured(folder, part, output, 3))
    check_beam_search(load_translator([folder / output for output, _ in runs], "cpu"))


@pytest.mark.parametrize("name", ["forwards", "gru"])
def test_a_part_that_nobody_registered_is_named(folder: Path, name: str) -> None:
    config = configured(folder, "encoder", "x", 3).model.model_copy(
        update={"encoder": schema.CustomPart(type="custom", name=name)}
    )
    with pytest.raises(ConfigError, match=f"no custom encoder is called '{name}'; register it first"):
        build_model(config, 9, 9)


def test_vectors_of_a_custom_part_start_as_it_made_them(folder: Path) -> None:
    parameters = dict(
        build_model(configured(folder, "attention without weights", "x", 3).model, 9, 9).named_parameters()
    )
    assert (parameters["decoder.attention.unused.weight"] == 1).all()
