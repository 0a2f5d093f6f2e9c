"""Predict training on several ranks: target tokens per second, hours, memory, disk and price.

The rate of one rank is measured (--rate, or the point of one rank in --points), or it is assumed: a share of the peak
rate of a device (--flops and --share). docs/scaling.md explains the model.

examples:
  python scripts/throughput_model.py --config configs/multi30k.yaml --rate 5000 --devices 2 --ranks 1 2 4
  python scripts/throughput_model.py --config configs/multi30k.yaml --points points.json --figure throughput
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure

from benchmarks.activations import kept_bytes
from benchmarks.scaling import (
    SUMMED,
    WEIGHT,
    Link,
    Prediction,
    Training,
    cache_bytes,
    checkpoint_bytes,
    efficiency,
    memory,
    predict,
)
from nmt.cli.common import command, say
from nmt.cli.options import add_config_options, number, whole
from nmt.config import Config, load_config
from nmt.errors import ConfigError, DataError
from nmt.foundation.files import read_json
from nmt.model import build_model
from nmt.model.cost import cost
from nmt.plots.files import markdown, stem_of, write_all
from nmt.plots.style import GREY, legend_above, png, series, style

GB = 1e9


def parser() -> argparse.ArgumentParser:
    """Define the options."""
    options = argparse.ArgumentParser(prog="throughput_model.py", description=__doc__)
    add_config_options(options)
    options.add_argument(
        "--ranks", type=whole(1), nargs="+", default=[1, 2, 4, 8], metavar="N", help="numbers of ranks"
    )
    options.add_argument("--devices", type=whole(1), default=8, metavar="N", help="cores or GPUs that the ranks share")
    options.add_argument("--rate", type=number(1e-3), metavar="R", help="measured target tokens per second of one rank")
    options.add_argument("--points", metavar="FILE", help="JSON of measured points, for the figure and the rate")
    options.add_argument("--flops", type=number(1), metavar="F", help="peak FLOP/s of a device, by its specification")
    options.add_argument(
        "--share", type=number(1e-6, 1), metavar="S", help="assumed share of the peak that training has"
    )
    options.add_argument("--bandwidth", type=number(1), default=1e9, metavar="B", help="bytes per second between ranks")
    options.add_argument("--latency", type=number(0), default=1e-4, metavar="S", help="seconds of a message")
    options.add_argument(
        "--overlap", type=number(0, 1), default=0.0, metavar="S", help="share of the computation that hides all-reduce"
    )
    options.add_argument(
        "--bucket-bytes", type=whole(1), default=8 << 20, metavar="B", help="bytes of the gradient in an all-reduce"
    )
    options.add_argument("--vocabulary", type=whole(5), metavar="V", help="pieces (default: tokenizer.vocabulary)")
    options.add_argument("--source-pieces", type=number(1), default=30.0, metavar="S", help="pieces of a mean source")
    options.add_argument("--target-pieces", type=number(1), default=30.0, metavar="T", help="pieces of a mean target")
    options.add_argument(
        "--fill", type=number(1e-3, 1), default=0.85, metavar="F", help="target tokens by training.batch_tokens"
    )
    options.add_argument("--pairs", type=number(1), metavar="N", help="training pairs, for hours and disk")
    options.add_argument("--epochs", type=number(0), default=1.0, metavar="E", help="how often all pairs are read")
    options.add_argument(
        "--text-bytes", type=number(0), default=0.0, metavar="B", help="bytes of text of a pair, on disk"
    )
    options.add_argument("--price", type=number(0), metavar="P", help="price of a device for an hour")
    options.add_argument("--figure", metavar="STEM", help="write STEM.png: the model beside the measured points")
    return options


def vocabulary_of(config: Config, given: int | None) -> int:
    """The pieces of a side. Raises ConfigError if neither option nor configuration says how many."""
    size = given or getattr(config.tokenizer, "vocabulary", None)
    if size is None:
        raise ConfigError("--vocabulary is missing: the configuration leaves the number of pieces open")
    return int(size)


def parameters_of(config: Config, vocabulary: int) -> int:
    """Parameters of the network, built without memory for them."""
    with torch.device("meta"):
        model = build_model(config.model, vocabulary, vocabulary)
    return sum(parameter.numel() for parameter in model.parameters())


def flops_of_token(config: Config, vocabulary: int, source: float, target: float) -> float:
    """Floating-point operations of training on one target token of a mean pair."""
    each = cost(config.model, vocabulary)
    counts = 1, source, target, source * target, source**2, target * (target + 1) / 2
    forward: float = sum(work * count for work, count in zip(asdict(each).values(), counts, strict=True))
    return 6 * forward / target


@dataclass(frozen=True)
class Points:
    """Measured training of one configuration."""

    tokens: float
    """Target tokens of an update in one rank."""
    rates: Mapping[int, float]
    """Target tokens per second by number of ranks; one rank is among them."""


def points_of(path: str) -> Points:
    """Read measured points. Raises DataError if there are none, or none of one rank."""
    if not Path(path).exists():
        raise DataError(f"{path}: no such file; measure training on 1 rank and more first")
    try:
        read = read_json(Path(path))
        rates = {int(each["ranks"]): float(each["tokens_per_second"]) for each in read["points"]}
        points = Points(float(read["tokens_per_rank"]), rates)
    except (KeyError, TypeError, ValueError) as error:
        form = '{"tokens_per_rank": 1234.5, "points": [{"ranks": 1, "tokens_per_second": 567.8}, ...]}'
        raise DataError(f"{path}: must have the form {form}") from error
    if 1 not in rates:
        raise DataError(f"{path}: has no point of 1 rank, from which the others are predicted")
    return points


def rate_of(arguments: argparse.Namespace, flops: float, points: Points | None) -> tuple[float, str]:
    """Target tokens per second of one rank, and where they come from. Raises ConfigError unless one way is given."""
    peak = arguments.flops is not None or arguments.share is not None
    if (arguments.rate is not None) + (points is not None) + peak != 1:
        raise ConfigError("the rate of one rank: give one of --rate, --points, or --flops with --share")
    if points is not None:
        return points.rates[1], "measured"
    if arguments.rate is not None:
        return arguments.rate, "measured"
    if arguments.flops is None or arguments.share is None:
        raise ConfigError("--flops and --share: give both")
    return arguments.flops * arguments.share / flops, f"assumed to be {arguments.share:g} of the peak, not measured"


# --- tables and figure ------------------------------------------------------------------------------------------------


def rows(
    predictions: Sequence[Prediction], one: Prediction, tokens: float | None, devices: int, price: float | None
) -> list[dict[str, str]]:
    """A line for each number of ranks; ``tokens``: all target tokens of the training, None if unknown."""
    table = []
    for each in predictions:
        line = {
            "ranks": str(each.ranks),
            "ms an update": f"{1e3 * each.seconds:,.1f}",
            "all-reduce, ms": f"{1e3 * each.all_reduce:,.1f}",
            "waiting for it, ms": f"{1e3 * each.waiting:,.1f}",
            "target tokens/s": f"{each.rate:,.0f}",
            "efficiency": f"{efficiency(each, one):.2f}",
        }
        if tokens is not None:
            hours = tokens / each.rate / 3600
            line["hours"] = f"{hours:,.1f}"
            if price is not None:
                line["price"] = f"{hours * min(each.ranks, devices) * price:,.0f}"
        table.append(line)
    return table


def beside(table: Sequence[dict[str, str]], points: Points) -> list[dict[str, str]]:
    """The lines with the measured rates."""
    found = {str(ranks): f"{rate:,.0f}" for ranks, rate in points.rates.items()}
    return [line | {"measured tokens/s": found.get(line["ranks"], "–")} for line in table]


def needs(arguments: argparse.Namespace, config: Config, vocabulary: int, parameters: int) -> list[str]:
    """Memory of a rank and space on the disk, in words."""
    source, target = arguments.source_pieces, arguments.target_pieces
    longest = max(source, target)
    kept = kept_bytes(config.model, vocabulary, round(source), round(target)) * config.training.batch_tokens / longest
    checkpoints = checkpoint_bytes(parameters, config.training.average)
    lines = [
        f"Memory of a rank: {memory(parameters, kept) / GB:.1f} GB and workspace; {kept / GB:.1f} GB are kept "
        "for the backward pass (plain kernels, fp32).",
        f"Disk: checkpoints {checkpoints / GB:.1f} GB",
    ]
    if arguments.pairs is not None:
        cache = cache_bytes(arguments.pairs, source, target)
        lines[-1] += (
            f", encoded corpus {cache / GB:.1f} GB, its text {arguments.pairs * arguments.text_bytes / GB:.1f} GB"
        )
    lines[-1] += "."
    return lines


def draw(training: Training, link: Link, rates: Mapping[int, float]) -> Figure:
    """Draw target tokens per second against ranks: measured, predicted, and as many times one rank."""
    ranks = range(1, max(rates) + 1)
    with style():
        figure = Figure(figsize=(5.5, 3.8), layout="constrained")
        axes = figure.subplots()
        (ideal,) = axes.plot(ranks, [each * rates[1] for each in ranks], color=GREY, linewidth=0.8, linestyle="--")
        predicted = [predict(training, link, each).rate for each in ranks]
        (model,) = axes.plot(ranks, predicted, **series(0) | {"marker": ""})
        (measured,) = axes.plot(list(rates), list(rates.values()), **series(1) | {"linestyle": ""})
        axes.set_xlabel("Ranks")
        axes.set_ylabel("Target tokens per second")
        axes.set_xticks(list(ranks))
        axes.set_ylim(bottom=0)
        legend_above(figure, [measured, model, ideal], ["measured", "model", "one rank, times ranks"])
    return figure


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Print the prediction, and draw the figure."""
    config = load_config(arguments.config, arguments.overrides)
    points = points_of(arguments.points) if arguments.points else None
    if arguments.price is not None and arguments.pairs is None:
        raise ConfigError("--price: has no effect without --pairs, from which the hours are computed")
    if arguments.figure and points is None:
        raise ConfigError("--figure: needs measured points; give --points FILE")
    vocabulary = vocabulary_of(config, arguments.vocabulary)
    parameters = parameters_of(config, vocabulary)
    flops = flops_of_token(config, vocabulary, arguments.source_pieces, arguments.target_pieces)
    rate, origin = rate_of(arguments, flops, points)
    batches = config.training.accumulation
    tokens = points.tokens if points else config.training.batch_tokens * batches * arguments.fill
    gradient = (SUMMED if config.precision == "fp32" else WEIGHT) * parameters
    buckets = math.ceil(WEIGHT * parameters / arguments.bucket_bytes)
    training = Training(rate, tokens, gradient, arguments.devices, buckets, arguments.overlap)
    link = Link(arguments.bandwidth, arguments.latency)
    predictions, one = [predict(training, link, ranks) for ranks in arguments.ranks], predict(training, link, 1)
    in_all = None if arguments.pairs is None else arguments.epochs * arguments.pairs * arguments.target_pieces
    table = rows(predictions, one, in_all, arguments.devices, arguments.price)
    print(markdown(beside(table, points) if points else table))
    print(f"\n{parameters / 1e6:.1f} M parameters; {flops / 1e6:.0f} MFLOP a target token.")
    print(f"One rank: {rate:,.0f} target tokens/s, {origin}; {tokens:,.0f} of them in an update of a rank.")
    print("\n".join(needs(arguments, config, vocabulary, parameters)))
    if arguments.figure and points:
        (path,) = write_all(stem_of(arguments.figure), {".png": png(draw(training, link, points.rates))})
        say(f"written: {path}")


if __name__ == "__main__":
    sys.exit(main())
