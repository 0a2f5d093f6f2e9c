"""nmt-length-curve: BLEU against source length, and why it falls."""

from typing import Annotated, Any

from nmt.cli.command import Command
from nmt.cli.options import Bins, Device, InputFile, Lengths, NamedFile, Precision, RunOrFile, Value
from nmt.cli.terminal import say
from nmt.config.schema import BleuTokenizer
from nmt.errors import ConfigError
from nmt.evaluation.by_length import MIN_SENTENCES
from nmt.evaluation.figures.diagnosis import ENDINGS
from nmt.evaluation.figures.files import KINDS, make_folder, stem_of
from nmt.evaluation.significance import LEAST_SHORT
from nmt.experiments.evaluation import Systems
from nmt.experiments.length_curve import compare_systems, diagnose_systems

WHY = tuple(f".why{ending}" for ending in ENDINGS)
Stem = Annotated[str, Value("STEM", written=True, endings=(*KINDS, *WHY), parse=stem_of)]


def length_curve(
    *,
    source: InputFile,
    reference: InputFile,
    system: list[RunOrFile],
    output: Stem,
    why: bool = False,
    hypotheses: list[NamedFile] | None = None,
    bins: Bins = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    short: Lengths | None = None,
    long: Lengths | None = None,
    device: Device = "auto",
    precision: Precision = "fp32",
    **decoding: Any,  # an option for each key of the section decoding
) -> None:
    """Plot BLEU against source length with one curve per system, and write the figure and its numbers.

    Each pair of systems is compared, in each bin and as a whole. With --why, measure why translations of long sentences
    are worse: which part of the sentence loses content words, how probable the reference is, where the attention looks,
    and how many translations stop early, run on or repeat themselves.

    Args:
        source: raw source text, also as .gz or .xz
        reference: raw reference translations
        system: run directory or file of translations; seeds of a system share its name, and are averaged
        output: write STEM.png, .svg, .json and .csv
        why: also write STEM.why.csv, .json, .recall.png, .probability.png, ...; every system must be a run
        hypotheses: reuse these translations of run NAME, or of the runs that share NAME, in their order
        short: lengths that count as short in retained BLEU (default: the shortest bin of at least 30 sentences)
        long: lengths that count as long in retained BLEU (default: the longest bin of at least 30 sentences)

    examples:
      nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=runs/en-fr --system a=test.hyp
      nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=runs/en-fr --why
    """
    systems = Systems(system, source, reference, hypotheses or (), device, precision, decoding, say)
    make_folder(output)  # errors must come before the slow part
    if why and (files := [entry.name for entry in systems.entries if entry.config is None]):
        raise ConfigError(*(f"{name}: is a file of translations; only a run has a diagnosis" for name in files))
    scoring = systems.scoring(bins, bleu_tokenizer)
    if len(scoring.bins) == 1:
        found = f"{scoring.lengths.min()} to {scoring.lengths.max()} {scoring.source_unit}"
        say(f"one bin has all sentences ({found}), so there is no curve; choose smaller bins with --bins")
    curve = compare_systems(systems, scoring, short, long)
    paths = curve.write(output)
    print(curve)
    if curve.retention is None and any(each.comparable for each in curve.systems):
        few = f"fewer than two bins have {MIN_SENTENCES} sentences, or BLEU at short lengths is below {LEAST_SHORT:g}"
        say(f"retained BLEU: {few}; choose lengths with --short and --long")
    if why:
        diagnoses = diagnose_systems(systems, scoring, curve.about)
        paths += diagnoses.write(f"{output}.why")
        print(diagnoses)
    say("written: " + ", ".join(map(str, paths)))


main = Command(length_curve)
