"""nmt-length-curve: BLEU against source length, and why it falls."""

from argparse import ArgumentTypeError
from typing import Annotated, Any, Literal

from pydantic import Field

from nmt.cli.common import say
from nmt.cli.files import Named, Role
from nmt.cli.signature import (
    Bins,
    BleuTokenizer,
    Command,
    InputFile,
    Value,
    device_options,
    refuse_useless,
    search_options,
)
from nmt.evaluation.retention import Range
from nmt.files import printable
from nmt.library.diagnosis import diagnose_systems
from nmt.library.evaluation import Systems
from nmt.library.length_curve import compare_by_length_of
from nmt.plots.diagnosis import ENDINGS
from nmt.plots.files import KINDS, make_folder, stem_of


def named(text: str) -> Named:
    """Parse an argument: NAME=PATH."""
    name, equals, path = text.partition("=")
    name = printable(name).strip()
    if not (name and equals and path):
        raise ArgumentTypeError(f"'{text}' is not NAME=PATH, for example bahdanau=runs/demo/bahdanau")
    return Named(name, path)


def length_range(text: str) -> Range:
    """Parse an argument: two whole numbers such as 11-20, the smaller one first."""
    low, _, high = text.partition("-")
    try:
        bounds = int(low), int(high)
    except ValueError:
        bounds = 1, 0
    if not 0 <= bounds[0] <= bounds[1]:
        raise ArgumentTypeError(f"'{text}' is not a range of lengths such as 11-20")
    return bounds


System = Annotated[Named, Value("NAME=RUN_OR_HYPOTHESES", named, Role.SYSTEM)]
Hypotheses = Annotated[Named, Value("NAME=FILE", named, Role.READ)]
Stem = Annotated[str, Value("STEM", stem_of, Role.GROWING, (*KINDS, *(f".why{ending}" for ending in ENDINGS)))]
Lengths = Annotated[Any, Value("N-M", length_range)]


def length_curve(
    *,
    source: InputFile,
    reference: InputFile,
    system: list[System],
    output: Stem,
    why: bool = False,
    hypotheses: list[Hypotheses] | None = None,
    bins: Bins = (),
    bin_by: Literal["source", "reference", "pieces"] = "source",
    bleu_tokenizer: BleuTokenizer | None = None,
    min_sentences: Annotated[int, Field(ge=1)] = 30,
    short: Lengths | None = None,
    long: Lengths | None = None,
    title: Annotated[str, Value("TEXT")] | None = None,
    **decoding: Any,
) -> None:
    """Plot BLEU against source length with one curve per system, and write the figure and its numbers.

    Every two systems are compared, in each bin and as a whole. With --why, measure why translations of long sentences
    are worse: which part of the sentence loses content words, how probable the reference is, where the attention looks,
    and how many translations stop early, run on or repeat themselves.

    Args:
        source: raw source text, also as .gz or .xz
        reference: raw reference translations
        system: run directory or file of translations; repeat it for more systems, or under the same name for more seeds
            of a system, which are averaged
        output: write STEM.png, .svg, .json and .csv
        why: also write STEM.why.csv, .json, .recall.png, .probability.png, ...; every system must be a run
        hypotheses: existing translations by the run of this name, which then does not translate; repeat it for several
            runs, in their order
        bins: maximum length of each bin, in words, or in characters for a language without spaces between words; longer
            sentences form one more bin (default: evaluation.bins of the first run; without a run those of the schema)
        bin_by: length by which sentences are binned: that of the source, of the reference, or of the source in subword
            pieces of the first run's tokenizer
        bleu_tokenizer: tokenizer of BLEU: 13a, zh, ja-mecab, ko-mecab, char, intl, none (default:
            evaluation.bleu_tokenizer of the runs; without a run, by the script of the references)
        min_sentences: draw a bin with fewer sentences as a hollow point, without line and interval
        short: lengths from N to M of the sentences that count as short for the share of BLEU retained (default: the
            shortest bin of at least --min-sentences)
        long: lengths from N to M of the sentences that count as long for the share of BLEU retained (default: the
            longest bin of at least --min-sentences)
        title: title of the figure

    examples:
      nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=runs/en-fr --system a=test.hyp
      nmt-length-curve --source test.en --reference test.fr --output curve --system rnn=runs/en-fr --why
    """
    search, device = search_options(decoding), device_options(decoding)
    systems = Systems(system, source, reference, hypotheses or (), **device, changes=search, say=say)
    if not systems.translating:
        whose = "every run has --hypotheses" if hypotheses else "every system is a file"
        refuse_useless(decoding if not why else search, f"because {whose}; no run translates")
    make_folder(output)  # errors must come before the slow part
    if why:
        systems.refuse_files()
    curve = compare_by_length_of(
        systems,
        bins=bins,
        bin_by=bin_by,
        bleu_tokenizer=bleu_tokenizer,
        min_sentences=min_sentences,
        short=short,
        long=long,
        title=title,
    )
    paths = curve.write(output)
    print(curve)
    if curve.retention is None and any(each.comparable for each in curve.systems):
        say(
            f"share of BLEU retained: fewer than two bins have {min_sentences} sentences; "
            "choose lengths with --short and --long"
        )
    if why:
        diagnoses = diagnose_systems(systems, bins=bins, min_sentences=min_sentences)
        paths += diagnoses.write(f"{output}.why")
        print(diagnoses)
    say("written: " + ", ".join(map(str, paths)))


main = Command(length_curve)
