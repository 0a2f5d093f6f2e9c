"""Preparation of the data of a run: tokenizers, memory-mapped ids, and the report on the data.

The result is cached under a key made of the content of the corpora, the tokenizers and the options, so that other runs
on the same data reuse it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from nmt.config.schema import AnyCorpus, Config, Data, GivenTokenizer, LearnedTokenizer, Mix
from nmt.cores import cores
from nmt.data.cache import cache_folder, cached
from nmt.data.corpus import Pair, corpus_digest, corpus_name, read_pairs
from nmt.data.encoded import EncodedCorpus, TrainingSet
from nmt.data.encoding import Recipe, encode_split, mapped
from nmt.data.language_id import swapped_sides
from nmt.data.learning import learn
from nmt.data.lines import file_sha256, matching
from nmt.data.report import make_report
from nmt.data.tokenizer import Tokenizers, refuse_missing_tag
from nmt.errors import DataError, of_key
from nmt.files import write_json
from nmt.messages import Caution, Say, counted

CACHE_FORMAT = 3
"""Part of every cache key; to be raised with any change to what is stored or to how pairs are encoded and filtered."""


ENOUGH = 5_000
"""Pairs, of about 100,000 words: the smallest corpora that networks learned to translate a natural language from
(Sennrich & Zhang 2019)."""
Digests = Mapping[str, str]
"""The digest of each corpus, by its key in the section ``data``."""


@dataclass(frozen=True)
class PreparedData:
    """Everything that training needs of the data; ``validation_pairs`` and ``test_pairs`` are raw text, row by row."""

    tokenizers: Tokenizers
    train: TrainingSet
    validation: EncodedCorpus
    validation_pairs: list[Pair]
    test_pairs: list[Pair]
    report: dict[str, Any]
    digests: Digests

    @property
    def corpus_sha256(self) -> str:
        """The digest of all corpora."""
        return _key(self.digests)


def prepare(config: Config, say: Say = lambda line: None) -> PreparedData:
    """Learn or load the tokenizers, then encode, filter and count the corpora; or load the result from the cache.

    ``data.filter`` applies to training pairs. A validation pair is dropped only if a side is empty, because its loss
    needs both; a test pair is never dropped. ``say`` receives progress lines. Text is read as a stream.

    Raises DataError if a corpus or tokenizer cannot be used, no pair is left, or the cache is not writable.
    """
    data = config.data
    digests = _digests(data)
    tokenizers = replace(_tokenizers(config, digests, say), reverse_source=data.reverse_source)
    corpora = data.training_corpora
    tags = {key: corpus.tag for key, corpus in corpora.items() if corpus.tag is not None}
    for key, tag in tags.items():
        refuse_missing_tag(tokenizers, tag, f"data.{key}.tag")
    dropout = config.tokenizer.dropout if isinstance(config.tokenizer, LearnedTokenizer) else 0.0
    training = Recipe(tokenizers, rule=data.filter, text=bool(dropout or data.linked), links=bool(data.linked))
    key = _key(CACHE_FORMAT, digests, tokenizers.sha256, data.filter.model_dump(), training.text)

    def load(folder: Path) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        report = json.loads((folder / "report.json").read_text())
        files = _files(folder, data)
        tables = {name: mapped(files[name]) for name in _held_out(data)}
        tables["train"] = mapped(*(files[name] for name in corpora))
        for name, table in tables.items():
            if len(table) != report["splits"][name]["kept"]:
                raise ValueError(f"{folder}: {len(table)} pairs of {name}")
        return report, tables

    folder = cache_folder(data.cache) / f"corpus-{key}"
    report, tables = cached(folder, load, lambda new: _build(new, config, training, digests, say), say)
    train = TrainingSet(
        tables["train"],
        tokenizers,
        tags=set(map(tokenizers.source.piece_id, tags.values())),
        dropout=dropout,
        parts=_parts(data.train, report) if isinstance(data.train, Mix) else (),
        seed=config.seed,
    )
    say(f"encoded corpus: {folder}")
    problems = [
        f"data.{key}: {corpus_name(_corpora(data)[key])}: {text}" for key, text in report["warnings"].items() if text
    ]
    if len(train) < ENOUGH:
        few = f"data.train: {len(train):,} pairs are too few; with fewer than {ENOUGH:,} a network hardly learns"
        problems.append(f"{few} to translate a natural language")
    for problem in problems:
        say(Caution(f"warning: {problem}"))
    held_out = {name: _pairs(tables[name]) for name in _held_out(data)}
    validation, test = EncodedCorpus(tables["validation"]), held_out.get("test", [])
    return PreparedData(tokenizers, train, validation, held_out["validation"], test, report, digests)


def _build(folder: Path, config: Config, training: Recipe, digests: Digests, say: Say) -> None:
    """Encode all splits into ``folder``, the training set by the recipe ``training``, and write the report."""
    data, tokenizers = config.data, training.tokenizers
    languages = data.source_language, data.target_language
    held_out = Recipe(tokenizers, text=True)
    facts: dict[str, pa.Table] = {}
    warnings: dict[str, str] = {}
    for (key, corpus), file in zip(_corpora(data).items(), _files(folder, data).values(), strict=True):
        say(f"encoding {key}: {corpus_name(corpus)}")
        own = replace(held_out, whole=key == "test") if key in _held_out(data) else replace(training, tag=corpus.tag)
        with of_key(f"data.{key}"):
            facts[key] = encode_split(file, corpus, languages, own, config.threads or cores())
        warnings[key] = swapped_sides(read_pairs(corpus, *languages), languages)
    _refuse_changed(data, digests)
    keys = list(data.training_corpora)
    splits = {"train": pa.concat_tables(facts[key] for key in keys)} | {key: facts[key] for key in _held_out(data)}
    parts = {key.partition(".")[2]: facts[key] for key in keys} if isinstance(data.train, Mix) else {}
    report = make_report(splits, tokenizers, parts)
    for key, corpus in _corpora(data).items():
        _require_pairs(key, corpus, report["corpora"][key.partition(".")[2]] if "." in key else report["splits"][key])
    write_json(folder / "report.json", report | {"warnings": warnings})


def _parts(mix: Mix, report: dict[str, Any]) -> list[tuple[int, int]]:
    """The pairs of each corpus of a mix, and those that an epoch reads, which are added to the report.

    Raises DataError for a corpus of which an epoch would read nothing.
    """
    for name, part in report["corpora"].items():
        part["pairs_in_epoch"] = round(mix.mix[name] * part["kept"])
        if not part["pairs_in_epoch"]:
            raise DataError(
                f"data.train.mix.{name}: {mix.mix[name]:g} leaves none of {part['kept']:,} pairs in an epoch; use "
                "more, or leave the corpus out"
            )
    parts = [(part["kept"], part["pairs_in_epoch"]) for part in report["corpora"].values()]
    report["splits"]["train"]["pairs_in_epoch"] = sum(count for _, count in parts)
    return parts


def corpus_sha256(data: Data) -> str:
    """``PreparedData.corpus_sha256``, from reading the corpora only. Raises DataError where one cannot be read."""
    return _key(_digests(data))


def _held_out(data: Data) -> dict[str, AnyCorpus]:
    return {"validation": data.validation} | ({"test": data.test} if data.test else {})


def _corpora(data: Data) -> dict[str, AnyCorpus]:
    """All corpora by their keys in the section ``data``."""
    return data.training_corpora | _held_out(data)


def _files(entry: Path, data: Data) -> dict[str, Path]:
    """The file of each corpus in a cache entry; those of a mix, whose names may be any text, are numbered."""
    names = (f"train-{place:02}" if "." in key else key for place, key in enumerate(_corpora(data)))
    return {key: entry / f"{name}.arrow" for key, name in zip(_corpora(data), names, strict=True)}


def _digests(data: Data) -> Digests:
    digests = {}
    for key, corpus in counted(_corpora(data).items(), "reading the corpora", len(_corpora(data)), "corpora"):
        with of_key(f"data.{key}"):
            digests[key] = corpus_digest(corpus, data.source_language, data.target_language)
        if corpus.links is not None:
            with of_key(f"data.{key}.links"):
                digests[f"{key}.links"] = " ".join(map(file_sha256, matching(corpus.links)))
    return digests


def _refuse_changed(data: Data, digests: Digests) -> None:
    """Raise DataError if a corpus has changed: the cache would keep its new content under the digest of the old one."""
    for key, digest in _digests(data).items():
        if digest != digests[key]:
            raise DataError(f"data.{key}: changed while it was being read; try again when nothing writes to it")


def _tokenizers(config: Config, digests: Digests, say: Say) -> Tokenizers:
    """The tokenizers of a configuration; those that are learned read the corpora of a mix one after the other, each
    pair once, whatever its weight."""
    if isinstance(config.tokenizer, GivenTokenizer):
        with of_key("tokenizer"):
            return Tokenizers.of_files(config.tokenizer.source, config.tokenizer.target)
    learnable, data, corpora = config.tokenizer, config.data, config.data.training_corpora
    tags = list(dict.fromkeys(corpus.tag for corpus in corpora.values() if corpus.tag is not None))

    def build(folder: Path) -> None:
        say(f"learning the {learnable.type} tokenizer: {'; '.join(map(corpus_name, corpora.values()))}")
        pairs = counted(_training_pairs(data), "reading text for the tokenizer", None, "pairs")
        learn(learnable, pairs, tags).save(folder)
        _refuse_changed(data, digests)

    text = [digests[key] for key in corpora]
    key = _key(CACHE_FORMAT, text, tags, learnable.model_dump(exclude={"dropout"}))
    return cached(cache_folder(data.cache) / f"tokenizer-{key}", Tokenizers.load, build, say)


def _training_pairs(data: Data) -> Iterator[Pair]:
    for key, corpus in data.training_corpora.items():
        with of_key(f"data.{key}"):
            yield from read_pairs(corpus, data.source_language, data.target_language)


def _require_pairs(key: str, corpus: AnyCorpus, split: Mapping[str, Any]) -> None:
    if not split["kept"]:
        reasons = {reason: count for reason, count in split["dropped"].items() if count}
        found = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
        remedy = "" if set(reasons) == {"empty"} else "; see data.filter"
        raise DataError(f"data.{key}: {corpus_name(corpus)}: all pairs were dropped ({found}){remedy}")


def _pairs(table: pa.Table) -> list[Pair]:
    return list(map(Pair, table["source_text"].to_pylist(), table["target_text"].to_pylist()))


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
