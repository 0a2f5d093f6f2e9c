"""How a run was trained: its curves, its samples over time, and facts about it."""

from collections.abc import Sequence
from typing import Any, TypeVar

from nmt.report.records import Row
from nmt.runs.directory import RunDirectory
from nmt.runs.learning import values_of
from nmt.runs.metrics import best_validation, last_progress, read_metrics
from nmt.runs.tensors import parameter_count

MOST_POINTS = 300
"""Points of a learning curve: more would not be seen."""
MOST_SAMPLES = 24
"""Validations whose samples are shown."""
Item = TypeVar("Item")


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` items (two or more), evenly spaced, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(k * (len(items) - 1) / (most - 1))] for k in range(most)]


def curves(metrics: Sequence[Row]) -> dict[str, list[list[Any]]]:
    """Return the points of the learning curves; null where a run did not write a number."""
    train = values_of(metrics, "train", ("step", "loss", "target_tokens_per_second", "learning_rate"))
    validation = values_of(metrics, "validation", ("step", "loss", "perplexity", "bleu", "best"))
    return {"train": thinned(train, MOST_POINTS), "validation": thinned(validation, MOST_POINTS)}


def samples(run: RunDirectory) -> list[Row]:
    """Read the translations of the same sentences over time; none if the run kept none."""
    found = []
    for record in read_metrics(run.samples):
        lines = record.get("lines")
        if (
            isinstance(record.get("step"), int)
            and isinstance(lines, list)
            and all(isinstance(each, dict) for each in lines)
        ):
            kept = [{key: str(line.get(key, "")) for key in ("source", "reference", "hypothesis")} for line in lines]
            found.append({"step": record["step"], "lines": kept})
    return thinned(found, MOST_SAMPLES)


def facts(run: RunDirectory, metrics: Sequence[Row]) -> dict[str, Any]:
    """Describe a run, also one that is still in training: None for what its files do not say."""
    progress, best = last_progress(run.path), best_validation(metrics)
    tokens, seconds = progress.get("target_tokens"), progress.get("seconds")
    return {
        "parameters": parameter_count(run.folder("best") / "model.safetensors"),
        "updates": progress.get("update"),
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if tokens and seconds else None,
        "perplexity": best.get("perplexity"),
        "aer": best.get("aer"),
    }
