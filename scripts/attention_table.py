"""Write the table of results of docs/attention.md, between its two markers, from the runs of an experiment."""

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from machine import commit, machine
from nmt.cli.common import command, say
from nmt.config import Config, load_run_config
from nmt.config.schema import CustomCell, CustomPart
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError
from nmt.evaluation.by_length import PERCENTILES, SEED, training_statistics
from nmt.evaluation.metrics import Integers
from nmt.evaluation.significance import compare, mean_bleu
from nmt.evaluation.writing import tokenizer_of_run
from nmt.experiments.plan import Plan, make_plan
from nmt.experiments.results import run_facts
from nmt.experiments.runs import Run
from nmt.experiments.schema import load_experiment
from nmt.foundation.files import read_json
from nmt.model.cost import cost
from nmt.plots.files import markdown
from nmt.runs.directory import RunDirectory

BEGIN = "<!-- results: written by scripts/attention_table.py -->"
END = "<!-- end of results -->"
NOTHING = "–"
ABOUT = """Command: `nmt-experiment --config {config}`; written at commit {commit} on {date}; {machine}, {threads} of
them for a run. BLEU of {source}: `{signature}`, with the 95% interval of the bootstrap; p against {against}: paired
bootstrap, two-sided. Perplexity is that of the validation set. Multiply-adds are those of teacher forcing for a target
token of a mean pair, without what is computed once for each source token. Hours are those of training's updates."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="attention_table.py", description=__doc__)
    arguments.add_argument("--config", required=True, metavar="FILE", help="the experiment")
    arguments.add_argument("--runs", metavar="DIR", help="its output (default: output: in the experiment)")
    arguments.add_argument("--against", default="bahdanau", metavar="NAME", help="the system of the p-values")
    arguments.add_argument("--page", required=True, metavar="FILE", help="the page that has the markers")
    return arguments


def finished(run: Run) -> bool:
    """Whether a run has been trained to its end and has translated its test set."""
    directory = RunDirectory(run.path)
    return directory.test_scores.exists() and run_facts(run.path)["updates"] == run.config.training.updates


def statistics(plan: Plan, runs: Sequence[Run], test: str) -> Integers:
    """The sufficient statistics of BLEU of each seed, (seeds, sentences, STATISTICS)."""
    translations = [list(read_lines(plan.translations(run, test))) for run in runs]
    references = list(read_lines(plan.tests[test].reference))
    return training_statistics(translations, references, tokenizer_of_run(runs[0].config).tokenizer)


def multiply_adds(config: Config, path: Path) -> str:
    """For one target token of a pair of the training set's mean lengths, without the work for each source token."""
    if any(isinstance(part, CustomPart | CustomCell) for part in (config.model.encoder, config.model.decoder)):
        return NOTHING
    report = read_json(RunDirectory(path).path / "data_report.json")
    train = report["splits"]["train"]
    source, target = (train[side]["pieces"] / train["kept"] for side in ("source", "target"))
    each = cost(config.model, report["vocabulary"]["target"])
    count = each.target_token + source * each.pair + (target + 1) / 2 * each.target_pair
    return f"{(count + each.sentence / target) / 1e6:.2f} M"


def row(plan: Plan, system: str, runs: Sequence[Run], test: str, against: Integers | None) -> dict[str, str]:
    """What one system reached; numbers of several seeds are means."""
    facts = [run_facts(run.path) for run in runs]

    def mean(key: str) -> float:
        return float(np.mean([each[key] for each in facts]))

    own, resamples = statistics(plan, runs, test), runs[0].config.evaluation.bootstrap
    [bleu], [resampled] = mean_bleu([own], resamples, SEED)
    low, high = np.percentile(resampled, PERCENTILES)
    p = None if against is None else compare(own, against, resamples, SEED)[1]
    return {
        "system": system,
        "seeds": str(len(runs)),
        "parameters": f"{mean('parameters') / 1e6:.2f} M",
        "multiply-adds a target token": multiply_adds(load_run_config(runs[0].path), runs[0].path),
        "target tokens/s": f"{mean('tokens_per_second'):,.0f}",
        "perplexity": f"{mean('perplexity'):.2f}",
        "BLEU": f"{bleu:.2f} [{low:.2f}, {high:.2f}]",
        "p": NOTHING if p is None else f"{p:.3f}",
        "hours": f"{mean('seconds') / 3600:.2f}",
        "begun": read_json(RunDirectory(runs[0].path).manifest)["started"][:10],
    }


def results(plan: Plan, against: str, said: Mapping[str, str]) -> str:
    """The table of the finished runs, and where they come from. Raises DataError if none is finished."""
    test = next(iter(plan.tests))
    done = {system: [run for run in plan.runs_of(system) if finished(run)] for system in plan.systems}
    done = {system: runs for system, runs in done.items() if runs}
    if not done:
        raise DataError(f"{plan.output}: no run is finished yet")
    other = statistics(plan, done[against], test) if against in done else None
    rows = [row(plan, system, runs, test, None if system == against else other) for system, runs in done.items()]
    signature = read_json(RunDirectory(done[next(iter(done))][0].path).test_scores)["BLEU"]["signature"]
    missing = [system for system in plan.systems if system not in done]
    waiting = f" Not finished yet: {', '.join(missing)}." if missing else ""
    about = ABOUT.format(**said, source=plan.tests[test].source, signature=signature, against=against)
    note = textwrap.fill(about + waiting, 120, break_on_hyphens=False, break_long_words=False)
    return f"{markdown(rows)}\n\n{note}"


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
    page, threads = Path(arguments.page), plan.runs[0].config.threads
    said: dict[str, Any] = {
        "config": arguments.config,
        "commit": commit(),
        "machine": machine(),
        "threads": "all" if threads is None else str(threads),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    try:
        text = page.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{page}: cannot be read: {error.strerror}") from error
    page.write_text(between_markers(text, results(plan, arguments.against, said), str(page)), "utf-8")
    say(f"written: {page}")


if __name__ == "__main__":
    sys.exit(main())
