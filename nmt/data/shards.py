"""Names that stand for several files: ``part-*.en.gz``."""

import glob
import re
from pathlib import Path

from nmt.errors import DataError, tried

WILDCARDS = re.compile(r"(\*+|\?|\[[^\]]+\])")
"""What a name may hold beside its own letters; a directory separator ends a match."""
MOST_NAMED = 3
"""Files that a message names."""


def matching(pattern: str) -> list[str]:
    """The files that a name or pattern stands for, sorted by name. Raises DataError for a pattern without any."""
    if not WILDCARDS.search(pattern) or Path(pattern).exists():
        return [pattern]
    found = sorted(glob.glob(pattern))  # noqa: PTH207  (the names as the user would write them)
    if not found:
        raise DataError(f"{pattern}: no file matches{tried(pattern)}")
    return found


def aligned_files(source: str, target: str) -> list[tuple[str, str]]:
    """The files of two names or patterns side by side, in the order of their names.

    Raises DataError if one has more files, or if what the wildcards stand for differs: ``part-1.en`` and ``part-2.fr``.
    """
    sources, targets = matching(source), matching(target)
    alone = []
    if len(WILDCARDS.findall(source)) == len(WILDCARDS.findall(target)):
        of_source = {_parts(name, source): name for name in sources}
        of_target = {_parts(name, target): name for name in targets}
        alone = [of_source[part] for part in of_source if part not in of_target]
        alone += [of_target[part] for part in of_target if part not in of_source]
    if alone or len(sources) != len(targets):
        named = f"; without a counterpart: {', '.join(alone[:MOST_NAMED])}" if alone else ""
        raise DataError(
            f"{source} stands for {len(sources):,} files and {target} for {len(targets):,}: file n of one must be the "
            f"translation of file n of the other, in the order of their names{named}"
            + (", ..." if len(alone) > MOST_NAMED else "")
        )
    return list(zip(sources, targets, strict=True))


def _parts(name: str, pattern: str) -> tuple[str, ...]:
    """The texts that the wildcards of a pattern stand for in a name."""
    texts = WILDCARDS.split(pattern)  # every second one is a wildcard
    expression = "".join(
        ("([^/]*)" if text.startswith("*") else "([^/])") if place % 2 else re.escape(text)
        for place, text in enumerate(texts)
    )
    match = re.fullmatch(expression, name, re.DOTALL)
    return match.groups() if match else ()
