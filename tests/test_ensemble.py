"""Networks that translate together, against NumPy, one alone, and the same twice."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.config.schema import LearnedTokenizer
from nmt.data.corpus import Pair
from nmt.data.tokenizer import learn
from nmt.errors import ConfigError
from nmt.search.interface import Ensemble, Searchable
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import Translator
from tests.models import steps
from tests.small_translator import ATTENTIONS, LINES, network, save_run
from tests.test_corpus import problems_of

BEAM = SearchOptions(beam_size=4, batch_tokens=400, n_best=4, attention=True)
BAHDANAU, LUONG, NONE, TRANSFORMER = ATTENTIONS


@pytest.mark.parametrize("members", [(BAHDANAU, NONE), (NONE, TRANSFORMER, BAHDANAU, LUONG)], ids=len)
@torch.inference_mode()
def test_it_is_the_mean_of_the_probabilities_and_of_the_weights(members: tuple[dict[str, Any], ...]) -> None:
    searchables = [fast.search(network(attention), torch.float32) for attention in members]
    ensemble = Ensemble(searchables)
    assert ensemble.attends
    of_all, *of_each = (steps(each, source=60, target=60) for each in (ensemble, *searchables))
    for (found, weights), *each in zip(of_all, *of_each, strict=True):
        probabilities = np.mean([np.exp(log_probs.numpy().astype(np.float64)) for log_probs, _ in each], axis=0)
        assert found.dtype == torch.float32
        np.testing.assert_allclose(found.numpy(), np.log(probabilities), atol=1e-5)
        assert found.exp().sum(1).tolist() == pytest.approx([1.0] * len(found), abs=1e-5)
        attending = [attention.numpy() for _, attention in each if attention is not None]
        assert len(attending) == len(members) - 1 and weights is not None
        np.testing.assert_allclose(weights.numpy(), np.mean(attending, axis=0), atol=1e-6)


def test_probabilities_that_underflow_are_averaged_and_each_member_is_called_in_its_own_context() -> None:
    class Sure(Searchable[Any]):
        attends = False
        inside = False

        def __init__(self, *log_probs: float) -> None:
            self.log_probs = torch.tensor([log_probs])

        @contextmanager
        def searching(self) -> Iterator[None]:
            self.inside = True
            yield
            self.inside = False

        def encode(self, source: Tensor, lengths: Tensor) -> Any:
            assert [each.inside for each in members] == [each is self for each in members]
            return self

        def start(self, memory: Any, beam_size: int = 1) -> Any:
            return self.encode(memory, memory)

        def step(self, previous: Tensor, state: Any, /) -> tuple[Tensor, Any, None]:
            assert state is self.start(state)
            return self.log_probs, state, None

    members = [Sure(-1e4, 0.0), Sure(-1e4, -math.inf)]
    ensemble, tokens = Ensemble(members), torch.tensor([1])
    log_probs, _, attention = ensemble.step(tokens, ensemble.start(ensemble.encode(tokens, tokens)))
    assert log_probs.tolist() == [pytest.approx([-1e4, math.log(0.5)])] and attention is None


# --- run directories --------------------------------------------------------------------------------------------------


def test_runs_are_loaded_together(tmp_path: Path) -> None:
    runs = [save_run(tmp_path / str(attention["type"]), attention) for attention in (BAHDANAU, NONE)]
    alone, both, twice = (Translator.load(each, "cpu") for each in (runs[0], runs, [runs[0]] * 2))
    assert [isinstance(each.searchable, Ensemble) for each in (alone, both, twice)] == [False, True, True]
    assert both.decoding == alone.decoding and both.attends
    found, of_both, of_twice = (list(each.stream(LINES, BEAM)) for each in (alone, both, twice))
    assert [each.text for each in of_both] != [each.text for each in found] == [each.text for each in of_twice]
    assert [each.score for each in of_twice] == pytest.approx([each.score for each in found], rel=1e-6)
    with pytest.raises(ConfigError, match="no run to load"):
        Translator.load([])


def test_runs_with_other_tokenizers_are_refused(tmp_path: Path) -> None:
    runs = [save_run(tmp_path / name, NONE) for name in "abc"]
    learned = LearnedTokenizer(type="bpe", vocabulary=90)
    (runs[1] / "tokenizer/target.model").write_bytes(learn(learned, [Pair(line, line) for line in LINES]).target.model)
    (runs[1] / "manifest.json").write_text("{}")
    [said] = problems_of(ConfigError, Translator.load, [runs[0], runs[2], runs[1]], "cpu")
    assert said.startswith(f"{runs[1]}: its target tokenizer (") and f"is not that of {runs[0]} (" in said


@pytest.mark.parametrize(
    ("key", "value"), [("reverse_source", "true"), ("source_language", "z"), ("target_language", "z")]
)
def test_runs_that_read_or_write_otherwise_are_refused(tmp_path: Path, key: str, value: str) -> None:
    runs = [save_run(tmp_path / name, NONE) for name in "ab"]
    config = runs[1] / "config.yaml"
    config.write_text(re.sub(rf"\b{key}: .*", f"{key}: {value}", config.read_text("utf-8")), "utf-8")
    with pytest.raises(ConfigError, match=rf"b: data.{key} is .* that of .*a"):
        Translator.load(runs, "cpu")
    Translator.load([runs[1]] * 2, "cpu")
