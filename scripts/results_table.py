"""Print what runs reached as Markdown tables, read from their directories: the tables of ``docs/results.md``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from nmt.checkpoint import RunDirectory
from nmt.cli.common import command
from nmt.config import load_run_config
from nmt.files import read_json
from nmt.training.log import duration


def parser() -> argparse.ArgumentParser:
    """The options."""
    arguments = argparse.ArgumentParser(prog="results_table.py", description=__doc__)
    arguments.add_argument("runs", nargs="+", metavar="RUN")
    return arguments


def facts(path: str) -> dict[str, str]:
    """What one run is and reached, by column."""
    run = RunDirectory(path)
    config, manifest = load_run_config(run.path), read_json(run.manifest)
    progress = read_json(run.checkpoints / "last" / "training.json")
    scores = read_json(run.test_scores)
    validations = [each for each in _metrics(run) if each["split"] in ("validation", "average") and each["best"]]
    return {
        "run": Path(path).name,
        "attention": config.model.attention.type,
        "updates": f"{progress['update']:,}",
        "target tokens": f"{progress['target_tokens'] / 1e6:.2f} M",
        "time in updates": duration(progress["seconds"]),
        "tokens/s": f"{progress['target_tokens'] / progress['seconds']:,.0f}",
        "validation perplexity": f"{validations[-1]['perplexity']:.2f}",
        "validation BLEU": f"{validations[-1]['bleu']:.2f}",
        "test BLEU": f"{scores['BLEU']['score']:.2f}",
        "test chrF": f"{scores['chrF']['score']:.2f}",
        "begun": manifest["started"],
    }


def _metrics(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.metrics.read_text("utf-8").split("\n") if line]


def by_length(paths: list[str]) -> list[dict[str, str]]:
    """A row for each bin: BLEU with its interval and the length ratio of each run."""
    tables = {Path(path).name: read_json(RunDirectory(path).test_scores)["by_length"] for path in paths}
    rows = []
    for bins in zip(*tables.values(), strict=True):
        row = {"source words": f"{bins[0]['low']}-{bins[0]['high']}", "sentences": str(bins[0]["n"])}
        for name, each in zip(tables, bins, strict=True):
            row[name] = f"{each['bleu']:.1f} [{each['bleu_low']:.1f}, {each['bleu_high']:.1f}]"
            row[f"{name}: length ratio"] = f"{each['length_ratio']:.2f}"
        rows.append(row)
    return rows


def markdown(rows: list[dict[str, str]]) -> str:
    """Rows with the same keys as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    scores = read_json(RunDirectory(arguments.runs[0]).test_scores)
    print(markdown([facts(path) for path in arguments.runs]))
    print(f"\nBLEU: `{scores['BLEU']['signature']}`; chrF: `{scores['chrF']['signature']}`\n")
    print(markdown(by_length(arguments.runs)))


if __name__ == "__main__":
    sys.exit(main())
