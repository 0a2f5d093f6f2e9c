"""Parts from outside the package, registered as the built-in ones are: they train, resume and translate like these.

Shapes: B sentences, S source positions, R rows, Q queries, E embedding, C context, H hidden.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
import yaml
from torch import Tensor, nn

from nmt import fast
from nmt.cli.experiment import main as experiment
from nmt.config import Config, load_config, schema
from nmt.errors import ConfigError
from nmt.model import Memory, State, build_model
from nmt.model.attention import Attention, ScoredAttention
from nmt.model.cells import Cell
from nmt.model.decoders import Decoder
from nmt.model.encoders import Encoder
from nmt.training.dry_run import dry_run
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import Translator
from tests.comparison import differences
from tests.small_run import metrics, options, train
from tests.test_corpus import problems_of
from tests.test_docs import PAGES, blocks
from tests.test_experiments import write_experiment

# --- a decoder without a hidden vector, a cell, an attention without weights ------------------------------------------


class CacheOptions(schema.Decoder):
    """Attends from the mean of all target embeddings so far."""

    type: Literal["cache"]


@dataclass(frozen=True)
class CacheState(State):
    cache: Tensor
    """The embeddings of all tokens so far, (R, t, E)."""


class CacheDecoder(Decoder):
    def __init__(self, options: CacheOptions, config: schema.Model, encoder: Encoder, attention: Attention) -> None:
        super().__init__()
        width = self.readout_width = config.embeddings.size
        self.attention, self.attends = attention, attention.attends
        self.query = nn.Linear(width, options.hidden)
        self.combine = nn.Linear(width + encoder.width, width)

    def start(self, memory: Memory, bridge: Tensor) -> CacheState:
        cache = bridge.new_zeros(len(bridge), 0, self.readout_width)
        return CacheState(self.attention.prepare(memory), 0, 1, cache)

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State, Tensor | None]:
        assert isinstance(state, CacheState)
        cache = torch.cat((state.cache, embedded.unsqueeze(1)), 1)
        mean = cache.mean(1)  # (R, E)
        queries = self.query(mean).unflatten(0, (-1, state.hypotheses))  # (B, Q, H)
        context, weights = self.attention(queries, torch.full((state.hypotheses,), state.position), state.memory)
        readout = torch.tanh(self.combine(torch.cat((mean, context.flatten(0, 1)), -1)))
        return readout, state.advanced(cache=cache), None if weights is None else weights.flatten(0, 1)


class Minimal(schema.Recurrence):
    type: Literal["minimal"]


class MinimalEncoder(Minimal, schema.RecurrentEncoder):
    """Minimal gated unit."""


class MinimalDecoder(Minimal, schema.RecurrentDecoder):
    """Minimal gated unit."""


class MinimalCell(Cell):
    """s' = (1 - f) * s + f * tanh(x_n + U_n (f * s)) with f = sigmoid(x_f + U_f s) (Zhou et al. 2016: MGU)."""

    gates = 2  # x_f and x_n, each as wide as the state
    groups = (1, 1)  # what layer_norm normalizes

    def __init__(self, options: Minimal) -> None:
        super().__init__(options)
        self.recurrent = nn.Linear(options.hidden, options.hidden)  # U_f
        self.candidate_recurrent = nn.Linear(options.hidden, options.hidden)  # U_n

    def forward(self, input_gates: Tensor, state: Tensor) -> Tensor:
        """One step: input_gates (R, 2H), state (R, H) -> (R, H)."""
        forget, candidate = self.input_norm(input_gates).chunk(2, -1)
        forget = torch.sigmoid(forget + self.recurrent(state))
        candidate = torch.tanh(candidate + self.candidate_recurrent(forget * state))
        return torch.lerp(state, candidate, forget)


class MeanOptions(schema.Attention):
    """The mean of the annotations, without weights."""

    type: Literal["mean"]
    unused: tuple[schema.Size, ...] = ()


