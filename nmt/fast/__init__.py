"""The same mathematics made fast: each part of a network is looked up by its type and replaced by its fast twin.

A part whose type is in no table runs as it is. No other room knows which twins there are.
"""

from typing import Any

import torch

from nmt.config.schema import Kernels
from nmt.errors import ConfigError
from nmt.fast.graphs import repeatable
from nmt.fast.inference import PlainSearch, fast_search
from nmt.fast.precision import candidates, fastest, rates
from nmt.fast.teacher_forcing import FastTraining
from nmt.model import Network, Seq2Seq
from nmt.search import Searchable

__all__ = ["candidates", "fastest", "rates", "records_graphs", "refuse_precision", "search", "training"]


def training(model: Seq2Seq, kernels: Kernels = "auto", *, attention_gradients: bool = False) -> Network:
    """Return the network for teacher forcing: the same parameters and, up to rounding, the same numbers.

    With ``attention_gradients`` a loss may read the attention weights: no twin is taken that gives them no gradient.
    """
    return FastTraining(model, attention_gradients=attention_gradients) if kernels == "auto" else model


def search(model: Seq2Seq, precision: torch.dtype, kernels: Kernels = "auto", *, beam_size: int = 1) -> Searchable[Any]:
    """Return what search asks of the network, for as long as its weights stay as they are.

    Matrix products are computed in ``precision``: fp32, bf16, float64, or int8, which plain kernels do not have.
    """
    refuse_precision(precision, kernels)
    return fast_search(model, precision, ahead=beam_size > 1) if kernels == "auto" else PlainSearch(model, precision)


def records_graphs(model: Seq2Seq, kernels: Kernels, device: torch.device) -> bool:
    """Whether training replays its steps as CUDA graphs.

    A part without a twin, or the objective of a hard attention, may synchronize and rules that out.
    """
    return kernels == "auto" and device.type == "cuda" and repeatable(model)


def refuse_precision(precision: torch.dtype, kernels: Kernels) -> None:
    """Raise ConfigError for a precision that the kernels do not have."""
    if precision == torch.int8 and kernels == "plain":
        raise ConfigError("precision: int8 needs kernels: auto, and the run has kernels: plain; use fp32 or bf16")
