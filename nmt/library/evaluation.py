"""Evaluation as a function, and the systems that are scored: runs, and translations that exist."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, Unpack

from nmt.config import Config, load_run_config
from nmt.config.schema import BleuTokenizer, Evaluation
from nmt.data.corpus import Text, read_aligned, read_test_set
from nmt.errors import ConfigError, NmtWarning
from nmt.evaluation.by_length import SystemScores
from nmt.evaluation.writing import scoring
from nmt.files import run_name
from nmt.plots.about import Origin
from nmt.runs.metrics import read_metrics, updates_of_best

if TYPE_CHECKING:  # PyTorch is slow to import
    from nmt.translation.options import SearchChanges

System = Text
"""The path of a run directory, which translates; or existing translations: the path of a file, or lines."""


def warn(problem: str) -> None:
    """Warn as Python's libraries do."""
    warnings.warn(problem, NmtWarning, stacklevel=4)


def is_run(system: System) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a system is a run directory; else it is translations."""
    return isinstance(system, str | os.PathLike) and Path(system).is_dir()


def config_of(system: System) -> Config | None:
    """Load the configuration of a run directory; None for translations. Raises ConfigError, FileError."""
    return load_run_config(Path(system)) if is_run(system) else None


def refuse_useless(changes: Mapping[str, Any]) -> None:
    """Raise ConfigError for options of a search where no system is a run."""
    if changes:
        raise ConfigError(*(f"{name}: has no effect on translations that exist; no run translates" for name in changes))


def hypotheses_of(
    system: System, source: Text, lines: Sequence[str], device: str, precision: str, changes: "SearchChanges"
) -> Iterator[str]:
    """Read translations at once, or load the run at once that makes them one by one.

    Raises DataError for translations that do not fit the source, and the errors of :meth:`Translator.load`.
    """
    if not is_run(system):
        return iter(read_aligned(system, source, len(lines)))
    from nmt.translation.options import SearchOptions  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415

    translator = Translator.load(Path(system), device, precision, beam_size=changes.get("beam_size"))
    options = SearchOptions.from_config(translator.decoding, **changes)
    return (each.text for each in translator.translate(iter(lines), options))


def origin_of(
    run: str | os.PathLike[str], config: Config, changes: Mapping[str, Any], *, searched: bool = True
) -> Origin:
    """Describe the run behind a translation that it found, or that it was given if not ``searched``.

    ``changes`` are the options of search that differ from its own.
    """
    decoding = config.decoding.model_copy(update=dict(changes))
    return Origin(
        config.data.source_language,
        config.data.target_language,
        decoding.beam_size if searched else None,
        decoding.length_penalty,
        updates_of_best(read_metrics(Path(run) / "metrics.jsonl")),
        decoding.describe() if searched else "",
    )


def evaluate(
    system: System,
    source: Text,
    reference: Text,
    *,
    bins: Sequence[int] = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **changes: Unpack["SearchChanges"],
) -> SystemScores:
    """Score a run, or translations, as ``nmt-evaluate`` does: BLEU and chrF by sacreBLEU, and BLEU by source length.

    >>> scores = evaluate("runs/tiny", "test.low", "test.up", bins=[2])
    >>> print(scores.bleu.signature.partition("|version")[0])
    nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp
    >>> [(row.low, row.high) for row in scores.rows]
    [(1, 2), (3, 4)]
    >>> evaluate(["ELM OAK"], ["oak elm"], ["ELM OAK"]).scores["chrf"].value
    100.0

    Args:
        system: path of a run directory; or translations, one a line: path of a file, or lines.
        source: raw text, one sentence a line: path of a file, or lines.
        reference: raw translations of the same lines.
        bins: largest length of each bin, ascending, in words (characters for a language without spaces); longer
            sentences form one more bin. Default: ``evaluation.bins`` of the run, or of the schema.
        bleu_tokenizer: sacreBLEU's; default: the run's, without a run by the script of the references.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``.
        precision: ``fp32``, ``bf16``, ``int8`` or ``auto``.
        changes: options of the search that differ from the run's, as for :meth:`Translator.translate`.

    Returns scores from 0 to 100. Raises DataError for texts of different length, CheckpointError for an unusable run,
    ConfigError for options.
    """
    sources, references = read_test_set(source, reference)
    config = config_of(system)
    if config is None:
        refuse_useless(changes)
    name = run_name(system) if isinstance(system, str | os.PathLike) else "translations"
    how = scoring(bleu_tokenizer, {} if config is None else {name: config}, sources, references, warn)
    section = Evaluation() if config is None else config.evaluation
    return how.score(
        name,
        sources,
        list(hypotheses_of(system, source, sources, device, precision, changes)),
        references,
        bins=bins or section.bins,
        resamples=section.bootstrap,
    )
