"""nmt-report: one page to explore systems."""

import shlex
from pathlib import Path
from typing import Annotated

from pydantic import Field

from nmt.cli.command import Command
from nmt.cli.files import require_system
from nmt.cli.options import Device, FirstWord, InputFile, OutputFile, Value
from nmt.cli.terminal import say
from nmt.errors import ConfigError
from nmt.files import printable, writing

RunOrExperiment = Annotated[str, Value("RUN_OR_EXPERIMENT", require_system)]


def report(
    runs: list[RunOrExperiment],
    *,
    output: OutputFile,
    sentences: Annotated[int, Field(ge=2)] = 50,
    source: InputFile | None = None,
    reference: InputFile | None = None,
    gold: InputFile | None = None,
    gold_first: FirstWord = 0,
    device: Device = "auto",
) -> None:
    """Write one HTML page to explore systems side by side: scores, length curves, attention, sentences, training.

    The page works offline and opens from disk. The systems are runs, or those of an experiment; they translate one
    test set.

    Args:
        runs: run directory, output directory of an experiment, or its YAML file
        output: write the page to this file
        sentences: sentences of the test set that the page shows
        source: raw source text of the test set (default: that in an experiment's YAML file, with its gold alignments,
            or data.test of the runs)
        reference: raw reference translations of --source; the two are given together

    examples:
      nmt-report runs/demo --output report.html
      nmt-report runs/none runs/en-fr --source test.en --reference test.fr --output report.html
    """
    if (source is None) is not (reference is None):
        raise ConfigError("--source, --reference: give both, or none of them")
    test = (source, reference) if source and reference else None
    from nmt.device import resolve_device  # noqa: PLC0415  (slow to import)
    from nmt.pages.report.collecting import collect  # noqa: PLC0415
    from nmt.pages.report.making import make_report  # noqa: PLC0415
    from nmt.pages.report.rendering import render  # noqa: PLC0415

    words = ["nmt-report", *runs, "--output", output, "--sentences", str(sentences)]
    options = {"--source": source, "--reference": reference, "--gold": gold, "--gold-first": gold_first}
    words += [word for name, value in options.items() if value for word in (name, str(value))]
    collected = collect(runs, test, (gold, gold_first), say)
    made = make_report(collected, sentences, resolve_device(device), printable(shlex.join(words)), say)
    page = render(made)
    with writing(output):
        Path(output).write_text(page, "utf-8", newline="\n")
    say(f"written: {output}, {len(page.encode()) / 1000:,.0f} kB, {made.selection}")


main = Command(report)
