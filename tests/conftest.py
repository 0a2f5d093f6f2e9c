"""No test reads or writes outside its own folders, and none reaches the network."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

_SCRATCH = tempfile.TemporaryDirectory(prefix="nmt-tests-")
os.environ.update(  # here, before anything imports matplotlib or datasets, which read them once
    NMT_CACHE=f"{_SCRATCH.name}/cache",
    HF_HOME=f"{_SCRATCH.name}/hub",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    MPLBACKEND="Agg",
    MPLCONFIGDIR=f"{_SCRATCH.name}/matplotlib",
    OMP_NUM_THREADS="1",  # of the commands that tests start: there are as many workers as cores
)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports a kernel
torch.set_num_threads(1)  # the models of the tests are too small to share
settings.register_profile("no deadline", deadline=None)  # on a busy machine any example may take long
settings.load_profile("no deadline")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests of a file share, a corpus and its cache; each names a run of its own."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="session")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with Bahdanau's attention and random weights, which tests leave as it is."""
    from tests.small_translator import save_run

    return str(save_run(tmp_path_factory.mktemp("runs") / "bahdanau"))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command: exit code, standard output, standard error."""

    def call(main: Callable[[list[str]], int], *options: str | Path) -> tuple[int, str, str]:
        return main([*map(str, options)]), *capsys.readouterr()

    return call


@pytest.fixture
def refused(command: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Run a command that must end with an error and without output: what it says."""

    def call(main: Callable[[list[str]], int], *options: str | Path) -> str:
        code, out, err = command(main, *options)
        assert (code, out) == (2, "") and "Traceback" not in err
        return err

    return call


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Another number of threads, which some tests set, would round differently in the tests after them."""
    yield
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files whose slow tests take longest, by ``slow(seconds=N)``: no worker ends alone with one."""
    seconds = Counter[Path]()
    for item in items:
        for mark in item.iter_markers("slow"):
            seconds[item.path] += mark.kwargs.get("seconds", 5)
    items.sort(key=lambda item: -seconds[item.path])
