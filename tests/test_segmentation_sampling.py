"""Sampled segmentations: their distribution, and that each is a function of seed, epoch and pair alone."""

import io
import json
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import sentencepiece

from nmt.config import Config
from nmt.config.schema import BpeTokenizer, Sampling
from nmt.data.batching import Position, Specials, training_batches
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData, prepare
from nmt.data.learning import learn
from nmt.data.segmentation import MergeDropout, SubwordRegularization, sampled_segmentation
from nmt.data.tokenizer import Tokenizer
from nmt.errors import ConfigError, DataError
from nmt.training.pipeline import train_run
from nmt.training.world import World
from tests.processes import run_processes
from tests.small_run import metrics, options, train
from tests.small_translator import LINES, WORDS

SAMPLES = 2000
BPE = {"type": "bpe", "vocabulary": 40}
UNIGRAM = {"type": "unigram", "vocabulary": 28}
DROPOUT = ("embedding", "annotation", "readout")


def configuration(
    folder: Path,
    tokenizer: dict[str, Any],
    *,
    output: str = "run",
    seed: int = 1,
    data: Mapping[str, Any] = MappingProxyType({}),
    **training: Any,
) -> Config:
    chosen = options(folder, **training) | {"tokenizer": tokenizer, "output": str(folder / output), "seed": seed}
    chosen["data"] |= data
    return Config.model_validate(chosen)


def sampled(tokenizer: dict[str, Any], **sampling: Any) -> dict[str, Any]:
    return tokenizer | {"sampling": {"alpha": 0.3} | sampling}


MODELS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bytes": {"byte_fallback": True, "vocab_size": 60 + 256},
    "pieces of several words": {"split_by_whitespace": False},
    "marks after words": {"treat_whitespace_as_suffix": True},
    "symbols": {"user_defined_symbols": ["<x>", "oak"]},
}
UNUSUAL = ["", " ", "o☃k", "é  ﬁg☃☃ elm", "ash<x>oakoak <x> elm", "fir" * 40]


def model(kind: str, **chosen: Any) -> Tokenizer:
    written = io.BytesIO()
    special = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=written,
        model_type=kind,
        **({"vocab_size": 60, "minloglevel": 2} | special | chosen),
    )
    return Tokenizer(written.getvalue())


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return model(request.param)


# --- the distribution -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_sample_is_a_segmentation_of_the_text_and_in_the_limit_the_best(kind: str, options: dict[str, Any]) -> None:
    tokenizer = model(kind, **options)
    texts = LINES + UNUSUAL
    best = tokenizer.encode(texts)
    limit = MergeDropout(tokenizer, 0.0) if kind == "bpe" else SubwordRegularization(tokenizer, 1e4)
    assert [limit.sample(text, 1) for text in texts] == best
    segmentation = sampled_segmentation(tokenizer, Sampling(alpha=0.2))
    samples = [segmentation.sample(text, seed) for seed, text in enumerate(texts)]
    assert samples != best
    assert list(map(tokenizer.decode, samples)) == list(map(tokenizer.decode, best))


ELSEWHERE = """
import json, sys
from nmt.config.schema import Sampling
from nmt.data.segmentation import sampled_segmentation
from nmt.data.tokenizer import Tokenizer
path, sampling, text = json.loads(sys.argv[1])
segmentation = sampled_segmentation(Tokenizer.load(path), Sampling(**sampling))
print(json.dumps([segmentation.sample(text, seed) for seed in range(20)]))
"""


