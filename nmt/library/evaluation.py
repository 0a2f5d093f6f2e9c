"""Evaluation as a function."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from nmt.config.schema import BleuTokenizer, Evaluation
from nmt.data.test_set import Text, read_test_set
from nmt.evaluation.by_length import SystemScores
from nmt.evaluation.writing import scoring
from nmt.files import run_name
from nmt.library.systems import System, config_of, hypotheses_of, refuse_useless, warn

if TYPE_CHECKING:  # PyTorch is slow to import
    from nmt.translation.options import SearchChanges


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
