"""Parts from outside the package, each by one registry entry: they train, resume and translate as the built-in ones.

Shapes: B sentences, S source positions, R rows, Q queries, E embedding, C context, H hidden.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt import fast
from nmt.config import Config, schema
from nmt.errors import ConfigError
from nmt.model import Memory, State, build, build_model
from nmt.model.attention import Attention, ScoredAttention
from nmt.model.cells import Cell, GruCell
from nmt.model.decoders import Decoder
from nmt.model.dropout import Dropout
from nmt.model.encoders import Encoder, RecurrentEncoder
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


# --- an attention -----------------------------------------------------------------------------------------------------


class DistanceAttention(ScoredAttention):
    """e_ij = -|s_i - W h_j|²: the nearest annotation weighs most."""

    def __init__(self, config: schema.Model, encoder: Encoder) -> None:
        super().__init__()
        self.key = nn.Linear(encoder.width, config.decoder.hidden, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """W h_j, once for each source: (B, S, C) -> (B, S, H)."""
        keys: Tensor = self.key(annotations)
        return keys

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """At every step: (B, Q, H), (B, S, H) -> (B, Q, S)."""
        return -(queries.unsqueeze(2) - keys.unsqueeze(1)).square().sum(-1)


def test_distance_attention_by_hand() -> None:
    """With W = I and s = (1, 0): squared distances 0 to (1, 0), and ln 3 to (1, sqrt(ln 3))."""
    section = {"type": "custom", "name": "distance"}
    values = {"attention": section, "encoder": {"hidden": 1}, "decoder": {"hidden": 2}}
    attention = DistanceAttention(
        schema.Model.model_validate(values), RecurrentEncoder(2, lambda: GruCell(1), 1, Dropout(0.0))
    )
    attention.key.weight.data = torch.eye(2)
    annotations = torch.tensor([[[1.0, 0.0], [1.0, math.log(3) ** 0.5]]])
    memory = attention.prepare(Memory(annotations, annotations[:, 0], torch.ones(1, 2, dtype=torch.bool)))
    context, weights = attention(torch.tensor([[[1.0, 0.0]]]), torch.tensor([0]), memory)
    assert weights[0, 0].tolist() == pytest.approx([3 / 4, 1 / 4])
    assert context[0, 0].tolist() == pytest.approx([1.0, math.log(3) ** 0.5 / 4])


# --- a cell -----------------------------------------------------------------------------------------------------------


class MinimalCell(Cell):
    """s' = (1 - f) * s + f * tanh(x_n + U_n (f * s)) with f = sigmoid(x_f + U_f s) (Zhou et al. 2016: MGU)."""

    gates = 2  # x_f and x_n, each as wide as the state
    groups = (1, 1)  # what layer_norm normalizes

    def __init__(self, hidden: int, *, normalize: bool = False) -> None:
        super().__init__(hidden, normalize=normalize)
        self.recurrent = nn.Linear(hidden, hidden)  # U_f
        self.candidate_recurrent = nn.Linear(hidden, hidden)  # U_n

    def forward(self, input_gates: Tensor, state: Tensor) -> Tensor:
        """One step: input_gates (R, 2H), state (R, H) -> (R, H)."""
        forget, candidate = self.input_norm(input_gates).chunk(2, -1)
        forget = torch.sigmoid(forget + self.recurrent(state))
        candidate = torch.tanh(candidate + self.candidate_recurrent(forget * state))
        return torch.lerp(state, candidate, forget)


def test_minimal_cell_by_hand() -> None:
    """One unit, U_f = 0 and U_n = 2: f = sigmoid(0) = 1/2, s' = s / 2 + tanh(x_n + s) / 2."""
    cell = MinimalCell(1)
    for parameter, value in ((cell.recurrent.weight, 0.0), (cell.candidate_recurrent.weight, 2.0)):
        parameter.data.fill_(value)
    for layer in (cell.recurrent, cell.candidate_recurrent):
        layer.bias.data.zero_()
    after = cell(torch.tensor([[0.0, 0.3]]), torch.tensor([[0.4]]))
    assert after.item() == pytest.approx(0.2 + math.tanh(0.7) / 2)


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
    "attention": {"attention": {"type": "custom", "name": "distance"}},
    "cell": {
        "encoder": {"type": "recurrent", "cell": "minimal", "hidden": 24},
        "decoder": {"type": "recurrent", "cell": "minimal", "hidden": 24, "layers": 2, "layer_norm": True},
    },
    "attention with options": {"attention": {"type": "custom", "name": "location", "options": {"window": 2}}},
    "attention without weights": {"attention": {"type": "custom", "name": "mean"}},
    "attention after the update": {
        "attention": {"type": "custom", "name": "location", "after_update": True, "options": {"window": 2}}
    },
}


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(build.ENCODERS, "forward", ForwardEncoder)
    monkeypatch.setitem(build.DECODERS, "cache", CacheDecoder)
    monkeypatch.setitem(build.ATTENTIONS, "distance", DistanceAttention)
    monkeypatch.setitem(build.CELLS, "minimal", MinimalCell)
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


@pytest.mark.parametrize("cell", ["minimum", "gru"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_cell_that_nobody_registered_is_named(folder: Path, part: str, cell: str) -> None:
    kind = {"encoder": schema.CustomCellEncoder, "decoder": schema.CustomCellDecoder}[part]
    config = configured(folder, "encoder", "x", 3).model.model_copy(update={part: kind(type="recurrent", cell=cell)})
    wanted = rf"model\.{part}\.cell: no custom cell is called '{cell}'; register it first: nmt\.model\.build\.CELLS\['"
    with pytest.raises(ConfigError, match=wanted):
        build_model(config, 9, 9)


# --- docs/architecture.md ---------------------------------------------------------------------------------------------


def test_the_part_of_the_architecture_is_one_of_this_file() -> None:
    """The class, its entry and its configuration, as printed."""
    page = (Path(__file__).parent.parent / "docs/architecture.md").read_text("utf-8")
    [block], [section] = (re.findall(rf"^```{kind}\n(.*?)\n```$", page, re.S | re.M) for kind in ("python", "yaml"))
    code, _, entry = block.partition("\n\n\n")
    assert code in Path(__file__).read_text("utf-8")
    assert entry == 'build.ATTENTIONS["distance"] = DistanceAttention'
    assert build.ATTENTIONS["distance"] is DistanceAttention
    assert yaml.safe_load(section)["model"] == PARTS["attention"]
