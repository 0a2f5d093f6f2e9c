"""Preparation of the data of a run: tokenizers, memory-mapped ids, and the report on the data.

Other runs reuse the result: it is cached under a key of the content of the corpora, the tokenizers and the options.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from nmt.config.schema import AnyCorpus, AnyTokenizer, Config, Data, GivenTokenizer, Mix
from nmt.cores import cores
from nmt.data.corpus import Pair, corpus_digest, corpus_name, file_sha256, read_pairs, read_terms
from nmt.data.encoded import EncodedCorpus, Recipe, TrainingSet, encode_split, mapped
from nmt.data.glossary import TERM_MARKS, Glossary
from nmt.data.protection import PLACEHOLDERS, Protection
from nmt.data.report import by_key, make_report
from nmt.data.tokenizer import Tokenizers, learn
from nmt.errors import DataError, NmtError, of_key
from nmt.files import alone, read_json, why_unwritable, write_json
from nmt.messages import Caution, Say, counted, silent

MOST_UNKNOWN = 0.1
"""A larger share of unknown pieces gets a caution."""
CACHE_FORMAT = 12
"""Part of every cache key; to be raised with any change to what is stored or to how pairs are encoded and filtered."""
Content = TypeVar("Content")
Digests = Mapping[str, str]
"""The digest of each corpus and of its links, by its key in the section ``data``."""


@dataclass(frozen=True)
class PreparedData:
    """Everything that training needs of the data; ``validation_pairs`` and ``test_pairs`` are raw text, row by row."""

    tokenizers: Tokenizers
    train: TrainingSet
    validation: EncodedCorpus
    validation_pairs: list[Pair]
    test_pairs: list[Pair]
    report: dict[str, Any]
    corpus_sha256: str


def prepare(config: Config, say: Say = silent, *, own: Path | None = None) -> PreparedData:
    """Learn or load the tokenizers, then encode, filter and count the corpora; or load the result from the cache.

    ``data.filter`` applies to training pairs. A validation pair is dropped only if a side is empty, because its loss
    needs both; a test pair is never dropped. ``say`` receives progress lines. Text is read as a stream. ``own`` is the
    directory of a run that resumes: its tokenizers replace those of ``training.start_from``.

    Raises DataError if a corpus or tokenizer cannot be used, no pair is left, or the cache is not writable.
    """
    data, options = config.data, config.tokenizer
    digests = _digests(data)
    with of_key("data.glossary.file"):
        protection = Protection(data.protect, data.tags)
        terms = Glossary(read_terms(data.glossary.file), data.glossary.share, protection) if data.glossary else None
    start_from = config.training.start_from and str(own or config.training.start_from)
    tokenizers = _tokenizers(options, start_from, data, digests, say).used_as(config)
    text = bool(options.dropout or data.rough or terms)
    recipe = Recipe(tokenizers, data.filter, text=text, links=bool(data.linked), glossary=terms)
    report, tables = _encoded(data, recipe, digests, config.threads or cores(), say)
    if data.glossary and not report["splits"]["train"]["terms"]:
        say(Caution(f"data.glossary.file: {data.glossary.file}: no training pair has a term and its translation"))
    if data.glossary and config.model.embeddings.tie != "all":
        say(Caution("model.embeddings.tie: should be all with data.glossary: the network copies terms"))
    for name, part in by_key(report).items():
        source, target = (part[side]["unknown_rate"] for side in ("source", "target"))
        if max(source, target) > MOST_UNKNOWN:
            shares = f"{source:.0%} of the source and {target:.0%} of the target pieces are unknown"
            say(Caution(f"data.{name}: {shares}; only a tokenizer learned from such text can read it"))
    parts = _parts(data.train, report) if isinstance(data.train, Mix) else ()
    train = TrainingSet(
        tables["train"], recipe, dropout=options.dropout, rough=data.rough, parts=parts, seed=config.seed
    )
    pairs = {
        name: list(map(Pair, table["source_text"].to_pylist(), table["target_text"].to_pylist()))
        for name, table in tables.items()
        if name != "train"
    }
    for name, split in pairs.items():
        if unknown := next(filter(None, (tokenizers.protection.unknown_tag(pair.source) for pair in split)), None):
            say(Caution(f"data.{name}: a source {unknown}"))
    validation, test = pairs["validation"], pairs.get("test", [])
    return PreparedData(tokenizers, train, EncodedCorpus(tables["validation"]), validation, test, report, _key(digests))


def corpus_sha256(data: Data) -> str:
    """``PreparedData.corpus_sha256``, from reading the corpora only. Raises DataError where one cannot be read."""
    return _key(_digests(data))


def _splits(data: Data) -> dict[str, dict[str, AnyCorpus]]:
    """The corpora of each split by their keys in the section ``data``."""
    splits = {"train": data.training_corpora, "validation": {"validation": data.validation}}
    return splits | ({"test": {"test": data.test}} if data.test else {})


def _digests(data: Data) -> Digests:
    digests = {}
    corpora = {key: corpus for split in _splits(data).values() for key, corpus in split.items()}
    for key, corpus in counted(corpora.items(), "reading the corpora", len(corpora), "corpora"):
        with of_key(f"data.{key}"):
            digests[key] = corpus_digest(corpus, data.source_language, data.target_language)
            if corpus.links is not None:
                digests[f"{key}.links"] = file_sha256(corpus.links)
    if data.glossary is not None:
        with of_key("data.glossary.file"):
            digests["glossary"] = file_sha256(data.glossary.file)
    return digests


def _tokenizers(options: AnyTokenizer, start_from: str | None, data: Data, digests: Digests, say: Say) -> Tokenizers:
    """The tokenizers of a configuration, or of the run that training starts from; those that are learned read the
    corpora of a mix one after the other, each pair once, whatever its weight."""
    corpora = data.training_corpora
    pieces, both = [*data.tags, *(TERM_MARKS if data.glossary else ())], PLACEHOLDERS if data.protect else ()
    owner, remedy = "tokenizer", f"learn the model with: spm_train --user_defined_symbols={','.join(pieces)}"
    if start_from is not None:
        files = {side: f"{start_from}/tokenizer/{side}.model" for side in ("source", "target")}
        options = GivenTokenizer(type="given", **files)
        owner, remedy = "training.start_from", f"{start_from} was trained without it; leave it out"
    if isinstance(options, GivenTokenizer):
        with of_key(owner):
            tokenizers = Tokenizers.of_files(options.source, options.target)
        for key, corpus in corpora.items():
            if corpus.tag not in (None, *tokenizers.source.scores()):
                raise DataError(f"data.{key}.tag: '{corpus.tag}' is not a piece of the source vocabulary; {remedy}")
        return tokenizers

    def read() -> Iterator[Pair]:
        for key, corpus in corpora.items():
            with of_key(f"data.{key}"):
                yield from read_pairs(corpus, data.source_language, data.target_language)

    def build(folder: Path) -> None:
        say(f"learning the {options.type} tokenizer: {'; '.join(map(corpus_name, corpora.values()))}")
        learn(options, counted(read(), "reading text for the tokenizer", None, "pairs"), pieces, both).save(folder)

    text = [digests[key] for key in corpora]
    key = _key(CACHE_FORMAT, text, [pieces, both], options.model_dump(exclude={"dropout"}))
    return cached(data.cache, f"tokenizer-{key}", Tokenizers.load, build, say)


def _encoded(
    data: Data, training: Recipe, digests: Digests, threads: int, say: Say
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The report on all splits, and the pairs of each; the training set is encoded by the recipe ``training``."""
    held_out = Recipe(training.tokenizers, text=True, tag=training.tokenizers.to)
    recipes = {"train": training, "validation": held_out, "test": replace(held_out, whole=True)}
    splits, languages = _splits(data), (data.source_language, data.target_language)

    def build(folder: Path) -> None:
        facts = {
            name: encode_split(folder / f"{name}.arrow", corpora, languages, recipes[name], threads, say)
            for name, corpora in splits.items()
        }
        write_json(folder / "report.json", make_report(facts, training.tokenizers))

    def load(folder: Path) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        report = read_json(folder / "report.json")
        tables = {name: mapped(folder / f"{name}.arrow") for name in splits}
        if any(len(table) != report["splits"][name]["kept"] for name, table in tables.items()):
            raise ValueError("another number of pairs")
        say(f"encoded corpus: {folder}")
        return report, tables

    options = [data.filter.model_dump(), training.text, data.protect, training.tokenizers.to, bool(data.rough)]
    key = _key(CACHE_FORMAT, digests, training.tokenizers.sha256, options)
    return cached(data.cache, f"corpus-{key}", load, build, say)


