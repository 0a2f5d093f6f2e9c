"""nmt-evaluate: BLEU and chrF of one system."""

import json as json_format
from typing import Any

from nmt.cli.common import say
from nmt.cli.files import write_lines
from nmt.cli.signature import (
    Bins,
    BleuTokenizer,
    Command,
    Device,
    FirstWord,
    InputFile,
    OutputFile,
    Precision,
    RunPath,
    refuse_useless,
)
from nmt.config import load_run_config
from nmt.config.schema import Evaluation
from nmt.data.corpus import read_aligned, read_test_set
from nmt.errors import ConfigError
from nmt.evaluation.alignment import GoldPairs, format_alignment, read_gold
from nmt.evaluation.by_length import format_rows, format_scores
from nmt.evaluation.writing import BinnedBy, scoring
from nmt.files import run_name
from nmt.library.evaluation import score_alignment, translations_of


def evaluate(
    *,
    source: InputFile,
    reference: InputFile,
    model: list[RunPath] | None = None,
    hypotheses: InputFile | None = None,
    bins: Bins = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    gold: InputFile | None = None,
    gold_first: FirstWord | None = None,
    json: OutputFile | None = None,
    output: OutputFile | None = None,
    device: Device = "auto",
    precision: Precision = "fp32",
    **decoding: Any,
) -> None:
    """Compute BLEU and chrF of a run or of a file of translations, with a table by source length.

    With gold word alignments, also compute the alignment error rate of the run's attention.

    Args:
        source: raw source text, also as .gz or .xz
        reference: raw reference translations
        model: run directory that translates the source, or several that translate it together; this or --hypotheses is
            required
        hypotheses: translations of the source, one per line; this or --model is required
        gold: gold word alignment of each pair, with i-j for a sure link of source word i and target word j and ipj for
            a possible one; scores the attention of --model while it reads the reference
        json: also write the scores to this file
        output: write the translations of the run to this file

    examples:
      nmt-evaluate --model runs/en-fr --source test.en --reference test.fr
      nmt-evaluate --hypotheses test.hyp --source test.en --reference test.fr --bins 5,10,20
    """
    if (model is None) is (hypotheses is None):
        raise ConfigError("--model, --hypotheses: exactly one of the two is required")
    sources, references = read_test_set(source, reference)
    configs = {run: load_run_config(run) for run in model or ()}
    evaluation = next((config.evaluation for config in configs.values()), Evaluation())
    how = scoring(bleu_tokenizer, configs, sources, references, say)
    links = None if gold is None else _read_gold(source, reference, gold, gold_first or 0, model)
    if gold is None:
        refuse_useless({"gold_first": gold_first}, "without --gold")
    alignment: dict[str, Any] | None = None
    name = hypotheses and run_name(hypotheses)
    if hypotheses is not None:
        refuse_useless(decoding | {"output": output}, "with --hypotheses; no run translates")
        translations = read_aligned(hypotheses, source, len(sources))
    else:
        assert model is not None
        name = " + ".join(map(run_name, model))
        found = translations_of(model, source, sources, decoding, device, precision)
        if links is not None:
            alignment = score_alignment(model[0], links, device)
        translations = list(found) if output is None else write_lines(output, found)
    system = how.score(
        name or "",
        sources,
        translations,
        references,
        bins=bins or evaluation.bins,
        resamples=evaluation.bootstrap,
    )
    binned_by = BinnedBy("source", how.source_unit)
    scores = system.as_dict() | {"binned_by": str(binned_by)}
    print(format_scores(system))
    print(format_rows(system.rows, binned_by.column))
    if alignment is not None:
        print(format_alignment(alignment))
        scores["alignment"] = alignment
    if json is not None:
        write_lines(json, [json_format.dumps(scores, ensure_ascii=False, indent=1)])


main = Command(evaluate)


def _read_gold(source: str, reference: str, gold: str, first: int, model: list[str] | None) -> GoldPairs:
    """Read the gold links. Raises ConfigError for systems without one attention, DataError for files."""
    if model is None:
        raise ConfigError("--gold: has no effect with --hypotheses; attention comes from --model")
    if len(model) > 1:
        raise ConfigError("--gold: scores the attention of one run; give --model one run")
    if load_run_config(model[0]).model.attention.type == "none":
        raise ConfigError(f"--gold: {model[0]} has no attention (model.attention.type is none)")
    return read_gold(source, reference, gold, first=first)
