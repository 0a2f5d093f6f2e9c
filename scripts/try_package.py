"""Build the wheel and the source distribution, install each into an empty environment, and train, translate, score and
draw there.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # tests/ is not installed

from tests.small_run import options

ROOT = Path(__file__).parent.parent
BUILD = "import setuptools.build_meta, sys; setuptools.build_meta.build_{}(sys.argv[1])"
IS_INSTALLED = """
import sys, nmt
from pathlib import Path
assert Path(sys.prefix) in Path(nmt.__file__).parents, nmt.__file__
"""


def main() -> None:
    """Try both packages."""
    constraints = ROOT / "constraints.txt"
    torch = next(line for line in constraints.read_text("utf-8").splitlines() if line.startswith("torch=="))
    with tempfile.TemporaryDirectory(prefix="nmt-package-") as name:
        folder = Path(name)
        environment = folder / "environment"
        _run(sys.executable, "-m", "venv", environment)
        install = (environment / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(*install, torch)
        for package in build(ROOT, folder / "packages"):
            _run(*install, "--constraint", constraints, package)
            scores = smoke(environment, folder / f"{package.name}.work")
            _run(environment / "bin/python", "-m", "pip", "--quiet", "uninstall", "--yes", "nmt-attention")
            print(f"{package.name}, {package.stat().st_size:,} bytes: works; {scores}", flush=True)


def build(checkout: Path, place: Path) -> list[Path]:
    """Build the wheel and the source distribution of the files of a checkout that git does not ignore; offline, with
    the installed setuptools."""
    listing = _run("git", "-C", checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    place.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="nmt-build-") as folder:
        for name in filter(lambda name: (checkout / name).is_file(), listing.split("\0")):
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, Path(folder) / name)
        for kind in ("wheel", "sdist"):
            _run(sys.executable, "-c", BUILD.format(kind), place.absolute(), cwd=folder)
    return sorted(place.iterdir(), key=lambda path: path.suffix != ".whl")


def smoke(environment: Path, folder: Path) -> str:
    """Train, translate, score and draw in a new folder with the package that is installed in an environment; return the
    score."""
    commands = environment / "bin"
    folder.mkdir()
    _run(commands / "python", "-c", IS_INSTALLED, cwd=folder)
    (folder / "config.yaml").write_text(json.dumps(options(folder)), "utf-8")  # JSON is YAML
    text = ("--source", "test.low", "--reference", "test.up")
    _run(commands / "nmt-train", "--config", "config.yaml", "--output", "run", cwd=folder)
    _run(commands / "nmt-translate", "--model", "run", "--input", "test.low", "--output", "out", cwd=folder)
    scores = _run(commands / "nmt-evaluate", *text, "--hypotheses", "out", cwd=folder)
    _run(commands / "nmt-length-curve", *text, "--system", "run=out", "--output", "curve", cwd=folder)
    lines = [(folder / name).read_bytes().count(b"\n") for name in ("test.low", "out")]
    if lines[0] != lines[1] or not (folder / "curve.png").read_bytes().startswith(b"\x89PNG"):
        raise SystemExit(f"{environment}: {lines[1]} translations of {lines[0]} lines, or no picture")
    return scores.splitlines()[0]


def _run(*words: str | Path, cwd: str | Path | None = None) -> str:
    """Execute a command that imports only from its own environment; return its output."""
    line = [str(word) for word in words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(line)}: ended with {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
