"""The work of a network against what PyTorch counts while it runs."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nmt import fast
from nmt.model import build_model
from nmt.model.cost import Cost, cost
from tests.models import ATTENTIONS, SOURCE, TARGET, forward, model_config

SENTENCES, POSITIONS, STEPS = 3, 5, 4


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("attention", [name for name in ATTENTIONS if name != "none"])
def test_it_is_what_the_fused_network_multiplies(attention: str, layers: int) -> None:
    config = model_config(attention, encoder={"hidden": 4, "layers": layers})
    model = build_model(config, SOURCE, TARGET)
    source, target = torch.ones(SENTENCES, POSITIONS).long(), torch.ones(SENTENCES, STEPS).long()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        forward(fast.training(model.double()), source, torch.full((SENTENCES,), POSITIONS), target)
    tokens = SENTENCES * STEPS
    expected = cost(config, TARGET).training_flops(SENTENCES, SENTENCES * POSITIONS, tokens, tokens * POSITIONS)
    assert 3 * counter.get_total_flops() == expected


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
