"""A small report with everything that the page can show, made without training: sentences of the demo language, systems
whose attention follows the alignment to some degree, hostile text, and a sentence from right to left."""

import base64
import math
import random
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from demo_language.generator import Generator
from nmt.evaluation.metrics import METRICS
from nmt.pages.report.reading import packed
from nmt.pages.report.rendering import Languages, Reading, Report, Row, Sentence, SystemFacts

BINS = ((1, 10), (11, 20), (21, 30), (31, 40))
HOSTILE = '<script>document.title="owned"</script> <img src=x onerror=alert(1)> & "quotes" </script>'
VECTOR, LUONG, HEADS = "vector-64", "luong-64", "<i>heads</i> & co"
SYSTEMS: dict[str, tuple[list[str], float, float]] = {
    # views, how well the attention follows the alignment, share of words that are wrong
    "vector-32": ([], 0.0, 0.6),
    VECTOR: ([], 0.0, 0.4),
    LUONG: (["attention"], 3.0, 0.1),
    HEADS: (["mean", "layer 1 head 1", "layer 1 head 2"], 4.0, 0.08),
}
FAILURES = ("stops early", "runs on", "repeats")
Links = list[tuple[int, int]]


def unpacked(codes: str, rows: int) -> npt.NDArray[np.float64]:
    """Invert ``packed``, as the page does before it normalizes the rows: (T, S)."""
    values = np.frombuffer(base64.b64decode(codes), np.uint8).reshape(rows, -1)
    return np.where(values == 255, 0.0, np.exp(-16 * (values / 255) ** 2))


def pieces_of(words: list[str]) -> list[list[str]]:
    """Long words are two pieces; the end symbol is a word of its own."""
    return [*([f"▁{word}"] if len(word) < 6 else [f"▁{word[:4]}", word[4:]] for word in words), ["</s>"]]


def texts() -> list[tuple[str, str, Links]]:
    """Sources, references and alignments, by length; at the end the hostile line and the one from right to left."""
    generator = Generator(3)
    found: list[tuple[str, str, Links]] = []
    for number, (low, high) in enumerate(BINS, 1):
        while len(found) < 6 * number:
            pair = generator.sentence(generator.dice.between(max(low, 4), high))
            if low <= len(pair.english.split()) <= high:
                found.append((pair.english, pair.french, sorted(pair.alignment)))
    found.append((HOSTILE, HOSTILE, [(0, 0), (1, 1)]))
    arabic = "قرأ الطالب كتابا جديدا في المكتبة ."
    return [*found, (arabic, "L'étudiant a lu un nouveau livre .", [(0, 2), (1, 0), (2, 5)])]


def output(dice: random.Random, source: str, reference: str, links: Links, system: str) -> Reading:
    """What a system made of a sentence, with its steps and its attention."""
    views, peak, wrong = SYSTEMS[system]
    words = [word if dice.random() > wrong else dice.choice(["maison", "le", "chat"]) for word in reference.split()]
    source_words, target_words = pieces_of(source.split()), pieces_of(words)
    column_of = [k for k, group in enumerate(source_words) for _ in group]
    row_of = [k for k, group in enumerate(target_words) for _ in group]
    wanted = {*links, (len(source_words) - 1, len(target_words) - 1)}
    attention = {}
    for number, view in enumerate(views):
        rows = [[peak * ((i, j) in wanted) + dice.random() * (1 + number) for i in column_of] for j in row_of]
        scores = np.array(rows)
        weights = np.exp(scores * 1.5)
        weights[scores < 0.05] = 0.0  # as outside a window
        attention[view] = packed(weights / weights.sum(axis=1, keepdims=True))
    chosen = [round(dice.uniform(0.3, 0.9), 3) for _ in row_of]
    pieces = [piece for group in target_words for piece in group]
    steps = [
        [[piece, p], *[[f"▁other{k}", round((1 - p) / 2**k, 3)] for k in range(1, 5)]]
        for piece, p in zip(pieces, chosen, strict=True)
    ]
    steps[1] = steps[1][1:]  # chosen without being among the likeliest, as by a beam
    right = sum(a == b for a, b in zip(words, reference.split(), strict=True)) / len(words)
    return Reading(
        text=" ".join(words),
        scores={"BLEU": round(100 * right**2, 1), "chrF": round(100 * right, 1)},
        log_probability=sum(map(math.log, chosen)),
        failures=[failure for failure in FAILURES if dice.random() < wrong / 6],
        source_words=source_words,
        target_words=target_words,
        steps=steps,
        chosen=chosen,
        attention=attention,
        gold=[list(link) for link in links],
    )


