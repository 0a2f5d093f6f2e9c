"""The work of a network, counted by hand from the papers' equations."""

import pytest

from benchmarks.cost import Cost, cost
from tests.models import TARGET, model_config

E, H, R, V = 5, 8, 5, TARGET
"""Embedding, decoder, readout, target vocabulary; one direction of the encoder has 4 units, so annotations have H."""
ENCODER = 2 * 3 * 4 * (E + 4)
BY_HAND = {
    "none": Cost(4 * H + 3 * H * H + 2 * R * H, ENCODER, 3 * H * (E + H) + 2 * R * (H + E) + R * V),
    "bahdanau": Cost(4 * H, ENCODER + 7 * H, 3 * H * (E + 2 * H) + 7 * H + 2 * R * (E + 2 * H) + R * V, 7 + H),
    "luong general": Cost(4 * H, ENCODER + H * H, 3 * H * (E + H + R) + R * 2 * H + R * V, 2 * H),
    "hard": Cost(4 * H, ENCODER + H * H + R * H, 3 * H * (E + H) + R * H, H + R * V),
    "transformer": Cost(
        0,
        3 * (4 * 8 * 8 + 2 * 8 * 6 + 2 * 8 * 8),
        3 * (4 * 8 * 8 + 2 * 8 * 8 + 2 * 8 * 6) + 8 * V,
        pair=3 * 2 * 8,
        source_pair=3 * 2 * 8,
        target_pair=3 * 2 * 8,
    ),
}


@pytest.mark.parametrize("variant", BY_HAND)
def test_it_is_what_the_equations_multiply(variant: str) -> None:
    assert cost(model_config(variant), V) == BY_HAND[variant]


@pytest.mark.parametrize("variant", ["heads", "coverage", "deep transition, normalized"])
def test_any_network_is_counted(variant: str) -> None:
    found = cost(model_config(variant), V)
    assert min(found.source_token, found.target_token) > 0


def test_a_layer_above_the_first_reads_both_directions() -> None:
    found = cost(model_config("bahdanau", encoder={"hidden": 4, "layers": 3}), V)
    assert found.source_token == BY_HAND["bahdanau"].source_token + 2 * 2 * 3 * 4 * (8 + 4)


def test_each_kind_of_pair_is_counted() -> None:
    """Sentences of 5 and 2 source tokens, and of 4 and 1 target tokens."""
    assert Cost(source_pair=2, target_pair=3).training_flops([5, 2], [4, 1]) == 6 * (2 * (25 + 4) + 3 * (10 + 1))
    assert Cost(1, 2, 3, pair=4).training_flops([5, 2], [4, 1]) == 6 * (2 + 2 * 7 + 3 * 5 + 4 * (20 + 2))
