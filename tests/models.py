"""Small networks and batches that the tests share."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.config import schema
from nmt.data.batching import Batch, Specials, collate
from nmt.model import Network, Seq2Seq, build_model
from nmt.model.attention import ScoredAttention
from nmt.search.interface import Searchable

SOURCE, TARGET = 11, 13
"""Vocabulary sizes."""
NO_DROPOUT = {"embedding": 0.0, "annotation": 0.0, "readout": 0.0}

ATTENTIONS: dict[str, dict[str, Any]] = {
    "none": {"type": "none"},
    "bahdanau": {"type": "bahdanau", "score": {"hidden": 7}},
    "luong dot": {"type": "luong", "score": "dot"},
    "luong general": {"type": "luong", "score": "general"},
    "luong concat": {"type": "luong", "score": {"type": "concat", "hidden": 6}},
    "luong general without feeding": {"type": "luong", "score": "general", "input_feeding": False},
}

BAHDANAU = ATTENTIONS["bahdanau"]
INITIAL: dict[str, Any] = {"type": "none", "context": "initial_state"}
LUONG: dict[str, Any] = {"type": "luong"}
AFTER: dict[str, Any] = {"type": "luong", "input_feeding": False}
LSTM: dict[str, Any] = {"type": "lstm"}
NORM: dict[str, Any] = {"layer_norm": True}


def recurrent(encoder: dict[str, Any], decoder: dict[str, Any], attention: dict[str, Any]) -> dict[str, Any]:
    """Sections of a recurrent network."""
    decoder = {"hidden": 8, "readout": 5} | decoder
    return {"encoder": {"hidden": 4} | encoder, "decoder": decoder, "attention": attention}


RECURRENT: dict[str, dict[str, Any]] = {
    "bahdanau location": {"attention": {"type": "bahdanau", "score": {"type": "location", "positions": 9}}},
    "bahdanau, tanh": recurrent({}, {"readout_activation": "tanh"}, BAHDANAU),
    "local-m": {"attention": LUONG | {"scope": {"type": "local_m", "window": 1}}},
    "local-p": {"attention": LUONG | {"scope": {"type": "local_p", "window": 2}}},
    "local-p before": {"attention": BAHDANAU | {"scope": {"type": "local_p", "window": 2, "normalize": False}}},
    "heads": {"attention": BAHDANAU | {"heads": 2}},
    "heads of location": {"attention": AFTER | {"heads": 2, "score": "location"}},
    "heads after, local": {
        "attention": AFTER | {"heads": 4, "score": "dot", "scope": {"type": "local_p", "window": 3}}
    },
    "coverage": {"attention": BAHDANAU | {"score": "coverage"}},
    "coverage after": {"attention": AFTER | {"score": "coverage"}},
    "initial state only": recurrent({"directions": "forward"}, {}, INITIAL),
    "sutskever": recurrent(LSTM | {"layers": 2, "directions": "forward"}, LSTM | {"layers": 2}, INITIAL),
    "lstm": recurrent(LSTM, LSTM, BAHDANAU),
    "lstm luong": recurrent(LSTM, LSTM, LUONG),
    "gru, reset before": recurrent({"reset": "before"}, {"reset": "before"}, BAHDANAU),
    "ssru": recurrent({"type": "ssru"}, {"type": "ssru"}, AFTER),
    "ssru before": recurrent({"type": "ssru", "directions": "forward"}, {"type": "ssru"}, BAHDANAU),
    "deep": recurrent({"layers": 3, "residual": True}, {"layers": 3, "residual": True}, BAHDANAU),
    "deep luong": recurrent({"layers": 2}, {"layers": 2}, LUONG),
    "luong, maxout": recurrent({}, {"readout_activation": "maxout"}, LUONG),
    "deep luong, normalized": recurrent(NORM | {"layers": 2}, NORM | {"layers": 2}, LUONG),
    "deep lstm, normalized": recurrent(NORM | LSTM | {"layers": 2}, NORM | LSTM | {"layers": 3}, AFTER),
    "normalized ssru": recurrent(NORM | {"type": "ssru"}, NORM | {"type": "ssru", "layers": 2}, AFTER),
    "normalized, reset before": recurrent(NORM | {"reset": "before"}, NORM | {"reset": "before"}, BAHDANAU),
    "one direction": recurrent({"directions": "forward"}, {}, BAHDANAU),
    "hard": {"attention": AFTER | {"hard": {"type": "marginal"}}},
    "hard, deep, local": recurrent(
        {}, {"layers": 2}, AFTER | {"hard": {"type": "marginal"}, "scope": {"type": "local_m", "window": 1}}
    ),
    "hard by gumbel": {"attention": BAHDANAU | {"hard": {"type": "gumbel"}}},
    "hard by reinforce": {"attention": LUONG | {"hard": {"type": "reinforce"}}},
    "hard by reinforce, unfed": {"attention": AFTER | {"hard": {"type": "reinforce"}}},
}
"""Recurrent networks beyond those of the textbooks."""


def _transformer(**options: Any) -> dict[str, Any]:
    part = {"type": "transformer", "hidden": 8, "layers": 3, "heads": 2, "feedforward": 6, "dropout": 0.0} | options
    sizes: dict[str, Any] = {"embeddings": {"size": 8}, "encoder": part, "decoder": part}
    return sizes | {"attention": {"type": "transformer"}}


TRANSFORMERS: dict[str, dict[str, Any]] = {
    "transformer": _transformer(),
    "transformer post-norm": _transformer(norm="post"),
    "transformer of one layer": _transformer(layers=1),
    "transformer relative": _transformer(positions={"type": "relative", "distance": 2}),
    "recurrent encoder, transformer decoder": _transformer() | {"encoder": {"hidden": 3}},
    "transformer encoder, recurrent decoder": _transformer()
    | {"attention": ATTENTIONS["bahdanau"], "decoder": {"hidden": 7, "readout": 5}},
    "transformer encoder, no attention": _transformer() | {"attention": {"type": "none"}, "decoder": {"hidden": 7}},
}

NAMED: dict[str, dict[str, Any]] = {name: {"attention": section} for name, section in ATTENTIONS.items()}
NAMED |= RECURRENT | TRANSFORMERS


def _untried() -> dict[str, dict[str, Any]]:
    """Each registered part that no variant above has, with its defaults."""
    models = [schema.Model.model_validate({"attention": "none"} | sections) for sections in NAMED.values()]
    parts = (each for model in models for each in (model.encoder, model.decoder, model.attention))
    tried = {getattr(part, "score", part).type for part in parts}

    def tiny(registry: schema.Registry, hidden: int) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, kind in registry.options.items():
            yield name, {"type": name} | ({"hidden": hidden} if "hidden" in kind.model_fields else {})

    every = {
        **{name: {"attention": LUONG | {"score": name}} for name in schema.SCORES.options},
        **{name: {"attention": BAHDANAU, "encoder": encoder} for name, encoder in tiny(schema.ENCODERS, 4)},
        **{name: {"attention": BAHDANAU, "decoder": decoder} for name, decoder in tiny(schema.DECODERS, 8)},
    }
    return {f"registered {name}": sections for name, sections in every.items() if name not in tried}


REGISTERED = _untried()
VARIANTS = NAMED | REGISTERED
"""Sections of ``model``, by the name of a system: every test of all networks runs on each of these."""
RECORDED = set(VARIANTS) - {"hard", "hard, deep, local"}
"""Systems whose training on a GPU is recorded as CUDA graphs; hard attention here is the exact marginal."""


def model_config(variant: str | dict[str, Any] = "bahdanau", **sections: Any) -> schema.Model:
    """A model section of tiny sizes: a variant of the table above, or with an attention of one's own."""
    chosen = VARIANTS[variant] if isinstance(variant, str) else {"attention": variant}
    sizes: dict[str, Any] = {
        "embeddings": {"size": 5},
        "encoder": {"hidden": 4},
        "decoder": {"hidden": 8, "readout": 5},
        "dropout": NO_DROPOUT,
    }
    return schema.Model.model_validate(sizes | chosen | sections)


