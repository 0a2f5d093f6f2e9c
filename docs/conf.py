"""Build of the book by Sphinx: ``make docs``."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import tutorial  # noqa: E402

project = "nmt-attention"
html_title = "nmt-attention"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_show_copyright = False
html_copy_source = False
highlight_language = "text"
smartquotes = False  # two hyphens begin an option
toc_object_entries = False
pygments_style, pygments_dark_style = "tango", "monokai"

# --- pages that are filled while the site is built --------------------------------------------------------------------

FILLED: Mapping[str, Callable[[], str]] = {
    "tutorial": lambda: tutorial.to_markdown(tutorial.TUTORIAL),
}
"""What is added to the end of a page."""


def fill(_: Sphinx, page: str, source: list[str]) -> None:
    """Complete a page, and lead its links into the site."""
    text = f"{source[0]}\n{FILLED[page]()}" if page in FILLED else source[0]
    source[0] = re.sub(r"\[([^\]]+)\]\((?:\.\./)+([^)#]*)(#[^)]*)?\)", _within, text)


def _within(link: re.Match[str]) -> str:
    """A link to a file of the repository: to its page, or else just its name."""
    text, path, anchor = link.groups()
    if path.startswith("docs/"):
        return f"[{text}]({path.removeprefix('docs/')}{anchor or ''})"
    return f"`{path}`" if path.rstrip("/") in text else f"{text} (`{path}`)"


def plain_bars(_app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Keep the bars of |A| in docstrings, which would mark a substitution."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line) for line in lines]


def own_signature(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, given: str, returns: str
) -> Any:
    """Leave out the signature that a class inherits from torch.nn.Module."""
    return ("", None) if given == "(*args: Any, **kwargs: Any)" else (given, returns)


# --- equations without a script ---------------------------------------------------------------------------------------


def inline_math(translator: HTML5Translator, node: nodes.math) -> None:
    """An equation within a line, as MathML, which browsers draw themselves."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def displayed_math(translator: HTML5Translator, node: nodes.math_block) -> None:
    """An equation on a line of its own."""
    translator.body.append(f'<div class="equation">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the above."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", plain_bars)
    app.connect("autodoc-process-signature", own_signature)
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
