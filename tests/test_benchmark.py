"""The benchmark measures what it says; how fast that is, is not tested."""

import json
import mmap
from pathlib import Path

import pytest
import torch

from benchmarks.measuring import peak_memory
from benchmarks.systems import VARIANTS, reference, variant_name
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


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ["--shape", "64x15"],
            "--shape 64x15: must be sentences x source pieces x target pieces, each at least 1, like 64x15x14",
        ),
        (["--decode", "runs/none"], "--decode needs --input, a file to translate"),
        (["--set", "seed=2"], "--set: is not for single steps"),
        (["--config", "a.yaml", "--beam-size", "1"], "--beam-size: is not for --config"),
        (
            ["--json", "no/such/folder/rows.json"],
            "no/such/folder/rows.json: cannot be written: No such file or directory",
        ),
        (["--config", "a.yaml", "--decode", "runs/none"], "--decode: is not for --config"),
        (["--repeats", "0"], "argument --repeats: found '0'"),
        (["--decode", "x", "--input", "pyproject.toml", "--reference", "LICENSE"], "pyproject.toml has "),
        (["--precision", "int8"], "--precision int8: is for --decode only; training is in bf16 or fp32"),
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
