"""Align the Hansards (Och & Ney 2000) with eflomal, a statistical aligner (Östling & Tiedemann 2016), which reads them
beside the training pairs of RNNsearch-50: docs/figures/hansards.json, for docs/length-decay.md.

    pip install eflomal==2.0.0
    python scripts/hansards.py
"""

import re
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import eflomal

from machine import provenance
from nmt.cli.command import Command
from nmt.cli.terminal import say
from nmt.config import load_config
from nmt.config.schema import FileCorpus
from nmt.data.corpus import read_pairs
from nmt.evaluation.alignment import parse_gold, read_gold, score_alignments, symmetrized
from nmt.experiments.plan import load_experiment, make_plan
from nmt.files import write_json

RESULT = Path("docs/figures/hansards.json")
EXPERIMENT = "configs/experiments/europarl.yaml"


def hansards() -> None:
    """Align, and score the links of each direction, and of both."""
    experiment = load_experiment(EXPERIMENT)
    test, data = make_plan(experiment, EXPERIMENT).tests["hansards"], load_config(experiment.base).data
    assert test.gold is not None
    assert isinstance(data.train, FileCorpus)
    gold = read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)
    read = read_pairs(data.train, data.source_language, data.target_language)
    pairs = [pair for pair in read if max(len(side.split()) for side in pair) <= (data.filter.max_words or sys.maxsize)]
    with TemporaryDirectory() as folder:
        texts, links = ([Path(folder, name) for name in names] for names in (("en", "fr"), ("ahead", "back")))
        for side, text in enumerate(texts):
            lines = [*(pair[side].lower() for pair in gold.pairs), *(split(pair[side]) for pair in pairs)]
            text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with texts[0].open(encoding="utf-8") as source, texts[1].open(encoding="utf-8") as target:
            eflomal.Aligner().align(source, target, *map(str, links))
        found = (each.read_text(encoding="utf-8").splitlines()[: len(gold.pairs)] for each in links)
        ahead, back = ([parse_gold(line, "eflomal").sure for line in each] for each in found)
    aligned = {"ahead": ahead, "back": back, "both": list(map(symmetrized, ahead, back))}
    rates = {name: score_alignments(gold.links, each).error_rate for name, each in aligned.items()}
    say(", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()))
    written = {"alignment error rate": rates, "training pairs": len(pairs), "eflomal": version("eflomal")}
    write_json(RESULT, written | provenance())


def split(line: str) -> str:
    """Separate words and punctuation, in lower case: roughly as the Hansards, which also expand *l'* and *du*."""
    return " ".join(re.findall(r"\w+|[^\w\s]", line.lower()))


main = Command(hansards, "hansards.py")

if __name__ == "__main__":
    sys.exit(main())
