"""The scripts that stand beside the package."""

import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import lowest_versions
import make_demo_corpus
import try_package
from nmt import __version__

ROOT = Path(__file__).parent.parent


def test_the_demo_corpus_is_written_in_the_sizes_asked_for(tmp_path: Path) -> None:
    sizes = ("--train", "7", "--validation", "3", "--test-per-bin", "1", "--seed", "2")
    assert make_demo_corpus.main(["--output", str(tmp_path), *sizes]) == 0
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in tmp_path.iterdir()}
    expected = {"train": 7, "validation": 3, "test": 6}
    assert lines == {f"{split}.{kind}": n for split, n in expected.items() for kind in ("en", "fr", "align")}
    assert make_demo_corpus.main(["--output", str(tmp_path), *sizes, "--longest", "20"]) == 0
    words = [len(line.split()) for line in (tmp_path / "test.en").read_text("utf-8").splitlines()]
    assert len(words) == 2 and words[0] <= 10 < words[1] <= 20


def test_the_lowest_versions_are_those_that_are_claimed() -> None:
    pins = dict(line.split("==") for line in lowest_versions.constraints())
    tested = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert {f"{name}=={pins[name]}" for name in ("torch", "pytest")} <= {*tested}
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    lowest = {f"{name}>={version}" for name, version in pins.items()}
    assert {each for each in claimed if not each.startswith("torch")} <= lowest


@pytest.mark.slow
def test_the_package_is_built_and_works_where_nothing_else_is(tmp_path: Path) -> None:
    """The wheel, and the source distribution, installed by pip into environments that have what they need and no
    toolkit: the same files; and of the latter the commands train, translate, score and draw. ``make test-package``
    tries both where there is nothing else."""
    built = try_package.build(ROOT, tmp_path / "packages")
    name = f"nmt_attention-{__version__}"
    assert [path.name for path in built] == [f"{name}-py3-none-any.whl", f"{name}.tar.gz"]
    with zipfile.ZipFile(built[0]) as archive:
        assert "nmt/py.typed" in archive.namelist()
        assert not [name for name in archive.namelist() if name.startswith(("tests", "scripts"))]
    with tarfile.open(built[1]) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.getnames())
    installed = []
    for package in built:
        environment = tmp_path / package.suffix
        venv.create(environment)
        site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
        # its own .pth files, with the toolkit as it is being written, are not read there
        (site / "others.pth").write_text(sysconfig.get_path("purelib"))
        pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "--disable-pip-version-check"]
        offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"]
        subprocess.run([*pip, "install", *offline, str(package)], check=True, capture_output=True)
        installed.append({path.relative_to(site) for path in (site / "nmt").rglob("*.py")})
    assert installed[0] == installed[1]
    assert try_package.smoke(environment, tmp_path / "work").startswith("BLEU ")
