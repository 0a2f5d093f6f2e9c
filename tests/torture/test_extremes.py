"""Configurations of extreme values."""

import random
from pathlib import Path

import pytest

from nmt.cli.train import main as nmt_train
from nmt.config import load_config
from nmt.config.schema import LARGEST_VOCABULARY
from tests.torture.training import Training

pytestmark = pytest.mark.slow(seconds=10)
EXTREMES = {
    "seed": ["0", str(1 << 31), str(10**18 - 1)],
    "precision": ["bf16", "auto"],
    "data.train.limit": ["1", "2"],
    "data.validation.limit": ["1"],
    "data.test": ["null"],
    "data.filter.max_pieces": ["1", str(10**18 - 1)],
    "data.filter.max_words": ["1"],
    "data.filter.max_ratio": ["1.0000001", "1e30"],
    "tokenizer": [
        f"{{type: {kind}, vocabulary: {size}, shared: {shared}}}"
        for kind in ("word", "character", "bpe", "unigram")
        for size in (5, 20, LARGEST_VOCABULARY)
        for shared in ("true", "false")
    ],
    "model.attention": [
        "{type: none}",
        "{type: bahdanau, score: {hidden: 1}}",
        *(
            f"{{type: luong, score: {score}, input_feeding: {fed}}}"
            for score in ("general", "concat")
            for fed in ("true", "false")
        ),
    ],
    "model.embeddings.size": ["1", "17"],
    "model.encoder.hidden": ["1", "17"],
    "model.encoder.layers": ["2", "64"],
    "model.decoder.hidden": ["1", "17", "32"],
    "model.decoder.readout": ["1", "17", "16"],
    **{f"model.dropout.{place}": ["0", "0.9999999999"] for place in ("embedding", "annotation", "readout")},
    "model.initialization": ["{type: uniform, range: 100}", "{type: uniform, range: 1e-300}", "{type: bahdanau}"],
    "training.updates": ["1", str(10**18 - 1)],
    "training.batch_tokens": ["1", str(1 << 24)],
    "training.optimizer": [
        "{type: adam, learning_rate: 1e30}",
        "{type: adam, learning_rate: 1e-300, betas: [0, 0], epsilon: 1e-300}",
        "{type: adamw, weight_decay: 1e30}",
        "{type: adadelta, rho: 0, epsilon: 1e30}",
        "{type: sgd, learning_rate: 1e30, momentum: 0.999}",
    ],
    "training.schedule": [
        f"{{type: constant, warmup: {10**18 - 1}}}",
        f"{{type: inverse_square_root, warmup: {10**18 - 1}}}",
        "{type: plateau, factor: 1e-300, patience: 0, floor: 1}",
    ],
    "training.label_smoothing": ["0.9999999"],
    "training.scheduled_sampling": ["{k: 1, output: argmax}", "{k: 1e30}"],
    "training.clip": ["null", "1e-300", "1e30"],
    "training.validation.patience": ["1", str(10**18 - 1)],
    "training.validation.beam_size": ["7", "1000"],
    "training.validation.samples": ["1", str(10**18 - 1)],
    "training.average": ["2", str(10**18 - 1)],
    "decoding.beam_size": ["1", "1000"],
    "decoding.length_penalty": ["0", "10"],
    "decoding.batch_tokens": ["1", str(1 << 24)],
    "decoding.max_source": ["1", str(1 << 24)],
    "decoding.max_length_factor": ["0", "100"],
    **{f"training.{key}": [str(10**18 - 1)] for key in ("validation.every", "save_every", "log_every")},
    "evaluation.bins": ["[1]", f"[1, {10**18 - 1}]"],
    "evaluation.bootstrap": ["1", "10000"],
}
"""Values that are allowed, each by itself."""


def test_each_value_is_allowed(corpus: Path) -> None:
    for key, values in EXTREMES.items():
        for value in values:
            load_config(corpus / "config.yaml", [f"{key}={value}"])


def test_extreme_values(training: Training, generator: random.Random, capfd: pytest.CaptureFixture[str]) -> None:
    """Options at the ends of their ranges: a dry run succeeds, or an error explains what is wrong."""
    for _ in range(10):
        keys = generator.sample(sorted(EXTREMES), generator.randint(1, 6))
        changes = [word for key in keys for word in ("--set", f"{key}={generator.choice(EXTREMES[key])}")]
        code = nmt_train([*training.arguments(), "--dry-run", *changes])
        err = capfd.readouterr().err
        assert code == 0 or (code == 2 and "nmt-train: error: " in err), f"{changes}: {err}"
