"""The records of a report, and its page: one HTML file that loads nothing.

Style and script are inlined; a content security policy allows these two and nothing else. The data are JSON, files
of the engine and figures, compressed and in base64; the template escapes all other text.
"""

import gzip
import json
from base64 import b64encode
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nmt.evaluation.metrics import Metric
from nmt.messages import duration
from nmt.pages import bundled, policy, read

EXPLORED = ("title", "languages", "systems", "bins", "sentences", "score")
"""The fields of a report that are embedded for the script."""
LEVEL = 0.05
"""Largest p of a difference that is taken to be more than chance."""
Words = list[list[str]]
"""The pieces of each word, in order; the end symbol is a word of its own."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Languages:
    """The languages of the test set, and the units in which the lengths of their sentences are counted."""

    source: str
    target: str
    source_rtl: bool
    unit: str
    """Unit of the source: words or characters."""
    target_unit: str


@dataclass(frozen=True)
class SystemFacts:
    """One trained run, measured on the whole test set."""

    name: str
    settings: dict[str, str]
    """Dotted keys of the configuration whose values differ between the systems; "" where unset."""
    parameters: int
    update: int | None
    """The update of the weights that translated; the last one of those that were averaged."""
    seconds: float | None
    """Seconds of training."""
    tokens_per_second: float | None
    """Target tokens per second of training."""
    scores: dict[str, Row]
    """By the name of the metric: value, signature; split, test or validation, that was measured; for BLEU also low and
    high, the ends of the 95% interval."""
    hard: bool
    """Whether the attention looks at one position in each step, so that no temperature changes it."""
    views: list[str]
    """Names of the attention matrices of a sentence; empty without attention."""
    length: list[Row]
    """Scores by source length: the rows of a length curve."""
    samples: list[Row]
    """Translations of the same sentences over time: source, reference, and a step and text for each validation."""
    film: Row | None
    """The attention to validation sentences while the system learned; see :func:`nmt.pages.report.making.film`."""


@dataclass(frozen=True)
class Reading:
    """A sentence translated by one system: T target and S source pieces."""

    text: str
    scores: dict[str, float]
    """Scores of the sentence, by the label of the metric."""
    log_probability: float
    """The sum over the translation, the end symbol included if it was emitted; nats."""
    failures: list[str]
    source_words: Words
    target_words: Words
    steps: list[list[list[Any]]]
    """For each target piece the likeliest next pieces, each with its probability, given the translation so far."""
    chosen: list[float]
    """The probability of each target piece, (T,)."""
    attention: dict[str, str]
    """By view, T x S weights, packed by :func:`nmt.pages.report.reading.packed`."""
    gold: list[list[int]]
    """Gold links: index of the word in ``source_words``, index of the reference's word."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test set under every system."""

    id: int
    """Line number, from 1."""
    source: str
    reference: str
    length: int
    """Length of the source, in the unit of the report."""
    systems: dict[str, Reading]


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    title: str
    made: dict[str, str]
    """Date, version of the toolkit, command."""
    languages: Languages
    metrics: list[Metric]
    """The columns of scores."""
    score: str
    """Label of the metric by which sentences are sorted; higher is better."""
    systems: list[SystemFacts]
    pairs: list[Row]
    """a, b, difference (BLEU of b minus that of a), p: of systems that are trained enough to be compared."""
    findings: list[str]
    """Sentences that say which system is better."""
    figures: dict[str, bytes]
    """SVG by title."""
    bins: list[Row]
    """low, high: source lengths."""
    sentences: list[Sentence]
    example: Sentence | None
    """A sentence for the overview."""
    selection: str
    """How the sentences were chosen, in words."""
    engines: dict[str, dict[str, bytes] | str]
    """For each system the files of the engine that translates in the page, or why it cannot run it."""


# --- HTML -------------------------------------------------------------------------------------------------------------


def render(report: Report) -> str:
    """Return the page."""
    style, script = read("web/parts/parts.css") + read("report/page/report.css"), bundled("report/page/main.js")
    environment = Environment(
        loader=PackageLoader("nmt.pages.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "embedded": embedded}
    ends = [
        row[end] for each in report.systems for row in each.scores.values() for end in ("low", "high") if end in row
    ]
    return environment.get_template("report.html").render(
        csp=policy(style, script, "img-src data:"),
        style=Markup(style),
        script=Markup(script),
        data=contents(report),
        report=report,
        level=LEVEL,
        lowest=min(ends, default=0.0),
        span=max(max(ends, default=0.0) - min(ends, default=0.0), 0.1),
    )


def embedded(content: bytes) -> Markup:
    """Compress by gzip, and write in base64."""
    return Markup(b64encode(gzip.compress(content, mtime=0)).decode())


def contents(report: Report) -> list[bytes]:
    """Return what the script reads: JSON of the report, then the files of all engines, each once. The JSON numbers them
    from 1."""
    engines = {name: each for name, each in report.engines.items() if isinstance(each, dict)}
    every = list(dict.fromkeys(content for files in engines.values() for content in files.values()))
    numbered = {
        name: {file: 1 + every.index(content) for file, content in files.items()} for name, files in engines.items()
    }
    fields = {name: getattr(report, name) for name in EXPLORED} | {"engines": report.engines | numbered}
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=asdict)
    return [text.encode(), *every]
