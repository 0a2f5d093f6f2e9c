"""Print what runs reached as Markdown tables, read from their directories: the tables of ``docs/results.md``."""

import argparse
import sys
from pathlib import Path

from nmt.cli.common import command
from nmt.config import load_run_config
from nmt.errors import DataError
from nmt.evaluation.writing import BinnedBy, unit_of
from nmt.experiments.results import run_facts
from nmt.foundation.files import read_json
from nmt.foundation.messages import duration
from nmt.plots.files import markdown
from nmt.runs.directory import RunDirectory


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="results_table.py", description=__doc__)
    arguments.add_argument("runs", nargs="+", metavar="RUN")
    return arguments


def names(paths: list[str]) -> list[str]:
    """Name each run: the folder, with the one around it where two have the same."""
    last = [Path(path).name for path in paths]
    return last if len(set(last)) == len(last) else [f"{Path(path).parent.name}/{Path(path).name}" for path in paths]


def facts(name: str, path: str) -> dict[str, str]:
    """Describe a run and its results, by column."""
    run = RunDirectory(path)
    found, scores = run_facts(run.path), read_json(run.test_scores)
    return {
        "run": name,
        "attention": found["attention"],
        "updates": f"{found['updates']:,}",
        "target tokens": f"{found['target_tokens'] / 1e6:.2f} M",
        "time in updates": duration(found["seconds"]),
        "tokens/s": f"{found['tokens_per_second']:,.0f}",
        "validation perplexity": f"{found['perplexity']:.2f}",
        "validation BLEU": f"{found['validation_bleu']:.2f}",
        "test BLEU": f"{scores['BLEU']['score']:.2f}",
        "test chrF": f"{scores['chrF']['score']:.2f}",
        "begun": read_json(run.manifest)["started"],
    }


def by_length(paths: list[str]) -> list[dict[str, str]]:
    """A row for each bin: BLEU with its interval and the length ratio of each run."""
    tables = {
        name: read_json(RunDirectory(path).test_scores)["by_length"]
        for name, path in zip(names(paths), paths, strict=True)
    }
    lengths = BinnedBy("source", unit_of(load_run_config(paths[0]).data.source_language)).column
    rows = []
    for bins in zip(*tables.values(), strict=True):
        row = {lengths: f"{bins[0]['low']}-{bins[0]['high']}", "sentences": str(bins[0]["n"])}
        for name, each in zip(tables, bins, strict=True):
            row[name] = f"{each['bleu']:.1f} [{each['bleu_low']:.1f}, {each['bleu_high']:.1f}]"
            row[f"{name}: length ratio"] = f"{each['length_ratio']:.2f}"
        rows.append(row)
    return rows


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    try:
        scores = read_json(RunDirectory(arguments.runs[0]).test_scores)
        print(markdown([facts(*each) for each in zip(names(arguments.runs), arguments.runs, strict=True)]))
        print(f"\nBLEU: `{scores['BLEU']['signature']}`; chrF: `{scores['chrF']['signature']}`\n")
        print(markdown(by_length(arguments.runs)))
    except (LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DataError(
            f"{', '.join(arguments.runs)}: not all of them are finished runs, whole, with a test set and the same bins "
            f"({type(error).__name__}: {error})"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
