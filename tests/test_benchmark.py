"""The benchmark measures what it says; how fast that is, is not tested."""

import json
import mmap
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import torch

from benchmarks.measuring import peak_memory
from benchmarks.neighbor import measure_beside, neighbor
from benchmarks.profiling import measure_profile
from benchmarks.systems import FAST, PLAIN, USUAL, VARIANTS, VOCABULARY, reference, variant_name
from benchmarks.training import Case, reference_step
from nmt.config import schema
from nmt.cores import cores
from nmt.fast.recurrent import reads_by_kernels
from nmt.fast.teacher_forcing import unroll_of
from nmt.model import build_model
from nmt.model.cost import cost
from tests.small_run import config, train
from tests.test_scripts import cells, script

KEYS = {
    "variant",
    "precision",
    "device",
    "shape",
    "target_tokens_per_second",
    "flops_per_second",
    "product_flops_per_second",
    "share",
    "peak_memory_bytes",
}


@pytest.mark.slow
def test_a_row_holds_what_others_read_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.json"
    options = ["--variant", "none", "--precision", "fp32", "--shape", "2x3x4", "--repeats", "1", "--json", str(rows)]
    assert script("benchmark").main(options) == 0
    header, _, printed = capsys.readouterr().out.splitlines()[-3:]
    (row,) = json.loads(rows.read_text("utf-8"))
    assert row.keys() >= KEYS
    assert (row["variant"], row["precision"], row["device"], row["shape"]) == ("none", "fp32", "cpu", "2 x 3 -> 4")
    assert row["share"] == pytest.approx(row["flops_per_second"] / row["product_flops_per_second"])
    assert row["target_tokens_per_second"] == pytest.approx(8 / row["milliseconds_per_step"] * 1e3)
    assert row["peak_memory_bytes"] > 0
    assert dict(zip(cells(header), cells(printed), strict=True))["share"] == f"{row['share']:.2f}"


@pytest.mark.slow
def test_training_and_decoding_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config(tmp_path, "bahdanau", "run", updates=2)
    train(settings)
    capsys.readouterr()
    main = script("benchmark").main
    rows = tmp_path / "rows.json"
    path = tmp_path / "run" / "config.yaml"
    assert main(["--config", str(path), "--updates", "3", "--set", "seed=2", "--json", str(rows)]) == 0
    (row,) = json.loads(rows.read_text("utf-8"))
    assert 0 <= row["padding"] < 1
    source = tmp_path / "lines"
    source.write_text("a b\n\nc\n", "utf-8")
    options = ["--decode", str(tmp_path / "run"), "--input", str(source), "--repeats", "1", "--beam-size", "2"]
    assert main([*options, "--precision", "fp32", "--json", str(rows)]) == 0
    plain, fast = json.loads(rows.read_text("utf-8"))
    assert plain["hypotheses"] == fast["hypotheses"] and len(fast["hypotheses"]) == 3


@pytest.mark.slow
def test_a_profile_has_the_products_of_a_step() -> None:
    """As many as nmt/model/cost.py counts."""
    large, products, *others, step = measure_profile(Case("bahdanau", "auto", "fp32", "cpu", (4, 6, 5), 2))
    assert large.flops_per_second and products.flops_per_second
    counted = large.milliseconds * large.flops_per_second / 1e3
    assert counted == pytest.approx(products.milliseconds * products.flops_per_second / 1e3)
    parts = cost(reference("bahdanau"), VOCABULARY)
    assert counted == pytest.approx(parts.training_flops(4, 24, 20, 120, 144, 60), rel=0.02)
    assert products.calls > 6 * 6
    times = [spent.milliseconds for spent in others[:-2]]
    assert times == sorted(times, reverse=True)
    assert products.milliseconds + sum(spent.milliseconds for spent in others) == pytest.approx(step.milliseconds)


