"""Options of search that contradict each other, in a configuration or with the command line's."""

from typing import Protocol

from nmt.config.schema import Decoding, Problem

OF_SEVERAL = ("coverage_penalty",)
"""Options that compare the hypotheses of a beam."""
RULES = ("min_length_factor", "no_repeat_ngram", "repetition_penalty")
"""Options that change which pieces may follow."""


class Search(Protocol):
    """The options of a search: the section ``decoding``, or what commands make of it."""

    @property
    def beam_size(self) -> int:
        """As ``schema.Decoding`` has it, and so on."""

    @property
    def max_length_factor(self) -> float: ...  # noqa: D102

    @property
    def min_length_factor(self) -> float: ...  # noqa: D102

    @property
    def coverage_penalty(self) -> float: ...  # noqa: D102


def search_contradictions(search: Search) -> list[Problem]:
    """Find every contradiction, each under the key to change first."""
    problems = []
    if search.min_length_factor > search.max_length_factor:
        most = f"decoding.max_length_factor ({search.max_length_factor:g})"
        text = f"{search.min_length_factor:g} is more than {most}; must be up to that"
        problems.append(Problem("decoding.min_length_factor", text))
    if search.coverage_penalty and search.beam_size == 1:
        text = "has no effect for one hypothesis, which is not ranked; must be 0, or decoding.beam_size more than 1"
        problems.append(Problem("decoding.coverage_penalty", text))
    return problems


def describe(decoding: Decoding) -> str:
    """Name the options of OF_SEVERAL and RULES that are in effect, with their values; "" if none is."""
    names = RULES if decoding.beam_size == 1 else (*OF_SEVERAL, *RULES)
    given = {name: getattr(decoding, name) for name in names}
    usual = Decoding()
    return ", ".join(
        f"{name.replace('_', ' ')} {value:g}" for name, value in given.items() if value != getattr(usual, name)
    )
