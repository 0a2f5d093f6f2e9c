"""Word substitution: its probabilities, what is replaced by what, a pure function of seed, epoch, pair and side."""

from pathlib import Path

import numpy as np
import pytest

from nmt.config import dump_config, load_config
from nmt.config.schema import Config, Substitution
from nmt.data.dataset import prepare
from nmt.data.encoded import EncodedCorpus
from nmt.data.substitution import SubstitutedCorpus, count_probabilities, substituted
from nmt.errors import ConfigError
from tests.small_run import config, metrics, options, train, write_corpus

PIECES = np.array([4, 5, 7, 9], np.int32)
SENTENCE = np.array([4, 1, 9, 5, 3, 7], np.int32)
"""Four pieces of text; 1 and 3 are others."""


def test_count_probabilities_by_hand() -> None:
    """With t = 1 / ln 2 each further piece halves the probability: 4/7, 2/7, 1/7."""
    assert count_probabilities(2, 1 / np.log(2)) == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert count_probabilities(0, 1.0).tolist() == [1.0]


def test_counts_places_and_pieces_are_drawn_as_the_paper_says() -> None:
    size, temperature = 4000, 1.3
    samples = np.stack([substituted(SENTENCE, temperature, PIECES, (1, 0, pair, 0)) for pair in range(size)])
    changed = samples != SENTENCE
    assert not changed[:, [1, 4]].any() and np.isin(samples[:, [0, 2, 3, 5]], PIECES).all()
    wanted = count_probabilities(4, temperature)
    error = 4 * np.sqrt(0.25 / size)  # four standard deviations at most
    assert np.bincount(changed.sum(1), minlength=5) / size == pytest.approx(wanted, abs=error)
    mean = (wanted * np.arange(5)).sum()
    assert changed[:, [0, 2, 3, 5]].mean(0) == pytest.approx(np.full(4, mean / 4), abs=error)
    for place in (0, 2, 3, 5):
        found = samples[changed[:, place], place]
        others = [piece for piece in PIECES if piece != SENTENCE[place]]
        assert [(found == piece).mean() for piece in others] == pytest.approx([1 / 3] * 3, abs=2 * error)


def test_a_high_temperature_replaces_any_number_and_a_low_one_nothing() -> None:
    assert count_probabilities(3, 1e9) == pytest.approx([0.25] * 4)
    for pair in range(50):
        assert (substituted(SENTENCE, 0.01, PIECES, (1, 0, pair, 0)) == SENTENCE).all()
    nothing = np.array([1, 3], np.int32)
    assert substituted(nothing, 9.0, PIECES, (1, 0, 0, 0)).tolist() == [1, 3]


def corpus_of(folder: Path, **substitution: float) -> SubstitutedCorpus:
    write_corpus(folder)
    values = config(folder).model_dump()
    values["data"]["substitution"] = substitution
    prepared = prepare(Config.model_validate(values))
    assert isinstance(prepared.train, SubstitutedCorpus)
    return prepared.train


def test_an_epoch_is_a_pure_function_of_its_number(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, source=2.0)
    every = list(range(len(corpus)))
    best, epochs = corpus.rows(every), [corpus.in_epoch(epoch).rows(np.array(every)) for epoch in (0, 1)]
    again = corpus.in_epoch(1).rows(np.array(every[::-1]))
    for row, other in zip(epochs[1][0], again[0][::-1], strict=True):
        assert row.tolist() == other.tolist(), "the order of reading does not matter"
    changed = [
        sum((new != old).any() for new, old in zip(one, other, strict=True))
        for one, other in ((epochs[0][0], best[0]), (epochs[0][0], epochs[1][0]), (epochs[0][1], best[1]))
    ]
    assert changed[0] > 50 and changed[1] > 50 and changed[2] == 0
    assert list(map(len, epochs[0][0])) == list(map(len, best[0]))
    assert (corpus.in_epoch(0).source_lengths == corpus.source_lengths).all()
    pieces = np.concatenate(epochs[0][0])
    assert pieces.min() >= 4, "no special piece was drawn"


def test_without_the_option_nothing_is_wrapped_and_both_sides_at_zero_are_refused(tmp_path: Path) -> None:
    assert type(prepare(config(tmp_path)).train) is EncodedCorpus
    zero = "data.substitution={source: 0, target: 0.0}"
    (tmp_path / "c.yaml").write_text(dump_config(config(tmp_path)), "utf-8")
    with pytest.raises(ConfigError, match=r"data\.substitution: has no effect where source and target are 0; leave it"):
        load_config(tmp_path / "c.yaml", [zero])


def test_a_run_with_substitution_resumes_bit_for_bit(tmp_path: Path) -> None:
    values = options(tmp_path, updates=6)
    values["data"]["substitution"] = {"source": 1.0, "target": 0.7}
    whole, parts, plain = (
        Config.model_validate({**values, "output": str(tmp_path / name)}) for name in ("whole", "parts", "plain")
    )
    train(whole)
    train(parts, stop_after=3)
    train(parts, resume=True)
    weights = "checkpoints/last/model.safetensors"
    assert (tmp_path / "whole" / weights).read_bytes() == (tmp_path / "parts" / weights).read_bytes()
    train(plain.model_copy(update={"data": plain.data.model_copy(update={"substitution": None})}))
    assert (tmp_path / "whole" / weights).read_bytes() != (tmp_path / "plain" / weights).read_bytes()
    assert metrics(tmp_path / "whole", "train")


def test_temperatures_are_not_negative() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        Substitution(source=-1.0)
