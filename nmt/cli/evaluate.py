"""Compute BLEU and chrF of a run or of a file of translations, with a table by source length.

With gold word alignments, also compute the alignment error rate of the run's attention.

examples:
  nmt-evaluate --model runs/en-fr --source test.en --reference test.fr
  nmt-evaluate --hypotheses test.hyp --source test.en --reference test.fr --bins 5,10,20
"""

import argparse
import json
from typing import Any

from nmt.cli.common import command, importing, say
from nmt.cli.decoding import DEVICE_OPTIONS, SEARCH_OPTIONS, add_decoding_options
from nmt.cli.files import refuse_missing, refuse_overwriting, refuse_unwritable, write_lines
from nmt.cli.options import CommandParser, refuse_useless
from nmt.cli.scoring import add_tokenizer_option
from nmt.cli.test_set import add_test_set_options, translate
from nmt.config import load_run_config
from nmt.config.schema import Evaluation
from nmt.data.corpus import read_aligned, read_test_set
from nmt.errors import ConfigError
from nmt.evaluation.alignment import GoldPairs, alignment_report, format_alignment, read_gold
from nmt.evaluation.by_length import format_rows, format_scores
from nmt.evaluation.writing import BinnedBy, scoring
from nmt.files import run_name


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-evaluate``."""
    arguments = CommandParser(prog="nmt-evaluate", description=__doc__)
    system = arguments.add_mutually_exclusive_group(required=True)
    system.add_argument(
        "--model",
        nargs="+",
        action="extend",
        metavar="RUN",
        help="run directory that translates the source, or several that translate it together; this or --hypotheses is "
        "required",
    )
    system.add_argument(
        "--hypotheses", metavar="FILE", help="translations of the source, one per line; this or --model is required"
    )
    add_test_set_options(arguments)
    add_tokenizer_option(arguments)
    arguments.add_argument(
        "--gold",
        metavar="FILE",
        help="gold word alignment of each pair, with i-j for a sure link of source word i and target word j and ipj "
        "for a possible one; scores the attention of --model while it reads the reference",
    )
    arguments.add_argument(
        "--gold-first", type=int, choices=(0, 1), metavar="N", help="index of the first word in --gold (default: 0)"
    )
    arguments.add_argument("--json", metavar="FILE", help="also write the scores to this file")
    arguments.add_argument("--output", metavar="FILE", help="write the translations of the run to this file")
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Score one system and print the scores."""
    runs: list[str] = arguments.model or []
    options = ("source", "reference", "hypotheses", "gold")
    read = [*((f"--{option}", getattr(arguments, option)) for option in options), *(("--model", run) for run in runs)]
    refuse_overwriting(read, [("--output", arguments.output), ("--json", arguments.json)])
    refuse_missing((getattr(arguments, option) for option in options), runs)
    sources, references = read_test_set(arguments.source, arguments.reference)
    evaluation, alignment = Evaluation(), None
    gold = check_gold(arguments)
    refuse_unwritable(arguments.output, arguments.json)
    if not runs:
        refuse_useless(arguments, (*SEARCH_OPTIONS, *DEVICE_OPTIONS, "output"), "with --hypotheses; no run translates")
        hypotheses = read_aligned(arguments.hypotheses, arguments.source, len(sources))
        how = scoring(arguments.bleu_tokenizer, {}, sources, references, say)
    else:
        translations = translate(runs, arguments.source, sources, arguments)
        configs = {run: load_run_config(run) for run in runs}
        evaluation = configs[runs[0]].evaluation
        how = scoring(arguments.bleu_tokenizer, configs, sources, references, say)
        if gold is not None:
            alignment = align(arguments, gold)
        hypotheses = list(translations) if arguments.output is None else write_lines(arguments.output, translations)
    system = how.score(
        " + ".join(map(run_name, runs or [arguments.hypotheses])),
        sources,
        hypotheses,
        references,
        bins=arguments.bins or evaluation.bins,
        resamples=evaluation.bootstrap,
    )
    print(format_scores(system))
    binned_by = BinnedBy("source", how.source_unit)
    print(format_rows(system.rows, binned_by.column))
    scores = system.as_dict() | {"binned_by": str(binned_by)}
    if alignment is not None:
        print(format_alignment(alignment))
        scores["alignment"] = alignment
    if arguments.json is not None:
        write_lines(arguments.json, [json.dumps(scores, ensure_ascii=False, indent=1)])


def check_gold(arguments: argparse.Namespace) -> GoldPairs | None:
    """Read the gold links, if any. Raises ConfigError for options without effect, DataError for files."""
    if arguments.gold is None:
        refuse_useless(arguments, ("gold_first",), "without --gold")
        return None
    if arguments.model is None:
        raise ConfigError("--gold: has no effect with --hypotheses; attention comes from --model")
    if len(arguments.model) > 1:
        raise ConfigError("--gold: scores the attention of one run; give --model one run")
    return read_gold(arguments.source, arguments.reference, arguments.gold, first=arguments.gold_first or 0)


def align(arguments: argparse.Namespace, gold: GoldPairs) -> dict[str, Any]:
    """Score the attention of a run, forced to read the references, as word alignment.

    Raises ConfigError for a run without attention.
    """
    with importing():
        from nmt.device import resolve_device  # noqa: PLC0415
        from nmt.runs.loading import load_run  # noqa: PLC0415
        from nmt.translation.forced import word_attention  # noqa: PLC0415  (PyTorch is slow to import)

    device = resolve_device(arguments.device or "auto")

    [run] = arguments.model
    loaded = load_run(run, device)
    if not loaded.model.attends:
        raise ConfigError(f"--gold: {run} has no attention (model.attention.type is none)")
    return alignment_report(gold, word_attention(loaded.network, loaded.tokenizers, gold.pairs, device))
