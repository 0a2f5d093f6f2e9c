"""Build of the book by Sphinx: ``make docs``."""

import re
import sys
from pathlib import Path

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


def fill(_: Sphinx, page: str, source: list[str]) -> None:
    """Put the notebook into the page of the tutorial, and lead the links of each page into the site."""
    text = f"{tutorial.to_markdown()}\n{source[0]}" if page == "tutorial" else source[0]
    source[0] = re.sub(r"\[([^\]]+)\]\((?:\.\./)+([^)#]*)(#[^)]*)?\)", _within, text)


def _within(link: re.Match[str]) -> str:
    """A link to a file of the repository: to its page, or else just its name."""
    text, path, anchor = link.groups()
    if path.startswith("docs/"):
        return f"[{text}]({path.removeprefix('docs/')}{anchor or ''})"
    return f"`{path}`" if path.rstrip("/") in text else f"{text} (`{path}`)"


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
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
