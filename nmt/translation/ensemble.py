"""From run directories to one translator."""

from collections.abc import Sequence
from pathlib import Path

from nmt.config import load_run_config
from nmt.device import FORMATS, format_of
from nmt.errors import ConfigError
from nmt.search import together
from nmt.translation.translator import Translator


def load_translator(
    runs: Sequence[str | Path], device: str = "auto", precision: str = "fp32", beam_size: int | None = None
) -> Translator:
    """Load the translator of one run, or of several that translate together, with the decoding options of the first.

    ``beam_size``: that of the search whose speed is measured; default: the run's.

    Raises the errors of :meth:`Translator.load`, and ConfigError for runs that read the source in other pieces or in
    another order, that write other pieces, or that translate in other directions.
    """
    translators = [Translator.load(run, device, precision, beam_size=beam_size) for run in runs]
    agreed = min((each.precision for each in translators), key=list(FORMATS.values()).index)
    translators = [  # all compute in one precision, the most exact of those that auto has chosen
        each if each.precision == agreed else Translator.load(run, device, format_of(agreed), beam_size=beam_size)
        for run, each in zip(runs, translators, strict=True)
    ]
    first, *others = translators
    if not others:
        return first
    problems = []
    for run, other in zip(runs[1:], translators[1:], strict=True):
        for side, known in first.tokenizers.sha256.items():
            if (found := other.tokenizers.sha256[side]) != known:
                why = "read the same pieces" if side == "source" else "choose among the same pieces"
                problems.append(
                    f"{run}: its {side} tokenizer (SHA-256 {found[:12]}) is not that of {runs[0]} ({known[:12]}); the "
                    f"runs of an ensemble {why}: learn both tokenizers from the same text, or give the model files "
                    "(tokenizer.type: given)"
                )
        if other.tokenizers.reverse_source != first.tokenizers.reverse_source:
            problems.append(
                f"{run}: its data.reverse_source is not that of {runs[0]}; the runs of an ensemble read the source in "
                "the same order"
            )
    directions = [direction(run) for run in runs]
    if len(set(directions)) > 1:
        named = ", ".join(f"{run} {' to '.join(languages)}" for run, languages in zip(runs, directions, strict=True))
        problems.append(f"the runs of an ensemble translate in one direction; found {named}")
    if problems:
        raise ConfigError(*problems)
    return Translator(
        lambda beam_size: together([each.searchable(beam_size) for each in translators]),
        first.tokenizers,
        first.device,
        first.precision,
        first.decoding,
        first.rates,
    )


def direction(run: str | Path) -> tuple[str, str]:
    """Read the languages that a run translates from and to."""
    data = load_run_config(run).data
    return data.source_language, data.target_language