class MeanAttention(Attention):
    """It has a layer that is never used."""

    attends = False

    def __init__(self, options: MeanOptions, config: schema.Model, encoder: Encoder) -> None:
        super().__init__()
        self.unused = nn.LayerNorm(encoder.width)

    def forward(self, queries: Tensor, positions: Tensor, memory: Memory) -> tuple[Tensor, None]:
        mean = memory.annotations.sum(1) / memory.source_mask.sum(1, keepdim=True)
        return mean.unsqueeze(1).expand(-1, queries.size(1), -1), None


# --- each of them trains, resumes and translates ----------------------------------------------------------------------

[SCORE], [SECTION] = (blocks(PAGES["docs/architecture.md"], kind) for kind in ("python", "yaml"))
PARTS: dict[str, dict[str, Any]] = {
    "score of the page": yaml.safe_load(SECTION)["model"],
    "decoder": {"decoder": {"type": "cache", "hidden": 24}},
    "cell and attention without weights": {
        "encoder": {"type": "minimal", "hidden": 24},
        "decoder": {"type": "minimal", "hidden": 24, "layers": 2, "layer_norm": True},
        "attention": {"type": "mean", "unused": [2, 3]},
    },
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register all parts, for one test."""
    for registry in [each for each in vars(schema).values() if isinstance(each, schema.Registry)]:
        monkeypatch.setattr(registry, "options", dict(registry.options))
        monkeypatch.setattr(registry, "builders", dict(registry.builders))
    exec(SCORE, dict(globals()))
    schema.DECODERS.builds(schema.DECODERS.register(CacheOptions))(CacheDecoder)
    schema.ATTENTIONS.builds(schema.ATTENTIONS.register(MeanOptions))(MeanAttention)
    schema.ENCODERS.register(MinimalEncoder)
    schema.DECODERS.register(MinimalDecoder)
    schema.CELLS.builds(Minimal)(MinimalCell)


def configured(folder: Path, part: str, output: str = "run", updates: int = 2) -> Config:
    values = options(folder, updates=updates, log_every=1, validation={"every": 1, "sentences": 2})
    values["data"]["test"] = None
    values["model"] |= PARTS.get(part, {})
    return Config.model_validate(values | {"output": str(folder / output)})


@pytest.mark.parametrize("part", PARTS)
def test_it_trains_resumes_and_translates(folder: Path, part: str) -> None:
    """A run that is made longer is one that was longer, also where the optimizer has no state for a parameter."""
    whole, parts = f"whole-{part}", f"parts-{part}"
    train(configured(folder, part, whole))
    train(configured(folder, part, parts, 1))
    train(configured(folder, part, parts), resume=True)
    assert differences(folder / parts, folder / whole) == []
    translator, lines = Translator.load(folder / whole, "cpu"), ["ga bu zo", "meu", "ga ga bu zo meu ga", ""]
    found = [
        [each.hypotheses[0].text for each in translator.stream(lines, SearchOptions(beam_size=3, batch_tokens=size))]
        for size in (1, 10_000)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("part", PARTS)
def test_teacher_forcing_is_stepping_and_the_twin_is_the_part_itself(folder: Path, part: str) -> None:
    torch.manual_seed(1)
    model = build_model(configured(folder, part).model, 9, 9).double().eval()
    source, lengths, target = torch.randint(9, (2, 4)), torch.tensor([4, 2]), torch.randint(9, (2, 3))
    logits, _ = model(source, lengths, target)
    network = fast.training(model)
    readouts, _ = network.unroll(target, network.encode(source, lengths))
    assert torch.allclose(network.output(readouts), logits, atol=1e-12)
    for searched in (fast.search(model, torch.double), fast.search(model, torch.double, "plain")):
        state = searched.start(searched.encode(source, lengths))
        for t in range(3):
            log_probs, state, _ = searched.step(target[:, t], state)
            assert torch.allclose(log_probs, logits[:, t].log_softmax(-1).float(), atol=1e-5)


class Linear(schema.Schedule):
    """Falls to zero after the last update."""

    type: Literal["test_linear"]

    def decay(self, update: int, updates: int, scale: float) -> float:
        return range(updates, 0, -1)[update - 1] / updates


class Grouped(schema.Sgd):
    """Biases at half the rate."""

    type: Literal["test_grouped"]  # type: ignore[assignment]


def test_training_has_parts_of_its_own_that_translation_does_without(folder: Path) -> None:
    """A schedule hears of the last update and no later one, after the built-in warm-up; groups keep their ratio."""
    built: list[torch.optim.Optimizer] = []

    def build(options: Grouped, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        groups = [{"params": [each], "lr": options.learning_rate / (2 if each.ndim == 1 else 1)} for each in parameters]
        built.append(torch.optim.SGD(groups))
        return built[-1]

    schema.SCHEDULES.register(Linear)
    schema.OPTIMIZERS.builds(schema.OPTIMIZERS.register(Grouped))(build)
    values = options(folder, updates=4, log_every=1, schedule={"type": "test_linear", "warmup": 2})
    values["training"]["optimizer"] = {"type": "test_grouped", "learning_rate": 0.1}
    config = Config.model_validate(values)
    dry_run(config, resume=False, overwrite=False, say=lambda _: None)
    train(config)
    base = config.training.optimizer.learning_rate
    rates = [row["learning_rate"] / base for row in metrics(folder / "run", "train")]
    assert rates == pytest.approx([0.5, 0.75, 0.5, 0.25])
    for group in built[-1].param_groups:
        assert group["lr"] == pytest.approx(0.25 * (0.05 if group["params"][0].ndim == 1 else 0.1))


def test_options_of_a_custom_part_are_checked_as_those_of_a_built_in_one(folder: Path) -> None:
    values = options(folder)
    values["model"] |= {"attention": {"type": "mean", "widow": 2}, "encoder": {"type": "minimals", "hidden": 0}}
    path = folder / "wrong.yaml"
    path.write_text(yaml.safe_dump(values), "utf-8")
    problems = problems_of(ConfigError, load_config, path)
    found = [problem.removeprefix(f"{path}: ").partition(":")[0] for problem in problems]
    assert found == ["model.attention.widow", "model.encoder.type"]
    assert "nearest: minimal; a part of your own is known where" in problems[-1]


@pytest.mark.slow
def test_every_process_of_an_experiment_imports_the_module_that_the_user_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own_score.py").write_text(SCORE.replace('"distance"', '"own"'))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    monkeypatch.setenv("NMT_IMPORT", "own_score")
    path = write_experiment(folder, {"own": {"model.attention": {"type": "luong", "score": "own"}}})
    assert experiment(["--config", str(path), "--dry-run"]) == 0, capsys.readouterr().err


def test_a_type_cannot_be_registered_twice_and_needs_a_builder(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"mean.*MeanOptions"):
        schema.ATTENTIONS.register(MeanOptions)
    with pytest.raises(TypeError, match=r"Attention\.type: must be a Literal"):
        schema.ATTENTIONS.register(schema.Attention)
    with pytest.raises(TypeError, match="abstract"):  # it lacks keys and score
        ScoredAttention()  # type: ignore[abstract]

    del schema.ATTENTIONS.builders[MeanOptions]
    with pytest.raises(LookupError, match="MeanOptions"):
        build_model(configured(folder, "cell and attention without weights").model, 9, 9)


def test_an_encoder_is_as_wide_as_its_options_say(folder: Path) -> None:
    schema.ENCODERS.builds(MinimalEncoder)(lambda *_: SimpleNamespace(width=24))
    with pytest.raises(ValueError, match=r"SimpleNamespace\.width is 24, MinimalEncoder\.width 48"):
        build_model(configured(folder, "cell and attention without weights").model, 9, 9)
