"""Fuzzed configurations, and configurations of extreme values."""

import random

from nmt.config import load_config
from nmt.config.schema import LARGEST_VOCABULARY
from nmt.errors import ConfigError
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder


def fuzzed(folder: TrialFolder, times: int) -> Result:
    """Change some of the text of a valid configuration: it loads, or a ConfigError says what is wrong."""
    tally, generator = Tally("fuzzed configuration"), random.Random(9)
    text = (folder.undisturbed() / "config.yaml").read_text("utf-8")  # with all options
    path = folder.path / "fuzzed.yaml"
    for _ in range(times):
        path.write_bytes(_fuzzed(text, generator))
        try:
            load_config(path)
        except ConfigError:
            tally.add([])
        except Exception as error:
            tally.add([f"{type(error).__name__}: {error}"[:300]])
        else:
            tally.add([])
    return tally.result()


def extreme(folder: TrialFolder, times: int) -> Result:
    """Set options to the ends of their ranges: a dry run succeeds, or an error says what is wrong."""
    tally, generator = Tally("configuration of extreme values, dry run"), random.Random(15)
    passed = 0
    for number in range(times):
        keys = generator.sample(sorted(EXTREMES), generator.randint(1, 6))
        options = [f"{key}={generator.choice(EXTREMES[key])}" for key in keys]
        try:
            code, err = folder.dry_run(f"extreme-{number}", *(word for option in options for word in ("--set", option)))
        except Exception as error:
            tally.add([f"{' '.join(options)}: {type(error).__name__}: {error}"[:500]])
        else:
            tally.add([] if code in (0, 2) and "Traceback" not in err else [f"{' '.join(options)}: {err[-300:]}"])
            passed += code == 0
    return tally.result(f"{passed} of them passed")


EXTREMES = {
    "device": ["auto", "cpu:0"],
    "seed": ["0", str(1 << 31), str(10**18 - 1)],
    "kernels": ["plain"],
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
    "tokenizer.character_coverage": ["0.98"],
    "tokenizer.normalization": ["identity"],
    "model.attention": [
        "{type: none}",
        "{type: bahdanau, score: {hidden: 1}}",
        *(
            f"{{type: luong, score: {score}, input_feeding: {fed}}}"
            for score in ("dot", "general", "concat")
            for fed in ("true", "false")
        ),
    ],
    "model.embeddings.size": ["1", "17"],
    "model.embeddings.tie": ["target", "all"],
    "model.encoder.hidden": ["1", "17"],
    "model.encoder.layers": ["2", "64"],
    "model.decoder.hidden": ["1", "17", "32"],
    "model.decoder.readout": ["1", "17", "16"],
    "model.dropout.embedding": ["0", "0.9999999999"],
    "model.dropout.annotation": ["0", "0.9999999999"],
    "model.dropout.readout": ["0", "0.9999999999"],
    "model.initialization": ["{type: uniform, range: 100}", "{type: uniform, range: 1e-300}", "{type: bahdanau}"],
    "training.updates": ["1", str(10**18 - 1)],
    "training.batch_tokens": ["1", str(1 << 24)],
    "training.accumulation": ["7"],
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
    "training.scheduled_sampling": [
        "{type: linear, offset: 1e-300, output: argmax}",
        "{type: linear, offset: 1e30, slope: 1e30}",
        "{type: exponential, base: 1e-300}",
        "{type: inverse_sigmoid, k: 1e30}",
    ],
    "training.guided_attention": ["{type: diagonal, weight: 1e30, deviation: 0.01}"],
    "training.clip": ["null", "1e-300", "1e30"],
    "training.validation.every": [str(10**18 - 1)],
    "training.validation.metric": ["loss"],
    "training.validation.patience": ["1", str(10**18 - 1)],
    "training.validation.beam_size": ["7", "1000"],
    "training.validation.samples": ["1", str(10**18 - 1)],
    "training.average": ["2", str(10**18 - 1)],
    "training.save_every": [str(10**18 - 1)],
    "training.log_every": [str(10**18 - 1)],
    "decoding.beam_size": ["1", "1000"],
    "decoding.length_penalty": ["0", "10"],
    "decoding.batch_tokens": ["1", str(1 << 24)],
    "decoding.max_source": ["1", str(1 << 24)],
    "decoding.max_length_factor": ["0", "100"],
    "evaluation.bins": ["[1]", f"[1, {10**18 - 1}]"],
    "evaluation.bootstrap": ["1", "10000"],
}
"""Values that are allowed, each by itself."""


def _fuzzed(text: str, generator: random.Random) -> bytes:
    """Drop, repeat or indent some lines; replace some values, characters and bytes."""
    lines = text.splitlines()
    for _ in range(generator.randint(1, 6)):
        place = generator.randrange(len(lines))
        kind = generator.randrange(5)
        if kind == 0 and len(lines) > 1:
            del lines[place]
        elif kind == 1:
            lines.insert(place, generator.choice(lines))
        elif kind == 2:
            lines[place] = " " * generator.randrange(8) + lines[place].lstrip()
        elif kind == 3:
            lines[place] = lines[place].partition(":")[0] + ": " + generator.choice(VALUES)
        else:
            lines[place] = lines[place].replace(
                generator.choice("abcdefgh:"), generator.choice(["", "\t", "\x00", "é", "'", "{"])
            )
    data = bytearray("\n".join(lines).encode())
    if generator.random() < 0.3 and data:
        data[generator.randrange(len(data))] = generator.randrange(256)
    return bytes(data)


VALUES = [
    "-1",
    "0",
    "1e400",
    ".nan",
    "null",
    "[]",
    "{}",
    "9" * 40,
    "true",
    "~",
    '"',
    "*a",
    "&a b",
    "!!int x",
    "- x",
    "\x07",
    "''",
    "0.5",
    "a: b: c",
]
