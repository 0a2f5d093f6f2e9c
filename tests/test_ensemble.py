"""Networks that translate together, against NumPy, one alone, and the same twice."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.cli.translate import main
from nmt.config.schema import BpeTokenizer
from nmt.data.corpus import Pair
from nmt.data.learning import learn
from nmt.data.tokenizer import Tokenizers
from nmt.errors import ConfigError
from nmt.search import Ensemble, Sampling, Searchable, together
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import Translator
from tests.small_translator import ATTENTIONS, LINES, network, small_tokenizers
from tests.test_cli_translate import save_run

BEAM = SearchOptions(beam_size=4, batch_tokens=400, n_best=4, attention=True)
BAHDANAU, LUONG, NONE, TRANSFORMER = ATTENTIONS


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return small_tokenizers()


@pytest.fixture(scope="module")
def make(tokenizers: Tokenizers) -> Callable[..., Translator]:
    def of(*attentions: dict[str, Any], plain: bool = False) -> Translator:
        models = [network(tokenizers, attention) for attention in attentions]
        for number, model in enumerate(models):  # weights of their own
            model.output.bias.data += 0.3 * torch.randn(
                len(model.output.bias), generator=torch.Generator().manual_seed(number)
            )
        members: list[Searchable[Any]] = [
            fast.search(model, torch.float32, "plain" if plain else "auto", beam_size=2) for model in models
        ]
        return Translator(lambda beam_size: together(members), tokenizers, torch.device("cpu"))

    return of


def one(searchable: Searchable[Any], rows: int = 2) -> Iterator[tuple[Tensor, Tensor | None]]:
    """What a searchable says at a few steps; at the third, rows change places and a sentence leaves."""
    generator = torch.Generator().manual_seed(2)
    source, lengths = torch.randint(4, 60, (3, 5), generator=generator), torch.tensor([5, 3, 2])
    state = searchable.start(searchable.encode(source, lengths)).expand(rows)
    left = 3 * rows
    for step in range(4):
        if step == 2:
            state, left = state.select(torch.tensor([1, 0, 5, 4])), 4
        log_probs, state, attention = searchable.step(torch.randint(4, 60, (left,), generator=generator), state)
        yield log_probs, attention


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("members", [(BAHDANAU, NONE), (NONE, TRANSFORMER, BAHDANAU, LUONG)], ids=len)
@torch.inference_mode()
def test_it_is_the_mean_of_the_probabilities_and_of_the_weights(
    make: Callable[..., Translator], members: tuple[dict[str, Any], ...], plain: bool
) -> None:
    ensemble = make(*members, plain=plain).searchable(2)
    assert isinstance(ensemble, Ensemble) and ensemble.attends
    for (found, weights), *each in zip(one(ensemble), *map(one, ensemble.members), strict=True):
        probabilities = np.mean([np.exp(log_probs.numpy().astype(np.float64)) for log_probs, _ in each], axis=0)
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.numpy(), np.log(probabilities), atol=1e-5)
        assert found.exp().sum(1).tolist() == pytest.approx([1.0] * len(found), abs=1e-5)
        attending = [attention.numpy() for _, attention in each if attention is not None]
        assert len(attending) == len(members) - 1 and weights is not None
        np.testing.assert_allclose(weights.numpy(), np.mean(attending, axis=0), atol=1e-6)


def test_probabilities_that_underflow_are_averaged_all_the_same() -> None:
    class Sure(Searchable[Any]):
        attends = False

        def __init__(self, *log_probs: float) -> None:
            self.log_probs = torch.tensor([log_probs])

        def encode(self, source: Tensor, lengths: Tensor) -> None:
            return None

        def start(self, memory: None) -> Any:
            return self.log_probs

        def step(self, previous: Tensor, state: Any, /) -> tuple[Tensor, Any, None]:
            return self.log_probs, state, None

    ensemble = Ensemble([Sure(-1e4, 0.0), Sure(-1e4, -math.inf)])
    log_probs, _, attention = ensemble.step(torch.tensor([1]), ensemble.start((None, None)))
    assert log_probs.tolist() == [pytest.approx([-1e4, math.log(0.5)])] and attention is None


def test_each_member_is_called_in_its_own_context(make: Callable[..., Translator]) -> None:
    inside: list[int] = []

    class Watched(Searchable[Any]):
        def __init__(self, number: int, member: Searchable[Any]) -> None:
            self.number, self.member, self.attends = number, member, member.attends

        def searching(self) -> AbstractContextManager[object]:
            @contextmanager
            def entered() -> Iterator[None]:
                inside.append(self.number)
                yield
                inside.pop()

            return entered()

        def encode(self, source: Tensor, lengths: Tensor) -> Any:
            assert inside == [self.number]
            return self.member.encode(source, lengths)

        def start(self, memory: Any) -> Any:
            assert inside == [self.number]
            return self.member.start(memory)

        def step(self, previous: Tensor, state: Any, /) -> Any:
            assert inside == [self.number]
            return self.member.step(previous, state)

    members = make(BAHDANAU, NONE).searchable(2)
    assert isinstance(members, Ensemble)
    with torch.inference_mode():
        assert len(list(one(Ensemble([Watched(*each) for each in enumerate(members.members)])))) == 4


# --- translation ------------------------------------------------------------------------------------------------------


def compare(found: list[Translation], expected: list[Translation], tolerance: float) -> None:
    for here, there in zip(found, expected, strict=True):
        assert [each.text for each in here.hypotheses] == [each.text for each in there.hypotheses]
        for each, other in zip(here.hypotheses, there.hypotheses, strict=True):
            assert each.score == pytest.approx(other.score, rel=tolerance, abs=tolerance)
            assert each.pieces == other.pieces
            if each.attention is not None and other.attention is not None:
                assert np.allclose(each.attention, other.attention, atol=tolerance)


@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
def test_the_same_system_twice_is_that_system(make: Callable[..., Translator], attention: dict[str, Any]) -> None:
    alone = make(attention)
    member = alone.searchable(2)
    assert not isinstance(member, Ensemble), "an ensemble of one is that one"
    twice = Translator(lambda beam_size: together([member, member]), alone.tokenizers, alone.device)
    compare(list(twice.translate(LINES[:12], BEAM)), list(alone.translate(LINES[:12], BEAM)), 1e-6)


SAMPLED = SearchOptions(beam_size=1, batch_tokens=400, sampling=Sampling(0.8))


@pytest.mark.parametrize("options", [BEAM, SAMPLED], ids=["beam", "sampling"])
def test_output_does_not_depend_on_batches(make: Callable[..., Translator], options: SearchOptions) -> None:
    translator, lines = make(BAHDANAU, NONE, TRANSFORMER), LINES[:12]
    expected = translator.translate(lines, options)
    assert len({each.text for each in expected}) > 3
    for tokens in (1, 10_000):
        compare(translator.translate(lines, options.changed(batch_tokens=tokens)), expected, 1e-4)


# --- run directories --------------------------------------------------------------------------------------------------


def test_runs_are_loaded_together(tmp_path: Path) -> None:
    runs = [save_run(tmp_path / str(attention["type"]), attention) for attention in (BAHDANAU, NONE)]
    alone, both = Translator.load(runs[:1], "cpu"), Translator.load(runs, "cpu")
    plain = Translator.load(runs[0], "cpu")
    compare(list(alone.translate(LINES[:5], BEAM)), list(plain.translate(LINES[:5], BEAM)), 0.0)
    assert both.decoding == plain.decoding and both.attends
    assert both.searchable(2) is not both.searchable(1)
    assert [each.text for each in both.translate(LINES, BEAM)] != [each.text for each in plain.translate(LINES, BEAM)]
    twice = Translator.load([runs[0], runs[0]], "cpu")
    compare(list(twice.translate(LINES[:5], BEAM)), list(plain.translate(LINES[:5], BEAM)), 1e-6)


def test_runs_with_other_tokenizers_are_refused(tmp_path: Path) -> None:
    runs = [save_run(tmp_path / name, NONE) for name in "abc"]
    learned = BpeTokenizer(type="bpe", vocabulary=90)
    learn(learned, [Pair(line, line) for line in LINES]).target.save(runs[1] / "tokenizer" / "target.model")
    (runs[1] / "manifest.json").write_text("{}")
    with pytest.raises(ConfigError) as caught:
        Translator.load(runs, "cpu")
    [said] = caught.value.problems
    assert said.startswith(f"{runs[1]}: its target tokenizer (") and f"is not that of {runs[0]} (" in said
    with pytest.raises(ConfigError):
        Translator.load([runs[0], runs[2], runs[1]], "cpu")


@pytest.mark.parametrize(
    ("found", "other", "key"),
    [
        ("reverse_source: false", "reverse_source: true", "reverse_source"),
        ("source_language: ", "source_language: x", "source_language"),
        ("target_language: ", "target_language: x", "target_language"),
    ],
)
def test_runs_that_read_or_write_otherwise_are_refused(tmp_path: Path, found: str, other: str, key: str) -> None:
    runs = [save_run(tmp_path / name, NONE) for name in "ab"]
    config = runs[1] / "config.yaml"
    config.write_text(config.read_text("utf-8").replace(found, other), "utf-8")
    with pytest.raises(ConfigError, match=rf"b: data.{key} is .* that of .*a"):
        Translator.load(runs, "cpu")
    Translator.load([runs[1]] * 2, "cpu")


def test_model_may_be_given_again() -> None:
    arguments = main.parser().parse_args(["--model", "a", "b", "--model", "c"])
    assert arguments.model == ["a", "b", "c"]
