"""Tables of the pages whose numbers are in docs/figures, written by the scripts that measure them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from length_decay import half
from peers.toolkits import EOLE
from textbook import all_claims, cells

ROOT = Path(__file__).parent.parent
SYSTEMS = {"luong": "luong, no input feeding", "luong-feeding": "luong, input feeding", "stacked": "three GRU layers"}
"""Names of systems on the page that differ from those in scripts/benchmarks/systems.py."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    header, *lines = (f"| {' | '.join(cells)} |\n" for cells in (columns, *rows))
    return "".join([header, "|---" * len(columns), "|\n", *lines])


def measured(name: str) -> Any:
    """The content of docs/figures/NAME.json."""
    return json.loads((ROOT / f"docs/figures/{name}.json").read_text("utf-8"))


def mean(scores: Sequence[float]) -> str:
    """The mean over seeds."""
    return f"{fmean(scores):.1f}"


def browser() -> str:
    """The table of docs/figures/web.json: the toolkit and the engine; greedy, beam 5."""
    columns = ("{equal, %:g} ({largest difference:.3f})", "{BLEU:.2f}", "{sentences/s:.0f}")
    lines, systems = [], dict[str, dict[int, dict[str, Any]]]()
    for row in measured("web")["rows"]:
        systems.setdefault(row["system"], {})[row["beam"]] = row
    for system, rows in systems.items():
        cells = [", ".join(_cell(rows, beam, form) for beam in (1, 5)) for form in columns]
        size = _cell(rows, 1, "{weights, MB:.2f}")
        lines.append([cell.replace("–, –", "–") for cell in (system, size, *cells)])
    same = "same translations as the toolkit, % (largest difference)"
    return table(("system", "MB", same, "BLEU", "sentences per CPU s"), lines)


def _cell(rows: Mapping[int, Mapping[str, Any]], beam: int, form: str) -> str:
    """A cell of the engine's table; a dash for what was not measured."""
    try:
        return form.format_map(rows[beam])
    except KeyError:
        return "–"


def training() -> str:
    """The table of docs/figures/training.json: the rate of each system by precision."""
    rates: dict[str, dict[str, str]] = {}
    for row in measured("training")["rows"]:
        rate = row["target_tokens_per_second"]
        rates.setdefault(SYSTEMS.get(row["variant"], row["variant"]), {})[row["precision"]] = f"{rate:,.0f}"
    return table(("system", "fp32", "bf16"), ((name, each["fp32"], each["bf16"]) for name, each in rates.items()))


def decoding() -> str:
    """The table of docs/figures/decoding.json: sentences per second and BLEU by precision and beam."""
    cells: dict[str, dict[int, tuple[str, str]]] = {}
    for row in measured("decoding")["rows"]:
        cells.setdefault(row["precision"], {})[row["beam_size"]] = (
            f"{row['sentences_per_second']:,.0f}",
            f"{row['bleu']:.2f}",
        )
    columns = ("precision", "greedy, sentences/s", "BLEU", "beam 5, sentences/s", "BLEU")
    return table(columns, ((name, *each[1], *each[5]) for name, each in cells.items()))


def ctranslate2() -> str:
    """The table of docs/figures/ctranslate2.json: each toolkit and precision in its fastest setting."""
    fastest: dict[str, dict[int, float]] = {}
    for row in measured("ctranslate2")["rows"]:
        rates = fastest.setdefault(", ".join(row["system"].split(", ")[:2]), {})
        rates[row["beam"]] = max(rates.get(row["beam"], 0.0), row["sentences/s"])
    rows = sorted(fastest.items(), key=lambda each: -each[1][5])
    return table(
        ("toolkit", "greedy", "beam 5"), ((name, f"{rates[1]:,.0f}", f"{rates[5]:,.0f}") for name, rates in rows)
    )


def peers() -> str:
    """The table of docs/figures/peers.json and peers_xeon.json: means over seeds; of translation the rate, BLEU and
    memory."""
    names = (("nmt", "this toolkit"), ("eole", f"Eole {EOLE}"))
    columns = ("toolkit", "training, target tokens/s", "MB", "greedy, sentences/s", "BLEU", "MB")
    rows = []
    results_of = {
        name + place: measured(file)["results"][key]
        for file, place in (("peers", ""), ("peers_xeon", ", Xeon"))
        for key, name in names
    }
    for name, results in results_of.items():
        rate, peak = (fmean(each["training"][key] for each in results) for key in ("tokens_per_second", "peak_mb"))
        rows.append([name, f"{rate:,.0f}", f"{peak:,.0f}"])
        for of_beam in zip(*(each["translation"] for each in results), strict=True):
            for key, decimals in (("sentences_per_second", 0), ("bleu", 1), ("peak_mb", 0)):
                rows[-1].append(f"{fmean(each[key] for each in of_beam):.{decimals}f}")
    return table((*columns, "beam 5, sentences/s", "BLEU", "MB"), rows)


def memory() -> str:
    """The table of docs/figures/peak_memory.json."""
    return table(
        ("task", "peak, MB"), ((row["task"], f"{row['peak, MB']:,}") for row in measured("peak_memory")["rows"])
    )


