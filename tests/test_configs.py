"""Every shipped configuration loads and its network is built; compared systems differ as their experiment says."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nmt.cli.train import main
from nmt.config import Config, load_config
from nmt.config.schema import DECODERS, ENCODERS
from nmt.experiments.plan import Run, load_experiment, make_plan
from nmt.model import Seq2Seq, build_model
from tests.small_run import write_corpus

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "configs"
EXPERIMENTS = sorted((FOLDER / "experiments").rglob("*.yaml"))
SHIPPED = sorted(set(FOLDER.rglob("*.yaml")) - set(EXPERIMENTS))
NAMES = [str(path.relative_to(FOLDER / "experiments").with_suffix("")) for path in EXPERIMENTS]
BASES: dict[str, list[str | None]] = {name: [None] for name in NAMES}
BASES["europarl"] = ["configs/europarl/cpu.yaml", "configs/europarl/gpu.yaml"]
"""By experiment: the configurations that it is made for; None is the one that it names."""


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@cache
def runs(experiment: str, base: str | None = None) -> tuple[Run, ...]:
    """The runs of a shipped experiment; its paths start at the root of the repository."""
    path = FOLDER / "experiments" / f"{experiment}.yaml"
    return make_plan(load_experiment(path, base=base), str(path)).runs


@pytest.fixture(autouse=True, scope="module")
def _ablations() -> Iterator[None]:
    """The parts of scripts/ablations.py exist while these tests run."""
    before = [(each, dict(each.options), dict(each.builders)) for each in (ENCODERS, DECODERS)]
    import_module("ablations")
    yield
    for registry, options, builders in before:
        registry.options, registry.builders = options, builders


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("file", ["demo.yaml", pytest.param("multi30k.yaml", marks=pytest.mark.slow)])
def test_it_trains(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One update at full size, a validation, a checkpoint and the test set: a dry run, on a corpus that is at hand."""
    corpora = write_corpus(tmp_path, train=50, longest=8)
    text = "data.{split}={{source: {source}, target: {target}}}"
    small = [text.format(split=split, **files) for split, files in corpora.items()]
    small += ["data.corpora={}", "tokenizer.vocabulary=50", "training.validation.samples=0", "evaluation.gold=null"]
    arguments = [word for setting in small for word in ("--set", setting)]
    paths = ["--config", str(FOLDER / file), "--output", str(tmp_path / "run")]
    code = main([*paths, "--dry-run", "--verbose", *arguments])
    assert code == 0, capsys.readouterr().err
    assert "update 1/" in capsys.readouterr().err


@pytest.mark.parametrize("path", SHIPPED, ids=name)
def test_its_network_is_built(path: Path) -> None:
    assert parameters(built(load_config(path), 1000, 1000)) > 1e5


@pytest.mark.parametrize("experiment", BASES)
def test_the_networks_of_an_experiment_are_built(experiment: str) -> None:
    for base in BASES[experiment]:
        every = runs(experiment, base)
        assert every and all(parameters(built(run.config, 1000, 1000)) > 1e4 for run in every)
        values = [run.config.model_dump(exclude={"output"}) for run in every]
        assert all(value not in values[:place] for place, value in enumerate(values)), "systems must differ"


@pytest.mark.parametrize(
    ("experiment", "base", "systems"),
    [("demo", None, 3), ("multi30k", None, 2), *(("europarl", base, 5) for base in BASES["europarl"])],
)
def test_compared_systems_differ_in_their_attention_alone(experiment: str, base: str | None, systems: int) -> None:
    """As their names say; those of the length curve also differ in the most words of a training pair."""
    kinds = {"rnnencdec": "none", "rnnsearch": "bahdanau"}
    rest = []
    for run in (each for each in runs(experiment, base) if each.config.seed == 1):
        kind, _, words = run.system.partition("-")
        values = run.config.model_dump(exclude={"output"})
        assert values["model"].pop("attention")["type"] == kinds.get(kind, kind)
        if words:
            assert values["data"]["filter"].pop("max_words") == int(words)
        rest.append(values)
    assert len(rest) == systems and all(values == rest[0] for values in rest)


def test_every_run_has_a_place_of_its_own() -> None:
    outputs = [load_config(path).output for path in SHIPPED]
    assert None not in outputs and len(set(outputs)) == len(outputs)
    every = [str(run.path) for experiment in BASES for run in runs(experiment)]
    assert len(set(every)) == len(every)
    assert {str(run.path) for run in runs("demo")} == {f"runs/demo/{name}" for name in ("none", "bahdanau", "luong")}


# --- papers -----------------------------------------------------------------------------------------------------------


def built(config: Config, source_words: int, target_words: int) -> Seq2Seq:
    """The network, without memory for its weights."""
    with torch.device("meta"):
        return build_model(config.model, source_words, target_words)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


UNITS = {
    "sutskever2014": (80_000, 1000, 1000, 1000),
    "cho2014": (15_000, 100, 1000, 500),
    "bahdanau2015": (30_000, 620, 2000, 500),
    "luong2015": (50_000, 1000, 1000, 1000),
    "vaswani2017": (37_000, 512, 512, 512),
}
"""By paper: words or pieces, and the units of an embedding, of an annotation and of the readout."""


@pytest.mark.parametrize("path", sorted((FOLDER / "papers").glob("*.yaml")), ids=name)
def test_papers_have_their_units(path: Path) -> None:
    config = load_config(path)
    words, embedding, annotation, readout = UNITS[path.stem]
    assert config.tokenizer.model_dump()["vocabulary"] == words
    model = built(config, words, words)
    assert model.source_embedding.embedding_dim == model.target_embedding.embedding_dim == embedding
    assert (model.encoder.width, model.decoder.readout_width) == (annotation, readout)
    assert model.output.out_features == words


def test_sutskever_has_the_parameters_of_the_paper() -> None:
    """384 M (section 3.4) with 160,000 source words; here layers for first states and readout come on top."""
    model = built(load_config(FOLDER / "papers/sutskever2014.yaml"), 160_000, 80_000)
    decoder: Any = model.decoder
    first_states = parameters(decoder.initial) + sum(parameters(layer.initial) for layer in decoder.above)
    readout = sum(parameters(part) for name, part in decoder.named_children() if name.endswith("_readout"))
    assert round((parameters(model) - first_states - readout) / 1e6) == 384
    assert round(parameters(model.encoder) / 1e6) == 32
