"""``python -m nmt`` lists the commands; ``python -m nmt translate ...`` is nmt-translate."""

import sys
from importlib import import_module
from importlib.metadata import distribution


def main(name: str = "--help", *argv: str) -> int:
    """Run the command of this name, and return its exit code; list the commands without one."""
    modules = {each.name.removeprefix("nmt-"): each.module for each in distribution("nmt-attention").entry_points}
    if name in modules:
        return int(import_module(modules[name]).main(argv))
    lines = [(import_module(module).__doc__ or "").splitlines()[0] for module in modules.values()]
    if name in ("-h", "--help"):
        print("usage: python -m nmt COMMAND ...; each is a program, too:", *lines, sep="\n")
        return 0
    print(f"nmt: error: '{name}' is not one of the commands:", *lines, sep="\n", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
