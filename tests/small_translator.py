"""A tiny tokenizer and tiny networks with random weights that the tests of translation share."""

import random
from pathlib import Path
from typing import Any

import torch

from nmt import fast
from nmt.config import Config
from nmt.config.schema import LearnedTokenizer, Model
from nmt.data.corpus import Pair
from nmt.data.tokenizer import Tokenizers, learn
from nmt.model import Seq2Seq, build_model
from nmt.runs.directory import RunDirectory
from nmt.translation.translator import Translator
from tests.models import NO_DROPOUT, model_config

RANDOM = random.Random(1)
WORDS = ["".join(RANDOM.choices("abcdefghij", k=RANDOM.randint(1, 6))) for _ in range(80)]
LINES = [" ".join(RANDOM.choices(WORDS, k=RANDOM.randint(1, 8))) for _ in range(40)]
PAIRS = [Pair(line, line[::-1]) for line in LINES]
TOKENIZERS = learn(LearnedTokenizer(type="bpe", vocabulary=90), PAIRS)
SHARED = Tokenizers(TOKENIZERS.source, TOKENIZERS.source)
BY_WORD = learn(LearnedTokenizer(type="word"), PAIRS)
ATTENTIONS: list[dict[str, Any]] = [
    {"type": "bahdanau", "score": {"hidden": 12}},
    {"type": "luong"},
    {"type": "none"},
    {"type": "transformer"},
]
TRANSFORMER = {"type": "transformer", "hidden": 12, "layers": 2, "heads": 3, "feedforward": 16, "dropout": 0.5}


def model_section(attention: dict[str, Any]) -> Model:
    """Tiny sizes, much dropout."""
    part = TRANSFORMER if attention["type"] == "transformer" else {"hidden": 12}
    dropout = dict.fromkeys(NO_DROPOUT, 0.5)
    return model_config(attention, embeddings={"size": 12}, encoder=part, decoder=part, dropout=dropout)


def network(attention: dict[str, Any] = ATTENTIONS[0], tokenizers: Tokenizers = TOKENIZERS) -> Seq2Seq:
    """Random weights that make long and short translations, far from ties."""
    torch.manual_seed(7)
    model = build_model(model_section(attention), tokenizers.source.size, tokenizers.target.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.6, 0.6)
        model.output.weight *= 5
        model.output.bias[tokenizers.target.eos_id] += 2
    return model


def translator_of(
    model: Seq2Seq, tokenizers: Tokenizers = TOKENIZERS, precision: torch.dtype = torch.float32, device: str = "cpu"
) -> Translator:
    """A translator of the weights that a model has now."""
    return Translator(fast.search(model, precision), tokenizers, torch.device(device))


def save_run(
    path: Path, attention: dict[str, Any] = ATTENTIONS[0], tokenizers: Tokenizers = TOKENIZERS, **data: Any
) -> Path:
    """A run directory as nmt-train leaves it, with random weights."""
    files = {"source": "a", "target": "b"}
    config = Config.model_validate(
        {
            "data": {"source_language": "x", "target_language": "y", "train": files, "validation": files, **data},
            "tokenizer": {"type": "bpe", "vocabulary": 90, "shared": tokenizers.source is tokenizers.target},
            "model": model_section(attention).model_dump(),
            "training": {"updates": 1},
            "decoding": {"beam_size": 2, "max_source": 30},
        }
    )
    run = RunDirectory(path)
    run.create(config, tokenizers, {}, {})
    run.save("best", network(attention, tokenizers).state_dict())
    return path
