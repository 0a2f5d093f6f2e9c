"""What an epoch reads: parts of a mix of corpora, with tags and links."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Config, dump_config, load_config
from nmt.config.schema import FileCorpus
from nmt.data.batching import Batch, Position, Specials, training_batches
from nmt.data.dataset import PreparedData, prepare
from nmt.data.encoded import MixedCorpus, epoch_rows, pairs_per_epoch
from nmt.data.report import describe
from nmt.errors import ConfigError, DataError
from tests.small_run import options, train, train_whole_and_in_parts, write_corpus
from tests.torture.comparison import differences

BPE = {"type": "bpe", "vocabulary": 40}

# --- how many pairs, and which ----------------------------------------------------------------------------------------


def test_pairs_of_an_epoch_by_hand() -> None:
    assert pairs_per_epoch([100, 10, 3], [1.0, 2.5, 0.5], 1.0) == [100, 25, 2]
    # e = 800 and 200: at T = 2 as sqrt(800) to sqrt(200), that is 2 to 1, of 1000
    assert pairs_per_epoch([800, 100], [1.0, 2.0], 2.0) == [667, 333]
    assert pairs_per_epoch([800, 100], [1.0, 2.0], 1000.0) == [500, 500]


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0.1, 5)), min_size=1, max_size=5), st.floats(1, 100))
def test_a_temperature_keeps_the_length_of_an_epoch_and_the_order_of_sizes(
    corpora: list[tuple[int, float]], temperature: float
) -> None:
    sizes, weights = zip(*corpora, strict=True)
    plain, warm = (pairs_per_epoch(sizes, weights, each) for each in (1.0, temperature))
    assert abs(sum(plain) - sum(warm)) <= len(sizes)
    ordered = sorted(range(len(sizes)), key=lambda i: sizes[i] * weights[i])
    assert all(warm[i] <= warm[j] for i, j in pairwise(ordered))
    assert max(warm) <= max(plain) + 1 and min(warm) >= min(plain) - 1


sizes = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 90)), min_size=1, max_size=4)


@given(sizes, st.integers(0, 5), st.integers(0, 20))
def test_every_pair_is_read_as_often_as_any_other_or_once_more(
    corpora: list[tuple[int, int]], seed: int, epoch: int
) -> None:
    """In one epoch, and in all epochs so far: a part of a corpus goes on where the last one ended."""
    of, counts = zip(*corpora, strict=True)
    np.random.seed(epoch)  # nothing global is to matter
    rows = epoch_rows(of, counts, seed=seed, epoch=epoch)
    assert len(rows) == sum(counts)
    so_far = np.concatenate([epoch_rows(of, counts, seed=seed, epoch=each) for each in range(epoch + 1)])
    np.random.seed(epoch + 1)
    assert np.array_equal(rows, epoch_rows(of, counts, seed=seed, epoch=epoch))
    for found, epochs in ((rows, 1), (so_far, epoch + 1)):
        seen, first = np.bincount(found, minlength=sum(of)), 0
        for size, count in corpora:
            times = seen[first : first + size]
            assert times.sum() == epochs * count
            assert times.max() - times.min() <= 1
            first += size


# --- prepared ---------------------------------------------------------------------------------------------------------


def mixed(
    folder: Path, mix: dict[str, float], *, temperature: float = 1.0, tokenizer: Any = BPE, **changes: Any
) -> Config:
    """Two corpora of 300 and 60 pairs; the second is tagged."""
    chosen = options(folder, **changes) | {"tokenizer": tokenizer}
    (folder / "other").mkdir(exist_ok=True)
    other = write_corpus(folder / "other", train=60, seed=9)["train"]
    corpora = {"europarl": chosen["data"]["train"], "back": other | {"tag": "<bt>"}}
    chosen["data"] |= {
        "corpora": {name: corpora[name] for name in mix},
        "train": {"mix": mix, "temperature": temperature},
    }
    return Config.model_validate(chosen)


def sources_of(prepared: PreparedData, epoch: int) -> list[tuple[int, ...]]:
    pairs = prepared.train.in_epoch(epoch)
    return [tuple(row.tolist()) for row in pairs.rows(range(len(pairs)))[0]]


def test_an_epoch_of_two_corpora(tmp_path: Path) -> None:
    prepared = prepare(mixed(tmp_path, {"europarl": 0.5, "back": 2.5}))
    assert isinstance(prepared.train, MixedCorpus) and len(prepared.train) == 360
    tag = prepared.tokenizers.source.piece_id("<bt>")
    corpora = prepared.report["corpora"]
    assert {name: (part["kept"], part["pairs_in_epoch"]) for name, part in corpora.items()} == {
        "back": (60, 150),
        "europarl": (300, 150),
    }
    for epoch in range(3):
        read = sources_of(prepared, epoch)
        assert len(read) == 300
        assert sum(row[0] == tag for row in read) == 150
    everything = [tuple(row.tolist()) for row in prepared.train.rows(range(360))[0]]
    tagged = Counter(row for row in everything if row[0] == tag)
    times = Counter(row for row in sources_of(prepared, 0) if row[0] == tag)
    assert all(2 * count <= times[row] <= 3 * count for row, count in tagged.items())
    both = Counter(row for epoch in (0, 1) for row in sources_of(prepared, epoch) if row[0] != tag)
    assert both == Counter(row for row in everything if row[0] != tag)


def test_a_mix_of_weight_one_gives_the_batches_of_the_corpora_end_to_end(tmp_path: Path) -> None:
    chosen = mixed(tmp_path, {"europarl": 1.0, "back": 1.0})
    untagged = {name: corpus.model_copy(update={"tag": None}) for name, corpus in chosen.data.corpora.items()}
    data = chosen.data.model_copy(update={"corpora": untagged})
    files = [untagged[name].model_dump() for name in sorted(untagged)]
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(Path(each[side]).read_text("utf-8") for each in files), "utf-8")
    joined = FileCorpus(source=str(tmp_path / "source"), target=str(tmp_path / "target"))
    one = prepare(chosen.model_copy(update={"data": data}))
    other = prepare(chosen.model_copy(update={"data": data.model_copy(update={"train": joined, "corpora": {}})}))
    assert one.tokenizers.sha256 == other.tokenizers.sha256
    assert one.train.in_epoch(3) is one.train
    streams = [
        training_batches(each.train, Specials.of(each.tokenizers), 300, seed=1, position=Position())
        for each in (one, other)
    ]
    for _ in range(60):
        assert fingerprint(next(streams[0])) == fingerprint(next(streams[1]))


def test_weights_change_neither_tokenizers_nor_encoded_text(tmp_path: Path) -> None:
    prepare(mixed(tmp_path, {"europarl": 1.0, "back": 2.0}))
    said: list[str] = []
    prepared = prepare(mixed(tmp_path, {"back": 0.25, "europarl": 2.0}, temperature=3.0), said.append)
    assert [line.split(":")[0] for line in said] == ["encoded corpus"]
    assert prepared.report["splits"]["train"]["pairs_in_epoch"] == pytest.approx(615, abs=1)
    lines = describe(prepared.report).splitlines()
    assert lines[0].split() == ["train", "validation", "test", "corpora.back", "corpora.europarl"]
    assert next(line for line in lines if line.startswith("pairs in an epoch")).split()[4] == "615"


def fingerprint(found: tuple[Position, Batch]) -> tuple[Position, list[list[int]]]:
    return found[0], found[1].source.tolist()


def test_a_run_of_a_mix_stopped_and_resumed_is_never_stopped(tmp_path: Path) -> None:
    """Sampled segmentations, links, a tag, a part of one corpus, several times the other."""
    how: dict[str, Any] = {"updates": 6, "batch_tokens": 900, "guided_attention": {"type": "links"}}
    chosen = mixed(tmp_path, {"europarl": 0.3, "back": 1.5}, tokenizer=BPE | {"sampling": {"alpha": 0.4}})
    chosen = with_links(chosen, tmp_path, "back")
    whole = train_whole_and_in_parts(chosen, tmp_path, **how)
    assert differences(tmp_path / "parts", tmp_path / "whole") == []
    data = chosen.data.model_copy(update={"train": chosen.data.train.model_copy(update={"temperature": 2.0})})
    with pytest.raises(ConfigError, match=r"data.train.temperature was 1.0 and is now 2.0"):
        train(whole.model_copy(update={"data": data}), resume=True)


def with_links(chosen: Config, folder: Path, name: str) -> Config:
    """The configuration with links of word i to word i of every pair of a corpus."""
    corpus = chosen.data.corpora[name]
    lines = Path(corpus.model_dump()["source"]).read_text("utf-8").splitlines()
    (folder / "links").write_text(
        "".join(" ".join(f"{i}-{i}" for i in range(len(line.split()))) + "\n" for line in lines)
    )
    linked = corpus.model_copy(update={"links": str(folder / "links")})
    corpora = {**chosen.data.corpora, name: linked}
    return chosen.model_copy(update={"data": chosen.data.model_copy(update={"corpora": corpora})})


def test_links_of_a_tagged_corpus_leave_the_tag_alone(tmp_path: Path) -> None:
    words = {"type": "word", "vocabulary": 50}
    chosen = mixed(tmp_path, {"europarl": 1.0, "back": 2.0}, tokenizer=words, guided_attention={"type": "links"})
    prepared = prepare(with_links(chosen, tmp_path, "back"))
    pairs = prepared.train.in_epoch(0)
    links = pairs.links(range(len(pairs)))
    assert links is not None
    for weights, source, target in zip(links, *pairs.rows(range(len(pairs))), strict=True):
        assert weights.shape == (len(target), len(source))
        tagged = source[0] == prepared.tokenizers.source.piece_id("<bt>")
        expected = np.eye(len(target), len(source), 1) if tagged else np.zeros(weights.shape)
        assert np.array_equal(weights, expected)


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_a_tag_is_one_piece_of_the_source_vocabulary(tmp_path: Path, kind: str) -> None:
    prepared = prepare(mixed(tmp_path, {"europarl": 1.0, "back": 1.0}, tokenizer={"type": kind, "vocabulary": 28}))
    source, target = prepared.tokenizers.source, prepared.tokenizers.target
    tag = source.piece_id("<bt>")
    with pytest.raises(KeyError):
        target.piece_id("<bt>")
    rows, _ = prepared.train.rows(range(360))
    assert [row[0] == tag for row in rows] == [True] * 60 + [False] * 300
    lines = (tmp_path / "other" / "train.low").read_text("utf-8").splitlines()
    assert [row[1:].tolist() for row in rows[:60]] == source.encode(lines)


def test_sampled_segmentations_keep_the_tag(tmp_path: Path) -> None:
    prepared = prepare(mixed(tmp_path, {"europarl": 1.0, "back": 1.0}, tokenizer=BPE | {"sampling": {"alpha": 0.4}}))
    tag = prepared.tokenizers.source.piece_id("<bt>")
    assert [row.count(tag) for row in sources_of(prepared, 0)] == [1] * 60 + [0] * 300
    assert all(row[0] == tag for row in sources_of(prepared, 0)[:60])


def test_a_given_vocabulary_without_the_tag_is_refused(tmp_path: Path) -> None:
    prepare(Config.model_validate(options(tmp_path) | {"tokenizer": BPE})).tokenizers.save(tmp_path)
    given = {"type": "given", "source": str(tmp_path / "source.model"), "target": str(tmp_path / "target.model")}
    with pytest.raises(DataError, match=r"^data\.corpora\.back\.tag: '<bt>' is not a piece of the source vocabulary"):
        prepare(mixed(tmp_path, {"back": 1.0}, tokenizer=given))


def test_a_weight_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    for _ in ("made", "found in the cache"):
        with pytest.raises(
            DataError, match=r"^data\.train\.mix\.back: 0\.001 leaves none of 60 pairs in an epoch; use"
        ):
            prepare(mixed(tmp_path, {"europarl": 1.0, "back": 0.001}))


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("data.train.mix.bakc=1.0", "data.train.mix.bakc"),
        ("data.train={mix: {europarl: 1.0}}", "data.corpora.back"),
        ("data.train.mix={}", "data.train.mix"),
        ("data.train.mix.back=0", "data.train.mix.back"),
        ("data.train.temperature=0.5", "data.train.temperature"),
        ("data.corpora.back.tag=two words", "data.corpora.back.tag"),
        ("data.validation.tag=<bt>", "data.validation.tag"),
        ("data.corpora.back.links=x", "data.corpora.back.links"),
        ("data.train.source=x", "data.train.source"),
    ],
)
def test_what_a_mix_cannot_be(tmp_path: Path, setting: str, key: str) -> None:
    (tmp_path / "run.yaml").write_text(dump_config(mixed(tmp_path, {"europarl": 1.0, "back": 0.5})), "utf-8")
    assert load_config(tmp_path / "run.yaml").data.training_corpora.keys() == {"corpora.europarl", "corpora.back"}
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "run.yaml", [setting])
    assert f"{key}: " in caught.value.problems[0]
