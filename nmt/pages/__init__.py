"""Pages for a browser: the report, and a run behind HTTP. Each is one file with its style and script."""

import base64
import hashlib
import posixpath
import re
from importlib.resources import files

IMPORT = re.compile(r'^import \{([^}]*)\} from "([./\w-]+\.js)";\n', re.MULTILINE)
COMMENT = re.compile(r"/\*\*.*?\*/ ?", re.DOTALL)
BLANK = re.compile(r"^ *((//.*)?\n)?", re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)


def read(path: str) -> str:
    """Return the text of a file of the pages, by its path in this package."""
    return files("nmt.pages").joinpath(path).read_text("utf-8")


def bundled(module: str) -> str:
    """Return a module of the pages, and those that it imports, as one script: a page from disk can load no modules.

    The script keeps the exports of each in ``modules``, by path, and leaves out comments and indentation. Modules
    import and export by name, ``import { a, b } from "./file.js"`` and ``export class C``; no two import each other.
    """
    found: dict[str, str] = {}
    _collect(module, found)
    return f'"use strict";\nconst modules = {{}};\n{"".join(found.values())}'


def _collect(module: str, found: dict[str, str]) -> None:
    """Add a module to those that are found, after all that it imports."""

    def bound(match: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(posixpath.dirname(module), match[2]))
        if other not in found:
            _collect(other, found)
        return f'const {{{match[1].replace(" as ", ": ")}}} = modules["{other}"];\n'

    text = IMPORT.sub(bound, BLANK.sub("", COMMENT.sub("", read(module))))
    exports = ", ".join(name for _, name in EXPORT.findall(text))
    body = EXPORT.sub(lambda match: match[1], text)
    found[module] = f'modules["{module}"] = (() => {{\n{body}return {{ {exports} }};\n}})();\n'


def policy(style: str, script: str, *others: str) -> str:
    """Return a content security policy that allows one inlined style, one inlined script, and what ``others`` say."""
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, script)
    )
    fixed = ("default-src 'none'", "base-uri 'none'", "form-action 'none'")
    return "; ".join((*fixed, f"style-src {style}", f"script-src {script}", *others))
