"""The table of docs/attention.md, from the runs of an experiment."""

from pathlib import Path

import pytest

from attention_table import BEGIN, END, between_markers, main
from nmt.errors import DataError
from nmt.experiments.plan import Plan
from nmt.experiments.results import run_facts
from nmt.files import read_json
from tests.test_experiments import plan_of, trained, write_experiment
from tests.test_scripts import cells

PAGE = f"# Title\n\n{BEGIN}\nold\n{END}\n\nafter\n"
SYSTEMS = {"bahdanau": {}, "none": {"model.attention": {"type": "none"}}, "later": {"model.encoder.hidden": 16}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    """An experiment with two finished runs and one that was stopped."""
    config = write_experiment(tmp_path_factory.mktemp("experiment"), SYSTEMS)
    plan = plan_of(config)
    for run in plan.runs[:2]:
        trained(run)
    trained(plan.runs[2], stop_after=2)
    return config, plan


def table_of(page: Path) -> list[dict[str, str]]:
    head, _, *rows = [cells(line) for line in page.read_text().splitlines() if line.startswith("|")]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_table_has_the_finished_runs(
    finished: tuple[Path, Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, plan = finished
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    arguments = ["--config", str(config), "--page", str(page)]
    assert main(arguments) == 0
    text = page.read_text()
    assert text.startswith("# Title\n") and text.endswith(f"{END}\n\nafter\n") and "old" not in text
    facts = table_of(page)
    assert [each["system"] for each in facts] == ["bahdanau", "none"] and "later" in text
    assert "AER" not in facts[0], "no run has links"
    assert facts[0]["p"] == "–" and 0 < float(facts[1]["p"]) <= 1
    for run, each in zip(plan.runs, facts, strict=False):
        found, kept = run_facts(run.path), read_json(run.path / "test.scores.json")
        assert each["BLEU"].startswith(f"{kept['BLEU']['score']:.2f} [")
        assert each["perplexity"] == f"{found['perplexity']:.2f}"
        assert each["parameters"] == f"{found['parameters'] / 1e6:.2f} M"
        assert kept["BLEU"]["signature"] in text
    assert main([*arguments, "--against", "nothing"]) == 2
    assert "--against nothing: " in capsys.readouterr().err


def test_no_table_without_a_finished_run(tmp_path: Path) -> None:
    config, page = write_experiment(tmp_path, SYSTEMS), tmp_path / "page.md"
    page.write_text(PAGE)
    assert main(["--config", str(config), "--page", str(page)]) == 2
    assert page.read_text() == PAGE


def test_the_speed_of_decoding_is_kept_beside_the_page(finished: tuple[Path, Plan], tmp_path: Path) -> None:
    config, page = finished[0], tmp_path / "page.md"
    page.write_text(PAGE)
    arguments = ["--config", str(config), "--page", str(page)]
    assert main([*arguments, "--decoding-speed"]) == 0
    kept = read_json(tmp_path / "figures/page.json")["decoding_speed"]
    assert main(arguments) == 0
    assert [row["sentences/s"] for row in table_of(page)] == [
        f"{kept[name]['rate']:.1f}" for name in ("bahdanau", "none")
    ]


@pytest.mark.parametrize("page", ["nothing", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"])
def test_a_page_has_the_markers_once(page: str) -> None:
    with pytest.raises(DataError, match=r"page\.md"):
        between_markers(page, "x", "page.md")


def test_the_page_of_the_package_has_the_markers() -> None:
    page = Path(__file__).parent.parent / "docs/attention.md"
    assert "table" in between_markers(page.read_text("utf-8"), "table", str(page))
