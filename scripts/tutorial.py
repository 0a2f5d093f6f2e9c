"""The tutorial's notebook: without its outputs, with its solutions filled in, and as a page of the book.

    python scripts/tutorial.py

This clears docs/tutorial.ipynb in place: git has it without outputs, in a format whose changes are readable. A cell
tagged ``exercise`` has the code that the reader changes; its metadata has the solution.
"""

import inspect
import json
import pydoc
import re
import textwrap
from pathlib import Path
from typing import Any

TUTORIAL = Path(__file__).parent.parent / "docs/tutorial.ipynb"
SOLUTION = "solution"
"""Key of a cell's metadata."""
SHOWN = re.compile(r'^show\("([\w.]+)"\)$', re.MULTILINE)
"""A line of a cell that shows the source of a part of the toolkit."""

Notebook = dict[str, Any]
"""As nbformat 4.5 describes it."""


def read() -> Notebook:
    """Read the notebook."""
    notebook: Notebook = json.loads(TUTORIAL.read_text("utf-8"))
    return notebook


def dumped(notebook: Notebook) -> str:
    """The text of the file, a line for each line of a cell."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def is_code(cell: Notebook) -> bool:
    """Whether a cell is executed."""
    return bool(cell["cell_type"] == "code")


def cleared(notebook: Notebook) -> Notebook:
    """The notebook as git has it: no outputs, no counts, nothing that a particular editor left."""
    cells = [{**cell, "outputs": [], "execution_count": None} if is_code(cell) else cell for cell in notebook["cells"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {**notebook, "cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}}


def solved(notebook: Notebook) -> Notebook:
    """The notebook with the solution of each exercise in its place."""
    cells = [{**cell, "source": cell["metadata"].get(SOLUTION, cell["source"])} for cell in notebook["cells"]]
    return {**notebook, "cells": cells}


def to_markdown() -> str:
    """The cells as a page: text as it is, code in blocks, the sources that cells show, the solutions folded away."""
    return "\n\n".join(_cell(cell) for cell in read()["cells"]) + "\n"


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


if __name__ == "__main__":
    TUTORIAL.write_text(dumped(cleared(read())), "utf-8")
