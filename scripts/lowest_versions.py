"""Print constraints that pin every dependency to the lowest version that pyproject.toml allows.

PyTorch stays at the tested version of constraints.txt, because its wheels take gigabytes. The development tools also
stay: users of the package do not need them.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def constraints() -> Iterator[str]:
    """``name==version`` for each dependency and tool."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    kept = {"torch", *(Requirement(tool).name.lower() for tool in project["optional-dependencies"]["dev"])}
    for requirement in map(Requirement, project["dependencies"]):
        if requirement.name not in kept:
            lowest = (each.version for each in requirement.specifier if each.operator == ">=")
            yield from (f"{requirement.name}=={version}" for version in lowest)
    tested = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    yield from (line for line in tested if line.partition("==")[0].lower() in kept)


if __name__ == "__main__":
    print("\n".join(constraints()))
