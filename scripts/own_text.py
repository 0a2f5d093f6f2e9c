"""Measure what comes through a translation into French of sentences of the demo language, spans, terms and markup; how
reliable the confidence of a run is; one system of several languages beside one for each; translations of rough text;
systems on little text, from nothing and adapted."""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np

from machine import provenance
from nmt.cli.command import Command
from nmt.cli.options import OutputFile, RunPath, Value
from nmt.cli.terminal import say
from nmt.config import load_run_config
from nmt.data.corpus import read_lines, read_pairs
from nmt.data.rough import capitalized, mistyped
from nmt.evaluation.confidence import GOOD, calibration_error, read_calibration, reliability
from nmt.evaluation.metrics import METRICS, Evidence, bleu, scores_of, sentence_scores
from nmt.files import read_json, write_json
from nmt.runs.directory import RunDirectory
from nmt.translation.translator import Translator
from own_text_kept import LINES, SEED, glossary_by_seed, markup, spans

DEMO, MULTI30K, EUROPARL = "data/demo-short", "data/downloads/multi30k", "data/downloads/europarl"
DEBATES = 500
"""Sentences of Europarl's test set that adapted systems translate."""


def measure(
    *,
    protected: RunPath | None = None,
    glossary: Annotated[str, Value("DIR")] | None = None,
    calibrated: RunPath | None = None,
    languages: Annotated[str, Value("DIR")] | None = None,
    rough: Annotated[str, Value("DIR")] | None = None,
    ladder: Annotated[str, Value("DIR")] | None = None,
    little: Annotated[str, Value("DIR")] | None = None,
    json: OutputFile | None = None,
) -> None:
    """Measure how many spans, how much markup and how many terms of a glossary come through in the demo language; how
    reliable the confidence of a run is; BLEU of one system of several languages and of one for each; scores of rough
    text; BLEU of systems on little text. Other figures of the file stay.

    Args:
        protected: run of the first example
        glossary: output of nmt-experiment with configs/experiments/glossary.yaml
        calibrated: any run with a confidence, which its data.test tries
        languages: output of nmt-experiment with configs/experiments/languages.yaml
        rough: output of nmt-experiment with configs/experiments/rough.yaml
        ladder: output of nmt-experiment with configs/experiments/ladder.yaml
        little: output of nmt-experiment with configs/experiments/little-text.yaml
        json: also write the figures into this file

    examples:
      nmt-train --config configs/demo.yaml --output runs/protected
        --set 'data.protect=[url, email, braces, tag, number]' training.updates=2400
      nmt-experiment --config configs/experiments/rough.yaml --only plain:1
      nmt-experiment --config configs/experiments/rough.yaml --only longer rough
      python scripts/own_text.py --rough runs/rough --json docs/figures/own_text.json
      nmt-evaluate --model runs/rough/plain/seed-1 --calibrate --source data/downloads/multi30k/val.en
        --reference data/downloads/multi30k/val.de
      python scripts/own_text.py --calibrated runs/rough/plain/seed-1 --json docs/figures/own_text.json
    """
    found: dict[str, dict[str, Any]] = {}
    if protected:
        translator = Translator.load(protected)
        found |= {"spans": spans(translator), "markup": markup(translator)}
    if glossary:
        found["glossary"] = glossary_by_seed(Path(glossary))
    if calibrated:
        found["confidence"] = confidence(calibrated)
    if languages:
        found["BLEU by language"] = by_language(Path(languages))
    if rough:
        found["rough text"] = rough_text(Path(rough))
    if ladder:
        found["BLEU by pairs"] = by_pairs(Path(ladder))
    if little:
        found["BLEU by pairs, adjusted"] = by_pairs(Path(little))
    say(str(found))
    if json is not None:
        origin = provenance()
        kept = read_json(Path(json)) if Path(json).exists() else {}
        write_json(Path(json), kept | {name: part | origin for name, part in found.items()})


main = Command(measure, "own_text.py")


