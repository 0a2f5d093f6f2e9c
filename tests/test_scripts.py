"""The scripts that stand beside the package."""

import importlib.util
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from nmt import __version__
from nmt.errors import DataError

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "scripts"


def script(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_demo_corpus_is_written_in_the_sizes_asked_for(tmp_path: Path) -> None:
    main = script("make_demo_corpus").main
    sizes = ("--train", "7", "--validation", "3", "--test-per-bin", "1", "--seed", "2")
    assert main(["--output", str(tmp_path), *sizes]) == 0
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in tmp_path.iterdir()}
    expected = {"train": 7, "validation": 3, "test": 6}
    assert lines == {f"{split}.{kind}": n for split, n in expected.items() for kind in ("en", "fr", "align")}


def test_the_lowest_versions_are_those_that_are_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    lowest = script("lowest_versions")
    assert lowest.lowest(["a>=1.2", "b", "c>=3,<4; sys_platform == 'linux'"]) == ["a==1.2", "c==3"]
    assert lowest.main([]) == 0
    pins = dict(line.split("==") for line in capsys.readouterr().out.splitlines())
    tested = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line
    )
    assert pins["torch"] == tested["torch"] and pins["pytest"] == tested["pytest"]
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {f"{name}>={version}" for name, version in pins.items()} >= {
        each for each in claimed if not each.startswith("torch")
    }


@pytest.mark.slow
def test_the_package_is_built_and_works_where_nothing_else_is(tmp_path: Path) -> None:
    """The wheel, and the source distribution, installed by pip into environments that have what they need and no
    toolkit: the same files; and of the latter the commands train, translate, score and draw. ``make test-package``
    tries both where there is nothing else."""
    packages = script("try_package")
    built = packages.build(ROOT, tmp_path / "packages")
    assert [path.name.removeprefix(f"nmt_attention-{__version__}") for path in built] == [
        "-py3-none-any.whl",
        ".tar.gz",
    ]
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
    assert packages.smoke(environment, tmp_path / "work").startswith("BLEU ")


def test_a_package_that_does_not_work_is_seen(tmp_path: Path) -> None:
    packages = script("try_package")
    venv.create(tmp_path / "empty")
    with pytest.raises(DataError, match="No module named 'nmt'"):
        packages.smoke(tmp_path / "empty", tmp_path / "work")
