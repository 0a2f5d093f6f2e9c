"""Draw length curves that were measured at different times on the same test set in one figure.

The files are those that nmt-length-curve and nmt-experiment write; no run and no translation is needed.

examples:
  nmt-plot length papers.csv mine.csv --output both --title 'Europarl en-fr'
  nmt-plot length papers.csv mine.csv --systems rnnsearch-50 mine --output two
"""

import argparse
from dataclasses import asdict

from nmt.cli.common import command, say
from nmt.cli.files import refuse_overwriting
from nmt.cli.options import CommandParser
from nmt.cli.systems import add_figure_options, add_min_sentences
from nmt.errors import DataError, nearest
from nmt.evaluation.by_length import LengthRow
from nmt.plots.files import make_folder, markdown, numbers, write_all
from nmt.plots.length_curve import Curve, draw_curves, read_rows
from nmt.plots.style import plain, png, svg

KINDS = (".png", ".svg", ".json")


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-plot length``."""
    arguments = CommandParser(prog="nmt-plot length", description=__doc__)
    arguments.add_argument("files", nargs="+", metavar="CSV", help="length curves of the same test set in equal bins")
    arguments.add_argument("--systems", nargs="+", metavar="NAME", help="draw these systems alone, in this order")
    arguments.add_argument(
        "--axis", default="Source length (words)", metavar="TEXT", help="what the lengths are, for the axis"
    )
    add_min_sentences(arguments)
    add_figure_options(arguments, "write STEM.png, .svg and .json")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Read all files, draw the figure, and print a table."""
    written = [(f"--output {arguments.output}:", f"{arguments.output}{ending}") for ending in KINDS]
    refuse_overwriting([("CSV", path) for path in arguments.files], written)
    found = read(arguments.files)
    if unknown := [name for name in arguments.systems or () if name not in found]:
        known = f"choose among: {', '.join(found)}"
        raise DataError(*(f"--systems {n}: no such system; {next(iter(nearest(n, found)), known)}" for n in unknown))
    chosen = {name: found[name] for name in arguments.systems or found}
    curves = [Curve(plain(name, 40), rows) for name, rows in chosen.items()]
    make_folder(arguments.output)
    first = curves[0].rows
    caption = [f"{sum(row.n for row in first):,} sentences. Bands: 95% intervals, as the files have them."]
    figure = draw_curves(
        curves, axis=arguments.axis, min_sentences=arguments.min_sentences, caption=caption, title=arguments.title
    )
    facts = {name: [asdict(row) for row in rows] for name, rows in chosen.items()}
    contents = png(figure, arguments.dpi), svg(figure), numbers({"files": arguments.files, "systems": facts})
    paths = write_all(arguments.output, dict(zip(KINDS, contents, strict=True)))
    print(markdown([_line(name, rows) for name, rows in chosen.items()]))
    say("written: " + ", ".join(map(str, paths)))


def read(files: list[str]) -> dict[str, list[LengthRow]]:
    """Read the curves of all files. Raises DataError if a system occurs twice, or bins differ."""
    found: dict[str, list[LengthRow]] = {}
    origin: dict[str, str] = {}
    for path in files:
        for name, rows in read_rows(path).items():
            if name in found:
                raise DataError(f"{path}: has a system '{name}', as {origin[name]} does; rename one in its file")
            found[name], origin[name] = rows, path
    (first, rows), *others = found.items()
    for name, other in others:
        if _bins(other) != _bins(rows):
            raise DataError(
                f"{origin[name]}: the bins of '{name}' or their sentences differ from those of '{first}' in "
                f"{origin[first]}; measure both on one test set with the same --bins"
            )
    return found


def _bins(rows: list[LengthRow]) -> list[tuple[int, int, int]]:
    return [(row.low, row.high, row.n) for row in rows]


def _line(name: str, rows: list[LengthRow]) -> dict[str, str]:
    return {"system": name} | {f"{row.low}–{row.high}": f"{row.bleu:.1f}" for row in rows}
