"""Forced decoding against stepping."""

import numpy as np
import pytest
import torch

from nmt.data.corpus import Pair
from nmt.data.tokenizer import Tokenizers
from nmt.translation.forced import force
from tests.small_translator import ATTENTIONS, LINES, network, small_tokenizers

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return small_tokenizers()


@pytest.mark.parametrize("attention", ATTENTIONS, ids=lambda attention: str(attention["type"]))
def test_it_is_what_stepping_through_the_pair_gives(tokenizers: Tokenizers, attention: dict[str, object]) -> None:
    model = network(tokenizers, attention)
    pairs = [Pair(line, other) for line, other in zip(LINES, reversed(LINES), strict=True)] + [Pair("", "")]
    for pair, forced in zip(pairs, force(model, tokenizers, pairs, CPU, batch_tokens=60), strict=True):
        source = [*tokenizers.source.encode([pair.source])[0], tokenizers.source.eos_id]
        target = [*tokenizers.target.encode([pair.target])[0], tokenizers.target.eos_id]
        assert forced.source_pieces == tokenizers.source.pieces(source)
        assert forced.target_pieces == tokenizers.target.pieces(target)
        with torch.inference_mode():
            state = model.start(model.encode(torch.tensor([source]), torch.tensor([len(source)])))
            previous, expected, rows = tokenizers.target.bos_id, [], []
            for token in target:
                log_probs, state, weights = model.step(torch.tensor([previous]), state)
                expected.append(log_probs[0, token].item())
                rows.append(None if weights is None else weights[0].numpy())
                previous = token
        np.testing.assert_allclose(forced.log_probabilities, expected, atol=1e-4)
        if forced.attention is None:
            assert attention["type"] == "none"
        else:
            np.testing.assert_allclose(forced.attention, np.stack([row for row in rows if row is not None]), atol=1e-5)
            assert forced.attention.shape == (len(target), len(source))
