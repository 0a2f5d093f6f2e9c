"""nmt-evaluate: BLEU and chrF of one system."""

from pathlib import Path
from typing import Any

from nmt.cli.command import Command
from nmt.cli.files import require_attention
from nmt.cli.options import Bins, Device, FirstWord, InputFile, OutputFile, Precision, RunPath
from nmt.cli.terminal import say
from nmt.config.schema import BleuTokenizer
from nmt.errors import ConfigError, DataError, noted
from nmt.evaluation.alignment import format_error_rates, read_gold
from nmt.evaluation.by_length import format_rows, format_scores
from nmt.evaluation.figures.files import numbers
from nmt.evaluation.writing import source_length
from nmt.files import run_name, writing


def evaluate(
    *,
    source: InputFile,
    reference: InputFile,
    model: RunPath | None = None,
    hypotheses: InputFile | None = None,
    bins: Bins = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    gold: InputFile | None = None,
    gold_first: FirstWord = 0,
    calibrate: bool = False,
    json: OutputFile | None = None,
    device: Device = "auto",
    precision: Precision = "fp32",
    **decoding: Any,  # an option for each key of the section decoding
) -> None:
    """Compute BLEU and chrF of a run or of a file of translations, with a table by source length.

    With gold word alignments, also compute the alignment error rate of the run's attention.

    Args:
        source: raw source text, also as .gz or .xz
        reference: raw reference translations
        model: run directory that translates the source; this or --hypotheses is required
        hypotheses: translations of the source, one per line
        calibrate: write RUN/confidence.json, which nmt-translate --confidence reads (use the same options in both),
            and a diagram, RUN/confidence.png
        json: also write the scores to this file

    examples:
      nmt-evaluate --model runs/en-fr --source test.en --reference test.fr
      nmt-evaluate --hypotheses test.hyp --source test.en --reference test.fr --bins 5,10,20
    """
    if (model is None) is (hypotheses is None):
        raise ConfigError("--model, --hypotheses: exactly one of the two is required")
    for flag, given in {"--calibrate": calibrate, "--gold": gold}.items():
        if given and model is None:
            raise ConfigError(f"{flag}: has no effect with --hypotheses; it measures the run of --model")
    from nmt.experiments import evaluation  # noqa: PLC0415  (slow to import)

    system = model or hypotheses or ""
    systems = evaluation.Systems([(run_name(system), system)], source, reference, (), device, precision, decoding, say)
    links = None
    if model is not None and gold is not None:
        require_attention([model], {"--gold": gold})
        links = read_gold(source, reference, gold, first=gold_first)
    scoring = systems.scoring(bins, bleu_tokenizer)
    confidence, problems = dict[str, Any](), list[str]()
    with noted(problems):  # the scores come first
        confidence |= {"confidence": evaluation.calibrate(systems, scoring)} if calibrate else {}
    [scored] = systems.score(scoring)
    scores = scored.as_dict() | {"binned_by": source_length(scoring.source_unit)} | confidence
    print(format_scores(scored))
    print(format_rows(scored.rows, scoring.source_unit))
    if model is not None and links is not None:
        scores["alignment"] = evaluation.score_alignment(model, links, device, decoding)
        print(format_error_rates(scores["alignment"]))
    if calibrate and not problems:
        say(f"written: {model}/confidence.json, {model}/confidence.png")
    if json is not None:
        with writing(json):
            Path(json).write_bytes(numbers(scores))
    DataError.raise_if_any(problems)


main = Command(evaluate)
