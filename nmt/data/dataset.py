"""Preparation of the data of a run: tokenizers, memory-mapped ids, and the report on the data.

The result is cached under a key made of the content of the corpora, the tokenizers and the options, so that other runs
on the same data reuse it.
"""

import hashlib
import json
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus, Config, Data, GivenTokenizer
from nmt.data.corpus import Pair, corpus_digest, corpus_name, links_digest, read_pairs
from nmt.data.encoded import EncodedCorpus, TextCorpus
from nmt.data.encoding import encode_split
from nmt.data.language_id import LANGUAGE_ID_FORMAT, LanguageId
from nmt.data.report import KEPT, REASONS, make_report
from nmt.data.substitution import SubstitutedCorpus
from nmt.data.tokenizer import Tokenizers, learn, refuse_sampling
from nmt.errors import DataError, of_key
from nmt.foundation.files import printable, unchanged, write_checksums

CORPUS_HASH = 2
"""Part of the corpus hash in the manifest of a run; a change would prevent older runs from resuming."""
CACHE_FORMAT = 3
"""Part of every cache key; to be raised with any change to what is stored or to how pairs are encoded and filtered."""
BUILDING = "building-"
"""Prefix of the names of unfinished cache entries."""
ABANDONED = 24 * 3600
"""Age in seconds at which an unfinished entry counts as left behind by a killed process."""
Content = TypeVar("Content")


@dataclass(frozen=True)
class PreparedData:
    """Everything that training needs of the data; ``validation_pairs`` and ``test_pairs`` are raw text, row by row."""

    tokenizers: Tokenizers
    train: EncodedCorpus | SubstitutedCorpus
    validation: EncodedCorpus
    validation_pairs: list[Pair]
    test_pairs: list[Pair]
    report: dict[str, Any]
    corpus_sha256: str
    language_id: LanguageId | None


def prepare(config: Config, say: Callable[[str], None] = lambda line: None) -> PreparedData:
    """Learn or load the tokenizers, then encode, filter and count the corpora; or load the result from the cache.

    ``data.filter`` applies to training pairs. A validation pair is dropped only if a side is empty, because its loss
    needs both; a test pair is never dropped. ``say`` receives progress lines.

    Raises DataError if a corpus or tokenizer cannot be used, no pair is left, or the cache is not writable.
    """
    data = config.data
    languages = data.source_language, data.target_language
    corpora, digests = _corpora(data), _digests(data)
    cache = cache_folder(config)
    tokenizers = replace(_tokenizers(config, cache, digests["train"], say), reverse_source=data.reverse_source)
    sampling = config.tokenizer.sampling
    refuse_sampling(tokenizers, sampling)
    with_text = sampling is not None or data.train.links is not None
    sha256 = tokenizers.source.sha256, tokenizers.target.sha256
    extra = ["text"] if with_text else []
    key = _key(CACHE_FORMAT, digests, *sha256, data.filter.model_dump(), LANGUAGE_ID_FORMAT, *extra)

    def build(folder: Path) -> None:
        columns, heads = {}, {}
        for name, corpus in corpora.items():
            say(f"encoding {name}: {corpus_name(corpus)}")
            how: dict[str, Any] = {"rule": None, "whole": name == "test"}
            if name == "train":
                how = {"rule": data.filter, "text": with_text, "links_digest": digests.get("links")}
            columns[name], heads[name] = encode_split(
                folder / name, corpus, digests[name], languages, tokenizers, processes=data.processes, **how
            )
            _require_pairs(name, corpus, columns[name]["reason"])
        language_id = LanguageId.learn(heads.pop("train"))
        language_id.save(folder)
        report = make_report(columns, tokenizers) | {"languages": language_id.report(heads, languages)}
        (folder / "report.json").write_text(json.dumps(report, indent=2))

    def load(folder: Path) -> PreparedData:
        report = json.loads((folder / "report.json").read_text())
        tables = {name: _load_table(folder / name, report["splits"][name]["kept"]) for name in corpora}
        most = data.filter.max_pieces
        return PreparedData(
            tokenizers=tokenizers,
            train=TextCorpus(tables["train"], tokenizers, sampling=sampling, seed=config.seed, most=most)
            if with_text
            else EncodedCorpus(tables["train"]),
            validation=EncodedCorpus(tables["validation"]),
            validation_pairs=_pairs(tables["validation"]),
            test_pairs=_pairs(tables["test"]) if "test" in tables else [],
            report=report,
            corpus_sha256=_key(CORPUS_HASH, digests),
            language_id=LanguageId.load(folder),
        )

    folder = cache / f"corpus-{key}"
    prepared = _cached(folder, load, build, say)
    if data.substitution is not None:
        train = SubstitutedCorpus(prepared.train, tokenizers, data.substitution, seed=config.seed)
        prepared = replace(prepared, train=train)
    say(f"encoded corpus: {folder}")
    for problem in prepared.report["languages"]["warnings"]:
        say(f"warning: {problem}")
    return prepared


def corpus_sha256(data: Data) -> str:
    """``Prepared.corpus_sha256``, by reading the corpora alone. Raises DataError where one cannot be read."""
    return _key(CORPUS_HASH, _digests(data))