def test_a_sample_is_a_function_of_the_seed_in_every_process(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Whatever was sampled before."""
    tokenizer.save(tmp_path / "a.model")
    text = " ".join(LINES[:3])
    segmentation = sampled_segmentation(tokenizer, Sampling(alpha=0.2))
    found = [segmentation.sample(text, seed) for seed in range(19, -1, -1)][::-1]
    assert len(set(map(tuple, found))) > 5
    argument = json.dumps([str(tmp_path / "a.model"), {"alpha": 0.2}, text])
    elsewhere = subprocess.run([sys.executable, "-c", ELSEWHERE, argument], capture_output=True, check=True)
    assert json.loads(elsewhere.stdout) == found


def frequent(found: Counter[Any], expected: dict[Any, float]) -> None:
    """Require frequencies within four standard deviations of their probabilities."""
    samples = found.total()
    assert found.keys() <= expected.keys()
    for each, probability in expected.items():
        deviation = math.sqrt(probability * (1 - probability) / samples)
        assert found[each] / samples == pytest.approx(probability, abs=4 * deviation)


def test_bpe_dropout_by_hand() -> None:
    """The text "ab" has two merges, one after the other. The first is left out with probability p = 0.3, and then the
    second cannot be made; the second only with (1 - p) p (Provilkov et al. 2020, algorithm 1)."""
    tokenizer = learn(BpeTokenizer(type="bpe", vocabulary=9), [Pair("ab ab ab", "ab")] * 20).source
    segmentation = MergeDropout(tokenizer, 0.3)
    found = Counter(len(segmentation.sample("ab", seed)) for seed in range(SAMPLES))
    frequent(found, {3: 0.3, 2: 0.7 * 0.3, 1: 0.7 * 0.7})
    characters = MergeDropout(tokenizer, 1.0)
    assert {len(characters.sample("ab", seed)) for seed in range(50)} == {3}


def test_merges_come_back_beside_a_new_neighbor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain queue of merges: the score of a gap is forgotten when its merge is left out."""
    monkeypatch.setattr("nmt.data.segmentation.MERGES", 3)
    segmentation, word = MergeDropout(model("bpe"), 0.4), "badge" * 2
    generator = random.Random(1)

    def plain() -> int:
        symbols, out = list(f"▁{word}"), [False] * len(word)
        while True:
            scores = [segmentation.scores.get(a + b, -math.inf) for a, b in pairwise(symbols)]
            score, place = max(((s, -i) for i, s in enumerate(scores) if not out[i]), default=(-math.inf, 0))
            if score == -math.inf:
                return len(symbols)
            place = -place
            if generator.random() < 0.4:
                out[place] = True
                continue
            symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
            del out[place]
            out[max(0, place - 1) : place + 1] = [False] * len(out[max(0, place - 1) : place + 1])

    expected = np.array([plain() for _ in range(SAMPLES)])
    found = np.array([len(segmentation.sample(word, seed)) for seed in range(SAMPLES)])
    spread = math.sqrt((expected.var() + found.var()) / SAMPLES)
    assert found.mean() == pytest.approx(expected.mean(), abs=4 * spread)
    assert found.std() == pytest.approx(expected.std(), rel=0.1)


def segmentations(text: str, scores: dict[str, float]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every way to cut a text into pieces, with the logarithm of its probability."""
    if not text:
        yield (), 0.0
    for end in range(1, len(text) + 1):
        if (piece := text[:end]) in scores:
            for rest, score in segmentations(text[end:], scores):
                yield (piece, *rest), scores[piece] + score


@pytest.mark.parametrize("alpha", [0.2, 0.7])
def test_subword_regularization_against_every_segmentation(alpha: float) -> None:
    """P(x) is proportional to p(x)^alpha (Kudo 2018, section 3.2)."""
    tokenizer = model("unigram")
    scores = {piece.piece: piece.score for piece in tokenizer.proto.pieces[4:]}
    word = next(word for word in WORDS if len(list(segmentations(f"▁{word}", scores))) > 5)
    every = list(segmentations(f"▁{word}", scores))
    weights = np.array([math.exp(alpha * score) for _, score in every])
    segmentation = sampled_segmentation(tokenizer, Sampling(alpha=alpha))
    found = Counter(tuple(tokenizer.pieces(segmentation.sample(word, seed))) for seed in range(SAMPLES))
    frequent(found, dict(zip((pieces for pieces, _ in every), weights / weights.sum(), strict=True)))


# --- the training set -------------------------------------------------------------------------------------------------


def rows_of(prepared: PreparedData, epoch: int, pairs: list[int]) -> list[tuple[list[int], list[int]]]:
    sources, targets = prepared.train.in_epoch(epoch).rows(pairs)
    return [(source.tolist(), target.tolist()) for source, target in zip(sources, targets, strict=True)]


@pytest.mark.parametrize(("kind", "sides"), [(BPE, "both"), (UNIGRAM, "target")], ids=["bpe", "unigram"])
def test_a_pair_is_segmented_again_in_each_epoch(
    tmp_path: Path, kind: dict[str, Any], sides: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(configuration(tmp_path, sampled(kind, sides=sides)))
    everything = list(range(len(prepared.train)))
    epochs = [rows_of(prepared, epoch, everything) for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert rows_of(prepared, 1, everything[::-1]) == epochs[1][::-1]
    monkeypatch.setattr("nmt.data.encoded.READ", 70)
    assert rows_of(prepared, 1, everything) == epochs[1], "however many texts are read at a time"
    assert rows_of(prepared, 2, [7]) == [epochs[2][7]]
    other = prepare(configuration(tmp_path, sampled(kind, sides=sides), seed=2))
    assert rows_of(other, 0, everything) != epochs[0]
    best = [list(map(np.ndarray.tolist, side)) for side in prepared.train.rows(everything)]
    for side, tokenizer in enumerate((prepared.tokenizers.source, prepared.tokenizers.target)):
        found = [pair[side] for pair in epochs[0]]
        assert list(map(tokenizer.decode, found)) == list(map(tokenizer.decode, best[side]))
        assert (found == best[side]) == (sides == "target" and side == 0)


def test_a_sample_that_is_too_long_gives_way_to_the_best(tmp_path: Path) -> None:
    """alpha 1 leaves out every merge: a piece for every letter and for the mark of every word."""
    prepared = prepare(configuration(tmp_path, sampled(BPE, alpha=1.0), data={"filter": {"max_pieces": 8}}))
    everything = list(range(len(prepared.train)))
    (sources, _), (bests, _) = prepared.train.in_epoch(0).rows(everything), prepared.train.rows(everything)
    kept = 0
    for row, best in zip(sources, bests, strict=True):
        text = prepared.tokenizers.source.decode(best.tolist())
        pieces = len(text.replace(" ", "")) + len(text.split())
        assert len(row) == (pieces if pieces <= 8 else len(best))
        kept += pieces > 8
    assert 0 < kept < len(everything)


def test_the_batches_of_an_epoch_are_its_segmentations_and_keep_to_the_budget(tmp_path: Path) -> None:
    prepared = prepare(configuration(tmp_path, sampled(UNIGRAM)))
    specials, found = Specials.of(prepared.tokenizers), []
    for after, batch in training_batches(prepared.train, specials, 200, seed=1, position=Position(1)):
        assert max(batch.source.numel(), batch.target_output.numel()) <= 200
        found += [row[: length - 1].tolist() for row, length in zip(batch.source, batch.source_lengths, strict=True)]
        if after.epoch > 1:
            break
    everything = list(range(len(prepared.train)))
    assert sorted(found) == sorted(source for source, _ in rows_of(prepared, 1, everything))


def test_the_models_and_the_cache_of_plain_runs_are_the_same(tmp_path: Path) -> None:
    plain = prepare(configuration(tmp_path, BPE))
    said: list[str] = []
    prepared = prepare(configuration(tmp_path, sampled(BPE)), said.append)
    assert not any(line.startswith("learning") for line in said)
    prepare(configuration(tmp_path, sampled(BPE, alpha=0.5)))  # the same text
    assert len(list((tmp_path / "cache").glob("corpus-*"))) == 2
    assert plain.corpus_sha256 == prepared.corpus_sha256
    for one, other in zip(plain.validation.rows([0, 1, 2]), prepared.validation.rows([0, 1, 2]), strict=True):
        assert all(map(np.array_equal, one, other))
    assert plain.train.in_epoch(5) is plain.train and plain.train.links([3, 1]) is None


def trained(world: World, folder: str, output: str, tokenizer: dict[str, Any], training: dict[str, Any]) -> None:
    train_run(configuration(Path(folder), tokenizer, output=output, **training), say=lambda line: None, world=world)


def test_a_stopped_run_and_two_processes_end_with_the_bytes_of_one(tmp_path: Path) -> None:
    """Both processes sample the epochs whose batches they deal out; updates go over the end of an epoch."""
    sizes: dict[str, Any] = {"updates": 6, "batch_tokens": 1200, "log_every": 1, "dropout": dict.fromkeys(DROPOUT, 0.0)}
    train(configuration(tmp_path, sampled(BPE), output="one", accumulation=2, **sizes))
    train(configuration(tmp_path, sampled(BPE), output="stopped", accumulation=2, **sizes), stop_after=4)
    train(configuration(tmp_path, sampled(BPE), output="stopped", accumulation=2, **sizes), resume=True)
    run_processes(trained, 2, str(tmp_path), "two", sampled(BPE), sizes)
    assert max(line["epoch"] for line in metrics(tmp_path / "one", "train")) > 1
    for file in ("checkpoints/last/model.safetensors", "test.hypotheses.txt"):
        for other in ("stopped", "two"):
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / other / file).read_bytes()
    with pytest.raises(ConfigError, match=r"tokenizer.sampling.alpha was 0.3 and is now 0.2"):
        train(configuration(tmp_path, sampled(BPE, alpha=0.2), output="one", accumulation=2, **sizes), resume=True)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_given_model_that_cannot_be_sampled(tmp_path: Path) -> None:
    prepare(configuration(tmp_path, {"type": "word", "vocabulary": 30})).tokenizers.save(tmp_path)
    given = {"type": "given", "source": str(tmp_path / "source.model"), "target": str(tmp_path / "target.model")}
    with pytest.raises(DataError, match=r"^tokenizer\.sampling: the model of the source side is of type word"):
        prepare(configuration(tmp_path, sampled(given)))
