"""Small networks and batches that the tests share."""

from typing import Any

import torch
from torch import Tensor

from nmt.config import schema
from nmt.model import Network, Seq2Seq, build_model

SOURCE, TARGET = 11, 13
"""Vocabulary sizes."""

ATTENTIONS: dict[str, dict[str, Any]] = {
    "none": {"type": "none"},
    "bahdanau": {"type": "bahdanau", "hidden": 7},
    "luong dot": {"type": "luong", "score": "dot"},
    "luong general": {"type": "luong", "score": "general"},
    "luong concat": {"type": "luong", "score": "concat", "hidden": 6},
    "luong general without feeding": {"type": "luong", "score": "general", "input_feeding": False},
}

TRANSFORMER: dict[str, Any] = {
    "type": "transformer",
    "hidden": 8,
    "layers": 3,
    "heads": 2,
    "feedforward": 6,
    "dropout": 0.0,
}


def _transformer(attention: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    part = TRANSFORMER | options
    return {
        "attention": {"type": "transformer"} | (attention or {}),
        "embeddings": {"size": 8},
        "encoder": part,
        "decoder": part,
    }


TRANSFORMERS: dict[str, dict[str, Any]] = {
    "transformer": _transformer(),
    "transformer post-norm": _transformer({"layer": 3, "head": 2}, norm="post", layers=3),
    "transformer of one layer": _transformer(layers=1),
    "transformer learned": _transformer(positions={"type": "learned", "longest": 3}),
    "transformer relative": _transformer(positions={"type": "relative", "distance": 2}),
    "recurrent encoder, transformer decoder": _transformer() | {"encoder": {"hidden": 3}},
    "transformer encoder, recurrent decoder": _transformer()
    | {"attention": ATTENTIONS["bahdanau"], "decoder": {"hidden": 7, "readout": 5}},
    "transformer encoder, no attention": _transformer() | {"attention": {"type": "none"}, "decoder": {"hidden": 7}},
}

VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"attention": section} for name, section in ATTENTIONS.items()},
    **TRANSFORMERS,
}
"""Sections of ``model``, by the name of a system: every test of all networks runs on each of these."""


def model_config(variant: str | dict[str, Any] = "bahdanau", **sections: Any) -> schema.Model:
    """A model section of tiny sizes: a variant of the table above, or with an attention of one's own."""
    chosen = VARIANTS[variant] if isinstance(variant, str) else {"attention": variant}
    sizes: dict[str, Any] = {
        "embeddings": {"size": 5},
        "encoder": {"hidden": 4},
        "decoder": {"hidden": 8, "readout": 5},
        "dropout": {"embedding": 0.0, "annotation": 0.0, "readout": 0.0},
    }
    return schema.Model.model_validate(sizes | chosen | sections)


def small_model(variant: str | dict[str, Any] = "bahdanau", seed: int = 1, **sections: Any) -> Seq2Seq:
    """A tiny network with random weights, biases too, in double precision and evaluation mode."""
    torch.manual_seed(seed)
    model = build_model(model_config(variant, **sections), SOURCE, TARGET)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return model.double().eval()


def forward(network: Network, source: Tensor, lengths: Tensor, target_input: Tensor) -> tuple[Tensor, Tensor | None]:
    """Teacher forcing by a network or its fast twin: logits (B, T, V), attention (B, T, S) or None."""
    readouts, weights = network.unroll(target_input, network.encode(source, lengths))
    return network.output(readouts), weights
