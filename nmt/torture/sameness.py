"""The same again: same seed, other batches, another place."""

import random
import shutil
from dataclasses import replace

from nmt.torture.work import WORDS, Result, Trials, Work, differences, start
from nmt.translator import SearchOptions, Translation, Translator

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
    """A run copied elsewhere, the place it was trained in and its corpus gone: it translates and scores the same."""
    calm, trials = work.calm(), Trials("a run moved, evaluated again")

    def evaluated(run: str) -> bytes:
        file = work.folder / "scores.json"
        names = [str(work.folder / f"test.{side}") for side in ("source", "target")]
        process = start(
            "nmt-evaluate", "--model", run, "--source", names[0], "--reference", names[1], "--json", str(file)
        )
        _, err = process.communicate()
        return file.read_bytes() if process.returncode == 0 else err.encode()

    expected = evaluated(str(calm))
    for number in range(times):
        elsewhere = work.folder / f"moved-{number}" / calm.name
        shutil.copytree(calm, elsewhere)
        calm.rename(calm.with_name("away"))
        try:
            trials.add([] if evaluated(str(elsewhere)) == expected else [f"{elsewhere} scores differently"])
        finally:
            calm.with_name("away").rename(calm)
    return trials.result()
