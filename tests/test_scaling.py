"""The model of the throughput, by hand; the link that is fitted to measured times; the scripts."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import measure_all_reduce
import throughput_model
from benchmarks.activations import kept_bytes
from benchmarks.scaling import (
    Link,
    Training,
    cache_bytes,
    checkpoint_bytes,
    efficiency,
    fit_link,
    memory,
    predict,
)
from nmt.config import load_config
from nmt.errors import DataError
from nmt.model import build_model
from nmt.model.cost import cost
from nmt.runs.directory import RunDirectory
from tests.models import TARGET, model_config
from tests.small_run import config, train
from tests.test_scripts import cells

ROOT = Path(__file__).parent.parent
LINK = Link(bandwidth=100, latency=0.5)
TRAINING = Training(rate=10, tokens=40, gradient=400, devices=2)
"""An update of one rank takes 4 seconds."""


# --- the model --------------------------------------------------------------------------------------------------------


def test_a_ring_sends_its_bytes_around_twice() -> None:
    """Four ranks: 2 · 3 messages of a quarter of 400 bytes, each 0.5 s + 100 / 100 s."""
    assert LINK.all_reduce(4, 400) == 6 * 1.5
    assert LINK.all_reduce(2, 400) == 2 * (0.5 + 2)
    assert LINK.all_reduce(1, 400) == 0
    assert LINK.all_reduce(4, 400, buckets=3) == 6 * (3 * 0.5 + 1), "each bucket has the latency, the bytes are shared"


def test_many_ranks_send_twice_the_bytes() -> None:
    assert Link(100, 0).all_reduce(10_000, 400) == pytest.approx(2 * 400 / 100, rel=1e-3)


def test_two_ranks_by_hand() -> None:
    """4 s of computation and 5 s of all-reduce for 80 tokens."""
    one, two = predict(TRAINING, LINK, 1), predict(TRAINING, LINK, 2)
    assert (one.seconds, one.rate, one.waiting) == (4, 10, 0)
    assert (two.computation, two.all_reduce, two.waiting, two.seconds) == (4, 5, 5, 9)
    assert two.rate == pytest.approx(80 / 9)
    assert efficiency(two, one) == pytest.approx(80 / 9 / 10 / 2)
    assert efficiency(one, one) == 1


def test_ranks_take_turns_at_devices() -> None:
    """Four ranks on two devices compute for twice as long, and a fast link then makes them as fast as two."""
    fast = Link(1e30, 0)
    assert [predict(TRAINING, fast, ranks).rate for ranks in (1, 2, 4, 6)] == pytest.approx([10, 20, 20, 20])


@pytest.mark.parametrize(("overlap", "waiting"), [(0, 5), (0.5, 3), (1, 1)])
def test_computation_hides_the_all_reduce(overlap: float, waiting: float) -> None:
    """Of 5 s, the share of 4 s that runs beside it."""
    training = Training(rate=10, tokens=40, gradient=400, devices=2, overlap=overlap)
    assert predict(training, LINK, 2).waiting == waiting
    assert predict(training, Link(1e30, 0), 2).waiting == pytest.approx(0), "never less than nothing"


def test_memory_and_disk_by_hand() -> None:
    """Per parameter 4 bytes of weight, 4 of gradient and 8 of moments; three checkpoints with moments."""
    assert memory(10, 5) == 165
    assert checkpoint_bytes(10, average=1) == 3 * 10 * 12 + 10 * 4
    assert checkpoint_bytes(10, average=5) == 3 * 10 * 12 + 6 * 10 * 4
    assert cache_bytes(pairs=2, source_pieces=3, target_pieces=4) == 2 * (4 * 7 + 8)


def test_a_run_keeps_what_is_predicted(tmp_path: Path) -> None:
    """``last``, ``previous``, ``best`` and two of which the mean is taken; the one being written is gone again."""
    configuration = config(tmp_path, updates=6, average=2, average_of="last", validation={"every": 2, "first": None})
    train(configuration)
    run = RunDirectory(tmp_path / "run")
    found = sum(path.stat().st_size for path in run.checkpoints.rglob("*.safetensors"))
    read = json.loads(run.data_report.read_text("utf-8"))["vocabulary"]
    parameters = sum(
        each.numel() for each in build_model(configuration.model, read["source"], read["target"]).parameters()
    )
    predicted = checkpoint_bytes(parameters, average=2) - 12 * parameters
    assert found == pytest.approx(predicted, rel=0.15), "headers and states of random generators come on top"


def test_what_is_kept_grows_with_the_sentence() -> None:
    """Nothing of it is a parameter; an output layer alone keeps more than its logits."""
    small = model_config("bahdanau")
    few, more = (kept_bytes(small, TARGET, 5, target) for target in (4, 8))
    assert 4 * 4 * TARGET < few < more < 2.5 * few


# --- the link ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4, 7])
def test_a_link_is_found_again(ranks: int) -> None:
    link, sizes = Link(bandwidth=3e9, latency=4e-5), [4**power for power in range(6, 14)]
    found = fit_link(ranks, sizes, [link.all_reduce(ranks, size) for size in sizes])
    assert (found.bandwidth, found.latency) == pytest.approx((3e9, 4e-5))


def test_a_latency_is_never_negative() -> None:
    """Times that grow faster than the bytes: a line through the origin, by least squares of the relative error."""
    found = fit_link(2, [1, 10], [1, 20])
    slope = (1 / 1 + 10 / 20) / ((1 / 1) ** 2 + (10 / 20) ** 2)
    assert found.latency == 0
    assert found.all_reduce(2, 10) == pytest.approx(10 * slope)


def test_gloo_is_measured() -> None:
    seconds = measure_all_reduce.measure(2, sizes=(1024, 65536), repeats=2)
    assert len(seconds) == 2 and all(0 < each < 60 for each in seconds)


def test_a_rank_that_fails_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="of 2 failed; its traceback is above"):
        measure_all_reduce.measure(2, sizes=(-8,))
    assert "Traceback" in capfd.readouterr().err


# --- the script -------------------------------------------------------------------------------------------------------

MULTI30K = ["--config", str(ROOT / "configs/multi30k.yaml")]
FREE = ["--bandwidth", "1e30", "--latency", "0"]
"""A link that costs nothing."""


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[list[dict[str, str]], str]:
    """The table that the script prints, and the text below it."""
    code = throughput_model.main([*MULTI30K, *options])
    told = capsys.readouterr()
    assert code == 0, told.err
    lines, _, text = told.out.partition("\n\n")
    head, _, *rows = map(cells, lines.splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows], text


def test_the_table_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """1,000 tokens/s a rank, 36 M tokens: 10 hours on one of two devices, 5 on both, whatever the ranks."""
    amounts = ["--pairs", "1.2e6", "--target-pieces", "15", "--epochs", "2", "--price", "3", "--devices", "2"]
    table, text = printed(capsys, "--rate", "1000", "--ranks", "1", "2", "4", *amounts, *FREE)
    assert [row["target tokens/s"] for row in table] == ["1,000", "2,000", "2,000"]
    assert [(row["hours"], row["price"], row["efficiency"]) for row in table] == [
        ("10.0", "30", "1.00"),
        ("5.0", "30", "1.00"),
        ("5.0", "30", "0.50"),
    ]
    assert table[0]["ms an update"] == f"{2000 * 0.85:,.1f}", "batch_tokens 2000, of which 0.85 are target tokens"
    assert "1,000 target tokens/s, measured" in text


def test_gradients_in_fp32_have_twice_the_bytes_between_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    link = ["--rate", "1000", "--ranks", "2", "--bandwidth", "1e6", "--latency", "0"]
    [narrow], [wide] = (printed(capsys, *link, "--set", f"precision={precision}")[0] for precision in ("bf16", "fp32"))
    times = [float(row["all-reduce, ms"].replace(",", "")) for row in (narrow, wide)]
    assert times[1] == pytest.approx(2 * times[0], rel=1e-3)


def test_an_assumed_rate_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    read = load_config(ROOT / "configs/multi30k.yaml")
    work = cost(read.model, 5000).training_flops(1, 20, 10, 200, 400, 55) / 10
    options = ["--flops", "1e12", "--share", "0.25", "--source-pieces", "20", "--target-pieces", "10", "--ranks", "1"]
    table, text = printed(capsys, *options)
    assert table[0]["target tokens/s"] == f"{0.25e12 / work:,.0f}" and "hours" not in table[0]
    assert "assumed to be 0.25 of the peak, not measured" in text


def write_points(folder: Path, points: Any) -> str:
    path = folder / "points.json"
    path.write_text(json.dumps({"tokens_per_rank": 1500, "points": points}))
    return str(path)


def test_measured_points_stand_beside_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_points(tmp_path, [{"ranks": n, "tokens_per_second": rate} for n, rate in ((1, 3000), (2, 5000))])
    options = ["--points", path, "--figure", str(tmp_path / "figures/throughput.png"), "--ranks", "1", "2", "4"]
    table, _ = printed(capsys, *options, *FREE, "--devices", "2")
    assert [row["target tokens/s"] for row in table] == ["3,000", "6,000", "6,000"]
    assert [row["measured tokens/s"] for row in table] == ["3,000", "5,000", "–"]
    assert table[0]["ms an update"] == "500.0"
    assert (tmp_path / "figures/throughput.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file; measure training on 1 rank and more first"),
        ("{}", 'must have the form {"tokens_per_rank": 1234.5, "points": [{"ranks": 1, "tokens_per_second"'),
        ('{"tokens_per_rank": 5, "points": []}', "has no point of 1 rank"),
        ('{"tokens_per_rank": 5, "points": [{"ranks": 2, "tokens_per_second": 5}]}', "has no point of 1 rank"),
    ],
)
def test_without_points_there_is_no_figure(
    content: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "points.json"
    if content is not None:
        path.write_text(content)
    assert throughput_model.main([*MULTI30K, "--points", str(path), "--figure", str(tmp_path / "new")]) == 2
    assert f"{path}: {problem}" in capsys.readouterr().err
    assert not (tmp_path / "new.png").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "the rate of one rank: give one of --rate, --points, or --flops with --share"),
        (["--rate", "5", "--share", "0.5"], "the rate of one rank: give one of"),
        (["--share", "0.5"], "--flops and --share: give both"),
        (["--rate", "5", "--figure", "x"], "--figure: needs measured points; give --points FILE"),
        (["--rate", "5", "--price", "1"], "--price: has no effect without --pairs"),
        (["--rate", "5", "--set", "tokenizer.vocabulary=null"], "--vocabulary is missing"),
    ],
)
def test_options_that_say_too_little_or_too_much(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert throughput_model.main([*MULTI30K, *options]) == 2
    assert problem in capsys.readouterr().err


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_what_its_commands_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The predictions of docs/scaling.md; memory is left out, because large networks take seconds to build."""
    monkeypatch.setattr(throughput_model, "kept_bytes", lambda *_: 0.0)
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/scaling.md").read_text("utf-8")
    examples = re.findall(r"```sh\npython scripts/throughput_model\.py (.*?)```\n\n(\|.*?)\n\n", page, re.DOTALL)
    assert len(examples) == 4
    for command, table in examples:
        assert throughput_model.main(shlex.split(command.replace("\\\n", " "))) == 0
        assert capsys.readouterr().out.startswith(f"{table}\n\n")
