"""A small report with everything that the page can show, made without training: sentences of the demo language, systems
whose attention follows the alignment to some degree, hostile text, and a sentence from right to left."""

import base64
import random
from typing import Any

import numpy as np
import numpy.typing as npt

from demo_language.generator import Generator
from nmt.evaluation.metrics import METRICS

END = "</s>"
BINS = ((1, 10), (11, 20), (21, 30), (31, 40))
PER_BIN = 6
HOSTILE = '<script>document.title="owned"</script> <img src=x onerror=alert(1)> & "quotes" </script>'
SYSTEMS = {  # width, attention, views, how well its attention follows the alignment, share of words that it gets wrong
    "vector-32": (32, False, [], 0.0, 0.6),
    "vector-64": (64, False, [], 0.0, 0.4),
    "luong-64": (64, True, ["attention"], 3.0, 0.1),
    "<i>heads</i> & co": (64, True, ["mean", "layer 1 head 1", "layer 1 head 2"], 4.0, 0.08),
}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"/>'
FAILURES = ("stops early", "runs on", "repeats")


def pieces_of(words: list[str]) -> list[list[str]]:
    """Long words are two pieces; the end symbol is a word of its own."""
    groups = [[f"▁{word}"] if len(word) < 6 else [f"▁{word[:4]}", word[4:]] for word in words]
    return [*groups, [END]]


def encoded(weights: npt.NDArray[np.float64]) -> str:
    """A byte for each weight: round(255 sqrt(min(-ln a, 16) / 16))."""
    with np.errstate(divide="ignore"):
        logs = np.minimum(-np.log(weights), 16.0)
    return base64.b64encode(np.round(255 * np.sqrt(logs / 16)).astype(np.uint8).tobytes()).decode()


def decoded(text: str, rows: int) -> npt.NDArray[np.float64]:
    """The inverse, in NumPy: (T, S), rows normalized."""
    codes = np.frombuffer(base64.b64decode(text), np.uint8).reshape(rows, -1).astype(np.float64)
    weights = np.where(codes == 255, 0.0, np.exp(-16 * (codes / 255) ** 2))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def texts() -> list[tuple[str, str, list[tuple[int, int]]]]:
    """Sources, references and alignments, by length; at the end the hostile line and the one from right to left."""
    generator = Generator(3)
    found: list[tuple[str, str, list[tuple[int, int]]]] = []
    for low, high in BINS:
        while len(found) < PER_BIN * (1 + BINS.index((low, high))):
            pair = generator.sentence(generator.dice.between(max(low, 4), high))
            if low <= len(pair.english.split()) <= high:
                found.append((pair.english, pair.french, sorted(pair.alignment)))
    found.append((HOSTILE, HOSTILE, [(0, 0), (1, 1)]))
    found.append(
        ("قرأ الطالب كتابا جديدا في المكتبة .", "L'étudiant a lu un nouveau livre .", [(0, 2), (1, 0), (2, 5)])
    )
    return found


def output(
    dice: random.Random, source: str, reference: str, links: list[tuple[int, int]], system: str
) -> dict[str, Any]:
    """What a system made of a sentence, with its steps and its attention."""
    _, attends, views, peak, wrong = SYSTEMS[system]
    words = [word if dice.random() > wrong else dice.choice(["maison", "le", "chat"]) for word in reference.split()]
    source_words, target_words = pieces_of(source.split()), pieces_of(words)
    column_of = [k for k, group in enumerate(source_words) for _ in group]
    row_of = [k for k, group in enumerate(target_words) for _ in group]
    wanted = {*links, (len(source_words) - 1, len(target_words) - 1)}
    attention = {}
    for number, view in enumerate(views):
        scores = np.array(
            [[peak * ((i, j) in wanted) + dice.random() * (1 + number) for i in column_of] for j in row_of]
        )
        weights = np.exp(scores * 1.5)
        weights[scores < 0.05] = 0.0  # as outside a window
        attention[view] = encoded(weights / weights.sum(axis=1, keepdims=True))
    chosen = [round(dice.uniform(0.3, 0.9), 3) for _ in row_of]
    pieces = [piece for group in target_words for piece in group]
    steps = [
        [[piece, p], *[[f"▁other{k}", round((1 - p) / 2**k, 3)] for k in range(1, 5)]]
        for piece, p in zip(pieces, chosen, strict=True)
    ]
    steps[1] = steps[1][1:]  # chosen without being among the likeliest, as by a beam
    right = sum(a == b for a, b in zip(words, reference.split(), strict=True)) / len(words)
    return {
        "text": " ".join(words),
        "scores": {"BLEU": round(100 * right**2, 1), "chrF": round(100 * right, 1)},
        "log_probability": float(np.log(chosen).sum()),
        "failures": [failure for failure in FAILURES if dice.random() < wrong / 6],
        "target_words": target_words,
        "source_words": None,
        "steps": steps,
        "chosen": chosen,
        "attention": attention if attends else None,
    }


