"""Where a training step spends its time: in matrix products, in other operations, and between them."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

from benchmarks.training import Case, reference_step
from nmt.device import keep_freed_memory, product_rate, resolve_device, resolve_precision, seconds

MOST = 12
"""Operations that are listed; the others are one row."""
RIGHT = {"aten::mm": 1, "aten::bmm": 1, "aten::addmm": 2, "aten::baddbmm": 2, "mkldnn::_linear_pointwise": 1}
"""The operations that multiply matrices, with the place of their right matrix among the inputs."""


@dataclass(frozen=True)
class Spent:
    """What an operation takes of a step."""

    operation: str
    calls: float
    milliseconds: float
    share: float
    """Of the time of the step."""
    flops_per_second: float | None = None
    """Of matrix products."""


def measure_profile(case: Case) -> list[Spent]:
    """Profile the step of the reference shape on the CPU.

    Returns the products of the step at the rate of large ones and as they are; then the other operations, the longest
    first; what is left, which is the interpreter less what profiling costs; and the whole step, not profiled.
    """
    device = resolve_device("cpu")
    keep_freed_memory()
    step = reference_step(case)
    taken = 1e3 * seconds(step, device, case.repeats)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        for _ in range(case.repeats):
            step()
    calls, times, flops = defaultdict[str, float](float), defaultdict[str, float](float), 0.0
    for event in profiled.events():
        name = "products" if event.name in RIGHT else event.name
        times[name] += event.self_cpu_time_total / 1e3 / case.repeats
        if event.cpu_parent is not None and event.cpu_parent.name == event.name:
            continue  # autocast calls an operation again, in the narrower precision
        calls[name] += 1 / case.repeats
        if event.name in RIGHT:
            flops += product_flops(event.name, event.input_shapes) / case.repeats
    products = times.pop("products")
    rate = product_rate(device, resolve_precision(case.precision, device))
    ideal = 1e3 * flops / rate
    found = [
        Spent("products, were they large", calls["products"], ideal, ideal / taken, rate),
        Spent("products", calls["products"], products, products / taken, 1e3 * flops / products),
    ]
    names = sorted(times, key=times.__getitem__, reverse=True)
    found += [Spent(name, calls[name], times[name], times[name] / taken) for name in names[:MOST]]
    count, spent = (sum(each[name] for name in names[MOST:]) for each in (calls, times))
    found.append(Spent("other operations", count, spent, spent / taken))
    left = taken - sum(each.milliseconds for each in found[1:])
    return [*found, Spent("between operations", 0, left, left / taken), Spent("step", 1, taken, 1.0)]


def product_flops(operation: str, shapes: Sequence[Sequence[int]]) -> int:
    """Floating-point operations of a matrix product whose inputs have these shapes."""
    place = RIGHT[operation]
    left, right = shapes[place - 1], shapes[place]
    columns = right[0] if operation == "mkldnn::_linear_pointwise" else right[-1]  # that one's right matrix is (n, k)
    return 2 * math.prod(left) * columns
