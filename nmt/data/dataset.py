"""Preparation of the data of a run: tokenizers, memory-mapped ids, and the report on the data.

The result is cached under a key made of the content of the corpora, the tokenizers and the options, so that other runs
on the same data reuse it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from nmt.config.schema import AnyCorpus, Config, Data, GivenTokenizer, Mix
from nmt.cores import cores
from nmt.data.cache import ABOUT, Say, cache_folder, cached
from nmt.data.corpus import Pair, corpus_digest, corpus_files, corpus_name, links_digest, read_pairs
from nmt.data.encoded import EncodedCorpus, TrainingSet, pairs_per_epoch
from nmt.data.encoding import Recipe, encode_split, mapped
from nmt.data.language_id import JUDGED_LINES, swapped_sides
from nmt.data.learning import learn
from nmt.data.lines import matching
from nmt.data.report import make_report
from nmt.data.tokenizer import Tokenizers, refuse_missing_tag, refuse_sampling
from nmt.errors import DataError, of_key
from nmt.files import fingerprint, write_json
from nmt.messages import Caution, counted

CACHE_FORMAT = 2
"""Part of every cache key; to be raised with any change to what is stored or to how pairs are encoded and filtered."""


Stamps = dict[str, list[tuple[int, ...] | None]]
"""What changes with the content of the files of each corpus, by its key in the section ``data``."""


@dataclass(frozen=True)
class PreparedData:
    """Everything that training needs of the data; ``validation_pairs`` and ``test_pairs`` are raw text, row by row."""

    tokenizers: Tokenizers
    train: TrainingSet
    validation: EncodedCorpus
    validation_pairs: list[Pair]
    test_pairs: list[Pair]
    report: dict[str, Any]
    digests: dict[str, str]
    """The digest of each corpus, by its key in the section ``data``."""

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
    stamps = _stamps(data)  # before the digests, so that no change between the two goes unseen
    digests = _digests(data)
    tokenizers = replace(_tokenizers(config, digests, stamps, say), reverse_source=data.reverse_source)
    if config.tokenizer.sampling is not None:
        refuse_sampling(tokenizers)
    corpora = data.training_corpora
    tags = {key: corpus.tag for key, corpus in corpora.items() if corpus.tag is not None}
    for key, tag in tags.items():
        refuse_missing_tag(tokenizers, tag, f"data.{key}.tag")
    with_text = config.tokenizer.sampling is not None or bool(data.linked)
    key = _key(CACHE_FORMAT, digests, tokenizers.sha256, data.filter.model_dump(), with_text)

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
    report, tables = cached(folder, load, lambda new: _build(new, config, tokenizers, stamps, with_text, say), say)
    sizes, counts = _pairs_in_epoch(data.train, report) if isinstance(data.train, Mix) else ((), ())
    train = TrainingSet(
        tables["train"],
        tokenizers,
        tags=set(map(tokenizers.source.piece_id, tags.values())),
        sampling=config.tokenizer.sampling,
        most=data.filter.max_pieces,
        sizes=sizes,
        counts=counts,
        seed=config.seed,
    )
    say(f"encoded corpus: {folder}")
    for problem in report["warnings"]:
        say(Caution(f"warning: {problem}"))
    held_out = {name: _pairs(tables[name]) for name in _held_out(data)}
    validation, test = EncodedCorpus(tables["validation"]), held_out.get("test", [])
    return PreparedData(tokenizers, train, validation, held_out["validation"], test, report, digests)


def _build(folder: Path, config: Config, tokenizers: Tokenizers, stamps: Stamps, with_text: bool, say: Say) -> None:
    """Encode all splits into ``folder`` and write the report."""
    data = config.data
    languages = data.source_language, data.target_language
    heads: dict[str, list[Pair]] = {}
    facts: dict[str, pa.Table] = {}
    files = _files(folder, data)
    held_out = Recipe(tokenizers, text=True)
    training = replace(held_out, rule=data.filter, text=with_text, links=bool(data.linked))
    for key, corpus in _corpora(data).items():
        say(f"encoding {key}: {corpus_name(corpus)}")
        own = replace(held_out, whole=key == "test") if key in _held_out(data) else replace(training, tag=corpus.tag)
        facts[key] = encode_split(files[key], corpus, languages, own, config.threads or cores())
        heads[key] = list(islice(read_pairs(corpus, *languages), JUDGED_LINES))
    _refuse_changed(data, stamps)
    keys = list(data.training_corpora)
    splits = {"train": pa.concat_tables(facts[key] for key in keys)} | {key: facts[key] for key in _held_out(data)}
    parts = {key.partition(".")[2]: facts[key] for key in keys} if isinstance(data.train, Mix) else {}
    report = make_report(splits, tokenizers, parts)
    for key, corpus in _corpora(data).items():
        _require_pairs(key, corpus, report["corpora"][key.partition(".")[2]] if "." in key else report["splits"][key])
    report["warnings"] = swapped_sides(heads, languages)
    write_json(folder / "report.json", report)
    write_json(folder / ABOUT, "; ".join(map(corpus_name, _corpora(data).values())))


def _pairs_in_epoch(mix: Mix, report: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The pairs of each corpus of a mix, and those that an epoch reads, which are added to the report.

    Raises DataError for a corpus of which an epoch would read nothing.
    """
    parts = report["corpora"]
    sizes = [part["kept"] for part in parts.values()]
    counts = pairs_per_epoch(sizes, [mix.mix[name] for name in parts], mix.temperature)
    for (name, part), count in zip(parts.items(), counts, strict=True):
        if not count:
            raise DataError(
                f"data.train.mix.{name}: {mix.mix[name]:g} leaves none of {part['kept']:,} pairs in an epoch; use "
                "more, or leave the corpus out"
            )
        part["pairs_in_epoch"] = count
    report["splits"]["train"]["pairs_in_epoch"] = sum(counts)
    return sizes, counts


