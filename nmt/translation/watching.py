"""Translation of a text line by line or sentence by sentence, with warnings of lines that lose text.

Models that were trained on sentences drop text of longer lines.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, tee

import torch

from nmt.data.glossary import Glossary
from nmt.data.links import added_tag
from nmt.data.protection import Protection
from nmt.data.tokenizer import UNKNOWN
from nmt.errors import NmtWarning
from nmt.evaluation.alignment import without_end
from nmt.messages import UNSEEN, progress_bar
from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.searching import WINDOW, SearchOptions
from nmt.translation.translator import Translator

ABBREVIATIONS = ("Mrs", "Mme", "Prof", "Gen", "Sen", "Rev", "Capt", "Col", "Gov", "Hon", "Fig", "Art", "approx", "vs")
NUMBERED = re.compile(r"\b(?:[A-Z][a-z]{1,3}|pp|art)\.\s+$")
"""An abbreviation before a number within a sentence: Jan. 5, Vol. 2."""
BREAK = re.compile(
    r"(?:[!?…]|(?<!\b\w)(?:\.(?=\s?[»”]|[\"“])|(?<!\b[A-Z][a-z])(?<!\b\d\d)"
    + "".join(rf"(?<!\b{each})" for each in ABBREVIATIONS)
    + r"\.))"
    r"(?:\s?[»”]|[\"'’“)\]])*\s+(?=(?:[\"'“‘«„(\[¿¡–—-]\s?)*(\w))|[。！？][」』”’）]*\s*(?=[「『“‘（]*(\w))"
)
"""The end of a sentence, up to the next. A full stop behind a single letter or digit is none; behind Mr and the like,
ABBREVIATIONS and two digits only before a quotation mark."""
SHORT, LEAST = 4, 8
"""A translation is far too short if the line has SHORT times its pieces, and LEAST pieces at least."""
UNKNOWN_SHARE = 4
"""A line is unreadable if more than one of UNKNOWN_SHARE of its pieces is UNKNOWN."""
MOST_NAMED = 10
"""Line numbers that a warning names."""

SEVERAL = "several sentences on a line, but a model trained on sentences translates one; use nmt-translate --paragraphs"
EMPTY = "a translation is empty"
UNREADABLE = "the tokenizer cannot read much of the text"
TOO_SHORT = f"a translation has less than 1/{SHORT} of the pieces of its source"


def sentences(line: str, protection: Protection, terms: Glossary | None = None) -> list[str]:
    """Split a line, outside spans and terms, into sentences, each with the white space behind it and the line's tag."""
    found = set[int]()
    for match in BREAK.finditer(line):
        following, end = match[1] or match[2], line[max(match.start() - 5, 0) : match.end()]
        if not (following.islower() or (following.isdigit() and NUMBERED.search(end))):
            found.add(match.end())
    ends = sorted(found - protection.inside(line) - (terms.inside(line) if terms else set()))
    tag, _ = protection.parted(line)
    return [(f"{tag} " if begin and tag else "") + line[begin:end] for begin, end in pairwise([0, *ends, len(line)])]


def joined(line: str, parts: Sequence[str], translations: Sequence[Translation], between: str) -> Translation:
    """Join the best translations of the sentences ``parts`` of a line; attention is that within each sentence."""
    text, read, written, blocks = line[: len(line) - len(line.lstrip())], list[str](), list[str](), list[torch.Tensor]()
    for number, (part, each) in enumerate(zip(parts, translations, strict=True), 1):
        gap = part[len(part.rstrip()) :]
        text += each.text + (between if gap in ("", " ") and number < len(parts) else gap)
        source, target = without_end(each.source_pieces), without_end(each.pieces)
        tags = int(added_tag(source, line if number == 1 else ""))  # each sentence has the tag
        read += source[tags:]
        written += target
        if each.attention is not None:
            blocks.append(torch.from_numpy(each.attention)[: len(target), tags : len(source)])
    attention = torch.block_diag(*blocks).numpy() if blocks else None
    log_probability = sum(each.hypotheses[0].log_probability for each in translations)
    score = sum(each.score for each in translations)
    text = text.replace("\r", " ").replace("\n", " ")
    return Translation(line, read, [TranslatedHypothesis(text, log_probability, score, written, attention)])


