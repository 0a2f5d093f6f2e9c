"""Print constraints that pin every dependency to the lowest version that pyproject.toml allows.

PyTorch stays at the tested version of constraints.txt, because its wheels take gigabytes. The development tools also
stay: users of the package do not need them.
"""

import argparse
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from command_line import command

ROOT = Path(__file__).parent.parent


def parser() -> argparse.ArgumentParser:
    """The options: none."""
    return argparse.ArgumentParser(prog="lowest_versions.py", description=__doc__)


def lowest(requirements: list[str]) -> list[str]:
    """Return ``name==version`` for each requirement ``name>=version``; leave out requirements without a version."""
    pins = []
    for requirement in map(Requirement, requirements):
        versions = [each.version for each in requirement.specifier if each.operator == ">="]
        pins += [f"{requirement.name}=={version}" for version in versions]
    return pins


@command(parser)
def main(_: argparse.Namespace) -> None:
    """Print the constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tools = {Requirement(tool).name.lower() for tool in project["optional-dependencies"]["dev"]}
    tested = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    kept = [line for line in tested if line.partition("==")[0].lower() in {*tools, "torch"}]
    print("\n".join([*(pin for pin in lowest(project["dependencies"]) if not pin.startswith("torch==")), *kept]))


if __name__ == "__main__":
    sys.exit(main())
