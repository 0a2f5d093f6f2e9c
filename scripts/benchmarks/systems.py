"""The systems whose training is measured, at the reference sizes.

Embeddings 256, hidden 512, readout 512, alignment units 512, vocabularies 8,000; a Transformer is 256 wide, with 4 + 4
layers, 8 heads and 1,024 inner units.
"""

from typing import Any

from nmt.config import schema

VOCABULARY = 8000

BAHDANAU: dict[str, Any] = {"type": "bahdanau", "score": {"hidden": 512}}
LUONG: dict[str, Any] = {"type": "luong", "input_feeding": False}
USUAL: dict[str, dict[str, Any]] = {
    "none": {"attention": {"type": "none"}},
    "bahdanau": {"attention": BAHDANAU},
    "luong": {"attention": LUONG},
    "luong-feeding": {"attention": LUONG | {"input_feeding": True}},
    "transformer": {
        "attention": {"type": "transformer"},
        "encoder": {"type": "transformer", "layers": 4},
        "decoder": {"type": "transformer", "layers": 4},
    },
}
"""Measured by default."""
OTHERS: dict[str, dict[str, Any]] = {
    "lstm": {"encoder": {"type": "lstm"}, "decoder": {"type": "lstm"}, "attention": BAHDANAU},
    "stacked": {
        "encoder": {"layers": 3, "residual": True},
        "decoder": {"layers": 3, "residual": True},
        "attention": BAHDANAU,
    },
    "gru-before": {"encoder": {"reset": "before"}, "decoder": {"reset": "before"}, "attention": LUONG},
    "ssru": {"encoder": {"type": "ssru"}, "decoder": {"type": "ssru"}, "attention": LUONG},
}
VARIANTS = USUAL | OTHERS


def reference(variant: str) -> schema.Model:
    """The network of the reference shape."""
    parts = dict(VARIANTS[variant])
    if variant != "transformer":
        for part, sizes in {"encoder": {"hidden": 512}, "decoder": {"hidden": 512, "readout": 512}}.items():
            parts[part] = sizes | parts.get(part, {})
    dropout = {"embedding": 0.2, "annotation": 0.2, "readout": 0.2}
    return schema.Model.model_validate({"dropout": dropout, "embeddings": {"size": 256}, **parts})
