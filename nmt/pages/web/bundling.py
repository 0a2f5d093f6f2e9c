"""JavaScript modules as one script: a page that is opened from disk can load no modules."""

import re
from importlib.resources import files

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)


def bundled(module: str) -> str:
    """Return a module of the engine, and those that it imports, as an expression: an object with the exports of each.

    The modules import and export by name, ``import { a, b } from "./file.js"`` and ``export class C``; no two import
    each other.
    """
    found: dict[str, str] = {}
    _collect(module, found)
    return f"(() => {{\nconst modules = {{}};\n{''.join(found.values())}return modules;\n}})()"


def _collect(module: str, found: dict[str, str]) -> None:
    """Add a module to those that are found, after all that it imports."""
    text = files("nmt.pages.web").joinpath("engine", module).read_text("utf-8")
    for _, other in IMPORT.findall(text):
        if other not in found:
            _collect(other, found)
    exports = ", ".join(name for _, name in EXPORT.findall(text))
    body = IMPORT.sub(lambda match: f'const {{{match[1].replace(" as ", ": ")}}} = modules["{match[2]}"];\n', text)
    body = EXPORT.sub(lambda match: match[1], body)
    found[module] = f'modules["{module}"] = (() => {{\n{body}return {{ {exports} }};\n}})();\n'
