"""The same again: same seed, other batches, another place."""

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

from nmt.translation.options import SearchOptions
from nmt.translation.translator import Translation, Translator
from tests.torture.work import WORDS, Result, Trials, Work, differences, start

TOLERANCE = 1e-5
"""Of scores, where other neighbours stand beside a line."""


def same_seed(work: Work, times: int) -> Result:
    """Trained again with the same seed, on the same machine and threads: every bit is the same."""
    calm, trials = work.calm(), Trials("the same training again")
    for number in range(times):
        trials.add(work.finish(f"again-{number}") or differences(calm, work.run(f"again-{number}")))
    return trials.result()


def any_batch(work: Work, times: int) -> Result:
    """Greedy and beam search in fp32, whatever stands beside a line, in whatever order and size of batch."""
    trials, chance = Trials("translated in other batches and orders"), random.Random(10)
    translator = Translator.load(work.calm(), device="cpu")
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(0, 12))) for _ in range(60)]
    for number in range(times):
        options = SearchOptions.from_config(translator.decoding, beam_size=(1, 5)[number % 2])
        expected = list(translator.translate(lines, options))
        order = chance.sample(range(len(lines)), len(lines))
        other = replace(options, batch_tokens=chance.choice((1, 17, 100, 10_000)))
        found = translator.translate([lines[place] for place in order], other)
        unlike = [place for place, each in zip(order, found, strict=True) if not _alike(expected[place], each)]
        trials.add([f"beam {options.beam_size}: line {place} differs" for place in unlike])
    return trials.result()


def _alike(one: Translation, other: Translation) -> bool:
    pairs = list(zip(one.hypotheses, other.hypotheses, strict=False))
    return len(one.hypotheses) == len(other.hypotheses) and all(
        a.text == b.text and abs(a.score - b.score) <= TOLERANCE for a, b in pairs
    )


def moved(work: Work, times: int) -> Result:
    """A run copied elsewhere, to a name that is no UTF-8, the place it was trained in and its corpus gone: it
    translates and scores the same."""
    calm, trials = work.calm(), Trials("a run moved, evaluated again")

    def evaluated(run: Path) -> tuple[bytes, list[str]]:
        file = work.folder / "scores.json"
        file.unlink(missing_ok=True)
        names = [str(work.folder / f"test.{side}") for side in ("source", "target")]
        process = start(
            "nmt-evaluate", "--model", str(run), "--source", names[0], "--reference", names[1], "--json", str(file)
        )
        _, err = process.communicate()
        if process.returncode:
            return b"", [f"{run}: nmt-evaluate ended with {process.returncode}: {err[-200:]}"]
        return file.read_bytes(), []

    expected, problems = evaluated(calm)
    gone = [calm, work.folder / "cache", *work.folder.glob("train.*"), *work.folder.glob("validation.*")]
    for number in range(times):
        elsewhere = work.folder / os.fsdecode(b"moved-\xe9-%d" % number) / calm.name
        shutil.copytree(calm, elsewhere, dirs_exist_ok=True)
        for path in gone:
            path.rename(path.with_name(f"{path.name}.away"))
        try:
            found, more = evaluated(elsewhere)
        finally:
            for path in gone:
                path.with_name(f"{path.name}.away").rename(path)
        trials.add(problems + more + ([] if found == expected else [f"{elsewhere} scores differently"]))
    return trials.result()