def rows(dice: random.Random, wrong: float) -> list[dict[str, Any]]:
    """The length curve of a system."""
    made = []
    for number, (low, high) in enumerate(BINS):
        bleu = 95 * (1 - wrong) ** (1 + number)
        made.append(
            {"low": low, "high": high, "n": 250 - 50 * number, "bleu": round(bleu, 2), "bleu_low": round(bleu - 3, 2),
             "bleu_high": round(bleu + dice.uniform(1, 3), 2), "length_ratio": round(1 - wrong / 10, 3)}
        )  # fmt: skip
    return made


def fake_report() -> dict[str, Any]:
    """The report, as its JSON is."""
    dice = random.Random(7)
    sentences: list[dict[str, Any]] = []
    for number, (source, reference, links) in enumerate(texts(), 1):
        sentences.append(
            {
                "id": number * 10,
                "source": source,
                "reference": reference,
                "length": len(source.split()),
                "source_words": pieces_of(source.split()),
                "gold": None if number == 2 else [list(link) for link in links],
                "systems": {name: output(dice, source, reference, links, name) for name in SYSTEMS},
            }
        )
    systems: list[dict[str, Any]] = []
    for name, (width, attends, views, _, wrong) in SYSTEMS.items():
        length = rows(dice, wrong)
        bleu = round(float(np.mean([row["bleu"] for row in length])), 1)
        lines = [{"source": each["source"], "reference": each["reference"]} for each in sentences[8:12]]
        systems.append(
            {
                "name": name,
                "settings": {
                    "model.attention.type": views[0] if attends else "none",
                    "model.encoder.hidden": str(width),
                    "model.attention.heads": "2" if len(views) > 1 else "",
                },
                "parameters": 1_000_000 + 10_000 * width,
                "update": 1000,
                "seconds": 640.5,
                "tokens_per_second": 7650.0,
                "scores": {
                    "perplexity": score(round(2 + 10 * wrong, 2), "", "validation"),
                    "bleu": score(bleu, "nrefs:1|case:mixed|tok:13a") | {"low": bleu - 2, "high": bleu + 2},
                    "chrf": score(min(bleu + 5, 99.0), "nrefs:1|nc:6"),
                    **({"aer": score(round(0.5 - peak_share(name), 3))} if attends else {}),
                },
                "hard": False,
                "views": views,
                "length": length,
                "samples": [
                    line | {"steps": [(step, sample(line["reference"], step)) for step in range(100, 1001, 300)]}
                    for line in lines
                ],
            }
        )
    names = list(SYSTEMS)
    pairs = [
        {"a": a, "b": b, "difference": round(value_of(systems[j]) - value_of(systems[i]), 2), "p": p}
        for (i, a), p in zip(enumerate(names), (0.0009, 0.02, 0.4, 0.6), strict=True)
        for j, b in enumerate(names)
        if i < j
    ]  # fmt: skip
    return {
        "title": "The <demo> & its systems",
        "made": {"date": "2026-11-22", "toolkit": "0.1.0", "command": "nmt-report runs/demo --output report.html"},
        "languages": {
            "source": "en", "target": "fr", "source_rtl": False,
            "unit": "words", "target_unit": "words",
        },
        "metrics": [METRICS[name] for name in ("perplexity", "bleu", "chrf", "aer")],
        "score": "BLEU",
        "systems": systems,
        "pairs": pairs,
        "findings": ["luong-64 is better than vector-64 by 9.1 BLEU (95% interval 5.0 to 12.0)."],
        "figures": [{"panel": panel, "title": panel, "svg": SVG} for panel in ("length", "training")],
        "bins": [{"low": low, "high": high} for low, high in BINS],
        "sentences": sentences,
        "example": sentences[3],
        "selection": f"{len(sentences)} of 1,000 sentences: some of each length.",
    }  # fmt: skip


def score(value: float, signature: str = "", split: str = "test") -> dict[str, Any]:
    return {"value": value, "signature": signature, "split": split}


def value_of(system: dict[str, Any]) -> float:
    return float(system["scores"]["bleu"]["value"])


def peak_share(name: str) -> float:
    return SYSTEMS[name][3] / 10


def sample(reference: str, step: int) -> str:
    """More of the reference, the longer the training."""
    words = reference.split()
    return " ".join(word if k % 10 < step / 100 else "le" for k, word in enumerate(words))
