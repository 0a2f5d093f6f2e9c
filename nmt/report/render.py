"""The page as one file: the template, its style and script, and the data, none of which the network has to fetch.

Style and script are inlined; a content security policy allows these two by their digests and nothing else. The data are
JSON, compressed and in base64, which has no character of markup; the template escapes all other text.
"""

import base64
import gzip
import hashlib
import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nmt.foundation.messages import duration
from nmt.report.records import Report, plain

PAGE = "page"
TEMPLATE = "report.html"
LEVEL = 9


def render(report: Report) -> str:
    """Return the page; :func:`nmt.report.fitting.fitted` makes a report of a certain size."""
    style, script = _joined(".css"), _joined(".js")
    environment = Environment(
        loader=PackageLoader("nmt.report", PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = duration
    return environment.get_template(TEMPLATE).render(
        title=report.title,
        csp=policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=Markup(encoded(report)),
        report=report,
    )


def policy(style: str, script: str) -> str:
    """Return a content security policy that allows one style, one script, and images in the file itself."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def encoded(report: Report) -> str:
    """Return the report as JSON, compressed by gzip, in base64."""
    text = json.dumps(plain(report), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), LEVEL, mtime=0)).decode("ascii")


def decoded(data: str) -> Any:
    """Return what :func:`encoded` was given, as JSON has it."""
    return json.loads(gzip.decompress(base64.b64decode(data)))


def _joined(ending: str) -> str:
    """The page's files with an ending, in the order of their names."""
    parts = sorted((each for each in files("nmt.report").joinpath(PAGE).iterdir()), key=lambda each: each.name)
    return "\n".join(each.read_text("utf-8") for each in parts if each.name.endswith(ending))


def _digest(text: str) -> str:
    """The digest of an inlined text, as a policy has it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
