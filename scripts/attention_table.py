"""Write the table of results of docs/attention.md, between its two markers, from the runs of an experiment.

Where the numbers come from is written to figures/attention.json beside the page.
"""

import argparse
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.decoding import measure_decoding
from machine import commit, machine
from nmt.cli.common import command, say
from nmt.config import Config
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.by_length import PERCENTILES, SEED, training_statistics
from nmt.evaluation.metrics import Integers
from nmt.evaluation.significance import FEWEST, mean_bleu, p_value
from nmt.evaluation.writing import tokenizer_of_run
from nmt.experiments.plan import Plan, Run, make_plan
from nmt.experiments.results import run_facts
from nmt.experiments.schema import load_experiment
from nmt.files import read_json, write_json
from nmt.plots.files import markdown
from nmt.runs.directory import RunDirectory

BEGIN = "<!-- results: written by scripts/attention_table.py -->"
END = "<!-- end of results -->"
NOTHING = "–"
MARK = "†"
ABOUT = """BLEU of {source}: `{signature}`, with the 95% interval of the bootstrap; p against {against}: paired
bootstrap, two-sided. Perplexity is that of the validation set. [Provenance]({provenance})."""
HARD = f"{MARK} Validation reads the likeliest position only, as translation does; training minimizes another loss."
AER = "AER is that of the likeliest source words on the gold links of evaluation.gold."
SPEED = "Sentences/s: the same file translated in fp32 by one thread, with a beam of {beams}."
Speeds = Mapping[str, Mapping[str, Any]]
"""Beam size and sentences a second of a run, by its label."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="attention_table.py", description=__doc__)
    arguments.add_argument("--config", required=True, metavar="FILE", help="the experiment")
    arguments.add_argument("--runs", metavar="DIR", help="its output (default: output: in the experiment)")
    arguments.add_argument("--against", default="bahdanau", metavar="NAME", help="the system of the p-values")
    arguments.add_argument("--page", required=True, metavar="FILE", help="the page that has the markers")
    arguments.add_argument(
        "--decoding-speed",
        action="store_true",
        help="first measure how fast the finished runs translate; else the measurements beside the page are taken",
    )
    return arguments


def finished(run: Run) -> bool:
    """Whether a run has been trained to its end and has translated its test set."""
    directory = RunDirectory(run.path)
    return directory.test_scores.exists() and run_facts(run.path)["updates"] == run.config.training.updates


def finished_runs(plan: Plan) -> dict[str, list[Run]]:
    """The finished runs of each system that has any. Raises DataError if none has."""
    done = {system: [run for run in plan.runs_of(system) if finished(run)] for system in plan.systems}
    done = {system: runs for system, runs in done.items() if runs}
    if not done:
        raise DataError(f"{plan.output}: no run is finished yet")
    return done


def statistics(plan: Plan, runs: Sequence[Run], test: str) -> Integers:
    """The sufficient statistics of BLEU of each seed, (seeds, sentences, STATISTICS)."""
    translations = [list(read_lines(plan.translations(run, test))) for run in runs]
    references = list(read_lines(plan.tests[test].reference))
    return training_statistics(translations, references, tokenizer_of_run(runs[0].config).tokenizer)


def mean_of(values: Iterable[float | None], form: str) -> str:
    """The mean of the values that there are, formatted."""
    present = [value for value in values if value is not None]
    return format(float(np.mean(present)), form) if present else NOTHING


def validates_by_argmax(config: Config) -> bool:
    """Whether the attention is hard, so that the perplexity is not that of what training minimizes."""
    return getattr(config.model.attention, "hard", None) is not None


def row(
    plan: Plan,
    system: str,
    runs: Sequence[Run],
    test: str,
    against: Integers | None,
    speeds: Speeds,
) -> dict[str, str]:
    """What one system reached; numbers of several seeds are means."""
    facts = [run_facts(run.path) for run in runs]

    def mean(key: str, form: str) -> str:
        return mean_of((each[key] for each in facts), form)

    own, resamples = statistics(plan, runs, test), runs[0].config.evaluation.bootstrap
    [bleu], [resampled] = mean_bleu([own], resamples, SEED)
    low, high = np.percentile(resampled, PERCENTILES)
    p = None
    if against is not None and against.shape[1] >= FEWEST:
        (one, other), resampled = mean_bleu((own, against), resamples, SEED)
        p = p_value(float(one - other), resampled[0] - resampled[1])
    return {
        "system": system,
        "seeds": str(len(runs)),
        "parameters": f"{facts[0]['parameters'] / 1e6:.2f} M",
        "sentences/s": mean_of((speeds.get(run.label, {}).get("rate") for run in runs), ".1f"),
        "perplexity": mean("perplexity", ".2f") + MARK * validates_by_argmax(runs[0].config),
        "BLEU": f"{bleu:.2f} [{low:.2f}, {high:.2f}]",
        "p": NOTHING if p is None else f"{p:.3f}",
        "AER": mean("aer", ".3f"),
    }


def without_empty(
    rows: Sequence[dict[str, str]], optional: Sequence[str] = ("sentences/s", "AER")
) -> list[dict[str, str]]:
    """The rows without those optional columns that no row has a value of."""
    empty = {column for column in optional if all(each[column] == NOTHING for each in rows)}
    return [{column: value for column, value in each.items() if column not in empty} for each in rows]


def listed(values: Iterable[Any]) -> str:
    """Different values, sorted."""
    return ", ".join(map(str, sorted(set(values))))


def notes(rows: Sequence[Mapping[str, str]], speeds: Speeds) -> list[str]:
    """What must be said of columns and marks that not every table has."""
    said = [AER] * ("AER" in rows[0]) + [HARD] * any(MARK in each["perplexity"] for each in rows)
    if "sentences/s" in rows[0]:
        said.append(SPEED.format(beams=listed(speed["beam_size"] for speed in speeds.values())))
    return said


def decoding_speeds(runs: Iterable[Run], source: str) -> dict[str, dict[str, Any]]:
    """Measure the translation of a file by each run, in fp32 with one thread."""
    lines, threads, found = list(read_lines(source)), torch.get_num_threads(), {}
    torch.set_num_threads(1)
    for run in runs:
        beam = run.config.decoding.beam_size
        measured = measure_decoding(str(run.path), lines, beam, run.config.kernels, "fp32", "cpu", 3)
        found[run.label] = {"rate": measured.sentences_per_second, "beam_size": beam}
    torch.set_num_threads(threads)
    return found


def provenance(config: str, plan: Plan, speeds: Speeds) -> dict[str, Any]:
    """Where the numbers of the table come from: command, machine, dates, commits."""
    done = finished_runs(plan)
    runs = [run for each in done.values() for run in each]
    return {
        "command": f"nmt-experiment --config {config}",
        "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine(),
        "threads": plan.runs[0].config.threads,
        "runs": {run.label: read_json(RunDirectory(run.path).manifest)["started"] for run in runs},
        "decoding_speed": speeds,
    }


def results(plan: Plan, test: str, against: str, link: str, speeds: Speeds) -> str:
    """The table of the finished runs. Raises DataError if none is finished."""
    done = finished_runs(plan)
    runs = [run for each in done.values() for run in each]
    other = statistics(plan, done[against], test) if against in done else None
    rows = without_empty(
        [row(plan, system, each, test, None if system == against else other, speeds) for system, each in done.items()]
    )
    about = ABOUT.format(
        provenance=link,
        source=plan.tests[test].source,
        signature=read_json(RunDirectory(runs[0].path).test_scores)["BLEU"]["signature"],
        against=against,
    )
    missing = [system for system in plan.systems if system not in done]
    waiting = [f"Not finished yet: {', '.join(missing)}."] * bool(missing)
    text = " ".join([about, *notes(rows, speeds), *waiting])
    return f"{markdown(rows)}\n\n{textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)}"


def between_markers(page: str, text: str, file: str) -> str:
    """Replace what stands between the markers of a page. Raises DataError unless each stands there once, in order."""
    before, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not (begin and end) or BEGIN in after or END in after:
        raise DataError(f"{file}: must have the lines {BEGIN} and {END}, once each and in this order")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Write the table into the page."""
    plan = make_plan(load_experiment(arguments.config, output=arguments.runs), arguments.config)
    if arguments.against not in plan.systems:
        raise ConfigError(f"--against {arguments.against}: no such system; choose one of: {', '.join(plan.systems)}")
    page = Path(arguments.page)
    about = page.parent / "figures" / f"{page.stem}.json"
    try:
        text = page.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{page}: cannot be read: {error.strerror}") from error
    test = next(iter(plan.tests))
    speeds: Speeds = read_json(about).get("decoding_speed", {}) if about.exists() else {}
    if arguments.decoding_speed:
        done = [run for runs in finished_runs(plan).values() for run in runs]
        speeds = decoding_speeds(done, plan.tests[test].source)
    table = results(plan, test, arguments.against, f"figures/{about.name}", speeds)
    page.write_text(between_markers(text, table, str(page)), "utf-8")
    about.parent.mkdir(exist_ok=True)
    write_json(about, provenance(arguments.config, plan, speeds))
    say(f"written: {page}, {about}")


if __name__ == "__main__":
    sys.exit(main())
