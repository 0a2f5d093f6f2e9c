"""The house has floors: a module imports only from below its own, and only the commands speak."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "nmt"

FLOORS = [
    {"errors"},
    {"files", "messages", "records", "cores", "device"},
    {"config"},
    {"data"},
    {"model", "search", "evaluation"},
    {"fast"},
    {"runs"},
    {"translation"},
    {"training"},
    {"experiments"},
    {"pages"},
    {"cli"},
]
"""From the ground up; neighbours on one floor do not know each other."""
FLOOR = {name: height for height, names in enumerate(FLOORS) for name in names}
WITHOUT_TORCH = (
    "nmt.errors",
    "nmt.files",
    "nmt.config",
    "nmt.data.corpus",
    "nmt.data.language_id",
    "nmt.data.lines",
    "nmt.data.tokenizer",
    "nmt.evaluation",
    "nmt.runs.directory",
)
"""Imported where a second's wait for PyTorch would be felt, or usable without it."""

Sources = dict[str, ast.Module]


@cache
def sources() -> Sources:
    """Every module by its dotted name, ``nmt.config.schema``."""
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in PACKAGE.rglob("*.py")
    }


def imported(tree: ast.Module) -> Iterator[str]:
    """Everything that is imported, by its full name: a module, or something in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(module: str) -> str:
    """``config`` of ``nmt.config.schema``; nothing of ``nmt`` and of other packages."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "nmt" else ""


def climbing(modules: Sources) -> list[str]:
    """Imports from the same floor or above."""
    return [
        f"{name} imports {other}"
        for name, tree in modules.items()
        for other in imported(tree)
        if part(name) in FLOOR
        and part(other) in FLOOR
        and part(other) != part(name)
        and FLOOR[part(other)] >= FLOOR[part(name)]
    ]


def speaking(tree: ast.Module) -> list[str]:
    """Calls and attributes that belong to a command."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in {"print", "input", "exit", "quit", "SystemExit"}:
            found.append(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in {
            "sys.exit",
            "sys.argv",
            "sys.stdin",
            "sys.stdout",
            "sys.stderr",
            "os._exit",
        }:
            found.append(ast.unparse(node))
    return found


def test_every_module_has_its_floor() -> None:
    assert {part(name) for name in sources()} - {""} == set(FLOOR)


def test_imports_lead_down() -> None:
    assert climbing(sources()) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {name: tree for name, tree in sources().items() if name != "nmt"}  # nmt imports its names on use
    graph = {
        name: {other if other in modules else other.rpartition(".")[0] for other in imported(tree)}
        for name, tree in modules.items()
    }
    TopologicalSorter({name: others & set(modules) for name, others in graph.items()}).prepare()


def test_only_commands_print_exit_or_read_the_command_line() -> None:
    found = {name: speaking(tree) for name, tree in sources().items() if part(name) != "cli"}
    assert {name: words for name, words in found.items() if words} == {}


def test_what_should_start_quickly_does_not_import_torch() -> None:
    heavy = {
        name
        for name, tree in sources().items()
        if name.startswith(WITHOUT_TORCH) and any(module.partition(".")[0] == "torch" for module in imported(tree))
    }
    assert heavy == set()


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("nmt.config.loading", "from nmt.data.corpus import Pair"),
        ("nmt.search.beam", "import nmt.model.decoder"),
        ("nmt.model.build", "from nmt import evaluation"),
        ("nmt.files", "def f():\n    from nmt.config import Config"),
    ],
)
def test_climbing_is_seen(module: str, text: str) -> None:
    assert climbing({module: ast.parse(text)})


@pytest.mark.parametrize(
    "text", ["print(1)", "raise SystemExit(2)", "sys.exit(1)", "x = sys.argv[1:]", "f(sys.stderr)"]
)
def test_speaking_is_seen(text: str) -> None:
    assert speaking(ast.parse(text))
