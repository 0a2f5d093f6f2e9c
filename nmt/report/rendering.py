"""The page as one file: the template, its style, script and figures, and the data; the network has to fetch none.

Style and script are inlined; a content security policy allows these two by their digests and nothing else. The data are
JSON, compressed and in base64, which has no character of markup; the template escapes all other text.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nmt.messages import duration
from nmt.report.making import thinned
from nmt.report.records import Report, Sentence, plain

PAGE = "page"
TEMPLATE = "report.html"
EXPLORED = ("languages", "systems", "bins", "sentences")
"""The fields of a report that the script reads."""
MOST_BYTES = 5_000_000
"""A larger page would open slowly and could not be sent by mail."""
SHARES = (3 / 4, 1 / 2, 1 / 4, 1 / 8)


def fitted(report: Report, most: int = MOST_BYTES) -> tuple[Report, str]:
    """Return the report with as much as a page of ``most`` bytes holds, and the page.

    First the views of single heads are left out, then more and more sentences; ``selection`` says so. If the rest is
    larger, it is returned.
    """
    for smaller in _smaller(report):
        page = render(smaller)
        if len(page.encode()) <= most:
            break
    return smaller, page


def _smaller(report: Report) -> Iterator[Report]:
    yield report
    if any(len(system.views) > 1 for system in report.systems):
        described = f"{report.selection}; without single heads, for the size of the page"
        report = replace(report, sentences=list(map(_with_first_view, report.sentences)), selection=described)
        yield report
    by_length = sorted(report.sentences, key=lambda each: each.length)
    for share in SHARES:
        kept = sorted(thinned(by_length, max(2, round(share * len(by_length)))), key=lambda each: each.id)
        described = f"{report.selection}; {len(kept):,} of these, for the size of the page"
        yield replace(report, sentences=kept, selection=described)


def _with_first_view(sentence: Sentence) -> Sentence:
    systems = {
        name: replace(each, attention=each.attention and dict(list(each.attention.items())[:1]))
        for name, each in sentence.systems.items()
    }
    return replace(sentence, systems=systems)


def render(report: Report) -> str:
    """Return the page."""
    style, script = _joined(".css"), _joined(".js")
    environment = Environment(
        loader=PackageLoader("nmt.report", PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "base64": lambda data: base64.b64encode(data).decode("ascii")}
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
    """Return what the script reads as JSON, compressed by gzip, in base64."""
    content = {"title": report.title, **{name: getattr(report, name) for name in EXPLORED}}
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


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
