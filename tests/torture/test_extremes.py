"""Configurations of extreme values; hostile and very large text."""

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nmt.cli.train import main as nmt_train
from nmt.config import load_config
from nmt.config.schema import LARGEST_VOCABULARY
from tests.torture.training import Training, start

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
        "{type: plateau, factor: 1e-300, patience: 0}",
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


# --- text -------------------------------------------------------------------------------------------------------------

SECONDS, MEGABYTES = 120.0, 700.0
"""Core time and memory, PyTorch included, that large text may take."""


@pytest.mark.parametrize(
    ("content", "lines"), [(b"oak elm " * (10 << 17) + b"\n", 1), (b"\n" * 10**6, 10**6)], ids=["10 MB", "empty lines"]
)
def test_large_text(corpus: Path, tmp_path: Path, content: bytes, lines: int) -> None:
    """A line of 10 MB, and a million empty ones: as many lines come out, in bounded time and memory."""
    (tmp_path / "source").write_bytes(content)
    files = ("--input", "source", "--output", "out", "--alignments", "links")
    with (tmp_path / "err").open("w") as err:
        arguments = ["--model", str(corpus / "undisturbed"), *files]
        process = start("nmt-translate", *arguments, stdout=err, stderr=err, cwd=tmp_path)
        peak = 0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            # read while the process runs: at its end, the system reports a peak that includes the parent process
            with suppress(OSError, IndexError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = int(status.partition("VmHWM:")[2].split()[0])
            time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    assert process.returncode == 0, (tmp_path / "err").read_text("utf-8")
    assert all((tmp_path / name).read_bytes().count(b"\n") == lines for name in ("out", "links"))
    assert ended[2].ru_utime + ended[2].ru_stime < SECONDS and peak / 1024 < MEGABYTES