class LostText:
    """The lines whose translation seems to lack text, by symptom."""

    def __init__(self, protection: Protection, terms: Glossary | None = None) -> None:
        self._kept, self._lines = (protection, terms), defaultdict[str, list[int]](list)

    def add(self, number: int, translation: Translation, problems: Iterable[str] = ()) -> None:
        """Look at the translation of the line of this number, which had ``problems`` itself."""
        read, written = len(translation.source_pieces), len(translation.pieces)
        for problem in problems:
            self._lines[problem].append(number)
        if len(sentences(translation.source, *self._kept)) > 1:
            self._lines[SEVERAL].append(number)
        if UNKNOWN_SHARE * translation.source_pieces.count(UNKNOWN) > read:
            self._lines[UNREADABLE].append(number)
        if translation.source.strip() and not translation.text.strip():
            self._lines[EMPTY].append(number)
        elif read >= LEAST and SHORT * written < read:
            self._lines[TOO_SHORT].append(number)

    def problems(self) -> Iterator[str]:
        """Yield a message for each symptom, with its line numbers, and forget them."""
        found, self._lines = self._lines, defaultdict(list)
        for symptom, places in found.items():
            numbers = [*dict.fromkeys(places)]  # several sentences of a line may lack text
            named = ", ".join(f"{number:,}" for number in numbers[:MOST_NAMED])
            more = f" and {len(numbers) - MOST_NAMED:,} more" if len(numbers) > MOST_NAMED else ""
            yield f"line{'s' * (len(numbers) > 1)} {named}{more}: {symptom}"


def translate_watched(
    translator: Translator,
    lines: Iterable[str],
    options: SearchOptions,
    *,
    name: str,
    between: str | None = None,
    typed: bool = False,
    first: int = 1,
    what: str | None = None,
    total: int | None = None,
    terms: Glossary | None = None,
) -> Iterator[Translation]:
    """Translate lines as they arrive, with warnings that name the text ``name`` and count from line ``first``.

    With ``between``, each line is translated sentence by sentence. The translation is indented as the line is, and has
    ``between`` in place of a space, or of nothing, between two sentences. With ``typed``, a person types the lines,
    which are translated one by one. ``what`` names the step in which ``total`` lines are counted, if that is known;
    None shows no progress. Each line or sentence is translated with ``terms``.
    """

    def warn() -> None:
        for problem in lost.problems():
            warnings.warn(f"{name}: {problem}", NmtWarning, stacklevel=3)

    whole, unit = between is None, "lines" if between is None else "sentences"
    protection, change = translator.tokenizers.protection, terms.annotated if terms else str
    parted = ((line, [line] if whole else sentences(line.lstrip(), protection, terms)) for line in lines)
    texts, paragraphs = tee((number, *each) for number, each in enumerate(parted, first))
    lost, cut, done = LostText(protection, terms), defaultdict[int, list[str]](list), list[Translation]()
    with nullcontext(UNSEEN) if what is None else progress_bar(what, total, unit) as progress:
        found = translator.stream(
            (change(part if whole else part.rstrip()) for _, _, parts in texts for part in parts),
            options,
            first=first,
            window=1 if typed else WINDOW,
            warn=lambda place, problem: cut[place].append(problem),
            progress=progress,
        )
        for place, translation in enumerate(found, first):
            if not done:
                number, line, parts = next(paragraphs)
            done.append(replace(translation, source=parts[len(done)]))  # without terms
            lost.add(number, done[-1], cut.pop(place, ()))
            if len(done) == len(parts):
                if typed:
                    warn()
                yield done[0] if between is None else joined(line, parts, done, between)
                done = []
    warn()
