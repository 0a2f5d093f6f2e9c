"""Measure how much markup comes through a translation into French of sentences of the demo language."""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field

from demo_language.corpus import LENGTHS, draw
from demo_language.generator import Generator
from demo_language.phrase import Sentence
from machine import provenance
from nmt.cli.command import Command
from nmt.cli.options import OutputFile, RunPath
from nmt.cli.terminal import say
from nmt.files import write_json
from nmt.translation.markup import translate_marked, without_tags
from nmt.translation.results import Translation
from nmt.translation.translator import Translator

MOST_WORDS = 4
"""English words between tags."""


def measure(
    run: RunPath, *, lines: Annotated[int, Field(ge=1)] = 1000, seed: int = 7, json: OutputFile | None = None
) -> None:
    """Measure how much markup of new sentences of the demo language comes through.

    Args:
        run: run directory of nmt-train on the demo language
        lines: sentences
        seed: of the sentences; the corpus has that of make_demo_corpus.py
        json: also write the figures into this file

    examples:
      python scripts/own_text.py runs/demo/bahdanau --json docs/figures/own_text.json
    """
    translator = Translator.load(run)
    found: dict[str, Any] = {"markup": markup(translator, lines, seed)}
    say(str(found))
    if json is not None:
        command = f"python scripts/own_text.py {run} --lines {lines} --seed {seed}"
        write_json(Path(json), found | provenance(command))


main = Command(measure, "own_text.py")


def markup(translator: Translator, lines: int, seed: int) -> dict[str, Any]:
    """Translate sentences in which tags stand around one to four words whose gold links lead to a run of words.

    Words are counted in the translations that are the reference: there are no gold links of others.
    """
    generator, random, seen = Generator(seed), Random(seed), set[str]()
    tests = list[tuple[Sentence, str, set[int]]]()
    while len(tests) < lines:
        (pair,) = draw(generator, 1, LENGTHS, seen)
        if phrases := list(linked_phrases(pair)):
            first, last, linked = random.choice(phrases)
            words = pair.english.split()
            words[first] = f"<b>{words[first]}"
            words[last] += "</b>"
            tests.append((pair, " ".join(words), linked))

    def translate(texts: Iterator[str]) -> Iterator[Translation]:
        return iter(translator.translate(list(texts)))

    found = Counter({"lines": lines})
    marked = translate_marked(translate, (line for _, line, _ in tests), "test")
    for translation, (pair, _, linked) in zip(marked, tests, strict=True):
        text, elements = without_tags(translation.text)
        found["balanced lines"] += [each.closing for each in elements] == ["</b>"]
        if text == pair.french:
            begin, end = (len(text[:place].split()) for place in (elements[0].begin, elements[0].end))
            tagged = set(range(begin, end))
            found["lines that are the reference"] += 1
            found["of these without a wrong word"] += tagged == linked
            found["their words"] += len(text.split())
            found["words with the right tags"] += len(text.split()) - len(tagged ^ linked)
            found["words to be tagged, or tagged"] += len(tagged | linked)
            found["of these right"] += len(tagged & linked)
    return dict(found)


def linked_phrases(pair: Sentence) -> Iterator[tuple[int, int, set[int]]]:
    """Find first and last word of each phrase of up to four English words, and the French words of its links, if they
    are a run and have no links to other words."""
    for first, last in combinations_with_replacement(range(len(pair.english.split())), 2):
        inside = set(range(first, last + 1))
        linked = {j for i, j in pair.alignment if i in inside}
        back = {i for i, j in pair.alignment if j in linked}
        if last - first < MOST_WORDS and linked and back == inside and max(linked) - min(linked) < len(linked):
            yield first, last, linked


if __name__ == "__main__":
    sys.exit(main())
