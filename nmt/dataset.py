"""From a configuration to encoded corpora: tokenizers, pieces in memory-mapped Arrow, and the report on the data.

The work is done once: what it makes is cached under a key computed from the content of the corpora, the tokenizers and
the options, so another run over the same data finds it.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus, Config, Filter, GivenTokenizer
from nmt.corpus import Pair, corpus_digest, corpus_name, read_pairs
from nmt.data_report import KEPT, REASONS, make_report
from nmt.errors import DataError, NmtError
from nmt.tokenizer import Tokenizers, learn

FORMAT = 1
"""Part of every cache key; to be raised with any change of what is stored or of how pairs are filtered."""
LARGE = 100_000
"""Pairs from which on encoding uses one process a core."""
ENCODE_BATCH = 1_000

IDS = datasets.List(datasets.Value("int32"))
COUNTS = ("source_words", "target_words", "source_pieces", "target_pieces", "source_unknown", "target_unknown")
TEXT = datasets.Features({"source_text": datasets.Value("string"), "target_text": datasets.Value("string")})
ENCODED = datasets.Features(
    {**TEXT, "source": IDS, "target": IDS, "reason": datasets.Value("int8")}
    | {name: datasets.Value("int32") for name in COUNTS}
    | {name: datasets.Value("int64") for name in ("pair_hash", "source_hash")}
)
T = TypeVar("T")


def ignore(_line: str) -> None:
    """Take a progress line and say nothing."""


class EncodedCorpus:
    """Pieces of every pair, without BOS and EOS, memory-mapped: only the pages that are looked at are read."""

    def __init__(self, table: pa.Table) -> None:
        """From a table whose columns ``source`` and ``target`` are lists of int32."""
        self._source = _IdLists(table["source"])
        self._target = _IdLists(table["target"])
        self.source_lengths = self._source.lengths
        """Pieces of each source sentence: (pairs,) int32."""
        self.target_lengths = self._target.lengths
        """Pieces of each target sentence: (pairs,) int32."""

    def __len__(self) -> int:
        return len(self.source_lengths)

    def rows(self, indices: Sequence[int] | NDArray[Any]) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
        """Source and target ids of the pairs at ``indices``, in that order: read-only views of the mapped file."""
        return self._source.take(indices), self._target.take(indices)


class _IdLists:
    """A column of lists of int32, looked into without copying: for each chunk its values and where each list starts."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        offsets = [chunk.offsets.to_numpy() for chunk in chunks]
        self._values = [chunk.values.to_numpy() for chunk in chunks]
        self._starts = offsets
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])
        self.lengths: NDArray[np.int32] = np.concatenate([np.zeros(0, np.int32), *(np.diff(each) for each in offsets)])

    def take(self, indices: Sequence[int] | NDArray[Any]) -> list[NDArray[np.int32]]:
        wanted = np.asarray(indices, dtype=np.int64)
        chunks = np.searchsorted(self._first_rows, wanted, side="right") - 1
        places = wanted - self._first_rows[chunks]
        return [
            self._values[chunk][self._starts[chunk][place] : self._starts[chunk][place + 1]]
            for chunk, place in zip(chunks.tolist(), places.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Prepared:
    """All that training needs of the data. ``validation_pairs`` are the raw text of ``validation``, row by row."""

    tokenizers: Tokenizers
    train: EncodedCorpus
    validation: EncodedCorpus
    validation_pairs: list[Pair]
    test_pairs: list[Pair]
    report: dict[str, Any]
    corpus_sha256: str


def prepare(config: Config, say: Callable[[str], None] = ignore) -> Prepared:
    """Read, learn (or load) the tokenizers, encode, filter and count; or find all of it in the cache.

    Training pairs are filtered by ``data.filter``; validation and test pairs are dropped only if a side is empty.

    Raises DataError where a corpus or tokenizer cannot be used, no pair is left, or the cache cannot be written.
    """
    data = config.data
    languages = data.source_language, data.target_language
    corpora = {"train": data.train, "validation": data.validation} | ({"test": data.test} if data.test else {})
    digests = {name: corpus_digest(corpus, *languages) for name, corpus in corpora.items()}
    cache = _cache_folder(config)
    tokenizers = _tokenizers(config, cache, digests["train"], say)
    key = _key(digests, tokenizers.source.sha256, tokenizers.target.sha256, data.filter.model_dump())

    def build(folder: Path) -> None:
        columns = {}
        for name, corpus in corpora.items():
            say(f"encoding {name}: {corpus_name(corpus)}")
            rule = data.filter if name == "train" else None
            columns[name] = _encode_split(folder / name, corpus, languages, tokenizers, rule, data.processes)
            _refuse_empty(name, corpus, columns[name])
        (folder / "report.json").write_text(json.dumps(make_report(columns)))

    def load(folder: Path) -> Prepared:
        report = json.loads((folder / "report.json").read_text())
        tables = {name: _load_table(folder / name, report["splits"][name]["kept"]) for name in corpora}
        return Prepared(
            tokenizers=tokenizers,
            train=EncodedCorpus(tables["train"]),
            validation=EncodedCorpus(tables["validation"]),
            validation_pairs=_pairs(tables["validation"]),
            test_pairs=_pairs(tables["test"]) if "test" in tables else [],
            report=report,
            corpus_sha256=_key(digests),
        )

    return _cached(cache / f"corpus-{key}", load, build)


def _tokenizers(config: Config, cache: Path, train_digest: str, say: Callable[[str], None]) -> Tokenizers:
    if isinstance(config.tokenizer, GivenTokenizer):
        return learn(config.tokenizer, [])

    def build(folder: Path) -> None:
        say(f"learning the {config.tokenizer.type} tokenizer on {corpus_name(config.data.train)}")
        pairs = read_pairs(config.data.train, config.data.source_language, config.data.target_language)
        learn(config.tokenizer, pairs).save(folder)

    key = _key(train_digest, config.tokenizer.model_dump())
    return _cached(cache / f"tokenizer-{key}", Tokenizers.load, build)


def _refuse_empty(name: str, corpus: AnyCorpus, columns: dict[str, NDArray[Any]]) -> None:
    counts = np.bincount(columns["reason"], minlength=len(REASONS))
    if counts[REASONS.index(KEPT)] == 0:
        reasons = ", ".join(f"{count:,} {REASONS[place]}" for place, count in enumerate(counts) if count)
        remedy = " (see data.filter)" if counts[REASONS.index("empty")] < counts.sum() else ""
        raise DataError(f"data.{name}: {corpus_name(corpus)}: every pair was dropped: {reasons}{remedy}")


# --- encoding ---------------------------------------------------------------------------------------------------------


def _encode_split(
    folder: Path,
    corpus: AnyCorpus,
    languages: tuple[str, str],
    tokenizers: Tokenizers,
    rule: Filter | None,
    processes: int | None,
) -> dict[str, NDArray[Any]]:
    """Write the kept pairs of a split to ``folder`` (with their text, unless it is the training set); return the
    columns of all its pairs that the report is made of."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, _quiet_datasets():
        try:
            text = datasets.Dataset.from_generator(
                read_pairs_as_rows,
                features=TEXT,
                cache_dir=scratch,
                gen_kwargs={"corpus": corpus, "languages": languages},
            )
        except datasets.exceptions.DatasetGenerationError as error:
            if isinstance(error.__cause__, (NmtError, OSError)):
                raise error.__cause__ from None
            raise
        if processes is None:
            processes = (os.cpu_count() or 1) if len(text) >= LARGE else 1
        encoded = text.map(
            encode_batch,
            batched=True,
            batch_size=ENCODE_BATCH,
            fn_kwargs={"tokenizers": tokenizers, "rule": rule},
            features=ENCODED,
            num_proc=min(processes, len(text)) if processes > 1 else None,
            cache_file_name=str(Path(scratch) / "encoded.arrow"),
            new_fingerprint="encoded",
        )
        names = [name for name in ENCODED if name not in TEXT and name not in ("source", "target")]
        table = encoded.with_format("arrow").select_columns(names)[:]
        columns = {name: table[name].to_numpy() for name in names}
        kept = encoded.select(np.flatnonzero(columns["reason"] == REASONS.index(KEPT)))
        stored = ["source", "target"] if rule else ["source", "target", *TEXT]
        kept.select_columns(stored).save_to_disk(str(folder))
        return columns


def read_pairs_as_rows(corpus: AnyCorpus, languages: tuple[str, str]) -> Iterator[dict[str, str]]:
    """What ``datasets`` makes its table of."""
    for source, target in read_pairs(corpus, *languages):
        yield {"source_text": source, "target_text": target}


def encode_batch(batch: dict[str, list[str]], tokenizers: Tokenizers, rule: Filter | None) -> dict[str, Any]:
    """The columns of ``ENCODED`` for a batch of texts; without a rule only empty pairs get a reason to be dropped."""
    sources, targets = batch["source_text"], batch["target_text"]
    columns: dict[str, Any] = {}
    for side, texts, tokenizer in (("source", sources, tokenizers.source), ("target", targets, tokenizers.target)):
        ids = tokenizer.encode(texts)
        columns[side] = ids
        columns[f"{side}_words"] = [len(text.split()) for text in texts]
        columns[f"{side}_pieces"] = [len(each) for each in ids]
        columns[f"{side}_unknown"] = [each.count(tokenizer.unk_id) for each in ids]
    lengths = (columns[f"{side}_{unit}"] for unit in ("words", "pieces") for side in ("source", "target"))
    columns["reason"] = [REASONS.index(_reason(*each, rule)) for each in zip(*lengths, strict=True)]
    columns["source_hash"] = [_hash(source) for source in sources]
    columns["pair_hash"] = [_hash(f"{source}\n{target}") for source, target in zip(sources, targets, strict=True)]
    return columns


def _reason(source_words: int, target_words: int, source_pieces: int, target_pieces: int, rule: Filter | None) -> str:
    """Why a pair is dropped, or ``kept``. Lengths are of the whole pair's sides in words and in pieces."""
    if not min(source_words, target_words, source_pieces, target_pieces):
        return "empty"
    if rule is None:
        return KEPT
    longest, shortest = max(source_words, target_words), min(source_words, target_words)
    if rule.max_words is not None and longest > rule.max_words:
        return "too_long_words"
    if max(source_pieces, target_pieces) > rule.max_pieces:
        return "too_long_pieces"
    if rule.max_ratio is not None and longest > rule.max_ratio * shortest:
        return "ratio"
    return KEPT


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


@contextmanager
def _quiet_datasets() -> Iterator[None]:
    """Without the progress bars of ``datasets``."""
    shown = datasets.are_progress_bars_disabled() is False
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _load_table(folder: Path, rows: int) -> pa.Table:
    table = datasets.load_from_disk(str(folder), keep_in_memory=False).with_format("arrow")[:]
    if len(table) != rows:
        raise ValueError(f"{folder}: {len(table)} rows instead of {rows}")
    return table


def _pairs(table: pa.Table) -> list[Pair]:
    return list(map(Pair, table["source_text"].to_pylist(), table["target_text"].to_pylist()))


# --- cache ------------------------------------------------------------------------------------------------------------


def _cache_folder(config: Config) -> Path:
    return Path(config.data.cache or os.environ.get("NMT_CACHE") or Path.home() / ".cache" / "nmt").expanduser()


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True).encode()).hexdigest()


def _cached(folder: Path, load: Callable[[Path], T], build: Callable[[Path], None]) -> T:
    """What is in ``folder``; built first where it is absent or damaged.

    Built beside its place and then renamed, so that no reader sees half of it and of two that build at the same time
    the first one to finish wins.
    """
    if folder.exists():
        try:
            return load(folder)
        except Exception:  # whatever it is that is wrong with it, building it anew puts it right
            shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
            built = Path(scratch) / "entry"
            built.mkdir()
            build(built)
            try:
                built.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
    except OSError as error:
        raise DataError(
            f"data.cache: {folder.parent} cannot be written: {error.strerror or error}; "
            f"set data.cache, or the environment variable NMT_CACHE, to a folder with space"
        ) from error
    return load(folder)