def small_model(variant: str | dict[str, Any] = "bahdanau", seed: int = 1, **sections: Any) -> Seq2Seq:
    """A tiny network with random weights, biases too, in double precision and evaluation mode."""
    torch.manual_seed(seed)
    model = build_model(model_config(variant, **sections), SOURCE, TARGET)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    return model.double().eval()


SPECIALS = Specials(source_pad=0, source_eos=2, target_pad=0, target_bos=1, target_eos=2)


def random_batch(sources: Sequence[int], targets: Sequence[int]) -> Batch:
    """Pairs of random tokens, by the lengths of their sides."""
    generator = torch.Generator().manual_seed(1)
    read = [torch.randint(3, SOURCE, (length,), generator=generator).numpy() for length in sources]
    written = [torch.randint(3, TARGET, (length,), generator=generator).numpy() for length in targets]
    return collate(read, written, SPECIALS)


def score(kind: str, state: int = 4, annotation: int = 4, **options: Any) -> ScoredAttention:
    """An attention over the whole source by one of the scores."""
    section = schema.SCORES.options[kind].model_validate({"type": kind, **options})
    made: ScoredAttention = schema.SCORES.build(section, state, annotation)
    return made.double()


def forward(network: Network, source: Tensor, lengths: Tensor, target_input: Tensor) -> tuple[Tensor, Tensor | None]:
    """Teacher forcing by a network or its fast twin: logits (B, T, V), attention (B, T, S) or None."""
    readouts, weights = network.unroll(target_input, network.encode(source, lengths))
    return network.output(readouts), weights


def steps(
    searched: Searchable[Any], beam_size: int = 2, source: int = SOURCE, target: int = TARGET
) -> list[tuple[Tensor, Tensor | None]]:
    """Log-probabilities and attention at each of four steps with two hypotheses a sentence; at the third step the
    middle sentence is left out and the others' rows swapped. ``source`` and ``target`` are the vocabulary sizes."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(3, source, (3, 5), generator=generator)
    state = searched.start(searched.encode(tokens, torch.tensor([1, 5, 2])), beam_size).expand(2)
    seen = []
    for step, rows in enumerate((6, 6, 4, 4)):
        if step == 2:
            state = state.select(torch.tensor([1, 0, 5, 4]))
        previous = torch.randint(target, (rows,), generator=generator)
        log_probs, state, weights = searched.step(previous, state)
        seen.append((log_probs, weights))
    return seen