def _corpora(data: Data) -> dict[str, AnyCorpus]:
    return {"train": data.train, "validation": data.validation} | ({"test": data.test} if data.test else {})


def _digests(data: Data) -> dict[str, str]:
    digests = {}
    for name, corpus in _corpora(data).items():
        with of_key(f"data.{name}"):
            digests[name] = corpus_digest(corpus, data.source_language, data.target_language)
    if data.train.links is not None:
        with of_key("data.train.links"):
            digests["links"] = links_digest(data.train.links)
    return digests


def try_cache(config: Config) -> None:
    """Raise DataError if the cache is not writable; leave nothing behind."""
    cache = cache_folder(config)
    missing: list[Path] = []
    try:
        missing += (folder for folder in (cache, *cache.parents) if not folder.exists())
        cache.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
    except OSError as error:
        raise _unwritable(cache, error) from error
    finally:
        for folder in missing:
            with suppress(OSError):  # not created, or already used by another process
                folder.rmdir()


def cache_folder(config: Config) -> Path:
    """The directory of the cache. Raises DataError if there is no home directory or the name cannot be used."""
    named = config.data.cache or os.environ.get("NMT_CACHE") or "~/.cache/nmt"
    try:
        if named.startswith("~/") and os.environ.get("HOME") == "":  # an empty HOME is not the root
            named = pwd.getpwuid(os.getuid()).pw_dir + named[1:]
        cache = Path(named).expanduser()
    except (RuntimeError, KeyError) as error:  # no home directory
        raise DataError(f"data.cache: {error} Set data.cache, or NMT_CACHE, to a directory") from None
    place = str(cache.absolute())
    if printable(place) != place:  # Arrow cannot open such a file
        raise DataError(
            f"data.cache: {printable(place)}: not a UTF-8 name; set data.cache, or the environment variable "
            "NMT_CACHE, to another directory"
        )
    return cache


def _unwritable(cache: Path, error: OSError) -> DataError:
    return DataError(
        f"data.cache: {cache}: cannot be written: {error.strerror or error}; "
        f"set data.cache, or the environment variable NMT_CACHE, to a writable directory with enough space"
    )


def _tokenizers(config: Config, cache: Path, train_digest: str, say: Callable[[str], None]) -> Tokenizers:
    if isinstance(config.tokenizer, GivenTokenizer):
        with of_key("tokenizer"):
            return learn(config.tokenizer, [])

    def build(folder: Path) -> None:
        say(f"learning the {config.tokenizer.type} tokenizer: {corpus_name(config.data.train)}")
        pairs = read_pairs(config.data.train, config.data.source_language, config.data.target_language, train_digest)
        learn(config.tokenizer, pairs).save(folder)

    key = _key(CACHE_FORMAT, train_digest, config.tokenizer.model_dump(exclude={"sampling"}))
    return _cached(cache / f"tokenizer-{key}", Tokenizers.load, build, say)


def _require_pairs(name: str, corpus: AnyCorpus, reasons: NDArray[np.int8]) -> None:
    counts = dict(zip(REASONS, np.bincount(reasons, minlength=len(REASONS)), strict=True))
    if counts[KEPT] == 0:
        found = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        remedy = "" if counts["empty"] == len(reasons) else "; see data.filter"
        raise DataError(f"data.{name}: {corpus_name(corpus)}: all pairs were dropped ({found}){remedy}")


def _load_table(folder: Path, rows: int) -> pa.Table:
    table = datasets.load_from_disk(str(folder), keep_in_memory=False).with_format("arrow")[:]
    if len(table) != rows:
        raise ValueError(f"{folder}: {len(table)} rows instead of {rows}")
    return table


def _pairs(table: pa.Table) -> list[Pair]:
    return list(map(Pair, table["source_text"].to_pylist(), table["target_text"].to_pylist()))


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _cached(
    folder: Path, load: Callable[[Path], Content], build: Callable[[Path], None], say: Callable[[str], None]
) -> Content:
    """Load a cache entry; build it first if it is missing or damaged.

    An entry is built aside and then renamed, so that no process reads half of it. If two processes build the same
    entry, both use that of the first to finish.
    """
    if folder.exists():
        with suppress(Exception):  # any error: build it again
            if unchanged(folder):
                return load(folder)
        say(f"{folder}: damaged; building it again")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent, BUILDING)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=BUILDING) as scratch:
            built = Path(scratch) / "entry"
            built.mkdir()
            if folder.exists():  # damaged: removed with the scratch directory
                folder.rename(built.with_name("damaged"))
            build(built)
            write_checksums(built)
            try:
                built.rename(folder)
            except OSError:
                if not (folder.exists() and unchanged(folder)):
                    raise
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    return load(folder)


def remove_abandoned(place: Path, prefix: str) -> None:
    """Remove directories with this prefix that killed processes left behind."""
    for scratch in place.glob(f"{prefix}*"):
        with suppress(OSError):  # another process is removing it
            touched = max(path.stat().st_mtime for path in (scratch, *scratch.rglob("*")))
            if time.time() - touched > ABANDONED:
                shutil.rmtree(scratch, ignore_errors=True)
