"""The tutorial's notebook: as a page of the book, with its solutions filled in, and without its outputs.

A cell tagged ``exercise`` holds the code that the reader changes; its metadata holds the solution, which ``--solved``
puts in its place. Git has the notebook without outputs, in this module's format, so that its changes are readable.
"""

import argparse
import inspect
import json
import pydoc
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from nmt.cli.common import command

TUTORIAL = Path(__file__).parent.parent / "docs/tutorial.ipynb"
SOLUTION = "solution"
"""Key of a cell's metadata."""

Notebook = dict[str, Any]
"""As nbformat 4.5 describes it."""


def read(path: Path) -> Notebook:
    """Read a notebook."""
    notebook: Notebook = json.loads(path.read_text("utf-8"))
    return notebook


def cleared(notebook: Notebook) -> Notebook:
    """The notebook as git has it: no outputs, no counts, nothing that a particular editor left."""
    cells = [{**cell, "outputs": [], "execution_count": None} if is_code(cell) else cell for cell in notebook["cells"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {**notebook, "cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}}


def solved(notebook: Notebook) -> Notebook:
    """The notebook with the solution of each exercise in its place."""
    cells = [
        {**cell, "source": cell["metadata"][SOLUTION]} if SOLUTION in cell["metadata"] else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def dumped(notebook: Notebook) -> str:
    """The text of the file, a line for each line of a cell."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def is_code(cell: Notebook) -> bool:
    """Whether a cell is executed."""
    return bool(cell["cell_type"] == "code")


def to_markdown(path: Path) -> str:
    """The cells as a page: text as it is, code in blocks, the sources that cells show, the solutions folded away."""
    return "\n\n".join(_cell(cell) for cell in read(path)["cells"]) + "\n"


SHOWN = re.compile(r'^show\("([\w.]+)"\)$', re.MULTILINE)
"""A line of a cell that shows the source of a part of the toolkit."""


def _cell(cell: Notebook) -> str:
    source = "".join(cell["source"])
    if not is_code(cell):
        return source
    shown = _block(SHOWN.sub(lambda found: source_of(found[1]), source))
    if SOLUTION not in cell["metadata"]:
        return shown
    solution = _block("".join(cell["metadata"][SOLUTION]))
    return f"{shown}\n\n<details><summary>Solution</summary>\n\n{solution}\n\n</details>"


def _block(text: str) -> str:
    return f"```python\n{text}\n```"


def source_of(name: str) -> str:
    """The source of a function or class by its dotted name, under that name."""
    return f"# {name}\n{textwrap.dedent(inspect.getsource(pydoc.locate(name))).strip()}"  # type: ignore[arg-type]


def parser() -> argparse.ArgumentParser:
    """The options: the file, and whether with solutions."""
    arguments = argparse.ArgumentParser(prog="tutorial.py", description=__doc__)
    arguments.add_argument("--solved", metavar="FILE", help="write the notebook with its solutions there")
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Clear the tutorial in place, or write it solved."""
    if arguments.solved is None:
        TUTORIAL.write_text(dumped(cleared(read(TUTORIAL))), "utf-8")
    else:
        Path(arguments.solved).write_text(dumped(solved(read(TUTORIAL))), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
