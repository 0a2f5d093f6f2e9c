"""The figures of an experiment, and its table: a row for each test set and system, as CSV, Markdown and JSON."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import load_run_config
from nmt.data.lines import read_lines
from nmt.evaluation.by_length import LEAST_BLEU, SEED, UNTRAINED, training_statistics
from nmt.evaluation.figures import diagnosis
from nmt.evaluation.figures.files import KINDS, markdown, numbers, table, write_all
from nmt.evaluation.metrics import bleu_of_statistics
from nmt.evaluation.significance import interval, mean_bleu
from nmt.evaluation.writing import lengths, tokenizer_of_run, unit_of
from nmt.experiments.evaluation import Systems
from nmt.experiments.length_curve import compare_by_length_of, diagnose_systems
from nmt.experiments.plan import Plan, Run
from nmt.experiments.training import Say
from nmt.files import digest, read_json
from nmt.runs.directory import RunDirectory
from nmt.runs.metrics import best_validation, read_metrics

LONG = 40
"""Length, in words of the source, from which on sentences are long."""
ENDINGS = (".csv", ".md", ".json")
"""Endings of the files of the table."""
Row = Mapping[str, Any]


def run_facts(path: Path) -> dict[str, Any]:
    """Describe a run and its training."""
    run = RunDirectory(path)
    config = load_run_config(run.path)
    progress = read_json(run.checkpoints / "last" / "training.json")
    best = best_validation(read_metrics(run.metrics))
    return {
        "attention": config.model.attention.type,
        "parameters": run.parameters("best"),
        "updates": progress["update"],
        "target_tokens": progress["target_tokens"],
        "seconds": progress["seconds"],
        "tokens_per_second": progress["target_tokens"] / progress["seconds"],
        "perplexity": best["perplexity"],
        "validation_bleu": best["bleu"],
        "aer": best.get("aer"),
    }


def results(plan: Plan) -> list[dict[str, Any]]:
    """The rows. Numbers of several seeds are means; the interval is that of the mean BLEU, by resampling sentences."""
    facts = {run.label: run_facts(run.path) for run in plan.runs}
    rows = []
    for test in plan.tests:
        for system in plan.systems:
            runs = plan.runs_of(system)
            averaged = ("parameters", "updates", "tokens_per_second", "perplexity")
            means = {key: _mean([facts[run.label][key] for run in runs]) for key in averaged}
            rows.append({"test": test, "system": system, "seeds": len(runs), **means, **_scores(plan, runs, test)})
    return rows


def _mean(values: Sequence[float]) -> float:
    """Return the common value if all are equal, else the mean."""
    return values[0] if len(set(values)) == 1 else float(np.mean(values))


def _scores(plan: Plan, runs: Sequence[Run], test: str) -> dict[str, float | None]:
    """Return BLEU with its interval, also of long sentences, and the alignment error rate."""
    config, of = runs[0].config, plan.tests[test]
    references = list(read_lines(of.reference))
    statistics = training_statistics(
        [list(read_lines(plan.translations(run, test))) for run in runs], references, tokenizer_of_run(config).tokenizer
    )
    [bleu], [resampled] = mean_bleu([statistics], config.evaluation.bootstrap, SEED)
    low, high = interval(resampled)
    source_lengths = lengths(read_lines(of.source), unit_of(config.data.source_language))
    long = source_lengths >= LONG
    reports = [report for run in runs if (report := read_json(plan.scores(run, test)).get("alignment"))]
    return {
        "bleu": float(bleu),
        "bleu_low": low,
        "bleu_high": high,
        "aer": _mean([each["likeliest"]["error_rate"] for each in reports]) if reports else None,
        f"bleu_from_{LONG}": float(bleu_of_statistics(statistics[:, long].sum(axis=1)).mean()) if long.any() else None,
    }


# --- figures and files ------------------------------------------------------------------------------------------------


def draw_all(plan: Plan, say: Say) -> str:
    """Draw what has changed since the last call, and say where everything is; return the table, in Markdown."""
    drawn = drawn_files(plan)
    if drawn is None:
        for test in plan.tests:
            _draw(plan, test, say)
        drawn = [path for test in plan.tests for path in _figures(plan, test) if path.exists()]
        write_results(plan, results(plan), drawn)
    for test in plan.tests:
        pictures = [str(path) for path in _figures(plan, test) if path in drawn and path.suffix == ".png"]
        if pictures:
            say(f"figures of {test}: {', '.join(pictures)}; their numbers: .csv and .json beside them")
    say(f"results: {plan.results}.md, .csv and .json; runs and translations: {plan.output}")
    return Path(f"{plan.results}.md").read_text("utf-8")


def _figures(plan: Plan, test: str) -> Iterator[Path]:
    """Yield the files that may be drawn of a test set."""
    kinds = plan.tests[test].draw
    if "curve" in kinds:
        yield from (Path(f"{plan.curve(test)}{ending}") for ending in KINDS)
    if "diagnosis" in kinds:
        yield from (Path(f"{plan.diagnosis(test)}{ending}") for ending in diagnosis.ENDINGS)


def _draw(plan: Plan, test: str, say: Say) -> None:
    """Draw the length curve and the diagnosis of a test set."""
    of = plan.tests[test]
    systems = Systems(
        [(run.system, run.path) for run in plan.runs],
        of.source,
        of.reference,
        [(run.system, plan.translations(run, test)) for run in plan.runs],
        plan.runs[0].config.device,
        say=say,
    )
    bins = of.bins or ()
    if "curve" in of.draw:
        compare_by_length_of(systems, bins=bins, short=of.short, long=of.long).write(plan.curve(test))
    if "diagnosis" in of.draw:
        diagnose_systems(systems, bins=bins).write(plan.diagnosis(test))


def drawn_files(plan: Plan) -> list[Path] | None:
    """Return the figures of an earlier call; None if one is missing or something has changed since."""
    written = Path(f"{plan.results}.json")
    before = read_json(written) if written.exists() else {}
    if before.get("made_from") != made_from(plan):
        return None
    drawn = [plan.output / name for name in before["drawn"]]
    tables = [Path(f"{plan.results}{ending}") for ending in ENDINGS]
    return drawn if all(path.exists() for path in (*drawn, *tables)) else None


def write_results(plan: Plan, rows: Sequence[Row], drawn: Sequence[Path]) -> None:
    """Write the table; the JSON file also describes what the table and the ``drawn`` figures are made of."""
    made = {"made_from": made_from(plan), "drawn": [str(path.relative_to(plan.output)) for path in drawn]}
    page = f"{markdown(list(map(_cells, rows)))}\n".encode()
    contents = table(rows), page, numbers({"rows": [dict(row) for row in rows], **made})
    write_all(plan.results, dict(zip(ENDINGS, contents, strict=True)))


def made_from(plan: Plan) -> str:
    """Return a checksum of everything that the table and the figures depend on."""
    scores = {f"{test} {run.label}": digest(plan.scores(run, test)) for test in plan.tests for run in plan.runs}
    tests = {name: test.model_dump(mode="json") for name, test in plan.tests.items()}
    return hashlib.sha256(json.dumps([scores, tests, plan.systems]).encode()).hexdigest()


def _cells(row: Row) -> dict[str, str]:
    """Format a row for reading."""

    untrained = "" if row["bleu"] >= LEAST_BLEU else f"; {UNTRAINED}"

    def shown(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    return {
        "test set": row["test"],
        "system": row["system"],
        "seeds": str(row["seeds"]),
        "parameters": f"{row['parameters']:,.0f}",
        "updates": f"{row['updates']:,.0f}",
        "tokens/s": f"{row['tokens_per_second']:,.0f}",
        "validation perplexity": f"{row['perplexity']:.2f}",
        "BLEU": f"{row['bleu']:.2f} [{row['bleu_low']:.2f}, {row['bleu_high']:.2f}]{untrained}",
        "AER": shown(row["aer"], ".3f"),
        f"BLEU from {LONG} words on": shown(row[f"bleu_from_{LONG}"], ".2f"),
    }
