"""A report made smaller until its page fits: first fewer attention matrices, then fewer sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nmt.report.history import thinned
from nmt.report.records import Report, Row, Sentence
from nmt.report.render import render

MOST_BYTES = 5_000_000
"""A larger page would open slowly and could not be sent by mail."""
SHARES = (3 / 4, 1 / 2, 1 / 4, 1 / 8, 0)


def fitted(report: Report, most: int = MOST_BYTES) -> tuple[Report, str]:
    """Return the report with as much as a page of ``most`` bytes holds, and the page.

    First the views of single heads are left out of more and more sentences, then sentences; ``selection`` says so. If
    the rest alone is larger, that is returned.
    """
    for smaller in _smaller(report):
        page = render(smaller)
        if len(page.encode()) <= most:
            break
    return smaller, page


def _smaller(report: Report) -> Iterator[Report]:
    """Yield the report, and then smaller and smaller ones."""
    yield report
    count = len(report.sentences)
    if any(len(system.views) > 1 for system in report.systems):
        for share in SHARES:
            kept = round(share * count)
            described = f"{report.selection}; single heads of {kept:,} of them, for the size of the page"
            smaller = replace(report, sentences=_without_heads(report.sentences, kept), selection=described)
            yield smaller
        report = smaller
    for share in SHARES[:-1]:
        kept = max(2, round(share * count))
        described = f"{report.selection}; {kept:,} of these, for the size of the page"
        yield _with_sentences(replace(report, selection=described), kept)


def _without_heads(sentences: Sequence[Sentence], kept: int) -> list[Sentence]:
    """Keep all views of ``kept`` sentences, evenly spaced, and the first view of the others."""
    whole = set(_evenly(len(sentences), kept))
    return [each if place in whole else _with_first_views(each) for place, each in enumerate(sentences)]


def _with_first_views(sentence: Sentence) -> Sentence:
    systems = {
        name: replace(each, attention=each.attention and dict(list(each.attention.items())[:1]))
        for name, each in sentence.systems.items()
    }
    return replace(sentence, systems=systems)


def _with_sentences(report: Report, kept: int) -> Report:
    """Keep some of the sentences, evenly spaced among those in the order of their lengths."""
    by_length = sorted(range(len(report.sentences)), key=lambda place: report.sentences[place].length)
    places = sorted(by_length[k] for k in _evenly(len(by_length), kept))
    moved = {place: number for number, place in enumerate(places)}

    def rows(several: Sequence[Row]) -> list[Row]:
        return [row | {"examples": [moved[each] for each in row["examples"] if each in moved]} for row in several]

    systems = [
        replace(each, length=rows(each.length), length_pieces=rows(each.length_pieces)) for each in report.systems
    ]
    return replace(report, systems=systems, sentences=[report.sentences[place] for place in places])


def _evenly(count: int, kept: int) -> list[int]:
    return thinned(range(count), kept) if kept > 1 else list(range(min(kept, count)))
