"""``python -m nmt`` lists the commands; ``python -m nmt translate ...`` is nmt-translate."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import distribution


def main(argv: Sequence[str]) -> int:
    """Run the command that the first argument names; without arguments, list the commands."""
    modules = {each.name.removeprefix("nmt-"): each.module for each in distribution("nmt-attention").entry_points}
    name, *others = argv or ["--help"]
    if name in modules:
        code: int = import_module(modules[name]).main(others)
        return code
    if known := name in ("-h", "--help"):
        print("usage: python -m nmt COMMAND ...; each is a program, too:\n")
        print("\n".join(f"{(import_module(module).__doc__ or '').splitlines()[0]}" for module in modules.values()))
    else:
        print(f"nmt: error: '{name}' is not one of {', '.join(modules)}", file=sys.stderr)
    return 0 if known else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
