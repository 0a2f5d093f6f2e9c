"""The packages are layers: a module imports only from layers below its own, and only the commands print."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "nmt"
LAYERS = [
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
"""From the lowest up; neighbors in one layer do not import each other."""
LAYER = {name: height for height, names in enumerate(LAYERS) for name in names}
OF_SYS = {f"sys.{name}" for name in ("exit", "argv", "stdin", "stdout", "stderr")}
SPEAKING = {"print", "input", "exit", "quit", "SystemExit", "os._exit"} | OF_SYS
NAMES = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
SOURCES = {name.removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for path, name in NAMES.items()}
"""Every module by its dotted name, ``nmt.config.schema``."""


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


def climbing(name: str, tree: ast.Module) -> list[str]:
    """Imports of a module from its own layer or above."""
    others = [other for other in imported(tree) if part(other) in LAYER and part(other) != part(name)]
    return [f"{name} imports {other}" for other in others if LAYER[part(other)] >= LAYER.get(part(name), len(LAYERS))]


def speaking(tree: ast.Module) -> set[str]:
    """Names that only a command may use."""
    return SPEAKING & {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}


def test_every_module_imports_from_below_and_only_commands_speak() -> None:
    assert {part(name) for name in SOURCES} - {""} == set(LAYER)
    assert [each for name, tree in SOURCES.items() for each in climbing(name, tree)] == []
    silent = {name: tree for name, tree in SOURCES.items() if part(name) != "cli"}
    assert {name: speaking(tree) for name, tree in silent.items() if speaking(tree)} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {name: tree for name, tree in SOURCES.items() if name != "nmt"}  # nmt imports its names on use
    graph = {
        name: {other if other in modules else other.rpartition(".")[0] for other in imported(tree)}
        for name, tree in modules.items()
    }
    TopologicalSorter({name: others & set(modules) for name, others in graph.items()}).prepare()
