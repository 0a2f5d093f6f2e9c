"""Differences on a GPU: Triton's kernels in a network, CUDA graphs, bf16, and search on device tensors."""

import math
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.batching import Batch
from nmt.model import build_model
from nmt.runs.directory import RunDirectory
from nmt.training.gradients import EagerGradients, GraphedGradients, filled_up
from nmt.training.objective import Loss, TeacherForcing
from nmt.training.world import Machine
from nmt.translation.searching import SearchOptions
from tests.models import NO_DROPOUT, RECORDED, SOURCE, SPECIALS, TARGET, VARIANTS, model_config, random_batch
from tests.small_run import metrics, options, train
from tests.small_translator import ATTENTIONS as TRANSLATED
from tests.small_translator import LINES, TOKENIZERS, network, translator_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
GPU = torch.device("cuda")


@pytest.mark.parametrize("attention", ["none", "bahdanau", "luong"])
def test_a_training_step_in_bf16_starts_from_the_loss_of_the_cpu(attention: str, tmp_path: Path) -> None:
    losses = {}
    for device, precision in (("cpu", "fp32"), ("cuda", "bf16")):
        values = options(tmp_path, attention, NO_DROPOUT, updates=1)
        run = tmp_path / device
        said = train(Config.model_validate(values | {"device": device, "precision": precision, "output": str(run)}))
        assert not [line for line in said if "warning: kernels" in line]  # they have passed their trial
        [record] = metrics(run, "train")
        losses[device] = record["loss"]
        assert math.isfinite(record["gradient_norm"])
        assert {tensor.dtype for tensor in RunDirectory(run).weights("last").values()} == {torch.float32}
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=0.02)


def gradients_of(computed: EagerGradients | GraphedGradients) -> dict[str, Tensor]:
    eager = computed if isinstance(computed, EagerGradients) else computed.eager
    parameters = eager.model.named_parameters()
    return {name: each.grad.clone() for name, each in parameters if each.grad is not None and each.grad.any()}


@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-3), (torch.bfloat16, 0.5)])
@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith("hard")])
def test_kernels_give_the_plain_gradients(variant: str, precision: torch.dtype, tolerance: float) -> None:
    """Those of the plain ones in fp32. Hard attention may read another position in bf16."""
    torch.manual_seed(1)
    model = build_model(model_config(variant), SOURCE, TARGET).to(GPU).eval()
    found = []
    for machine in (Machine(GPU, torch.float32, "plain"), Machine(GPU, precision)):
        compute = EagerGradients(model, TeacherForcing(), machine)
        compute.reset()
        nll = compute(random_batch([5, 2, 1], [5, 2, 1]), 11)
        found.append({"nll": nll} | gradients_of(compute))
    norm = torch.cat([each.flatten() for each in found[0].values()]).norm()
    for name, exact in found[0].items():
        assert (found[1][name] - exact).norm() <= tolerance * exact.norm().clamp_min(1e-4 * norm), name


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("attention", TRANSLATED, ids=lambda attention: str(attention["type"]))
def test_search_finds_what_it_finds_on_the_cpu(attention: dict[str, object], beam_size: int) -> None:
    """In double precision, so that rounding decides nothing."""
    search = SearchOptions(beam_size=beam_size, batch_tokens=400, n_best=beam_size, attention=True)
    found = []
    for device in (torch.device("cpu"), GPU):
        model = network(attention).double().to(device)
        found.append(list(translator_of(model, TOKENIZERS, torch.double, device=str(device)).stream(LINES, search)))
    for expected, translation in zip(*found, strict=True):
        assert [each.text for each in translation.hypotheses] == [each.text for each in expected.hypotheses]
        for one, other in zip(translation.hypotheses, expected.hypotheses, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-5)
            torch.testing.assert_close(one.attention, other.attention, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", sorted(RECORDED))
@pytest.mark.parametrize(
    ("precision", "tolerance", "smoothing"), [(torch.float32, 1e-4, 0.0), (torch.bfloat16, 0.03, 0.1)]
)
@pytest.mark.parametrize("most", [1, 128])
def test_graphs_give_the_eager_gradients(
    variant: str, precision: torch.dtype, tolerance: float, smoothing: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two shapes in turns, so that each is computed, recorded and replayed, and two batches an update; in between, the
    model is looked at. All losses are kept, with autograd's nodes: those of a real training die late, by chance."""
    monkeypatch.setattr("nmt.training.gradients.MOST_GRAPHS", most)
    torch.manual_seed(1)
    model = build_model(model_config(variant), SOURCE, TARGET).to(GPU)
    eager = EagerGradients(deepcopy(model), TeacherForcing(smoothing), Machine(GPU, precision))
    graphs = GraphedGradients(EagerGradients(model, TeacherForcing(smoothing), Machine(GPU, precision)), SPECIALS)
    kept, loss = list[Loss](), graphs.eager.loss

    def keep(batch: Batch, updates_before: int = 0) -> Loss:
        kept.append(loss(batch, updates_before))
        return kept[-1]

    monkeypatch.setattr(graphs.eager, "loss", keep)
    for _ in range(4):
        lengths = (torch.randint(1, longest, (6,)).tolist() for longest in (7, 15))
        one, other = (filled_up(random_batch(each, each), SPECIALS) for each in lengths)
        found = []
        for compute in (eager, graphs):
            compute.reset()
            nll = compute(compute.prepared(one), 20) + compute(compute.prepared(other), 20)
            found.append((nll, gradients_of(compute)))
        torch.testing.assert_close(found[1], found[0], rtol=tolerance, atol=tolerance / 10)
        with torch.inference_mode():
            model(one.source.to(GPU), one.source_lengths, one.target_input.to(GPU))
    assert len(graphs.recordings) == min(2, most)


def test_training_resumes_where_graphs_left_off(tmp_path: Path) -> None:
    """Losses of two and two updates are those of four; the order of additions is not, so not to the last bit. There is
    no dropout: a recorded graph draws other numbers than the eager pass that comes first after resuming."""
    losses = []
    for stops in ([4], [2, 4]):
        run = tmp_path / str(len(stops))
        for updates in stops:
            values = options(tmp_path, "bahdanau", NO_DROPOUT, updates=updates, log_every=1)
            values |= {"device": "cuda", "output": str(run)}
            said = train(Config.model_validate(values), resume=updates > stops[0])
            assert not [line for line in said if "warning: kernels" in line]
        losses.append([record["loss"] for record in metrics(run, "train")])
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], rel=1e-3)
