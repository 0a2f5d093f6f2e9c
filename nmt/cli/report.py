"""nmt-report: one page to explore systems."""

import shlex
from pathlib import Path
from typing import Annotated

from pydantic import Field

from nmt.cli.common import importing, say
from nmt.cli.files import Role, writing
from nmt.cli.signature import Command, Device, InputFile, OutputFile, Value, refuse_useless

RunOrExperiment = Annotated[str, Value("RUN_OR_EXPERIMENT", role=Role.SYSTEM)]
Source = Annotated[str, Value("SOURCE", role=Role.READ)]
Reference = Annotated[str, Value("REFERENCE", role=Role.READ)]


def report(
    runs: list[RunOrExperiment],
    *,
    output: OutputFile,
    sentences: Annotated[int, Field(ge=2)] = 200,
    test: tuple[Source, Reference] | None = None,
    gold: InputFile | None = None,
    gold_first: Annotated[int, Field(ge=0, le=1)] | None = None,
    device: Device = "auto",
) -> None:
    """Write one HTML page to explore systems side by side: scores, length curves, attention, sentences, training.

    The page needs no network and opens from disk. The systems are runs, or those of an experiment; they are measured on
    one test set, and translations that are kept from training are used again.

    Args:
        runs: run directory, output directory of an experiment, or its YAML file
        output: write the page to this file
        sentences: sentences of the test set that the page shows
        test: raw source text and its reference translations (default: the test set of the experiment, or data.test of
            the runs)
        gold: gold word alignment of each pair of --test, or of the test set that is used without it, with i-j for a
            sure link of source word i and target word j and ipj for a possible one (default: that of the experiment)
        gold_first: index of the first word in --gold (default: 0)
        device: auto, a GPU if there is one, or cpu, cuda, cuda:1, ...

    examples:
      nmt-report runs/demo --output report.html
      nmt-report runs/none runs/en-fr --test test.en test.fr --sentences 50 --output report.html
    """
    if gold is None:
        refuse_useless({"gold_first": gold_first}, "without --gold")
    with importing():
        from nmt.device import resolve_device  # noqa: PLC0415
        from nmt.report.collecting import collect  # noqa: PLC0415
        from nmt.report.making import make_report  # noqa: PLC0415  (PyTorch is slow to import)
        from nmt.report.rendering import fitted  # noqa: PLC0415

    words = ["nmt-report", *runs, "--output", output, "--sentences", str(sentences)]
    words += ["--test", *test] if test else []
    words += ["--gold", gold] if gold else []
    words += ["--gold-first", str(gold_first)] if gold_first else []
    collected = collect(runs, test, (gold, gold_first or 0), say)
    made, page = fitted(make_report(collected, sentences, resolve_device(device), shlex.join(words), say))
    with writing(output):
        Path(output).write_text(page, "utf-8", newline="\n")
    say(f"written: {output}, {len(page.encode()) / 1000:,.0f} kB, {made.selection}")


main = Command(report)
