"""The work of a network against what PyTorch counts while it runs."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt import fast
from nmt.model import build_model
from nmt.model.cost import Cost, cost
from nmt.model.hard import read_each
from tests.models import ATTENTIONS, RECURRENT, SOURCE, TARGET, TRANSFORMERS, forward, model_config

SENTENCES, POSITIONS, STEPS = 3, 5, 4


TABLE = [
    *(
        (name, {"encoder": {"hidden": 4, "layers": layers}})
        for name in ATTENTIONS
        if name != "none"
        for layers in (1, 2)
    ),
    *((name, {}) for name in (*RECURRENT, *TRANSFORMERS) if not name.endswith("no attention")),
]


@pytest.mark.parametrize(("variant", "sections"), TABLE)
def test_it_is_what_the_fused_network_multiplies(variant: str, sections: dict[str, Any]) -> None:
    """All pairs of target tokens are multiplied, those that the causal mask hides too.

    Without the twins that apply a layer to the annotations instead of the contexts, which is not fewer products.
    """
    config = model_config(variant, **sections)
    model = build_model(config, SOURCE, TARGET)
    source, target = torch.ones(SENTENCES, POSITIONS).long(), torch.ones(SENTENCES, STEPS).long()
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        network, lengths = fast.training(model.double(), attention_gradients=True), torch.full((SENTENCES,), POSITIONS)
        if variant == "hard":  # the exact marginal
            network.output(read_each(model, target, network.encode(source, lengths))[0])
        else:
            forward(network, source, lengths, target)
    tokens = SENTENCES * STEPS
    pairs = tokens * POSITIONS, SENTENCES * POSITIONS**2, tokens * STEPS
    expected = cost(config, TARGET).training_flops(SENTENCES, SENTENCES * POSITIONS, tokens, *pairs)
    assert 3 * counter.get_total_flops() == expected


def test_pairs_are_counted_by_kind() -> None:
    """By hand: multiply-adds 2 a source pair and 3 a pair of target tokens, for sentences of 5 and 4 tokens."""
    assert Cost(source_pair=2, target_pair=3).training_flops(1, 5, 4, 20, 25, 10) == 6 * (2 * 25 + 3 * 10)


def test_without_attention_what_reads_the_context_is_counted_once_a_sentence() -> None:
    """By hand: E 5, encoder 4, H 8, O 5, V 13."""
    found = cost(model_config("none"), TARGET)
    gates, readout = 3 * 8, 2 * 5
    assert found == Cost(
        sentence=4 * 8 + gates * 8 + readout * 8,
        source_token=2 * 3 * 4 * (5 + 4),
        target_token=gates * (5 + 8) + readout * (8 + 5) + 5 * 13,
        pair=0,
    )
