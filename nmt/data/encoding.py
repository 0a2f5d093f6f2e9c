"""Encoding of one split with ``datasets``: read, encode, filter, and count for the report."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from numpy.typing import NDArray

from nmt.config.schema import AnyCorpus, Filter
from nmt.data.corpus import Pair, read_pairs
from nmt.data.language_id import FIRST_PAIRS
from nmt.data.links import linked_pairs
from nmt.data.report import KEPT, REASONS
from nmt.data.tokenizer import Tokenizers
from nmt.errors import NmtError

LARGE_CORPUS = 100_000
"""Pairs from which on encoding uses one process per core."""
ENCODE_BATCH = 1_000

TEXT = {"source_text": datasets.Value("string"), "target_text": datasets.Value("string")}
LINKS = {"links": datasets.List(datasets.Value("int32"))}
IDS = {"source": datasets.List(datasets.Value("int32")), "target": datasets.List(datasets.Value("int32"))}
COUNTS = {
    "reason": datasets.Value("int8"),
    **{f"{side}_{unit}": datasets.Value("int32") for side in IDS for unit in ("words", "pieces", "unknown")},
    "pair_hash": datasets.Value("int64"),
    "source_hash": datasets.Value("int64"),
}
"""The columns that :mod:`nmt.data.report` counts."""


def encode_split(
    folder: Path,
    corpus: AnyCorpus,
    digest: str | None,
    languages: tuple[str, str],
    tokenizers: Tokenizers,
    rule: Filter | None,
    processes: int | None,
    *,
    whole: bool = False,
    text: bool = False,
    links_digest: str | None = None,
) -> tuple[dict[str, NDArray[Any]], list[Pair]]:
    """Write the kept pairs of a split to ``folder``, for ``datasets.load_from_disk``.

    The columns are ``source`` and ``target``, lists of int32. With ``text``, or if ``rule`` is None, as for validation
    and test sets, there are also ``source_text`` and ``target_text``; with a ``links_digest``, the word links of the
    corpus, ``links``: i, j, i, j, ... ``whole`` keeps every pair, blank ones too.

    Returns the columns for the report, of all pairs, kept or dropped, and the text of the first ``FIRST_PAIRS`` pairs.
    Raises DataError as :func:`read_pairs` and :func:`linked_pairs` do, also if the corpus has another digest than
    ``digest``.
    """
    links = {} if links_digest is None else LINKS
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch, _without_progress_bars():
        raw = _read(corpus, digest, languages, links_digest, scratch)
        if processes is None:
            processes = (os.cpu_count() or 1) if len(raw) >= LARGE_CORPUS else 1
        encoded = raw.map(
            encode_batch,
            batched=True,
            batch_size=ENCODE_BATCH,
            fn_kwargs={"tokenizers": tokenizers, "rule": rule},
            features=datasets.Features({**TEXT, **links, **IDS, **COUNTS}),
            num_proc=min(processes, len(raw)) if processes > 1 else None,
            cache_file_name=str(Path(scratch) / "encoded.arrow"),
            new_fingerprint="encoded",
        )
        table = encoded.select_columns(list(COUNTS)).with_format("arrow")[:]
        columns = {name: table[name].to_numpy() for name in COUNTS}
        if whole:
            columns["reason"] = np.full(len(encoded), REASONS.index(KEPT), np.int8)
        kept = encoded.select(np.flatnonzero(columns["reason"] == REASONS.index(KEPT)))
        kept.select_columns([*IDS, *(TEXT if text or rule is None else ()), *links]).save_to_disk(str(folder))
        head = raw[:FIRST_PAIRS]
        return columns, list(map(Pair, head["source_text"], head["target_text"]))


def _read(
    corpus: AnyCorpus, digest: str | None, languages: tuple[str, str], links_digest: str | None, scratch: str
) -> Any:
    """The raw text, and its links if there is a digest of them, as a memory-mapped dataset in ``scratch``."""
    try:
        return datasets.Dataset.from_generator(
            read_rows,
            features=datasets.Features(TEXT if links_digest is None else {**TEXT, **LINKS}),
            cache_dir=scratch,
            gen_kwargs={"corpus": corpus, "digest": digest, "languages": languages, "links_digest": links_digest},
        )
    except datasets.exceptions.DatasetGenerationError as error:
        if isinstance(error.__cause__, NmtError | OSError):
            raise error.__cause__ from None
        raise


def read_rows(
    corpus: AnyCorpus, digest: str | None, languages: tuple[str, str], links_digest: str | None = None
) -> Iterator[dict[str, Any]]:
    """The pairs of a corpus as rows of a dataset, with their links if there is a digest of them."""
    pairs = read_pairs(corpus, *languages, digest)
    if links_digest is None or corpus.links is None:
        for source, target in pairs:
            yield {"source_text": source, "target_text": target}
    else:
        for (source, target), links in linked_pairs(pairs, corpus, corpus.links, links_digest):
            yield {"source_text": source, "target_text": target, "links": [word for link in links for word in link]}


def encode_batch(batch: dict[str, list[str]], tokenizers: Tokenizers, rule: Filter | None) -> dict[str, list[Any]]:
    """Ids, counts and hashes of a batch of texts; without a rule, only empty pairs are dropped."""
    texts = {"source": batch["source_text"], "target": batch["target_text"]}
    columns: dict[str, list[Any]] = {}
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        ids = tokenizer.encode(texts[side])
        columns[side] = ids
        columns[f"{side}_words"] = [len(text.split()) for text in texts[side]]
        columns[f"{side}_pieces"] = [len(row) for row in ids]
        columns[f"{side}_unknown"] = [row.count(tokenizer.unk_id) for row in ids]
    words = zip(columns["source_words"], columns["target_words"], strict=True)
    pieces = zip(columns["source_pieces"], columns["target_pieces"], strict=True)
    columns["reason"] = [REASONS.index(reason(*each, rule)) for each in zip(words, pieces, strict=True)]
    columns["source_hash"] = [_hash(source) for source in texts["source"]]
    columns["pair_hash"] = [_hash(f"{source}\n{target}") for source, target in zip(*texts.values(), strict=True)]
    return columns


def reason(words: tuple[int, int], pieces: tuple[int, int], rule: Filter | None) -> str:
    """The first of ``REASONS`` that applies to a pair with these numbers of words and pieces."""
    if not all(words + pieces):
        return "empty"
    if rule is None:
        return KEPT
    if rule.max_words is not None and max(words) > rule.max_words:
        return "too_long_words"
    if max(pieces) > rule.max_pieces:
        return "too_long_pieces"
    if rule.max_ratio is not None and max(words) > rule.max_ratio * min(words):
        return "ratio"
    return KEPT


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    disabled = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not disabled:
            datasets.enable_progress_bars()