def confidence(path: str) -> dict[str, Any]:
    """The calibration error on the test set of a run; and how often, of two of its translations, one good and one not,
    the good one has the higher confidence: the area under the ROC curve."""
    run, config = RunDirectory(path), load_run_config(path)
    data, search = config.data, config.decoding.model_dump(exclude={"batch_tokens"}) | {"precision": "fp32"}
    assert data.test is not None
    pairs = list(read_pairs(data.test, data.source_language, data.target_language))
    found = [each.hypotheses[0] for each in Translator.load(path).translate([pair.source for pair in pairs])]
    scores = [sentence_scores(each.text, pair.target, "13a")["chrF"] for each, pair in zip(found, pairs, strict=True)]
    calibration = read_calibration(run.confidence, run.folder("best") / "model.safetensors", search)
    probabilities, good = calibration.probability([each.per_piece for each in found]), np.array(scores) >= GOOD
    return {
        "lines": len(pairs),
        "good": int(good.sum()),
        "area under the curve": round(float((probabilities[good][:, None] > probabilities[~good]).mean()), 3),
        "calibration error": round(calibration_error(reliability(probabilities, good)), 3),
    }


def by_language(folder: Path) -> dict[str, dict[str, list[float]]]:
    """BLEU on Multi30k's test2016 of each seed of each system; from French into German, which training has not seen,
    directly and through English."""
    text = {code: list(read_lines(f"{MULTI30K}/test2016.{code}")) for code in ("en", "de", "fr")}
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    for run in sorted(folder.glob("*/seed-*")):
        name, translator = run.parent.name, Translator.load(run)

        def into(code: str, lines: Sequence[str], translator: Translator = translator) -> list[str]:
            return [each.text for each in translator.translate(lines, to=f"<2{code}>")]

        if name in ("de", "fr"):
            hypotheses = {f"en-{name}": [each.text for each in translator.translate(text["en"])]}
        else:
            hypotheses = {f"en-{code}": into(code, text["en"]) for code in ("de", "fr")}
        if name == "four":
            hypotheses["fr-de"] = into("de", text["fr"])
            hypotheses["fr-en-de"] = into("de", into("en", text["fr"]))
        for direction, each in hypotheses.items():
            score = bleu(Evidence(each, text[direction[-2:]], "13a")).value
            found[name][direction].append(round(score, 2))
    return dict(found)


def rough_text(folder: Path) -> dict[str, Any]:
    """Scores of each system and seed on the test set, clean and changed; and how many words of the training text,
    translated alone, have a translation without a repeated word."""
    sources, references = (list(read_lines(f"{MULTI30K}/test2016.{side}")) for side in ("en", "de"))
    text = read_lines(f"{MULTI30K}/train.en.xz")
    words = Random(SEED).sample(sorted({word for line in text for word in re.findall(r"[^\W\d_]+", line)}), LINES)
    random = Random(SEED)
    changed = {"clean": sources, "5% typos": [mistyped(text, random, 0.05) for text in sources]}
    changed["title"] = [capitalized(text) for text in sources]
    changed["capitals"] = [text.upper() for text in sources]
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    for run in sorted(folder.glob("*/seed-*")):
        scores, translator = found[run.parent.name], Translator.load(run)
        for name, texts in changed.items():
            hypotheses = [each.text for each in translator.translate(texts)]
            for metric, score in scores_of(Evidence(hypotheses, references, "13a")).items():
                scores[f"{METRICS[metric].label}, {name}"].append(round(score.value, 2))
        alone = [re.findall(r"\w+", each.text.casefold()) for each in translator.translate(words)]
        scores["words alone"].append(sum(len({*each}) == len(each) for each in alone))
    return {"words": LINES, **found}


def by_pairs(folder: Path) -> dict[str, dict[str, list[float]]]:
    """BLEU of each seed of each system on captions, Multi30k's test2016; of those that have seen Europarl, also on
    debates, its first test sentences of at most 20 words."""
    sides = (read_lines(f"{EUROPARL}/test3000.{side}") for side in ("en", "fr"))
    short = [pair for pair in zip(*sides, strict=True) if len(pair[0].split()) <= 20][:DEBATES]
    sources, references = zip(*short, strict=True)
    captions = list(read_lines(f"{MULTI30K}/test2016.fr"))
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    for file in sorted((folder / "tests/test2016").glob("*.txt")):
        name, _, seed = file.stem.partition(".")
        found[name]["captions"].append(round(bleu(Evidence(list(read_lines(file)), captions, "13a")).value, 1))
        if name.startswith(("parliament", "adapted")):
            hypotheses = [each.text for each in Translator.load(folder / name / seed).translate(sources)]
            found[name]["debates"].append(round(bleu(Evidence(hypotheses, references, "13a")).value, 1))
    return dict(found)


if __name__ == "__main__":
    sys.exit(main())
