"""Equal results: with the same seed, in other batches, in another place."""

import os
import random
import shutil
from pathlib import Path

from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import Translator
from tests.small_run import WORDS
from tests.torture.comparison import differences
from tests.torture.tally import Result, Tally
from tests.torture.trial_folder import TrialFolder, start

TOLERANCE = 1e-5
"""Tolerance of scores, when a line is translated in another batch."""


def same_seed(folder: TrialFolder, times: int) -> Result:
    """Train again with the same seed, machine and threads: every bit is the same."""
    tally, undisturbed = Tally("training repeated with the same seed"), folder.undisturbed()
    for number in range(times):
        tally.add(folder.finish(f"again-{number}") or differences(undisturbed, folder.run(f"again-{number}")))
    return tally.result()


def other_batches(folder: TrialFolder, times: int) -> Result:
    """Translate in fp32 by greedy and beam search, in batches of any order and size: the translations are the same."""
    tally, generator = Tally("translated in other batches and orders"), random.Random(10)
    translator = Translator.load(folder.undisturbed(), device="cpu")
    lines = [" ".join(generator.choices(WORDS, k=generator.randint(0, 12))) for _ in range(60)]
    for number in range(times):
        options = SearchOptions.from_config(translator.decoding, beam_size=(1, 5)[number % 2])
        expected = list(translator.stream(lines, options))
        order = generator.sample(range(len(lines)), len(lines))
        other = options.model_copy(update={"batch_tokens": generator.choice((1, 17, 100, 10_000))})
        found = translator.stream([lines[place] for place in order], other)
        unlike = [place for place, each in zip(order, found, strict=True) if not _alike(expected[place], each)]
        tally.add([f"beam {options.beam_size}: line {place} differs" for place in unlike])
    return tally.result()


def _alike(one: Translation, other: Translation) -> bool:
    pairs = list(zip(one.hypotheses, other.hypotheses, strict=False))
    return len(one.hypotheses) == len(other.hypotheses) and all(
        a.text == b.text and abs(a.score - b.score) <= TOLERANCE for a, b in pairs
    )


def moved_run(folder: TrialFolder, times: int) -> Result:
    """Copy a run directory to a path that is not UTF-8, with its original place and corpus gone: it translates and
    scores the same."""
    tally, undisturbed = Tally("run directory moved, evaluated again"), folder.undisturbed()

    def evaluated(run: Path) -> tuple[bytes, list[str]]:
        file = folder.path / "scores.json"
        file.unlink(missing_ok=True)
        source, reference = (str(folder.path / f"test.{side}") for side in ("source", "target"))
        process = start(
            "nmt-evaluate", "--model", str(run), "--source", source, "--reference", reference, "--json", str(file)
        )
        _, err = process.communicate()
        if process.returncode:
            return b"", [f"{run}: nmt-evaluate ended with {process.returncode}: {err[-200:]}"]
        return file.read_bytes(), []

    expected, problems = evaluated(undisturbed)
    gone = [undisturbed, folder.path / "cache", *folder.path.glob("train.*"), *folder.path.glob("validation.*")]
    for number in range(times):
        elsewhere = folder.path / os.fsdecode(b"moved-\xe9-%d" % number) / undisturbed.name
        shutil.copytree(undisturbed, elsewhere, dirs_exist_ok=True)
        for path in gone:
            path.rename(path.with_name(f"{path.name}.away"))
        try:
            found, more = evaluated(elsewhere)
        finally:
            for path in gone:
                path.with_name(f"{path.name}.away").rename(path)
        tally.add(problems + more + ([] if found == expected else [f"{elsewhere} scores differently"]))
    return tally.result()
