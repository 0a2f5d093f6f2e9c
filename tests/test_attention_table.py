"""The table of docs/attention.md, from the runs of an experiment."""

from pathlib import Path

import pytest

from attention_table import BEGIN, END, between_markers, main, multiply_adds
from nmt.errors import DataError
from nmt.experiments import scores
from nmt.experiments.results import results, run_facts
from nmt.foundation.files import read_json
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
    assert facts[0]["p"] == "–" and 0 < float(facts[1]["p"]) <= 1
    for run, each in zip(plan.runs, facts, strict=False):
        found, kept = run_facts(run.path), read_json(run.path / "test.scores.json")
        assert each["BLEU"].startswith(f"{kept['BLEU']['score']:.2f} [")
        assert each["perplexity"] == f"{found['perplexity']:.2f}"
        assert each["parameters"] == f"{found['parameters'] / 1e6:.2f} M"
        assert kept["BLEU"]["signature"] in text
    assert main([*arguments, "--against", "nothing"]) == 2
    assert "--against nothing: no such system; choose one of: bahdanau, none, later" in capsys.readouterr().err


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


@pytest.mark.parametrize("page", ["nothing", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"])
def test_a_page_has_the_markers_once(page: str) -> None:
    with pytest.raises(DataError, match="once each and in this order"):
        between_markers(page, "x", "page.md")


def test_writing_twice_changes_nothing() -> None:
    once = between_markers(PAGE, "table", "page.md")
    assert between_markers(once, "table", "page.md") == once


def test_the_page_of_the_package_has_the_markers() -> None:
    page = Path(__file__).parent.parent / "docs/attention.md"
    assert "table" in between_markers(page.read_text("utf-8"), "table", str(page))


def test_the_experiment_and_the_table_agree(tmp_path: Path) -> None:
    """``results.csv`` has the same BLEU."""
    config, page = write_experiment(tmp_path, {"bahdanau": {}}), tmp_path / "page.md"
    page.write_text(PAGE)
    plan = plan_of(config)
    trained(plan.runs[0])
    scores.score(plan, plan.runs[0], "test")
    [row] = results(plan)
    assert main(["--config", str(config), "--page", str(page)]) == 0
    assert f"{row['bleu']:.2f} [{row['bleu_low']:.2f}, {row['bleu_high']:.2f}]" in page.read_text()
