"""The training set as each epoch reads it: sampled segmentations, parts of a mix of corpora, tags."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import Config, dump_config, load_config
from nmt.config.schema import Mix
from nmt.data.batching import Position, Specials, training_batches
from nmt.data.dataset import PreparedData, corpus_sha256, prepare
from nmt.data.encoded import EncodedCorpus, epoch_rows
from nmt.data.report import table
from nmt.errors import ConfigError, DataError
from nmt.runs.directory import RunDirectory
from tests.small_run import options, train, train_whole_and_in_parts, write_corpus
from tests.test_corpus import error_of

BPE = {"type": "bpe", "vocabulary": 40}
WORD = {"type": "word", "vocabulary": 50}
GUIDED: dict[str, Any] = {"guided_attention": {}}
NOTHING: Mapping[str, Any] = MappingProxyType({})
DROPOUT = BPE | {"dropout": 0.3}


def configuration(
    folder: Path, tokenizer: dict[str, Any] = BPE, *, data: Mapping[str, Any] = NOTHING, seed: int = 1, **training: Any
) -> Config:
    """The tiny run, with 300 pairs, by other tokenizers and with changes of the section ``data``."""
    chosen = options(folder, **training) | {"tokenizer": tokenizer, "seed": seed}
    return Config.model_validate(chosen | {"data": chosen["data"] | data})


def mixed(folder: Path, mix: dict[str, float], tokenizer: Any = BPE, **training: Any) -> Config:
    """Two corpora of 300 and 60 pairs; the second is tagged, and linked where attention is guided."""
    (folder / "other").mkdir(exist_ok=True)
    back = write_corpus(folder / "other", train=60, seed=9)["train"] | {"tag": "<bt>"}
    if "guided_attention" in training:  # the first word of a source is the last of its translation
        lines = Path(back["source"]).read_text("utf-8").splitlines()
        back["links"] = str(folder / "links")
        Path(back["links"]).write_text("".join(f"0p{len(line.split()) - 1}\n" for line in lines), "utf-8")
    corpora = {"europarl": configuration(folder).data.train.model_dump(exclude_none=True), "back": back}
    data = {"corpora": {name: corpora[name] for name in mix}, "train": {"mix": mix}}
    return configuration(folder, tokenizer, data=data, **training)


def pairs_of(corpus: EncodedCorpus) -> list[tuple[list[int], list[int]]]:
    sources, targets = corpus.rows(range(len(corpus)))
    for side, found in ((sources, corpus.source_lengths), (targets, corpus.target_lengths)):
        assert found.tolist() == list(map(len, side))
    return [(source.tolist(), target.tolist()) for source, target in zip(sources, targets, strict=True)]


def sources_of(prepared: PreparedData, epoch: int) -> list[tuple[int, ...]]:
    return [tuple(source) for source, _ in pairs_of(prepared.train.in_epoch(epoch))]


# --- pairs and segmentations ------------------------------------------------------------------------------------------


sizes = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 90)), min_size=1, max_size=4)


@given(sizes, st.integers(0, 5), st.integers(0, 20))
def test_every_pair_is_read_equally_often_or_once_more(corpora: list[tuple[int, int]], seed: int, epoch: int) -> None:
    """In one epoch, and in all epochs so far: a part of a corpus goes on where the last one ended."""
    np.random.seed(epoch)  # nothing global is to matter
    rows = epoch_rows(corpora, seed=seed, epoch=epoch)
    assert len(rows) == sum(count for _, count in corpora)
    so_far = np.concatenate([epoch_rows(corpora, seed=seed, epoch=each) for each in range(epoch + 1)])
    np.random.seed(epoch + 1)
    assert np.array_equal(rows, epoch_rows(corpora, seed=seed, epoch=epoch))
    for found, epochs in ((rows, 1), (so_far, epoch + 1)):
        seen, first = np.bincount(found, minlength=sum(size for size, _ in corpora)), 0
        for size, count in corpora:
            times = seen[first : first + size]
            assert times.sum() == epochs * count
            assert times.max() - times.min() <= 1
            first += size


def test_a_pair_is_segmented_again_in_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(configuration(tmp_path, DROPOUT))
    epochs = [pairs_of(prepared.train.in_epoch(epoch)) for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    monkeypatch.setattr("nmt.data.encoded.UNIT", 70)
    assert pairs_of(prepared.train.in_epoch(1)) == epochs[1], "however many texts are read at a time"
    other = prepare(configuration(tmp_path, DROPOUT, seed=2))
    assert pairs_of(other.train.in_epoch(0)) != epochs[0]
    for side, (_, tokenizer) in enumerate(prepared.tokenizers.sides()):
        found, best = ([pair[side] for pair in pairs] for pairs in (epochs[0], pairs_of(prepared.train)))
        assert list(map(tokenizer.decode, found)) == list(map(tokenizer.decode, best))
        assert found != best


def test_segmentations_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = prepare(configuration(tmp_path, DROPOUT)).train
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(DataError, match=r"^tokenizer.dropout: cannot write .*missing/.*; let TMPDIR name a directory"):
        train.in_epoch(0)


def test_the_batches_of_an_epoch_are_its_segmentations_and_keep_to_the_budget(tmp_path: Path) -> None:
    prepared = prepare(configuration(tmp_path, DROPOUT))
    specials, found = Specials.of(prepared.tokenizers), []
    for after, batch in training_batches(prepared.train, specials, 200, seed=1, position=Position(1)):
        assert max(batch.source.numel(), batch.target_output.numel()) <= 200
        found += [tuple(row[: n - 1].tolist()) for row, n in zip(batch.source, batch.source_lengths, strict=True)]
        if after.epoch > 1:
            break
    assert sorted(found) == sorted(sources_of(prepared, 1))


def test_sampling_changes_neither_tokenizers_nor_ids(tmp_path: Path) -> None:
    plain = prepare(configuration(tmp_path))
    for chosen in (configuration(tmp_path, DROPOUT), configuration(tmp_path, BPE | {"dropout": 0.5})):
        said: list[str] = []
        other = prepare(chosen, said.append)
        assert not any(line.startswith("learning") for line in said)
        assert (other.tokenizers.sha256, other.report) == (plain.tokenizers.sha256, plain.report)
        assert pairs_of(other.train) == pairs_of(plain.train)
        assert pairs_of(other.validation) == pairs_of(plain.validation)
        assert other.corpus_sha256 == plain.corpus_sha256 == corpus_sha256(chosen.data)
    assert len(list((tmp_path / "cache").glob("corpus-*"))) == 2, "plain, with text"
    assert plain.train.in_epoch(5) is plain.train


def test_a_given_model_that_lacks_the_tag(tmp_path: Path) -> None:
    prepare(configuration(tmp_path, WORD)).tokenizers.save(tmp_path)
    given = {"type": "given", "source": str(tmp_path / "source.model"), "target": str(tmp_path / "target.model")}
    said = error_of(prepare, mixed(tmp_path, {"back": 1.0}, given))
    assert said.startswith("data.corpora.back.tag: '<bt>' is not a piece")


# --- a mix ------------------------------------------------------------------------------------------------------------


def test_an_epoch_of_two_corpora(tmp_path: Path) -> None:
    prepared = prepare(mixed(tmp_path, {"europarl": 0.5, "back": 2.5}))
    assert len(prepared.train) == 360
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
    everything = [tuple(source) for source, _ in pairs_of(prepared.train)]
    tagged = Counter(row for row in everything if row[0] == tag)
    times = Counter(row for row in sources_of(prepared, 0) if row[0] == tag)
    assert all(2 * count <= times[row] <= 3 * count for row, count in tagged.items())
    both = Counter(row for epoch in (0, 1) for row in sources_of(prepared, epoch) if row[0] != tag)
    assert both == Counter(row for row in everything if row[0] != tag)


def test_parts_of_corpora_are_segmented_as_in_the_whole(tmp_path: Path) -> None:
    whole, parts = (prepare(mixed(tmp_path, {"europarl": part, "back": 1.0}, DROPOUT)) for part in (1.0, 0.5))
    every, read = sources_of(whole, 1), sources_of(parts, 1)
    assert len(read) == 210 and read[:60] == every[:60]
    assert not Counter(read) - Counter(every)


def test_weights_change_neither_tokenizers_nor_encoded_text(tmp_path: Path) -> None:
    prepare(mixed(tmp_path, {"europarl": 1.0, "back": 2.0}))
    said: list[str] = []
    prepared = prepare(mixed(tmp_path, {"back": 0.25, "europarl": 2.0}), said.append)
    assert [line.split(":")[0] for line in said] == ["encoded corpus"]
    assert prepared.report["splits"]["train"]["pairs_in_epoch"] == 615
    lines = table(prepared.report).splitlines()
    assert lines[0].split() == ["train", "validation", "test", "corpora.back", "corpora.europarl"]
    assert next(line for line in lines if line.startswith("pairs in an epoch")).split()[4] == "615"


@pytest.mark.parametrize("kind", [WORD, DROPOUT], ids=["word", "sampled"])
def test_a_tag_is_one_piece_of_the_source_vocabulary(tmp_path: Path, kind: dict[str, Any]) -> None:
    prepared = prepare(mixed(tmp_path, {"europarl": 1.0, "back": 1.0}, kind))
    assert (prepared.train.in_epoch(3) is prepared.train) == (kind is WORD), "the corpora end to end"
    source, target = prepared.tokenizers.source, prepared.tokenizers.target
    tag = source.piece_id("<bt>")
    with pytest.raises(KeyError):
        target.piece_id("<bt>")
    for rows in ([list(row) for row in sources_of(prepared, 0)], [source for source, _ in pairs_of(prepared.train)]):
        assert [row.count(tag) for row in rows] == [1] * 60 + [0] * 300
        assert all(row[0] == tag for row in rows[:60])
    lines, targets = (
        [line for part in ("other", ".") for line in (tmp_path / part / f"train.{end}").read_text("utf-8").splitlines()]
        for end in ("low", "up")
    )
    assert [row[1:] for row in rows[:60]] + rows[60:] == source.encode(lines)
    assert [target.decode(row) for _, row in pairs_of(prepared.train.in_epoch(3))] == targets


@pytest.mark.parametrize("kind", [BPE, WORD], ids=["bpe", "word"])
def test_a_tag_in_the_text_or_of_decoding_is_that_of_training(tmp_path: Path, kind: dict[str, Any]) -> None:
    made = mixed(tmp_path, {"europarl": 1.0, "back": 1.0}, kind)
    text = Path(made.data.validation.model_dump()["source"])
    lines = text.read_text("utf-8").splitlines()
    text.write_text("".join(f"{'<bt> ' * (number % 2)}{line}\n" for number, line in enumerate(lines)), "utf-8")
    tagging = made.model_copy(update={"decoding": made.decoding.model_copy(update={"to": "<bt>"})})
    plain, tagged = prepare(made), prepare(tagging)
    tag, ids = plain.tokenizers.source.piece_id("<bt>"), plain.tokenizers.source.encode(lines)
    assert [row for row, _ in pairs_of(tagged.validation)] == [[tag, *row] for row in ids]
    found = [row for row, _ in pairs_of(plain.validation)]
    assert found == [[tag] * (number % 2) + row for number, row in enumerate(ids)]
    assert pairs_of(plain.train) == pairs_of(tagged.train)


def test_a_tag_in_training_text_is_there_once_in_each_epoch(tmp_path: Path) -> None:
    made, path = mixed(tmp_path, {"europarl": 1.0, "back": 1.0}, DROPOUT), tmp_path / "train.low"
    text = path.read_text("utf-8")
    path.write_text(f" <bt> {text}", "utf-8")
    prepared = prepare(made)
    tokenizer, row = prepared.tokenizers.source, list(sources_of(prepared, 1)[60])  # behind those of back
    assert row[0] == tokenizer.piece_id("<bt>") and tokenizer.decode(row[1:]) == text.partition("\n")[0]


def test_only_one_corpus_of_a_mix_has_links(tmp_path: Path) -> None:
    """Tokenizers and ids are the same without them; the tag has none."""
    mix = {"europarl": 1.0, "back": 1.5}
    plain, prepared = (prepare(mixed(tmp_path, mix, WORD, **training)) for training in ({}, GUIDED))
    assert plain.corpus_sha256 != prepared.corpus_sha256
    pairs, tag = prepared.train.in_epoch(1), prepared.tokenizers.source.piece_id("<bt>")
    assert pairs_of(pairs) == pairs_of(plain.train.in_epoch(1))
    found = [each.tolist() for each in pairs.links(range(len(pairs))) or ()]
    assert found == [[1, len(target) - 1] if source[0] == tag else [] for source, target in pairs_of(pairs)]


def test_links_that_cannot_be_are_named(tmp_path: Path) -> None:
    chosen, path = mixed(tmp_path, {"back": 1.0}, **GUIDED), tmp_path / "links"
    lines = path.read_text("utf-8").splitlines()
    for changed, problem in (
        (lines[:-1], f"{path}: has 59 lines; must have one for each pair of {tmp_path}/other/train.low"),
        ([*lines, ""], f"{path}: has more than 60 lines"),
        ([*lines[:3], "0-0 9p0", *lines[4:]], f"{path}:4: 9-0 links a missing word"),
    ):
        path.write_text("".join(f"{line}\n" for line in changed), "utf-8")
        assert error_of(prepare, chosen).startswith(f"data.corpora.back: {problem}")
    chosen.data.corpora["back"] = chosen.data.corpora["back"].model_copy(update={"limit": 3})
    assert len(prepare(chosen).train) == 3


@pytest.mark.parametrize("change", ["train.mix.back=0", "corpora.back.tag=two words", "corpora.back.tag=bt"])
def test_what_a_mix_cannot_be(tmp_path: Path, change: str) -> None:
    (tmp_path / "run.yaml").write_text(dump_config(mixed(tmp_path, {"europarl": 1.0, "back": 0.5})), "utf-8")
    assert load_config(tmp_path / "run.yaml").data.training_corpora.keys() == {"corpora.europarl", "corpora.back"}
    with pytest.raises(ConfigError, match=f"data.{change.partition('=')[0]}: "):
        load_config(tmp_path / "run.yaml", [f"data.{change}"])


def test_a_tag_of_validation_that_was_not_trained_is_named(tmp_path: Path) -> None:
    chosen, said = mixed(tmp_path, {"europarl": 1.0, "back": 0.5}), list[str]()
    path = tmp_path / "validation.low"
    path.write_text(f"<2es> {path.read_text()}")
    prepare(chosen, said.append)
    assert "data.validation: a source begins with <2es>, which was not trained; the tags are: <bt>" in said


def test_a_run_of_a_mix_stopped_and_resumed_is_never_stopped(tmp_path: Path) -> None:
    """Sampled segmentations, a tag, a part of one corpus, several times the other; and all that training keeps
    between updates. The stop is in the middle of an epoch, between two progress lines and between two validations."""
    options: dict[str, Any] = {
        "updates": 6,
        "batch_tokens": 450,
        "accumulation": 2,
        "average": 2,
        "log_every": 4,
        "validation": {"every": 2, "metric": "loss", "sentences": 3},
        "schedule": {"type": "plateau", "patience": 0},
        "optimizer": {"type": "adam", "learning_rate": 0.5},
        "scheduled_sampling": {"k": 1.5},
    }
    chosen = mixed(tmp_path, {"europarl": 0.3, "back": 1.5}, DROPOUT, **options)
    whole = train_whole_and_in_parts(chosen, tmp_path)
    assert RunDirectory(tmp_path / "parts").training("last").state["scale"] < 1
    data = chosen.data.model_copy(update={"train": Mix(mix={"europarl": 0.3, "back": 2.0})})
    tokenizer = configuration(tmp_path, BPE | {"dropout": 0.2}).tokenizer
    for key, section in (("data.train.mix.back", {"data": data}), ("tokenizer.dropout", {"tokenizer": tokenizer})):
        with pytest.raises(ConfigError, match=f"{key}.* was .* and is now"):
            train(whole.model_copy(update=section), resume=True)