def _parts(mix: Mix, report: dict[str, Any]) -> list[tuple[int, int]]:
    """The pairs of each corpus of a mix, and those that an epoch reads, which are added to the report."""
    for name, part in report["corpora"].items():
        part["pairs_in_epoch"] = round(mix.mix[name] * part["kept"])
        if not part["pairs_in_epoch"]:
            problem = f"data.train.mix.{name}: leaves no pair of {part['kept']:,}"
            raise DataError(f"{problem}; use more, or leave the corpus out")
    parts = [(part["kept"], part["pairs_in_epoch"]) for part in report["corpora"].values()]
    report["splits"]["train"]["pairs_in_epoch"] = sum(count for _, count in parts)
    return parts


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# --- the cache: folders that one process builds under a temporary name, and renames when they are complete ------------


def cached(
    cache: str | None, name: str, load: Callable[[Path], Content], build: Callable[[Path], None], say: Say
) -> Content:
    """Load the entry ``name`` of the ``cache``; build it first from the corpora if it is missing or damaged.

    One process builds, the others wait. An entry that a killed process left unfinished is built again.
    """
    folder = cache_folder(cache) / name
    if (content := _loaded(folder, load)) is not None:
        return content
    scratch = folder.with_name(f"building-{folder.name}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder, say):
            if (content := _loaded(folder, load)) is not None:
                return content  # another process has built it meanwhile
            if folder.exists():
                say(f"{folder}: damaged; building it again")
            for old in (folder, scratch):
                shutil.rmtree(old, ignore_errors=True)
            scratch.mkdir()
            try:
                build(scratch)
                scratch.rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise unwritable(folder.parent, error.strerror or error) from error
    return load(folder)


def _loaded(folder: Path, load: Callable[[Path], Content]) -> Content | None:
    """Load an entry; None if it is missing or damaged."""
    if folder.exists():
        with suppress(OSError, ValueError, LookupError, NmtError):
            return load(folder)
    return None


def try_cache(data: Data) -> None:
    """Raise DataError if the cache is not writable."""
    cache = cache_folder(data.cache)
    if reason := why_unwritable(cache):
        raise unwritable(cache, reason)


def cache_folder(named: str | None) -> Path:
    """The directory of the cache; ``named`` is ``data.cache``, or None. Raises DataError without a home directory."""
    try:
        return Path(named or os.environ.get("NMT_CACHE") or "~/.cache/nmt").expanduser()
    except RuntimeError as error:
        raise DataError(f"data.cache: {error} Set data.cache, or NMT_CACHE, to a directory") from None


def unwritable(cache: Path, reason: object) -> DataError:
    """The error for a cache that cannot be written."""
    remedy = "set data.cache, or the environment variable NMT_CACHE, to a writable directory with enough space"
    return DataError(f"data.cache: {cache}: cannot be written: {reason}; {remedy}")
