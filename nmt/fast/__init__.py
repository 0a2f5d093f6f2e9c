"""Fast twins of a network's parts, looked up by the type of each part.

A part whose type is in no table runs as it is. No other package knows which twins there are.
"""

import torch

from nmt.config.schema import Kernels
from nmt.fast.search_network import refuse_precision, search
from nmt.fast.teacher_forcing import FastTraining, repeatable
from nmt.model import Network, Seq2Seq

__all__ = ["records_graphs", "refuse_precision", "search", "training"]


def training(model: Seq2Seq, kernels: Kernels = "auto", *, attention_gradients: bool = False) -> Network:
    """Return the network for teacher forcing: the same parameters and, up to rounding, the same numbers.

    With ``attention_gradients`` a loss may read the attention weights: no twin is taken that gives them no gradient.
    """
    return FastTraining(model, attention_gradients=attention_gradients) if kernels == "auto" else model


def records_graphs(model: Seq2Seq, kernels: Kernels, device: torch.device) -> bool:
    """Whether training replays its steps as CUDA graphs.

    A part without a twin, or the objective of a hard attention, may synchronize and rules that out.
    """
    return kernels == "auto" and device.type == "cuda" and repeatable(model)
