"""Which precision translates fastest with a network on this machine, by measurement."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from nmt.config.schema import Kernels
from nmt.device import MARGIN, brief_seconds, multiplies_bf16
from nmt.fast.inference import search, twin_of
from nmt.fast.kernels.int8 import multiplies_int8
from nmt.model import Seq2Seq
from nmt.search import Searchable

SENTENCES, PIECES = 16, 16
"""Of the batch that is translated for the measurement: as many steps as pieces."""


def native(device: torch.device) -> list[torch.dtype]:
    """List the precisions whose products the hardware has: fp32 first, then perhaps bf16 and int8."""
    found = [torch.float32]
    if multiplies_bf16(device):
        found.append(torch.bfloat16)
    if device.type == "cpu" and multiplies_int8():
        found.append(torch.int8)
    return found


def candidates(model: Seq2Seq, kernels: Kernels, device: torch.device) -> list[torch.dtype]:
    """List the native precisions in which a network can translate; int8 needs a fast twin."""
    quantizes = kernels == "auto" and twin_of(model.decoder)
    return [each for each in native(device) if quantizes or each != torch.int8]


def rates(
    model: Seq2Seq, precisions: Iterable[torch.dtype], kernels: Kernels, *, beam_size: int
) -> dict[torch.dtype, float]:
    """Measure the target pieces a second of the network in each precision, on one thread of a CPU.

    A batch of random pieces is encoded and decoded without the ranking of hypotheses, which costs the same in all
    precisions. Takes about half a second for each. The global random generators are left alone.
    """
    device = model.output.weight.device
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(model.source_embedding.num_embeddings, (SENTENCES, PIECES), generator=generator).to(device)
    lengths = torch.full((SENTENCES,), PIECES)
    rows = torch.arange(SENTENCES * beam_size, device=device)
    measured = {}
    with _one_thread(device), torch.inference_mode():
        for precision in precisions:
            network = search(model, precision, kernels, beam_size=beam_size)
            task = partial(_translate, network, source, lengths, rows, beam_size)
            measured[precision] = SENTENCES * PIECES / brief_seconds(task, device)
    return measured


def _translate(
    network: Searchable[Any], source: torch.Tensor, lengths: torch.Tensor, rows: torch.Tensor, beam_size: int
) -> None:
    """Encode a batch and take as many steps as it has pieces, each with a reordering of the rows."""
    previous = torch.zeros_like(rows)
    with network.searching():
        state = network.start(network.encode(source, lengths)).expand(beam_size)
        for _ in range(PIECES):
            _, state, _ = network.step(previous, state)
            state = state.select(rows)


@contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    """Compute as batches of a translation do on a CPU, each in a thread of its own."""
    threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def fastest(measured: Mapping[torch.dtype, float]) -> torch.dtype:
    """Return the precision with the highest rate; fp32 unless another one is clearly faster."""
    best = max(measured, key=lambda precision: measured[precision])
    return best if measured[best] > MARGIN * measured[torch.float32] else torch.float32
