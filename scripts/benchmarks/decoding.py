"""Measure decoding: the translation of a file by a trained model."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nmt.config.schema import Kernels
from nmt.device import keep_freed_memory, precision_of, resolve_device
from nmt.runs.loading import load_run
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class DecodingRow:
    """The speed of one translation of a file."""

    run: str
    beam_size: int
    kernels: str
    precision: str
    device: str
    sentences: int
    sentences_per_second: float
    target_tokens_per_second: float
    hypotheses: list[str]

    def cells(self, plain: Mapping[tuple[int, str], Sequence[str]] = MappingProxyType({})) -> dict[str, str]:
        """Format a row of the table; ``plain`` has the translations of the plain path by beam size and precision."""
        same = plain.get((self.beam_size, self.precision))
        equal = "" if same is None else f"{sum(map(str.__eq__, same, self.hypotheses))} of {self.sentences}"
        return {
            "beam": str(self.beam_size),
            "kernels": self.kernels,
            "precision": self.precision,
            "sentences/s": f"{self.sentences_per_second:,.0f}",
            "target pieces/s": f"{self.target_tokens_per_second:,.0f}",
            "as the plain path": equal,
        }


def measure_decoding(
    path: str, lines: Sequence[str], beam_size: int, kernels: Kernels, precision: str, device: str, repeats: int
) -> DecodingRow:
    """Measure the translation of lines, with tokenization but without the loading of the model."""
    place = resolve_device(device)
    run = load_run(path, place)
    run = replace(run, config=run.config.model_copy(update={"kernels": kernels}))
    translator = Translator.of([run], place, precision_of(precision, place))
    if translator.device.type == "cpu":
        keep_freed_memory()
    options = SearchOptions.from_config(translator.decoding, beam_size=beam_size)
    found = list(translator.stream(lines, options))  # a warm-up, not measured
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = list(translator.stream(lines, options))
        taken.append(time.perf_counter() - started)
    pieces = sum(len(each.pieces) for each in found)
    seconds = statistics.median(taken)
    return DecodingRow(
        path,
        beam_size,
        kernels,
        precision,
        str(translator.device),
        len(lines),
        len(lines) / seconds,
        pieces / seconds,
        [each.text for each in found],
    )
