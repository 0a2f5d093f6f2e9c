"""The benchmark measures what it says; how fast that is, is not tested."""

import json
import mmap
from pathlib import Path

import pytest
import torch

from benchmarks.measuring import peak_memory
from benchmarks.profiling import measure_profile
from benchmarks.systems import VARIANTS, VOCABULARY, reference, variant_name
from benchmarks.training import Case
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
