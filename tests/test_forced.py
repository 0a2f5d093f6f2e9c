"""Forced decoding against stepping and against search."""

from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy as np
import pytest
import torch

from nmt.config.schema import Decoding
from nmt.data.corpus import Pair
from nmt.model import Seq2Seq
from nmt.search.greedy import Sampling
from nmt.translation.forced import BLANK, ForcedDecoding, force
from nmt.translation.searching import SearchOptions
from tests.small_translator import ATTENTIONS, BY_WORD, LINES, TOKENIZERS, network, translator_of

CPU = torch.device("cpu")


@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
def test_it_is_what_stepping_through_the_pair_gives(
    attention: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.translation.forced.BATCH_TOKENS", 60)
    model = network(attention)
    pairs = [*map(Pair, LINES, reversed(LINES)), Pair("", "")]
    for pair, (read, forced) in zip(pairs, force(model, TOKENIZERS, pairs, CPU), strict=True):
        ids = [
            [*side.encode([text])[0], side.eos_id]
            for side, text in zip((TOKENIZERS.source, TOKENIZERS.target), pair, strict=True)
        ]
        assert read == pair and forced.source_pieces == TOKENIZERS.source.pieces(ids[0])
        assert forced.target_pieces == TOKENIZERS.target.pieces(ids[1])
        expected, weights = steps(model, *ids)
        chosen = expected[range(len(ids[1])), ids[1]]
        np.testing.assert_allclose(forced.log_probabilities, chosen, atol=1e-4)
        assert (forced.attention is None) == (attention["type"] == "none")
        if forced.attention is not None:
            np.testing.assert_allclose(forced.attention, weights, atol=1e-5)
    assert list(force(model, TOKENIZERS, [], CPU)) == []


@torch.inference_mode()
def steps(model: Seq2Seq, source: list[int], target: list[int]) -> tuple[Any, Any]:
    """Log-probabilities of all pieces at each step, (T, V), and attention (T, S), one token at a time."""
    state = model.start(model.encode(torch.tensor([source]), torch.tensor([len(source)])))
    rows, weights = [], []
    for previous in [TOKENIZERS.target.bos_id, *target[:-1]]:
        log_probabilities, state, attention = model.step(torch.tensor([previous]), state)
        rows.append(log_probabilities[0].numpy())
        weights.append(None if attention is None else attention[0].numpy())
    return np.stack(rows), weights


# --- against search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("how", [{"beam_size": 4, "n_best": 4}, {"beam_size": 1}, {"sampling": Sampling(0.8)}], ids=str)
def test_a_forced_score_is_that_of_search(attention: dict[str, object], how: dict[str, object], reverse: bool) -> None:
    """Wherever the tokenizer cuts the translation into the pieces that search found: words are always cut so, but for
    two unknown ones side by side. The score of a hypothesis that search cut off has no end symbol."""
    tokenizers = replace(BY_WORD, reverse_source=reverse)
    model, alpha = network(attention, BY_WORD), 0.7
    model.output.bias.data[BY_WORD.target.eos_id] += 10  # shorter than the greatest length
    decoding = Decoding(length_penalty=alpha, beam_size=1, batch_tokens=400)
    options = SearchOptions.from_config(decoding, attention=True, **how)
    found = [
        (Pair(each.source, hypothesis.text), hypothesis)
        for each in translator_of(model, tokenizers).stream(LINES, options)
        for hypothesis in each.hypotheses
    ]
    scored = list(force(model, tokenizers, [pair for pair, _ in found], CPU))
    same = ended = 0
    for (pair, hypothesis), (read, forced) in zip(found, scored, strict=True):
        assert read == pair
        if forced.target_pieces == [*hypothesis.pieces, "</s>"]:
            same += 1
            total = forced.log_probabilities[:-1].sum()
            assert total == pytest.approx(hypothesis.log_probability, rel=1e-5, abs=1e-5)
        if forced.target_pieces == hypothesis.pieces:
            same, ended = same + 1, ended + 1
            assert forced.log_probability == pytest.approx(hypothesis.log_probability, rel=1e-5, abs=1e-5)
            assert forced.score(alpha) == pytest.approx(hypothesis.score, rel=1e-5, abs=1e-5)
            torch.testing.assert_close(forced.attention, hypothesis.attention, rtol=1e-7, atol=1e-5)
    assert same >= len(found) * 3 // 4 and ended >= len(found) // 3


def test_sum_mean_and_length_penalty_by_hand() -> None:
    """Three pieces of -1, -2 and -4: ((5 + 3) / 6)^2 = 16/9."""
    forced = ForcedDecoding(["a", "</s>"], ["b", "c", "</s>"], np.array([-1, -2, -4], np.float32), None)
    assert forced.log_probability == -7.0 and forced.per_piece == pytest.approx(-7 / 3)
    assert forced.score(2.0) == pytest.approx(-7 * 9 / 16) and forced.score(0.0) == -7.0
    assert (BLANK.log_probability, BLANK.per_piece, BLANK.score(1.0)) == (0.0, 0.0, 0.0)


def test_pairs_are_read_no_further_than_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    model, pairs = network(), [*map(Pair, LINES, reversed(LINES))]
    expected = list(force(model, TOKENIZERS, pairs, CPU))
    monkeypatch.setattr("nmt.translation.forced.FIRST_WINDOW", 3)
    monkeypatch.setattr("nmt.translation.forced.WINDOW", 7)
    monkeypatch.setattr("nmt.translation.forced.BATCH_TOKENS", 50)
    unread = iter(pairs)
    found = force(model, TOKENIZERS, unread, CPU, keep_attention=False)
    for number, ((pair, one), (read_pair, other)) in enumerate(zip(expected, found, strict=True), 1):
        assert len(pairs) - length_hint(unread) <= number + 7
        assert pair == read_pair and one.target_pieces == other.target_pieces and other.attention is None
        np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-5)