@pytest.mark.slow
def test_a_step_is_measured_beside_a_busy_program_that_ends(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    options = ["--neighbor", "--variant", "none", "--precision", "fp32", "--shape", "2x3x4", "--repeats", "1"]
    options += ["--ranks", "2"]
    assert script("benchmark").main([*options, "--json", str(rows)]) == 0
    (row,) = json.loads(rows.read_text("utf-8"))
    assert row["processes"] == 2
    assert row["target_tokens_per_second"] > 0 and row["beside_tokens_per_second"] > 0


def test_steps_are_timed_alone_while_the_neighbor_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In alternation, the first three steps of each left out; the median alone, the mean beside the program."""

    class Fake:
        """Makes a step take three times as long while it works."""

        working = False

        def pause(self) -> None:
            self.working = False

        def work(self) -> None:
            self.working = True

    fake, rounds = Fake(), list[bool]()

    def timed(step: object, device: torch.device) -> float:
        rounds.append(fake.working)
        first, last = len(rounds) <= 6, len(rounds) in (9, 12)
        return 100.0 if first else (3.0 if fake.working else 1.0) * (4 if last else 1)

    monkeypatch.setattr("benchmarks.neighbor.neighbor", lambda: nullcontext(fake))
    monkeypatch.setattr("benchmarks.neighbor.reference_step", lambda case, world: None)
    monkeypatch.setattr("benchmarks.neighbor.keep_freed_memory", lambda: None)
    monkeypatch.setattr("benchmarks.neighbor.timed", timed)
    row = measure_beside(Case("none", "auto", "fp32", "cpu", (2, 5, 6), 1), None)
    assert rounds == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 3
    assert row.target_tokens_per_second == 12 / 1.0
    assert row.beside_tokens_per_second == 12 / 6.0
    assert (row.processes, row.shape) == (1, "2 x 5 -> 6")


def test_the_neighbor_works_only_when_it_is_told_and_ends_with_the_block() -> None:
    def states() -> list[str]:
        """Of each process of the neighbor, by its group."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                state, _, group, *_ = path.read_text().rpartition(")")[2].split()
                found += [state] if int(group) == busy.group else []
        return found

    with neighbor() as busy:
        until(lambda: set(states()) == {"T"})
        busy.work()
        until(lambda: len(states()) == cores() and "T" not in states())
        busy.pause()
        until(lambda: states() == ["T"] * cores())
        busy.work()
    until(lambda: set(states()) <= {"Z"})  # ended; nobody may have asked for their exit status yet


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that comes soon. Signals take a moment."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ["--shape", "64x15"],
            "--shape 64x15: must be sentences x source pieces x target pieces, each at least 1, like 64x15x14",
        ),
        (["--decode", "runs/none"], "--decode needs --input, a file to translate"),
        (["--set", "seed=2"], "--set: is for --config, not for single steps"),
        (
            ["--config", "a.yaml", "--shape", "2x3x4", "--beam-size", "1"],
            "--shape: is for single steps or --parts or --profile or --neighbor, not for --config",
        ),
        (["--config", "a.yaml", "--beam-size", "1"], "--beam-size: is for --decode, not for --config"),
        (
            ["--decode", "runs/none", "--input", "x", "--precision", "int8", "--kernels", "plain"],
            "leave --kernels plain out",
        ),
        (
            ["--json", "no/such/folder/rows.json"],
            "no/such/folder/rows.json: cannot be written: No such file or directory",
        ),
        (["--config", "a.yaml", "--decode", "runs/none"], "--decode: cannot be combined with --config; give one"),
        (["--repeats", "0"], "argument --repeats: '0'"),
        (["--decode", "x", "--input", "pyproject.toml", "--reference", "LICENSE"], "pyproject.toml has "),
        (["--precision", "int8"], "--precision int8: is for --decode only; training is in bf16 or fp32"),
        (["--ranks", "2"], "--ranks: is for --neighbor, not for single steps"),
        (
            ["--neighbor", "--ranks", "2", "--shape", "4x3x4", "--shape", "5x3x4"],
            "--ranks 2: must divide the 5 sentences of a step",
        ),
    ],
)
def test_wrong_options_are_explained_before_anything_is_printed(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script("benchmark").main(options) == 2
    out, err = capsys.readouterr()
    assert problem in err and out == ""


def test_variants_are_named_as_in_the_table() -> None:
    assert {name: variant_name(reference(name)) for name in VARIANTS} == {name: name for name in VARIANTS}


def test_groups_are_of_systems_with_and_without_twins() -> None:
    small = {"encoder": {"hidden": 8}, "decoder": {"hidden": 16, "readout": 8}}
    for name in {**USUAL, **FAST, **PLAIN}:
        sections = reference(name).model_dump()
        if name != "transformer":
            sections |= {part: sections[part] | sizes for part, sizes in small.items()}
        model = build_model(schema.Model.model_validate(sections), 9, 9)
        twins = reads_by_kernels(model.encoder) and unroll_of(model.decoder) is not None
        # at once, but with an objective of its own
        assert (twins or name == "transformer") == (name in USUAL | FAST or name == "hard"), name


@pytest.mark.slow
def test_a_step_runs_with_the_objective_of_the_system() -> None:
    reference_step(Case("hard-reinforce", "auto", "fp32", "cpu", (2, 3, 2), 1))()


def test_peak_memory_is_what_was_held_in_between() -> None:
    def hold(size: int) -> None:
        with mmap.mmap(-1, size) as fresh:  # no memory that was freed before
            for page in range(0, len(fresh), mmap.PAGESIZE):
                fresh[page] = 1

    found: list[int | None] = []
    hold(400 << 20)  # an earlier peak is not that of the block
    with peak_memory(torch.device("cpu"), found):
        hold(64 << 20)
    assert found[0] is not None and 60 << 20 < found[0] < 200 << 20