def facts(name: str, sentences: list[Sentence]) -> SystemFacts:
    """A system, measured."""
    views, peak, wrong = SYSTEMS[name]
    bleu = round(95 - 100 * wrong, 1)
    scores: dict[str, Row] = {
        "perplexity": {"value": round(2 + 10 * wrong, 2), "signature": "", "split": "validation"},
        "bleu": {"value": bleu, "signature": "tok:13a", "split": "test", "low": bleu - 2, "high": bleu + 2},
        "chrf": {"value": bleu + 3, "signature": "nc:6", "split": "test"},
    }
    if views:
        scores["aer"] = {"value": 0.5 - peak / 10, "signature": "", "split": "test"}
    interval = {"bleu_low": bleu - 3, "bleu_high": bleu + 3}
    numbers = {"n": 250, "bleu": bleu, "length_ratio": 0.98} | interval
    length: list[Row] = [{"low": low, "high": high} | numbers for low, high in BINS]
    length[0] |= dict.fromkeys(("bleu", *interval))  # its references have fewer than four tokens
    samples: list[Row] = [
        {"source": each.source, "reference": each.reference, "steps": [(step, each.reference) for step in (100, 400)]}
        for each in sentences[8:12]
    ]
    settings = {
        "model.attention.type": views[0] if views else "none",
        "model.attention.heads": "2" if views[1:] else "",
    }
    filmed = film(name, sentences) if views else None
    return SystemFacts(name, settings, 1_640_000, 1000, 640.5, 7650.0, scores, False, views, length, samples, filmed)


def film(name: str, sentences: list[Sentence]) -> Row:
    """The film of a system: of two sentences and the hostile one under one system, of the first under the other."""
    updates = [100, 400, 1200] if name == LUONG else [100, 900]
    numbers = np.random.default_rng(len(name))
    found: list[Row] = []
    for each in [sentences[9], sentences[3], sentences[-2]][: 3 if name == LUONG else 1]:
        words = pieces_of(each.source.split()), pieces_of(each.reference.split())
        columns, rows = (sum(map(len, side)) for side in words)
        frames = [packed(numbers.dirichlet([10 / update] * columns, rows)) for update in updates]
        found.append({"source": each.source, "reference": each.reference, "frames": frames})
        found[-1] |= {"source_words": words[0], "target_words": words[1]}
    return {"updates": updates, "scores": [f"BLEU {update / 100:.2f}" for update in updates], "sentences": found}


def fake_report() -> Report:
    """The report."""
    dice = random.Random(7)
    sentences = []
    for number, (source, reference, links) in enumerate(texts(), 1):
        systems = {name: output(dice, source, reference, links, name) for name in SYSTEMS}
        if number == 2:
            systems = {name: replace(each, gold=[]) for name, each in systems.items()}
        sentences.append(Sentence(number * 10, source, reference, len(source.split()), systems))
    names = list(SYSTEMS)
    return Report(
        title="The <demo> & its systems",
        made={"date": "2026-11-22", "toolkit": "0.1.0", "command": "nmt-report runs/demo --output report.html"},
        languages=Languages("en", "demo-1", False, "words", "words"),
        metrics=[METRICS[name] for name in ("perplexity", "bleu", "chrf", "aer")],
        score="BLEU",
        systems=[facts(name, sentences) for name in names],
        pairs=[{"a": a, "b": b, "difference": 9.1, "p": 0.02} for k, a in enumerate(names) for b in names[k + 1 :]],
        findings=["luong-64 is better than vector-64 by 9.1 BLEU (95% interval 5.0 to 12.0)."],
        figures={"length": b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"/>'},
        bins=[{"low": low, "high": high} for low, high in BINS],
        sentences=sentences,
        example=sentences[3],
        engines=dict.fromkeys(names, "this one is made up"),
        selection=f"{len(sentences)} of 1,000 sentences: some of each length.",
    )
