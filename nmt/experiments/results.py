"""The results of finished runs: translations of the test sets, and from these scores, figures and a table.

Translations are kept while model, source and search stay the same. All else is computed from them at each call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

from nmt.data.corpus import read_lines
from nmt.evaluation.alignment import read_gold
from nmt.evaluation.by_length import LEAST_BLEU, SEED, UNTRAINED, SystemScores, interval, mean_bleu
from nmt.evaluation.figures.files import markdown, numbers, table, write_all
from nmt.evaluation.metrics import METRICS, bleu_of_statistics
from nmt.experiments.evaluation import Systems, score_alignment
from nmt.experiments.length_curve import LengthCurve, compare_systems, diagnose_systems
from nmt.experiments.plan import Plan, Run
from nmt.files import digest, read_json, write_json
from nmt.messages import Caution, Say, counted
from nmt.runs.directory import RunDirectory
from nmt.runs.log import best_validation, read_metrics
from nmt.translation.files import growing, made_from
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import CheckStop, Translator

BY_SEED = "bleu_by_seed"


# --- translations -----------------------------------------------------------------------------------------------------


def translate_all(plan: Plan, say: Say, check_stop: CheckStop) -> None:
    """Translate each test set with each run, unless that is done. Raises what ``check_stop`` raises."""
    for run in plan.runs:
        for test in plan.tests:
            if not is_translated(plan, run, test):
                _translate(plan, run, test, say, check_stop)


def is_translated(plan: Plan, run: Run, test: str) -> bool:
    """Whether current translations of this test set by this run exist."""
    path = plan.translations(run, test)
    if plan.translated_in_training(run, test):
        return True
    record = path.with_suffix(".json")
    return path.exists() and record.exists() and read_json(record) == _record(plan, run, test)


def _record(plan: Plan, run: Run, test: str) -> dict[str, Any]:
    """Describe what decides translations that exist, and their content."""
    origin = made_from([run.path], plan.tests[test].source, SearchOptions.from_config(run.config.decoding))
    return origin | {"translations": digest(plan.translations(run, test))}


def _translate(plan: Plan, run: Run, test: str, say: Say, check_stop: CheckStop) -> None:
    """Write all translations of a test set and their record; after a kill, go on after those that are written."""
    source, path = plan.tests[test].source, plan.translations(run, test)
    say(f"{run.label}: translating {source}")
    path.parent.mkdir(parents=True, exist_ok=True)
    translator = Translator.load(run.path, run.config.device)
    options, lines = SearchOptions.from_config(run.config.decoding), list(read_lines(source))
    warned = dict[int, str]()
    with growing([path], 1, made_from([run.path], source, options), say) as (done, [file]):
        rest = islice(counted(lines, source, len(lines), "lines"), done, None)
        for each in translator.stream(rest, options, first=done + 1, warn=warned.__setitem__, check_stop=check_stop):
            file.write(f"{each.text}\n".encode())
    if warned:
        first, more = min(warned), len(warned) - 1
        say(Caution(f"{run.label}: {source}:{first}: {warned[first]}; more lines with problems: {more:,}"))
    write_json(path.with_suffix(".json"), _record(plan, run, test))


# --- scores and figures -----------------------------------------------------------------------------------------------


def draw_all(plan: Plan, say: Say) -> str:
    """Score and draw all test sets, and say where everything is; return the table, in Markdown."""
    curves = {}
    for test in plan.tests:
        curves[test], pictures = _draw(plan, test, say)
        if pictures:
            say(f"figures of {test}: {', '.join(pictures)}; their numbers: .csv and .json beside them")
    found = results(plan, curves)
    page = markdown(list(map(_cells, found["rows"])))
    columns = [{key: value for key, value in row.items() if key != BY_SEED} for row in found["rows"]]
    stem = plan.output / "results"
    write_all(stem, {".csv": table(columns), ".md": f"{page}\n".encode(), ".json": numbers(found)})
    say(f"results: {stem}.md, .csv and .json; runs and translations: {plan.output}")
    return page


def _draw(plan: Plan, test: str, say: Say) -> tuple[LengthCurve, list[str]]:
    """Score the translations of a test set, and draw its figures; return also the paths of the pictures."""
    of = plan.tests[test]
    runs = [(run.system, run.path) for run in plan.runs]
    hypotheses = [(run.system, plan.translations(run, test)) for run in plan.runs]
    systems = Systems(runs, of.source, of.reference, hypotheses, plan.runs[0].config.device, say=say)
    scoring = systems.scoring(of.bins or ())
    curve, written = compare_systems(systems, scoring, of.short, of.long), list[Path]()
    if "curve" in of.draw:
        written += curve.write(plan.curve(test))
    if "diagnosis" in of.draw:
        written += diagnose_systems(systems, scoring, curve.about).write(plan.diagnosis(test))
    return curve, [str(path) for path in written if path.suffix == ".png"]


# --- the table --------------------------------------------------------------------------------------------------------


def results(plan: Plan, curves: Mapping[str, LengthCurve]) -> dict[str, Any]:
    """Return a row for each test set and system, in which numbers of several seeds are means, and by test set the
    comparisons of every two systems and retained BLEU."""
    rows = []
    for test, curve in curves.items():
        for scored in curve.systems:
            runs = plan.runs_of(scored.name)
            facts = [run_facts(run.path) for run in runs]
            means = {key: mean(each[key] for each in facts) for key in facts[0]}
            aer = _alignment_error_rate(plan, test, runs)
            row = {"test": test, "system": scored.name, "seeds": len(runs), **means, **_scores(curve, scored)}
            rows.append(row | {"aer": aer, BY_SEED: bleu_of_statistics(scored.statistics.sum(axis=1)).tolist()})
    return {
        "rows": rows,
        "comparisons": {test: [asdict(each) for each in curve.overall] for test, curve in curves.items()},
        "retained": {test: asdict(curve.retention) for test, curve in curves.items() if curve.retention},
    }


def run_facts(path: Path) -> dict[str, float]:
    """Describe a run and its training."""
    run = RunDirectory(path)
    progress = read_json(run.checkpoints / "last" / "training.json")
    return {
        "parameters": run.parameters("best"),
        "updates": progress["update"],
        "tokens_per_second": progress["target_tokens"] / progress["seconds"],
        "validation_perplexity": best_validation(read_metrics(run.metrics))["perplexity"],
    }


def _scores(curve: LengthCurve, scored: SystemScores) -> dict[str, float | None]:
    """Return each metric, the interval of BLEU by resampling sentences, and retained BLEU."""
    _, [resampled] = mean_bleu([scored.statistics], curve.about.resamples, SEED)
    low, high = interval(resampled)
    shares = curve.retention.shares if curve.retention else {}
    retained = shares[scored.name].share if scored.name in shares else None
    values = {name: score.value for name, score in scored.scores.items()}
    return values | {"bleu_low": low, "bleu_high": high, "bleu_retained": retained}


def _alignment_error_rate(plan: Plan, test: str, runs: Sequence[Run]) -> float | None:
    """Average the alignment error rate over the runs; None without gold links or attention."""
    of = plan.tests[test]
    if of.gold is None:
        return None
    gold = read_gold(of.source, of.reference, of.gold.links, first=of.gold.first)
    reports = [score_alignment(run.path, gold, run.config.device) for run in runs]
    rates = [report["likeliest"]["error_rate"] for report in reports if report is not None]
    return mean(rates) if rates else None


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    scores = {
        metric.label: "–" if row[name] is None else metric.format(row[name])
        for name, metric in METRICS.items()
        if name in row
    }
    untrained = "" if row["bleu"] >= LEAST_BLEU else f"; {UNTRAINED}"
    scores["BLEU"] += f" [{row['bleu_low']:.2f}, {row['bleu_high']:.2f}]{untrained}"
    return {
        "test set": row["test"],
        "system": row["system"],
        "seeds": str(row["seeds"]),
        "parameters": f"{row['parameters']:,.0f}",
        "updates": f"{row['updates']:,.0f}",
        "tokens/s": f"{row['tokens_per_second']:,.0f}",
        "validation perplexity": f"{row['validation_perplexity']:.2f}",
        **scores,
        "retained BLEU": "–" if row["bleu_retained"] is None else f"{row['bleu_retained']:.1%}",
    }
