"""Score the runs of configs/experiments/multi30k-best.yaml on test2016, alone and as an ensemble, with the length
penalty that is best on the validation set: docs/figures/multi30k.json, of which docs/results.md has a table.

    python scripts/multi30k.py --system runs/multi30k-best/transformer
    python scripts/multi30k.py --system runs/multi30k-best/transformer runs/multi30k-best/recurrent
"""

import sys
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from machine import provenance
from nmt.cli.command import Command
from nmt.cli.options import Value
from nmt.cli.terminal import say
from nmt.config import load_run_config
from nmt.config.schema import FileCorpus
from nmt.data.corpus import read_lines
from nmt.errors import ConfigError
from nmt.files import read_json, write_json
from nmt.runs.directory import RunDirectory
from nmt.translation.translator import Translator
from textbook_scores import log_probabilities, ratio

RESULT = Path("docs/figures/multi30k.json")
TEXTS = Path("data/downloads/multi30k")
PENALTIES = (0.6, 1.0, 1.4, 1.8, 2.2)


def multi30k(*, system: list[Annotated[str, Value("DIR")]]) -> None:
    """Add the scores of a system, and of the ensemble of its runs, to docs/figures/multi30k.json.

    Args:
        system: directory with its runs, one for each seed; of several systems, only the ensemble is scored
    """
    folders = [sorted(Path(each).glob("seed-*")) for each in system]
    if not all(folders):
        missing = system[folders.index([])]
        raise ConfigError(f"--system {missing}: has no seed-N; name the directory of a system with seeds")
    runs, name = list(chain(*folders)), " + ".join(Path(each).name for each in system)
    systems = {name: [Translator.load(each) for each in runs]} if len(system) == 1 else {}
    if len(runs) > 1:
        systems[f"{name}, ensemble"] = [Translator.load(runs)]
    found, learned = read_json(RESULT) if RESULT.exists() else {}, [perplexities(each) for each in runs]
    for label, translators in systems.items():
        validation = {each: [bleu(one, "val", each)[0] for one in translators] for each in PENALTIES}
        best = max(PENALTIES, key=lambda penalty: fmean(validation[penalty]))
        cased, lower = zip(*(bleu(one, "test2016", best) for one in translators), strict=True)
        say(f"{label}: length penalty {best}, {fmean(cased):.2f} BLEU, {fmean(lower):.2f} lower-cased")
        found[label] = {
            "length penalty": best,
            "BLEU": cased,
            "BLEU, lower-cased": lower,
            "BLEU on the validation set, by length penalty": validation,
            "runs": [str(each) for each in runs],
            "perplexity of the validation set and of as many training pairs": learned,
            "updates": sorted({load_run_config(each).training.updates for each in runs}),
            "trained on": sorted({read_json(RunDirectory(each).manifest)["device"] for each in runs}),
            **provenance(),
        }
    write_json(RESULT, found)


def bleu(translator: Translator, text: str, penalty: float) -> tuple[float, float]:
    """BLEU of a text, cased and lower-cased."""
    sources, references = (list(read_lines(TEXTS / f"{text}.{language}")) for language in ("en", "de"))
    found = [each.text for each in translator.translate(sources, length_penalty=penalty, attention=False)]
    cased, lower = (BLEU(lowercase=each).corpus_score(found, [references]).score for each in (False, True))
    return cased, lower


def perplexities(run: Path) -> list[float]:
    """The perplexity per piece of the validation set and of as many training pairs: how much was learned by heart."""
    data = load_run_config(run).data
    assert isinstance(data.train, FileCorpus)
    validation = log_probabilities(run, data, data.validation)
    training = log_probabilities(run, data, data.train, len(validation))
    return [float(np.exp(-ratio(each.sum(0)))) for each in (validation, training)]


main = Command(multi30k, "multi30k.py")

if __name__ == "__main__":
    sys.exit(main())
