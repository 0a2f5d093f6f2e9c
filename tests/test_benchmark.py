"""The benchmark measures what it says; how fast that is, is not tested."""

import json
from pathlib import Path

import pytest

import benchmark
from benchmarks.cost import Cost, cost
from tests.models import TARGET, model_config
from tests.small_run import config, train


@pytest.mark.slow
def test_a_row_holds_what_others_read_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.json"
    options = ["--variant", "none", "--precision", "fp32", "--shape", "2x3x4", "--repeats", "1", "--json", str(rows)]
    assert benchmark.main(options) == 0
    (row,) = json.loads(rows.read_text("utf-8"))
    assert (row["variant"], row["precision"], row["device"], row["shape"]) == ("none", "fp32", "cpu", "2 x 3 -> 4")
    assert row["share"] == pytest.approx(row["flops_per_second"] / row["product_flops_per_second"])
    assert row["target_tokens_per_second"] == pytest.approx(8 / row["milliseconds_per_step"] * 1e3)
    assert row["peak_memory_bytes"] > 0
    header, _, printed = (line.strip("|").split("|") for line in capsys.readouterr().out.splitlines()[-3:])
    assert printed[[cell.strip() for cell in header].index("share")].strip() == f"{row['share']:.2f}"


@pytest.mark.slow
def test_training_and_decoding_of_a_run(tmp_path: Path) -> None:
    train(config(tmp_path, updates=2))
    rows, run, source = tmp_path / "rows.json", tmp_path / "run", tmp_path / "lines"
    options = ["--config", str(run / "config.yaml"), "--updates", "3", "--set", "seed=2", "--json", str(rows)]
    assert benchmark.main(options) == 0
    (row,) = json.loads(rows.read_text("utf-8"))
    assert 0 <= row["padding"] < 1
    source.write_text("a b\n\nc\n", "utf-8")
    options = ["--decode", str(run), "--input", str(source), "--repeats", "1", "--beam-size", "2"]
    assert benchmark.main([*options, "--precision", "fp32", "--json", str(rows)]) == 0
    plain, fast = json.loads(rows.read_text("utf-8"))
    assert plain["hypotheses"] == fast["hypotheses"] and len(fast["hypotheses"]) == 3


# --- the work of a network, counted by hand from the papers' equations ------------------------------------------------

E, H, R, V = 5, 8, 5, TARGET
"""Embedding, decoder, readout, target vocabulary; one direction of the encoder has 4 units, so annotations have H."""
ENCODER = 2 * 3 * 4 * (E + 4)
BY_HAND = {
    "none": Cost(4 * H + 3 * H * H + 2 * R * H, ENCODER, 3 * H * (E + H) + 2 * R * (H + E) + R * V),
    "bahdanau": Cost(4 * H, ENCODER + 7 * H, 3 * H * (E + 2 * H) + 7 * H + 2 * R * (E + 2 * H) + R * V, 7 + H),
    "luong general": Cost(4 * H, ENCODER + H * H, 3 * H * (E + H + R) + R * 2 * H + R * V, 2 * H),
    "hard": Cost(4 * H, ENCODER + H * H + R * H, 3 * H * (E + H) + R * H, H + R * V),
    "transformer": Cost(
        0,
        3 * (4 * 8 * 8 + 2 * 8 * 6 + 2 * 8 * 8),
        3 * (4 * 8 * 8 + 2 * 8 * 8 + 2 * 8 * 6) + 8 * V,
        pair=3 * 2 * 8,
        source_pair=3 * 2 * 8,
        target_pair=3 * 2 * 8,
    ),
}


@pytest.mark.parametrize("variant", BY_HAND)
def test_it_is_what_the_equations_multiply(variant: str) -> None:
    assert cost(model_config(variant), V) == BY_HAND[variant]


def test_each_kind_of_pair_is_counted() -> None:
    """Sentences of 5 and 2 source tokens, and of 4 and 1 target tokens."""
    assert Cost(source_pair=2, target_pair=3).training_flops([5, 2], [4, 1]) == 6 * (2 * (25 + 4) + 3 * (10 + 1))
    assert Cost(1, 2, 3, pair=4).training_flops([5, 2], [4, 1]) == 6 * (2 + 2 * 7 + 3 * 5 + 4 * (20 + 2))
