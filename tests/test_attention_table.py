"""The table of docs/attention.md, from the runs of an experiment."""

import json
from pathlib import Path

import pytest
import torch

import decoding_speed
from attention_table import AER, BEGIN, END, HARD, MARK, between_markers, main, multiply_adds
from nmt.config import dump_config
from nmt.errors import DataError
from nmt.experiments.plan import Plan
from nmt.experiments.results import run_facts
from nmt.experiments.runs import Run
from nmt.files import read_json
from nmt.model.cost import cost
from tests.test_experiments import plan_of, trained, write_experiment
from tests.test_scripts import cells

PAGE = f"# Title\n\n{BEGIN}\nold\n{END}\n\nafter\n"
SYSTEMS = {"bahdanau": {}, "none": {"model.attention": {"type": "none"}}, "later": {"model.encoder.hidden": 16}}


def test_the_table_has_the_finished_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, page = write_experiment(tmp_path, SYSTEMS), tmp_path / "page.md"
    page.write_text(PAGE)
    arguments = ["--config", str(config), "--page", str(page)]
    assert main(arguments) == 2
    assert "no run is finished yet" in capsys.readouterr().err and page.read_text() == PAGE

    plan = plan_of(config)
    for run in plan.runs[:2]:
        trained(run)
    trained(plan.runs[2], stop_after=2)
    assert main(arguments) == 0
    text = page.read_text()
    assert text.startswith("# Title\n") and text.endswith(f"{END}\n\nafter\n") and "old" not in text
    head, _, *rows = [cells(line) for line in text.splitlines() if line.startswith("|")]
    facts = [dict(zip(head, row, strict=True)) for row in rows]
    assert [each["system"] for each in facts] == ["bahdanau", "none"] and "Not finished yet: later." in " ".join(
        text.split()
    )
    assert not {"sentences/s", "AER"} & set(head) and MARK not in text, "nothing is known of them"
    assert facts[0]["p"] == "–" and 0 < float(facts[1]["p"]) <= 1
    for run, each in zip(plan.runs, facts, strict=False):
        found, kept = run_facts(run.path), read_json(run.path / "test.scores.json")
        assert each["BLEU"].startswith(f"{kept['BLEU']['score']:.2f} [")
        assert each["perplexity"] == f"{found['perplexity']:.2f}"
        assert each["parameters"] == f"{found['parameters'] / 1e6:.2f} M"
        assert kept["BLEU"]["signature"] in text
    assert main([*arguments, "--against", "nothing"]) == 2
    assert "--against nothing: no such system; choose one of: bahdanau, none, later" in capsys.readouterr().err


def table_of(page: Path) -> list[dict[str, str]]:
    head, _, *rows = [cells(line) for line in page.read_text().splitlines() if line.startswith("|")]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_column_is_there_if_any_system_has_a_value_of_it(tmp_path: Path) -> None:
    """AER is the mean of the seeds; no attention has none. Hard attention has a mark at its perplexity."""
    hard = {"type": "luong", "score": "general", "input_feeding": False, "hard": {"type": "marginal"}}
    systems = {"hard": {"model.attention": hard}, "none": SYSTEMS["none"]}
    config, page, links = write_experiment(tmp_path, systems, seeds=[1, 2]), tmp_path / "page.md", tmp_path / "links"
    links.write_text("0-0\n" * 20)
    gold = {"source": str(tmp_path / "test.low"), "target": str(tmp_path / "test.up"), "links": str(links)}
    page.write_text(PAGE)
    plan = plan_of(config, f"evaluation.gold={json.dumps(gold)}")
    for run in plan.runs:
        trained(run)
    (tmp_path / "base.yaml").write_text(dump_config(plan.runs[0].config))
    assert main(["--config", str(config), "--page", str(page), "--against", "hard"]) == 0
    attending, none = table_of(page)
    rates = [run_facts(run.path)["aer"] for run in plan.runs[:2]]
    assert (attending["AER"], none["AER"], attending["seeds"]) == (f"{sum(rates) / 2:.3f}", "–", "2")
    assert attending["perplexity"].endswith(MARK) and not none["perplexity"].endswith(MARK)
    text = " ".join(page.read_text().split())
    assert HARD in text and AER in text and "Sentences/s" not in text


def test_decoding_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement is kept until the weights are others, and the table is written with it."""
    config, page = write_experiment(tmp_path, {"bahdanau": {}, "none": SYSTEMS["none"]}), tmp_path / "page.md"
    page.write_text(PAGE)
    plan = plan_of(config)
    trained(plan.runs[0])
    threads = torch.get_num_threads()
    arguments = ["--config", str(config), "--page", str(page)]
    assert main([*arguments, "--decoding-speed"]) == 0
    assert torch.get_num_threads() == threads
    kept = read_json(plan.output / "decoding_speed.json")["bahdanau"]
    assert kept["sentences"] == 20 and kept["beam_size"] == plan.runs[0].config.decoding.beam_size
    expected = f"{20 / kept['seconds']:.1f}"
    assert [each["sentences/s"] for each in table_of(page)] == [expected]

    trained(plan.runs[1])
    measured: list[str] = []
    of_other_weights = decoding_speed.DecodingSpeed(**kept)

    def measure(_plan: Plan, run: Run, _test: str) -> decoding_speed.DecodingSpeed:
        measured.append(run.label)
        return of_other_weights

    monkeypatch.setattr(decoding_speed, "_measure", measure)
    assert main([*arguments, "--decoding-speed"]) == 0
    assert measured == ["none"]
    assert main(arguments) == 0
    assert [each["sentences/s"] for each in table_of(page)] == [expected, "–"]
    about = read_json(tmp_path / "figures/page.json")
    assert about["decoding_speed"]["bahdanau"]["machine"] == kept["machine"] and "bahdanau" in about["runs"]


def test_multiply_adds_of_a_target_token(tmp_path: Path) -> None:
    """Those of a whole mean pair, without the encoder's, divided by its target tokens."""
    [run] = plan_of(write_experiment(tmp_path, {"bahdanau": {}})).runs
    trained(run)
    train = read_json(run.path / "data_report.json")
    side = train["splits"]["train"]
    source, target = (side[name]["pieces"] / side["kept"] for name in ("source", "target"))
    each = cost(run.config.model, train["vocabulary"]["target"])
    pair = each.sentence + each.target_token * target + each.pair * source * target
    assert multiply_adds(run.config, run.path) == f"{pair / target / 1e6:.2f} M"


@pytest.mark.parametrize("page", ["nothing", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"])
def test_a_page_has_the_markers_once(page: str) -> None:
    with pytest.raises(DataError, match="once each and in this order"):
        between_markers(page, "x", "page.md")


def test_the_page_of_the_package_has_the_markers() -> None:
    page = Path(__file__).parent.parent / "docs/attention.md"
    assert "table" in between_markers(page.read_text("utf-8"), "table", str(page))