def corpus_sha256(data: Data) -> str:
    """``PreparedData.corpus_sha256``, from reading the corpora only. Raises DataError where one cannot be read."""
    return _key(_digests(data))


def _held_out(data: Data) -> dict[str, AnyCorpus]:
    return {"validation": data.validation} | ({"test": data.test} if data.test else {})


def _corpora(data: Data) -> dict[str, AnyCorpus]:
    """All corpora by their keys in the section ``data``."""
    return data.training_corpora | _held_out(data)


def _files(entry: Path, data: Data) -> dict[str, Path]:
    """The file of each corpus in a cache entry; those of a mix are numbered."""
    names = (f"train-{place:02}" if "." in key else key for place, key in enumerate(_corpora(data)))
    return {key: entry / f"{name}.arrow" for key, name in zip(_corpora(data), names, strict=True)}


def _digests(data: Data) -> dict[str, str]:
    digests = {}
    for key, corpus in counted(_corpora(data).items(), "reading the corpora", len(_corpora(data)), "corpora"):
        with of_key(f"data.{key}"):
            digests[key] = corpus_digest(corpus, data.source_language, data.target_language)
        if corpus.links is not None:
            with of_key(f"data.{key}.links"):
                digests[f"{key}.links"] = links_digest(corpus.links)
    return digests


def _stamps(data: Data) -> Stamps:
    stamps = {}
    for key, corpus in _corpora(data).items():
        with of_key(f"data.{key}"):
            stamps[key] = [fingerprint(Path(file)) for file in corpus_files(corpus)]
        if corpus.links is not None:
            with of_key(f"data.{key}.links"):
                stamps[f"{key}.links"] = [fingerprint(Path(file)) for file in matching(corpus.links)]
    return stamps


def _refuse_changed(data: Data, stamps: Stamps) -> None:
    """Raise DataError if a file has changed since its stamp was taken: the cache would keep its new content under the
    digest of the old one."""
    for key, stamp in _stamps(data).items():
        if stamp != stamps[key]:
            raise DataError(f"data.{key}: changed while it was being read; try again when nothing writes to it")


def _tokenizers(config: Config, digests: Mapping[str, str], stamps: Stamps, say: Say) -> Tokenizers:
    """The tokenizers of a configuration; those that are learned read the corpora of a mix one after the other, each
    pair once, whatever its weight."""
    if isinstance(config.tokenizer, GivenTokenizer):
        with of_key("tokenizer"):
            return Tokenizers.of_files(config.tokenizer.source, config.tokenizer.target)
    learnable, data, corpora = config.tokenizer, config.data, config.data.training_corpora
    tags = list(dict.fromkeys(corpus.tag for corpus in corpora.values() if corpus.tag is not None))

    def build(folder: Path) -> None:
        names = "; ".join(map(corpus_name, corpora.values()))
        say(f"learning the {learnable.type} tokenizer: {names}")
        texts = (read_pairs(corpus, data.source_language, data.target_language) for corpus in corpora.values())
        pairs = counted(chain.from_iterable(texts), "reading text for the tokenizer", None, "pairs")
        learn(learnable, pairs, tags).save(folder)
        _refuse_changed(data, stamps)
        write_json(folder / ABOUT, names)

    text = [digests[key] for key in corpora]
    key = _key(CACHE_FORMAT, text, tags, learnable.model_dump(exclude={"sampling"}))
    return cached(cache_folder(data.cache) / f"tokenizer-{key}", Tokenizers.load, build, say)


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