def family() -> str:
    """The table of docs/figures/attention.json, whose systems have an asterisk if they have several seeds."""
    columns = ("parameters, M", "sentences/s", "BLEU")
    rows = measured("attention")["scores"]
    return table(
        ("system", *columns),
        ((row["system"] + (r"\*" if row["seeds"] > 1 else ""), *(row[each] for each in columns)) for row in rows),
    )


def kept() -> str:
    """Spans, terms, tags and confidence, from docs/figures/own_text.json."""
    found = measured("own_text")
    spans, terms, tags, trust = (found[name] for name in ("spans", "glossary", "markup", "confidence"))
    placed = min(spans["in their place"], spans["come through once"])
    used = [
        f"{fmean(terms[f'of these used, {kind}']) / terms[f'terms {kind}']:.1%}"
        for kind in ("in the training glossary", "not in it")
    ]
    kinds = ("with terms", "of terms without data.glossary", "without terms", "without data.glossary")
    bleu = [mean(terms[f"BLEU {name}"]) for name in kinds]
    right = f"in {tags['lines that are the reference']} translations equal to the reference"
    rows = {
        "`data.protect`: spans in the right place, once each": f"{placed:,} of {spans['spans']:,}",
        "`--glossary`: terms used: in the training glossary; not in it": "; ".join(used),
        "BLEU of sentences with these terms: with `data.glossary`; without": "; ".join(bleu[:2]),
        "BLEU of the same sentences with the original nouns: with `data.glossary`; without": "; ".join(bleu[2:]),
        "`--markup`: translations with balanced tags": f"{tags['balanced lines']:,} of {tags['lines']:,}",
        f"`--markup`: correctly tagged words, of all that are or should be tagged, {right}": (
            f"{tags['of these right']:,} of {tags['words to be tagged, or tagged']:,}"
        ),
        "`--confidence` on Multi30k: area under the ROC curve; calibration error": (
            f"{trust['area under the curve']:.3f}; {trust['calibration error']}"
        ),
    }
    return table(("measurement", "result"), rows.items())


def rough() -> str:
    """Scores of rough text by systems with and without data.rough, of docs/figures/own_text.json."""
    found = measured("own_text")["rough text"]
    systems = {"longer": "without", "rough": "`data.rough: {}`"}
    kinds = {"clean": "clean", "capitals": "capitals", "5% typos": "5% mistyped letters", "title": "Capital Initials"}
    scores = [found[each] for each in systems]
    rows = [
        [name, *(f"{mean(each[f'BLEU, {kind}'])}; {mean(each[f'chrF, {kind}'])}" for each in scores)]
        for kind, name in kinds.items()
    ]
    alone = [mean([100 * words / found["words"] for words in each["words alone"]]) for each in scores]
    return table(("source", *systems.values()), [*rows, ["single words translated without a repetition, %", *alone]])


def ladder() -> str:
    """BLEU by pairs, of docs/figures/own_text.json."""
    found = measured("own_text")["BLEU by pairs"] | measured("own_text")["BLEU by pairs, adjusted"]
    kinds = ("nothing", "adjusted", "transformer", "adapted")
    rows = [(f"{pairs:,}", *(f"{kind}-{pairs}" for kind in kinds)) for pairs in (1000, 5000, 10000, 20000, 29000)]
    rows.insert(0, ("0", "", "", "", "parliament"))
    rows.insert(2, ("1,000, debates not mixed in", "", "", "", "adapted-1000-alone"))

    def bleu(system: str, text: str = "captions") -> str:
        return mean(found[system][text]) if system in found else ""

    heads = ("pairs", "from nothing", "adjusted", "Transformer", "adapted", "adapted, on debates")
    return table(heads, [[pairs, *map(bleu, systems), bleu(systems[-1], "debates")] for pairs, *systems in rows])


def languages() -> str:
    """BLEU of systems of one language and of several, of docs/figures/own_text.json."""
    found = measured("own_text")["BLEU by language"]
    directions = {
        "en-de": "English to German",
        "en-fr": "English to French",
        "fr-de": "French to German, not trained",
        "fr-en-de": "French to German through English",
    }
    rows = []
    for direction, name in directions.items():
        systems = [found[each].get(direction) for each in (direction[-2:], "both", "four")]
        rows.append([name, *(mean(scores) if scores else "–" for scores in systems)])
    return table(("direction", "one for each", "one for both", "one for four directions"), rows)


def multi30k() -> str:
    """BLEU of several seeds, and of them as an ensemble, of docs/figures/multi30k.json."""
    rows = []
    for name, each in sorted(measured("multi30k").items()):
        cased, lower = each["BLEU"], mean(each["BLEU, lower-cased"])
        seeds = f" ± {half(cased):.1f} ({', '.join(f'{score:.1f}' for score in cased)})" if len(cased) > 1 else ""
        rows.append((name, str(each["length penalty"]), f"{mean(cased)}{seeds}", lower))
    return table(("system", "length penalty", "BLEU, mean ± 95% interval (seeds)", "lower-cased, 13a"), rows)


def claims() -> str:
    """The claims of docs/textbook.md with their verdicts."""
    return table(("claim (updates×seeds)", "source", "compared", "gain: verdict"), map(cells, all_claims()))


TABLES = (
    claims,
    training,
    decoding,
    browser,
    ctranslate2,
    peers,
    memory,
    family,
    kept,
    rough,
    ladder,
    languages,
    multi30k,
)
"""Each stands on its page under its name."""
