"""What the backward pass needs of the forward pass, counted in small batches."""

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from nmt.config import schema
from nmt.model import Seq2Seq, build_model

FEW, MORE = 1, 3
"""Sentences of the two batches that are counted; their difference leaves out what does not grow with the batch."""


def kept_bytes(config: schema.Model, vocabulary: int, source: int, target: int) -> float:
    """Bytes that autograd keeps in fp32, with plain kernels, for one more sentence of these numbers of pieces."""
    model = build_model(config, vocabulary, vocabulary).train()
    few, more = (_saved(model, sentences, source, target) for sentences in (FEW, MORE))
    return (more - few) / (MORE - FEW)


def _saved(model: Seq2Seq, sentences: int, source: int, target: int) -> int:
    """Bytes of all tensors that are saved for a backward pass, each storage once, without the parameters."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, Tensor] = {}  # holding the tensors: the address of a freed one would be used again

    def keep(tensor: Tensor) -> Tensor:
        found.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    words = torch.ones(sentences, source, dtype=torch.long), torch.ones(sentences, target, dtype=torch.long)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        memory = model.encode(words[0], torch.full((sentences,), source))
        readouts = model.unroll(words[1], memory)[0]
        model.loss(readouts, words[1], torch.ones_like(words[1], dtype=torch.bool), 0.0)
    return sum(each.untyped_storage().nbytes() for address, each in found.items() if address not in parameters)
