"""The pages: the site builds, links and names lead somewhere, and the generated parts are what the program says."""

import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import nmt
from nmt.config.problems import annotation_of, keys_by_name, variants_of
from nmt.config.schema import Config, Section

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in sorted((*ROOT.glob("*.md"), *ROOT.glob("data/*.md"), *DOCS.glob("*.md")))
}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

reference: Any = importlib.import_module("reference")

# --- the site and its generated parts ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_site_builds_and_asks_no_other_host(tmp_path: Path) -> None:
    """A warning, which a dead link is, fails the build; equations need no script."""
    pytest.importorskip("sphinx", reason="the book needs the extra docs")
    strict = ["--quiet", "--fail-on-warning", "--keep-going", "-d", str(tmp_path / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *strict, str(DOCS), str(tmp_path / "html")]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path.stem: path.read_text("utf-8") for path in (tmp_path / "html").rglob("*.html")}
    assert {path.stem for path in DOCS.glob("*.md")} <= pages.keys()
    fetched = re.compile(r'<(?!a\b)\w+ [^>]*?\b(?:src|srcset|href|data|poster|action)="([^"]+)"')
    requests = [request for page in pages.values() for request in fetched.findall(page)]
    assert requests and not [each for each in requests if re.match(r"(\w+:)?//", each) or "math" in each.lower()]
    assert "<math" in pages["reading-attention"]


def test_generated_parts_are_what_the_program_says() -> None:
    for path in reference.PAGES:
        assert reference.page(PAGES[path]) == PAGES[path], "run: python scripts/reference.py"
    written = re.findall(r"^<!-- generated: (\S+) -->$", "".join(PAGES[path] for path in reference.PAGES), re.M)
    assert sorted(written) == sorted(reference.PARTS)


def test_every_option_of_a_configuration_is_there_with_a_meaning() -> None:
    text = PAGES["docs/options.md"]
    rows = re.findall(r"^- (\[)?`(\w+)(?:: ([^`]+))?`[^:\n]*(: \S.*)?$", text, re.M)
    assert {name for _, name, *_ in rows} == {name for name in keys_by_name() if name != "type"}
    assert [name for section, name, _, meaning in rows if not (section or meaning)] == []
    assert ("", "bins", "[10, 20, 30, 40, 50, 60, 70]") in [row[:3] for row in rows]
    assert "With gru:\n\n- `reset: after` (after, before): Apply the reset gate" in text
    assert "Like `data.train`: source, tsv, jsonl, hub." in text


# --- what the pages name ----------------------------------------------------------------------------------------------


def test_a_person_can_read_all_pages() -> None:
    """Without the list of all options, which the program writes."""
    pages = [text for name, text in PAGES.items() if name != "data/README.md"]
    written = [text.partition("<!-- generated: options -->")[0] for text in pages]
    assert sum(len(text.split()) for text in written) <= 12_494


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    dead = []
    for link in re.findall(r"\]\(([^)]+)\)", PAGES[name]):
        file, _, anchor = link.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        if "://" not in link and (not path.exists() or (anchor and anchor not in anchors(path.read_text("utf-8")))):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("name", PAGES)
def test_files_and_keys_that_a_page_names_exist(name: str) -> None:
    text = PAGES[name]
    files = re.findall(r"\b(?:nmt|tests|scripts|configs|docs)/[\w/.-]+\.(?:py|yaml|md|sh)\b", text)
    assert [path for path in files if not (ROOT / path).exists()] == []
    known = {key for keys in keys_by_name().values() for key in keys} | {"data.batching", "data.dataset.prepare"}
    keys = re.findall(r"`((?:data|tokenizer|model|training|decoding|evaluation)\.[a-z_.]+)(?:[:=][^`]*)?`", text)
    assert [key for key in keys if key not in known and key != "model.build_model"] == []


def sections_of(section: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    """All sections in a section, with the types that select them."""
    for key in section.model_fields:
        for tag, inner in variants_of(annotation_of(section, key)).items():
            yield tag, inner
            yield from sections_of(inner)


def test_sections_that_pages_print_are_valid() -> None:
    known = set(sections_of(Config))
    printed = [each for text in PAGES.values() for each in re.findall(r"`(?:[\w.]+: )?(\{type: [^`]*\})`", text)]
    assert len(printed) > 20
    for text in printed:
        section = yaml.safe_load(re.sub(r"\bD\b", "1", text))
        tried = [kind for tag, kind in known if tag == section["type"]]
        assert any(section.keys() <= kind.model_fields.keys() and kind.model_validate(section) for kind in tried), text


def blocks(text: str, language: str) -> list[str]:
    """The content of each code block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def commands(text: str) -> list[str]:
    """Every command line of a page."""
    return [line for block in blocks(text, "sh") for line in block.replace("\\\n", "").splitlines() if line]


@pytest.mark.parametrize("name", PAGES)
def test_commands_that_a_page_prints_are_right(name: str) -> None:
    """Their options; tests/test_readme.py runs those of README.md and docs/commands.md."""
    for line in commands(PAGES[name]) + re.findall(r"`(nmt-\w+ --config [^`]+)`", PAGES[name]):
        found = re.search(r"(?<![\w/])(nmt-[a-z-]+) (.*)", line)
        if found and found[1] in PROJECT["scripts"]:
            module = importlib.import_module(PROJECT["scripts"][found[1]].partition(":")[0])
            parsed = module.main.parser().parse_args(shlex.split(found[2].removesuffix(" $RESUME")))
            config = getattr(parsed, "config", None)
            made = None, "en-fr.yaml", "many.yaml", "attention.yaml", "FILE"
            assert config in made or (ROOT / config).exists(), line


def test_the_architecture_names_every_package() -> None:
    listed = PAGES["docs/architecture.md"].partition("\n## Packages\n")[2].partition("\n## ")[0]
    packages = {path.parent.name for path in (ROOT / "nmt").glob("*/__init__.py")} | {"errors"}
    assert set(re.findall(r"^- `(\w+)`:", listed, re.M)) == packages


def test_every_public_method_is_described() -> None:
    """By its own docstring, or by that of the method that it overrides."""
    found, undescribed = [], inspect.getdoc(torch.nn.Module.forward)
    for name in (each.name for each in pkgutil.walk_packages(nmt.__path__, "nmt.")):
        module = importlib.import_module(name)
        for kind in (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name):
            members = [getattr(kind, each) for each in vars(kind) if "_" not in (kind.__name__[0], each[0])]
            methods = [each for each in members if inspect.isroutine(each) or isinstance(each, property)]
            found += [f"{kind.__name__}: {each}" for each in methods if inspect.getdoc(each) in (None, undescribed)]
    assert found == []
