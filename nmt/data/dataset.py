"""Preparation of the data of a run: tokenizers, memory-mapped ids, and the report on the data.

The result is cached under a key made of the content of the corpora, the tokenizers and the options, so that other runs
on the same data reuse it.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from nmt.config.schema import AnyCorpus, Config, Data, GivenTokenizer, Mix
from nmt.data.cache import ABOUT, Digests, Say, cache_folder, cached
from nmt.data.corpus import Pair, corpus_digest, corpus_name, links_digest, read_pairs
from nmt.data.encoded import EncodedCorpus, MappedTable, TextCorpus
from nmt.data.encoding import Recipe
from nmt.data.epochs import MixedCorpus, pairs_per_epoch
from nmt.data.language_id import HEAD, swapped_sides
from nmt.data.learning import learn
from nmt.data.report import REASONS, Counted, Counts, make_report
from nmt.data.splits import HASHES, TABLE, Text, encode_split
from nmt.data.tokenizer import Tokenizers, refuse_missing_tag, refuse_sampling
from nmt.errors import DataError, of_key
from nmt.files import write_json
from nmt.messages import Caution, counted

CACHE_FORMAT = 1
"""Part of every cache key; to be raised with any change to what is stored or to how pairs are encoded and filtered."""


@dataclass(frozen=True)
class PreparedData:
    """Everything that training needs of the data; ``validation_pairs`` and ``test_pairs`` are raw text, row by row."""

    tokenizers: Tokenizers
    train: EncodedCorpus | MixedCorpus
    validation: EncodedCorpus
    validation_pairs: list[Pair]
    test_pairs: list[Pair]
    report: dict[str, Any]
    corpus_sha256: str
    digests: dict[str, str]
    """The digest of each corpus, by its key in the section ``data``; ``corpus_sha256`` is that of all of them."""


def prepare(config: Config, say: Say = lambda line: None) -> PreparedData:
    """Learn or load the tokenizers, then encode, filter and count the corpora; or load the result from the cache.

    ``data.filter`` applies to training pairs. A validation pair is dropped only if a side is empty, because its loss
    needs both; a test pair is never dropped. ``say`` receives progress lines. Text is read as a stream.

    Raises DataError if a corpus or tokenizer cannot be used, no pair is left, or the cache is not writable.
    """
    data = config.data
    cache = cache_folder(data.cache)
    remembered = Digests(cache)
    digests = _digests(data, remembered)
    tokenizers = replace(_tokenizers(config, cache, digests, remembered, say), reverse_source=data.reverse_source)
    sampling = config.tokenizer.sampling
    refuse_sampling(tokenizers, sampling)
    linked = any(corpus.links is not None for corpus in data.training_corpora.values())
    for key, corpus in data.training_corpora.items():
        if corpus.tag is not None:
            refuse_missing_tag(tokenizers, corpus.tag, f"data.{key}.tag")
    with_text = sampling is not None or linked
    sha256 = tokenizers.source.sha256, tokenizers.target.sha256
    extra = ["text"] if with_text else []
    key = _key(CACHE_FORMAT, digests, *sha256, data.filter.model_dump(), *extra)

    def build(folder: Path) -> None:
        _build(folder, data, digests, tokenizers, say, text=with_text, links=linked)

    def load(folder: Path) -> PreparedData:
        report = json.loads((folder / "report.json").read_text())
        loaded = {name: _mapped([folder / name], report["splits"][name]["kept"]) for name in _held_out(data)}
        validation = loaded["validation"]
        return PreparedData(
            tokenizers=tokenizers,
            train=_training_set(folder, config, tokenizers, report, text=with_text),
            validation=EncodedCorpus(validation.table, validation.release),
            validation_pairs=_pairs(validation.table),
            test_pairs=_pairs(loaded["test"].table) if "test" in loaded else [],
            report=report,
            corpus_sha256=_key(digests),
            digests=digests,
        )

    folder = cache / f"corpus-{key}"
    prepared = cached(folder, load, build, say, remembered)
    if isinstance(data.train, Mix):
        prepared = _mixed(prepared, data.train, seed=config.seed)
    say(f"encoded corpus: {folder}")
    for problem in prepared.report["warnings"]:
        say(Caution(f"warning: {problem}"))
    return prepared


def _build(
    folder: Path, data: Data, digests: Mapping[str, str], tokenizers: Tokenizers, say: Say, *, text: bool, links: bool
) -> None:
    """Encode all splits into ``folder`` and write the report."""
    languages = data.source_language, data.target_language
    counted: dict[str, Counted] = {}
    heads: dict[str, list[Pair]] = {}
    plain = Recipe(tokenizers, languages, text=True)
    training = replace(plain, rule=data.filter, text=text, links=links)
    recipes = {key: replace(training, tag=corpus.tag) for key, corpus in data.training_corpora.items()}
    recipes |= {name: replace(plain, whole=name == "test") for name in _held_out(data)}
    for place, (key, corpus) in enumerate(_corpora(data).items()):
        say(f"encoding {key}: {corpus_name(corpus)}")
        part = Text(corpus, languages, digests[key], digests.get(_links_key(key)))
        counted[key], heads[key] = encode_split(folder / _folder_name(key, place), part, recipes[key], data.processes)
        _require_pairs(key, corpus, counted[key].counts)
    training_keys = list(data.training_corpora)
    held_out = {name: counted[name] for name in _held_out(data)}
    splits = {"train": Counted.sum([counted[key] for key in training_keys])} | held_out
    corpora = {key.partition(".")[2]: counted[key] for key in training_keys if isinstance(data.train, Mix)}
    head = chain.from_iterable(heads[key][: HEAD // len(training_keys)] for key in training_keys)
    report = make_report(splits, tokenizers, corpora) | {"warnings": swapped_sides(heads, languages, list(head))}
    (folder / "report.json").write_text(json.dumps(report, indent=2))
    parts = enumerate(_corpora(data).items())
    write_json(folder / ABOUT, {_folder_name(key, place): corpus_name(corpus) for place, (key, corpus) in parts})
    for place, key in enumerate(_corpora(data)):
        (folder / _folder_name(key, place) / HASHES).unlink()


def _training_set(
    folder: Path, config: Config, tokenizers: Tokenizers, report: dict[str, Any], *, text: bool
) -> EncodedCorpus:
    """Map the training set of a cache entry, the corpora of a mix end to end."""
    data = config.data
    folders = [folder / _folder_name(key, place) for place, key in enumerate(data.training_corpora)]
    mapped = _mapped(folders, report["splits"]["train"]["kept"])
    parts = report.get("corpora", {"train": report["splits"]["train"]})
    sizes = [part["kept"] for part in parts.values()]
    tags = [(size, corpus.tag) for size, corpus in zip(sizes, data.training_corpora.values(), strict=True)]
    corpus = EncodedCorpus(mapped.table, mapped.release)
    if text:
        sampling, most = config.tokenizer.sampling, data.filter.max_pieces
        how: dict[str, Any] = {"sampling": sampling, "seed": config.seed, "most": most, "tags": tags}
        corpus = TextCorpus(mapped.table, tokenizers, **how, release=mapped.release)
    return corpus


def _mixed(prepared: PreparedData, mix: Mix, *, seed: int) -> PreparedData:
    """Let each epoch read as much of each corpus as a mix says, and add that to the report.

    Raises DataError for a corpus of which an epoch would read nothing.
    """
    parts, corpus = prepared.report["corpora"], prepared.train
    sizes = [part["kept"] for part in parts.values()]
    counts = pairs_per_epoch(sizes, [mix.mix[name] for name in parts], mix.temperature)
    for (name, part), count in zip(parts.items(), counts, strict=True):
        if not count:
            raise DataError(
                f"data.train.mix.{name}: {mix.mix[name]:g} leaves none of {part['kept']:,} pairs in an epoch; use "
                "more, or leave the corpus out"
            )
        part["pairs_in_epoch"] = count
    prepared.report["splits"]["train"]["pairs_in_epoch"] = sum(counts)
    if counts == sizes or not isinstance(corpus, EncodedCorpus):
        return prepared
    return replace(prepared, train=MixedCorpus(corpus, sizes, counts, seed=seed))


def corpus_sha256(data: Data) -> str:
    """``Prepared.corpus_sha256``, by reading the corpora alone. Raises DataError where one cannot be read."""
    return _key(_digests(data, Digests(cache_folder(data.cache))))


def _held_out(data: Data) -> dict[str, AnyCorpus]:
    return {"validation": data.validation} | ({"test": data.test} if data.test else {})


def _corpora(data: Data) -> dict[str, AnyCorpus]:
    """All corpora by their keys in the section ``data``."""
    return data.training_corpora | _held_out(data)


def _folder_name(key: str, place: int) -> str:
    """The folder of a corpus in a cache entry: the name of its split, numbered in a mix."""
    return f"train-{place:02}" if key.startswith("corpora.") else key


def _links_key(key: str) -> str:
    return "links" if key == "train" else f"{key}.links"


def _digests(data: Data, remembered: Digests) -> dict[str, str]:
    digests = {}
    for key, corpus in counted(_corpora(data).items(), "reading the corpora", len(_corpora(data)), "corpora"):
        with of_key(f"data.{key}"):
            digests[key] = corpus_digest(corpus, data.source_language, data.target_language, remembered.of)
    for key, corpus in data.training_corpora.items():
        if corpus.links is not None:
            with of_key(f"data.{key}.links"):
                digests[_links_key(key)] = links_digest(corpus.links, remembered.of)
    return digests


def _tokenizers(config: Config, cache: Path, digests: Mapping[str, str], remembered: Digests, say: Say) -> Tokenizers:
    """The tokenizers of a configuration; those that are learned read the corpora of a mix one after the other, each
    pair once, whatever its weight."""
    if isinstance(config.tokenizer, GivenTokenizer):
        with of_key("tokenizer"):
            return learn(config.tokenizer, [])
    data, corpora = config.data, config.data.training_corpora
    tags = list(dict.fromkeys(corpus.tag for corpus in corpora.values() if corpus.tag is not None))
    languages = data.source_language, data.target_language

    def build(folder: Path) -> None:
        names = "; ".join(map(corpus_name, corpora.values()))
        say(f"learning the {config.tokenizer.type} tokenizer: {names}")
        texts = (read_pairs(corpus, *languages, digests[key]) for key, corpus in corpora.items())
        pairs = counted(chain.from_iterable(texts), "reading text for the tokenizer", None, "pairs")
        learn(config.tokenizer, pairs, tags).save(folder)
        write_json(folder / ABOUT, {"tokenizer": names})

    text = [digests[key] for key in corpora]
    key = _key(CACHE_FORMAT, text, tags, config.tokenizer.model_dump(exclude={"sampling"}))
    return cached(cache / f"tokenizer-{key}", Tokenizers.load, build, say, remembered)


def _require_pairs(key: str, corpus: AnyCorpus, counts: Counts) -> None:
    if not counts.kept:
        reasons = dict(zip(REASONS, counts.reasons.tolist(), strict=True))
        found = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        remedy = "" if reasons["empty"] == sum(reasons.values()) else "; see data.filter"
        raise DataError(f"data.{key}: {corpus_name(corpus)}: all pairs were dropped ({found}){remedy}")


def _mapped(folders: list[Path], rows: int) -> MappedTable:
    with ExitStack() as stack:
        mapped = MappedTable(*(stack.enter_context((folder / TABLE).open("rb")) for folder in folders))
    if len(mapped.table) != rows:
        raise ValueError(f"{folders[0]}: {len(mapped.table)} rows instead of {rows}")
    return mapped


def _pairs(table: pa.Table) -> list[Pair]:
    return list(map(Pair, table["source_text"].to_pylist(), table["target_text"].to_pylist()))


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
