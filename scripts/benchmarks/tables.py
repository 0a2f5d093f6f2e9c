"""The measurements as cells of tables, by the names of their columns."""

from benchmarks.decoding import DecodingRow
from benchmarks.neighbor import NeighborRow
from benchmarks.profiling import Spent
from benchmarks.training import TrainingRow


def step_cells(row: TrainingRow | NeighborRow) -> dict[str, str]:
    """Format what all tables of training steps begin with."""
    return {
        "variant": row.variant,
        "kernels": row.kernels,
        "precision": row.precision,
        "shape": row.shape,
        "target tokens/s": f"{row.target_tokens_per_second:,.0f}",
    }


def training_cells(row: TrainingRow) -> dict[str, str]:
    """Format a row of the training table."""
    return step_cells(row) | {
        "ms a step": f"{row.milliseconds_per_step:,.1f}",
        "GFLOP/s": f"{row.flops_per_second / 1e9:,.0f}",
        "product GFLOP/s": f"{row.product_flops_per_second / 1e9:,.0f}",
        "share": f"{row.share:.2f}",
        "padding": f"{row.padding:.1%}",
        "peak MB": "-" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:,.0f}",
    }


def neighbor_cells(row: NeighborRow) -> dict[str, str]:
    """Format a row of the table of training beside a busy program."""
    return step_cells(row) | {
        "processes": str(row.processes),
        "beside a busy program": f"{row.beside_tokens_per_second:,.0f}",
        "share": f"{row.beside_tokens_per_second / row.target_tokens_per_second:.2f}",
    }


def decoding_cells(row: DecodingRow, plain: dict[tuple[int, str], list[str]]) -> dict[str, str]:
    """Format a row of the decoding table; ``plain`` has the translations of the plain path."""
    same = plain.get((row.beam_size, row.precision))
    equal = "" if same is None else f"{sum(map(str.__eq__, same, row.hypotheses))} of {row.sentences}"
    return {
        "beam": str(row.beam_size),
        "kernels": row.kernels,
        "precision": row.precision,
        "sentences/s": f"{row.sentences_per_second:,.0f}",
        "target pieces/s": f"{row.target_tokens_per_second:,.0f}",
        "as the plain path": equal,
    }


def profile_cells(spent: Spent) -> dict[str, str]:
    """Format a row of the operations of a step."""
    return {
        "operation": spent.operation,
        "calls": f"{spent.calls:,.0f}",
        "ms": f"{spent.milliseconds:.1f}",
        "of the step": f"{spent.share:.0%}",
        "GFLOP/s": f"{spent.flops_per_second / 1e9:,.0f}" if spent.flops_per_second else "",
    }
