"""The book: it builds without a warning, asks no other host for anything, and its commands and references are right."""

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from nmt.config import schema
from nmt.config.schema_map import keys_by_name
from tests.outside_make import outside_make

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
GUIDES = ["own-text", "choosing", "reading-attention", "coming-from", "options"]
"""Pages whose commands are parsed; tests/test_readme.py runs those of README.md and docs/commands.md."""

reference: Any = importlib.import_module("reference")

# --- the site ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built book; a warning, which a dead link is, fails the build."""
    pytest.importorskip("sphinx", reason="the book needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    strict = ["--quiet", "--fail-on-warning", "--keep-going"]
    command = [sys.executable, "-m", "sphinx", *strict, "-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    return folder / "html"


class Page(HTMLParser):
    """What a browser fetches for a page by itself, where its links lead, and the places that links may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"a": (), "link": ("href",)}.get(tag, ("src", "srcset", "data", "poster", "action"))
        self.requests += [value for name, value in attrs if name in names and value]
        self.links += [value for name, value in attrs if (tag, name) == ("a", "href") and value]
        self.places |= {value for name, value in attrs if name == "id" and value}


def foreign(addresses: list[str]) -> list[str]:
    return [address for address in addresses if re.match(r"(\w+:)?//", address)]


@pytest.mark.slow
def test_no_page_asks_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        requests = Page(page.read_text("utf-8")).requests
        assert requests and foreign(requests) == [], page
    for sheet in site.rglob("*.css"):
        assert foreign(re.findall(r"""(?:url\(|@import\s)\s*["']?([^"')]+)""", sheet.read_text("utf-8"))) == [], sheet
    for script in site.rglob("*.js"):
        assert not re.search(r"""(?:fetch|import|open)\(\s*["'](?:\w+:)?//""", script.read_text("utf-8")), script


@pytest.mark.slow
def test_every_page_is_reached_from_the_first(site: Path) -> None:
    contents = (site / "index.html").read_text("utf-8")
    absent = [
        page.stem for page in DOCS.glob("*.md") if page.stem != "index" and f'href="{page.stem}.html"' not in contents
    ]
    assert absent == []


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    dead = []
    for name, page in pages.items():
        for link in page.links:
            if not re.match(r"\w+:", link):
                file, _, place = link.partition("#")
                target = (Path(name).parent / file).as_posix() if file else name
                found = pages.get(target)
                if not (site / target).exists() or (found and place not in found.places):
                    dead.append(f"{name}: {link}")
    assert dead == []


@pytest.mark.slow
def test_equations_are_drawn_without_a_script(site: Path) -> None:
    assert "<math" in (site / "reading-attention.html").read_text("utf-8")
    requests = [each for page in site.rglob("*.html") for each in Page(page.read_text("utf-8")).requests]
    assert requests and not any("math" in request.lower() for request in requests)


def test_requests_of_a_page_are_seen() -> None:
    page = Page(
        '<a href="https://a"><link href="//b/c.css"><script src="http://d"></script><img src="e.png" id="f"></a>'
    )
    assert foreign(page.requests) == ["//b/c.css", "http://d"]
    assert (page.links, page.places) == (["https://a"], {"", "f"})


# --- its references ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", reference.PAGES)
def test_a_page_of_the_reference_is_what_the_program_says(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == reference.page(path), "run: python scripts/reference.py"


def test_every_option_is_in_the_reference_with_a_meaning() -> None:
    text = reference.options()
    named = set(re.findall(r"^- \[?`(\w+)`.*: \S", text, re.M))
    assert {name for name in keys_by_name() if name != "type"} <= named
    assert "- `bins` (a list of one or more, each integer ≥ 1; default `[10, 20, 30, 40, 50, 60, 70]`): Largest" in text
    assert "With `gru`:\n\n- `reset` (after, before; default `after`): Apply the reset gate" in text
    assert "Like `data.train`: `source`, `tsv`, `jsonl`, `hub`." in text


def test_every_command_is_in_the_reference() -> None:
    text = reference.commands()
    assert re.findall(r"^## (.*)$", text, re.M) == list(SCRIPTS)
    for name, target in SCRIPTS.items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        options = set(re.findall(r"^ +(--[a-z-]+)", reference.help_of(target), re.M))
        missing = [option for option in options if not re.search(rf"[`, ]{option}[`, \[]", section)]
        assert set(missing) <= reference.EVERY_COMMAND


def test_help_of_an_unusual_command() -> None:
    """Options that fill their column, several groups, and a bar that would end a cell."""
    text = (
        "usage: x [-h]\n\nDo it.\n\noptions:\n  -h, --help  show\n  --long-name-of-this {a|b}\n                        "
        "one or *two*  (default: a)\n\nmore:\n  --n N       a number\n\nexamples:\n  x --n 1\n  x -h\n"
    )
    assert "\n".join(reference.of_help("x", text)).split("\n") == [
        *("", "## x", "", "Do it.", "", "| option | meaning |", "|---|---|"),
        r"| `--long-name-of-this {a\|b}` | one or \*two\* (default: a) |",
        *("| *more* | |", "| `--n N` | a number |", "", "```sh", "x --n 1", "x -h", "```"),
    ]


def test_the_reference_escapes_markup() -> None:
    assert reference.escaped("a_b *c* <bt>\n ``<x_y>`` [z] p|q $NMT") == r"a\_b \*c\* \<bt\> `<x_y>` \[z\] p\|q \$NMT"


# --- its size ---------------------------------------------------------------------------------------------------------


def test_a_person_can_read_all_pages() -> None:
    """Without the generated references: 15,000 words in all."""
    generated = {DOCS / "options.md", DOCS / "command-reference.md"}
    pages = {ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.glob("*.md")} - generated
    assert sum(word != "|" for page in pages for word in page.read_text("utf-8").split()) <= 15_000


# --- its commands -----------------------------------------------------------------------------------------------------


def shell_blocks(page: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", (DOCS / f"{page}.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)


def command_lines(page: str) -> list[str]:
    """The lines of the blocks, and whole commands within the text."""
    inline = re.findall(r"`((?:nmt-\w+ --config|make) [^`]+)`", (DOCS / f"{page}.md").read_text("utf-8"))
    return [line for block in shell_blocks(page) for line in block.splitlines()] + inline


@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_the_guides_are_right(page: str) -> None:
    for line in command_lines(page):
        words = shlex.split(re.split(r" [<>]+ ", line.rpartition("|")[2])[0])
        if words[0] in SCRIPTS:
            module = importlib.import_module(SCRIPTS[words[0]].partition(":")[0])
            arguments = module.main.parser().parse_args(words[1:])
            named = getattr(arguments, "config", None)
            assert named is None or (ROOT / named).exists() or named == "en-fr.yaml", line
        elif words[0] == "make":
            made = subprocess.run([*words, "--dry-run"], cwd=ROOT, check=False, env=outside_make(), capture_output=True)
            assert made.returncode == 0, line
        else:
            assert words[0] in ("cat", "cp", "head", "sed", "shuf", "tail"), line


@pytest.mark.parametrize("page", GUIDES)
def test_configurations_that_a_guide_names_exist(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    named = re.findall(r"\bconfigs/[\w./-]+\b/?", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_keys_that_the_guides_name_exist() -> None:
    known = {key for keys in keys_by_name().values() for key in keys}
    for page in GUIDES:
        text = (DOCS / f"{page}.md").read_text("utf-8")
        named = re.findall(r"`((?:data|tokenizer|model|training|decoding|evaluation)\.[a-z_.]+)(?:[:=][^`]*)?`", text)
        assert [key for key in named if key not in known and not key.startswith("data.batching")] == [], page


SECTIONS: dict[str, Any] = {
    "attention": schema.AnyAttention,
    "encoder": schema.AnyEncoder,
    "decoder": schema.AnyDecoder,
    "training.schedule": schema.AnySchedule,
    "tokenizer": schema.AnyTokenizer,
}


def test_our_words_for_those_of_others_are_valid() -> None:
    """Each section in the last column of docs/coming-from.md."""
    text = (DOCS / "coming-from.md").read_text("utf-8").partition("## From JoeyNMT")[2]
    found = re.findall(r"`([\w.]+): (\{[^`]*\})`[^|]*\|$", text, re.M)
    assert len(found) >= 6
    for kind, section in found:
        TypeAdapter(SECTIONS[kind]).validate_python(yaml.safe_load(section.replace("N}", "1}")))


def test_the_text_of_a_reader_is_split(tmp_path: Path) -> None:
    for side in ("en", "fr"):
        (tmp_path / f"all.{side}").write_text("".join(f"a line, number {i}\n" for i in range(2500)), "utf-8")
    block = next(each for each in shell_blocks("own-text") if "shuf" in each)
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", block], cwd=tmp_path, check=True)
    splits = {
        name: (tmp_path / f"{name}.tsv").read_text("utf-8").splitlines() for name in ("train", "validation", "test")
    }
    assert [len(lines) for lines in splits.values()] == [500, 1000, 1000]
    assert len({line for lines in splits.values() for line in lines}) == 2500
    assert all(line.split("\t")[0] == line.split("\t")[1] for line in splits["train"])
