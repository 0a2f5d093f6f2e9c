"""The environment of a ``make`` that a test starts, whatever ``make`` has started the tests."""

import os

VARIABLES = {"ARGS", "DEMO", "DEMO_JOBS", "DEMO_SET", "JOBS", "SIZE"}
"""``make test ARGS=...`` hands such a variable on to every process below it."""


def outside_make() -> dict[str, str]:
    """The environment without what a ``make`` above has put there."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS")) and name not in VARIABLES
    }
