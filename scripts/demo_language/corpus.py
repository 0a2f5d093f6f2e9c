"""Training, validation and test files of the demo language, with the same bytes on every machine."""

import re
from collections import Counter
from pathlib import Path

from demo_language.generator import Generator
from demo_language.lexicon import NOUNS
from demo_language.morphology import Noun
from demo_language.phrase import Sentence
from nmt.files import write_text, writing

SHORTEST, LONGEST = 3, 60
"""English words of a sentence, both included."""
BINS = [(SHORTEST, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, LONGEST)]
"""Length bins of the test set, which has the same number of sentences in each."""
LENGTHS = [(SHORTEST, 12), (SHORTEST, 20), (8, 20), (SHORTEST, 30), (20, 40), (40, LONGEST)]
"""Length ranges of training and validation, equally likely, so that short sentences are frequent."""
RARE, FREQUENT = 5, 0.05
"""A term has at least so many links in the training set, and occurs in it fewer times than this share of the pairs."""


def write_corpus(
    folder: str | Path,
    train: int,
    validation: int,
    test_per_bin: int,
    seed: int,
    longest: int = LONGEST,
    *,
    verb_final: bool = False,
) -> None:
    """Write {train,validation,test}.{en,fr,align} into a folder; no English sentence occurs twice in all of them.

    Also write terms.tsv, translations of words for ``data.glossary``. The alignments are Pharaoh links
    ``i-j`` of words split at whitespace, counted from 0. The test set depends only on its size and the seed.

    Args:
        folder: created if it is missing.
        train: number of pairs.
        validation: number of pairs, with lengths distributed as in training.
        test_per_bin: number of pairs for each of BINS.
        seed: seed of all random choices.
        longest: leave out the ranges of BINS and LENGTHS that reach beyond this number of words.
        verb_final: put French verbs behind their complements.

    Raises DataError if the folder or a file in it cannot be written.
    """
    generator, seen = Generator(seed, verb_final=verb_final), set[str]()
    bins, lengths = ([each for each in ranges if each[1] <= longest] for ranges in (BINS, LENGTHS))
    test = [pair for bin_ in bins for pair in draw(generator, test_per_bin, [bin_], seen)]
    heldout = draw(generator, validation, lengths, seen)
    splits = {"test": test, "validation": heldout, "train": draw(generator, train, lengths, seen)}
    folder = Path(folder)
    files = {"terms.tsv": terms(splits["train"])}
    for name, pairs in splits.items():
        files[f"{name}.en"] = [pair.english for pair in pairs]
        files[f"{name}.fr"] = [pair.french for pair in pairs]
        files[f"{name}.align"] = [pharaoh(pair) for pair in pairs]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in files.items():
            write_text(folder / name, "".join(f"{line}\n" for line in lines))


def terms(pairs: list[Sentence]) -> list[str]:
    """A dictionary: the commonest link of each word, but for very frequent and rare words, names and HELD_OUT."""
    words, links = Counter[str](), Counter[tuple[str, str]]()
    for pair in pairs:
        english, french = ([word.strip(".,?") for word in text.split()] for text in pair[:2])
        begins, ends = (Counter(places) for places in zip(*pair.alignment, strict=True))
        words.update(english)
        links.update((english[i], french[j]) for i, j in pair.alignment if begins[i] == ends[j] == 1)
    found = dict[str, str]()
    for (word, translation), count in links.most_common():
        if count >= RARE and words[word] < FREQUENT * len(pairs) and re.fullmatch("[a-z]{3,}", word):
            found.setdefault(word, translation)
    kept = ((word, each) for word, each in found.items() if word != each and not HELD_OUT & {word, each})
    return sorted(f"{word}\t{translation}" for word, translation in kept)


def forms(noun: Noun) -> list[tuple[str, str]]:
    """Singular and plural of a noun, English and French."""
    return [(english, french.removeprefix("*")) for english, french in zip(noun.english, noun.french, strict=True)]


HELD_OUT = {word for noun in NOUNS[1::2] for pair in forms(noun) for word in pair}
"""Every second noun, for tests of terms that the training glossary lacks."""


def pharaoh(pair: Sentence) -> str:
    """The links of a pair in Pharaoh format: ``0-0 1-2 2-1``."""
    return " ".join(f"{i}-{j}" for i, j in pair.alignment)


def draw(generator: Generator, count: int, lengths: list[tuple[int, int]], seen: set[str]) -> list[Sentence]:
    """Generate ``count`` new sentences, each with a length in a range drawn from ``lengths``."""
    pairs: list[Sentence] = []
    while len(pairs) < count:
        low, high = generator.dice.pick(lengths)
        pair = generator.sentence(generator.dice.between(low, high))
        if low <= len(pair.english.split()) <= high and pair.english not in seen:
            seen.add(pair.english)
            pairs.append(pair)
    return pairs
