"""How a test set is scored: BLEU's tokenizer and the units of length, from the runs or from the text."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nmt.config import Config
from nmt.config.schema import BleuTokenizer
from nmt.errors import ConfigError
from nmt.evaluation.by_length import SystemScores, score_system
from nmt.evaluation.writing import (
    DEFAULT,
    Unit,
    checked,
    language_of,
    lengths,
    tokenizer_for,
    tokenizer_of_run,
    unit_of,
)

Say = Callable[[str], None]
"""Receives a choice that is not obvious."""


class Scoring(NamedTuple):
    """BLEU's tokenizer and the units in which lengths are counted."""

    tokenizer: BleuTokenizer
    source_unit: Unit
    reference_unit: Unit

    def score(
        self,
        name: str,
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
        *,
        bins: Sequence[int],
        resamples: int,
    ) -> SystemScores:
        """Score the translations of a system, also by source length; arguments are those of :func:`score_system`."""
        measured = lengths(sources, self.source_unit)
        return score_system(
            name, measured, hypotheses, references, tokenizer=self.tokenizer, bins=bins, resamples=resamples
        )


def scoring(
    chosen: BleuTokenizer | None,
    runs: Mapping[str, Config],
    sources: Sequence[str],
    references: Sequence[str],
    say: Say,
) -> Scoring:
    """Choose tokenizer and units, and say a choice that is not obvious.

    ``chosen`` is the value of ``--bleu-tokenizer``; ``runs`` has the configurations by their names in messages. Without
    runs the script of the raw text decides. Raises ConfigError if runs disagree, or if the tokenizer is not installed.
    """
    if runs:
        data = next(iter(runs.values())).data
        languages: tuple[str | None, str | None] = data.source_language, data.target_language
    else:
        languages = language_of(sources), language_of(references)
    units = unit_of(languages[0]), unit_of(languages[1])
    if chosen is not None:
        return Scoring(checked(chosen, "--bleu-tokenizer"), *units)
    if runs:
        return Scoring(tokenizer_of_runs(runs, references, say, "choose one with --bleu-tokenizer"), *units)
    choice = tokenizer_for(languages[1])
    if choice.tokenizer != DEFAULT:
        say(
            f"the script of the references is that of '{languages[1]}': BLEU's tokenizer is {choice.tokenizer} "
            "(choose another with --bleu-tokenizer)"
        )
    if choice.note:
        say(choice.note)
    return Scoring(choice.tokenizer, *units)


def tokenizer_of_runs(runs: Mapping[str, Config], references: Sequence[str], say: Say, remedy: str) -> BleuTokenizer:
    """Return the tokenizer of all runs, whose configurations are there by their names in messages; say its note.

    Raises ConfigError, with the ``remedy``, if they have different ones.
    """
    choices = {name: tokenizer_of_run(config, references) for name, config in runs.items()}
    tokenizers = {choice.tokenizer for choice in choices.values()}
    if len(tokenizers) > 1:
        raise ConfigError(
            *(
                f"{name}: BLEU's tokenizer is {choices[name].tokenizer} (evaluation.bleu_tokenizer "
                f"{config.evaluation.bleu_tokenizer or 'null'}, data.target_language {config.data.target_language})"
                for name, config in runs.items()
            ),
            f"scores by different tokenizers cannot be compared; {remedy}",
        )
    for note in dict.fromkeys(choice.note for choice in choices.values() if choice.note):
        say(note)
    return tokenizers.pop()
