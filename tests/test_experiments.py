"""Experiments: what is wrong with one, its plan, what is left to do for a run, runs side by side."""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from nmt.cli.experiment import main
from nmt.config import dump_config, load_config, load_run_config
from nmt.errors import ConfigError
from nmt.evaluation.alignment import read_gold
from nmt.evaluation.by_length import UNTRAINED
from nmt.experiments.evaluation import score_alignment
from nmt.experiments.plan import Plan, Run, load_experiment, make_plan
from nmt.experiments.results import _cells, draw_all, is_translated, translate_all
from nmt.experiments.running import remaining, remaining_runs, run_jobs, with_precision
from nmt.messages import silent
from nmt.pages.report.collecting import collect
from nmt.runs.directory import RunDirectory, read_manifest
from tests.comparison import snapshot
from tests.small_run import config, train
from tests.test_corpus import problems_of

SYSTEMS: dict[str, Any] = {"none": {"model.attention": {"type": "none"}}, "bahdanau": {}}


def write_experiment(
    folder: Path, systems: dict[str, Any] = SYSTEMS, training: Mapping[str, Any] = MappingProxyType({}), **sections: Any
) -> Path:
    """An experiment on the tiny task, and its base configuration."""
    base = folder / "base.yaml"
    base.write_text(dump_config(config(folder, **training)), "utf-8")
    values = {"base": str(base), "output": str(folder / "out"), "systems": systems, **sections}
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
    return path


def plan_of(path: Path, *settings: str) -> Plan:
    return make_plan(load_experiment(path), str(path), settings)


# --- the schema -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"outptu": "x"}, "outptu: unknown key; nearest: output"),
        ({"jobs": "two"}, "jobs: found 'two'"),
        ({"seeds": [1, 1]}, "seeds: a seed is given twice: [1, 1]"),
        ({"systems": {"a": 3}}, "systems.a: found 3"),
        ({"systems": {"a/b": {}}}, "systems: 'a/b' "),
        ({"systems": {"tests": {}}}, "systems: 'tests' "),
        ({"tests": {"t": {"source": "a"}}}, "tests.t.reference: missing"),
        ({"bins": [10]}, "bins: unknown key; there is tests.NAME.bins"),
        (
            {"tests": {"t": {"source": "a", "reference": "b", "draw": ["curv"]}}},
            "tests.t.draw[0]: 'curv' is not one of curve, diagnosis; nearest: curve",
        ),
    ],
)
def test_what_is_wrong_with_an_experiment(sections: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = write_experiment(tmp_path, **{"systems": SYSTEMS, **sections})
    problems = problems_of(ConfigError, load_experiment, path)
    assert any(each.startswith(f"{path}: {problem}") for each in problems), problems


def test_what_is_wrong_with_systems_is_reported_with_the_system_and_with_the_base_once(tmp_path: Path) -> None:
    typing = {"training.upd": 5, "traning.updates": 3}
    systems = {"type-alone": {"model.attention.type": "none"}, "typing": typing, "seeded": {"seed": 5}, "fine": {}}
    path = write_experiment(tmp_path, systems, seeds=[1])
    *others, two, three, four = problems_of(ConfigError, plan_of, path)
    assert others[0].startswith(f"{path}: systems.type-alone: model.attention.")
    for one in others:
        assert one.startswith(f"{path}: systems.type-alone: model.attention.")
        assert one.endswith("""to replace the whole section: 'model.attention: {type: "none"}'""")
    assert two == f"{path}: systems.typing: training.upd: unknown key; nearest: updates"
    assert three == f"{path}: systems.typing: traning: unknown key; nearest: training"
    assert four == f"{path}: systems.seeded: seed: the experiment decides it; leave it out"
    (tmp_path / "base.yaml").write_text("sead: 1\n")
    problems = problems_of(ConfigError, plan_of, path)
    assert f"{tmp_path / 'base.yaml'}: sead: unknown key; nearest: seed" in problems
    assert len(set(problems)) == len(problems)


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_a_difference_replaces_its_section_and_leaves_everything_else(tmp_path: Path) -> None:
    plan = plan_of(write_experiment(tmp_path, {**SYSTEMS, "short": {"training.updates": 2}}))
    base = config(tmp_path).model_dump()
    none, bahdanau, short = (run.config.model_dump() for run in plan.runs)
    assert none["model"]["attention"] == {"type": "none", "context": "every_step"}
    assert none | {"model": base["model"], "output": None} == base | {"output": None}
    assert bahdanau | {"output": None} == base | {"output": None}
    assert short["training"] == base["training"] | {"updates": 2}
    for run in plan.runs:  # nmt-train gets the settings
        assert load_config(plan.base, run.settings).model_copy(update={"output": str(run.path)}) == run.config


def test_runs_lie_by_system_or_by_system_and_seed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = plan_of(write_experiment(tmp_path))
    assert {run.label: run.path for run in plan.runs} == {"none": out / "none", "bahdanau": out / "bahdanau"}
    seeds = plan_of(write_experiment(tmp_path, seeds=[1, 7]))
    assert [run.label for run in seeds.runs] == ["none:1", "none:7", "bahdanau:1", "bahdanau:7"]
    assert seeds.runs[1].path == out / "none" / "seed-7" and seeds.runs[1].config.seed == 7
    assert (*seeds.runs_of("none"),) == seeds.select(["none"]) == seeds.runs[:2]
    assert seeds.select(["none:7", "bahdanau:1"]) == seeds.runs[1:3]
    with pytest.raises(ConfigError, match="--only none:3: no such system or NAME:SEED; choose one of: none, none:1"):
        seeds.select(["none:3"])


def test_where_test_sets_are_translated(tmp_path: Path) -> None:
    """The test set of the base, which is the default, by training; others outside of the runs."""
    path = write_experiment(tmp_path)
    plan = plan_of(path)
    assert plan.tests["test"].source == str(tmp_path / "test.low") and plan.tests["test"].bins == (2,)
    assert plan.translated_in_training(plan.runs[0], "test")
    assert plan.translations(plan.runs[0], "test") == tmp_path / "out/none/test.hypotheses.txt"
    assert (plan.curve("test").name, plan.diagnosis("test").name) == ("length_curve", "diagnosis")
    with pytest.raises(ConfigError, match=r"tests: missing, and data.test of .*base.yaml is not two whole files"):
        plan_of(path, "data.test=null")
    other = {"source": str(tmp_path / "test.low"), "reference": str(tmp_path / "test.low"), "bins": [3, 4]}
    plan = plan_of(write_experiment(tmp_path, tests={"other": other}, seeds=[2]))
    assert not plan.translated_in_training(plan.runs[0], "other") and plan.tests["other"].bins == (3, 4)
    assert plan.translations(plan.runs[0], "other") == tmp_path / "out/tests/other/none.seed-2.txt"
    assert (plan.curve("other").name, plan.diagnosis("other").name) == ("other", "other.why")


def test_settings_come_last_and_leave_what_the_experiment_decides(tmp_path: Path) -> None:
    path = write_experiment(tmp_path, {"short": {"training.updates": 2}})
    assert plan_of(path, "training.updates=3", "seed=5").runs[0].config.training.updates == 3
    with pytest.raises(ConfigError, match="each run has a directory of its own; use --output DIR"):
        plan_of(path, "output=x")
    with pytest.raises(ConfigError, match="the experiment lists its seeds"):
        plan_of(write_experiment(tmp_path, seeds=[1]), "seed=2")


@pytest.fixture(scope="module")
def finished(folder: Path) -> tuple[Path, Plan]:
    """A folder with an experiment of one finished run, which tests leave as it is."""
    plan = plan_of(write_experiment(folder, {"none": SYSTEMS["none"]}))
    train(plan.runs[0].config)
    return folder, plan


@contextmanager
def replaced(file: Path, content: bytes) -> Iterator[None]:
    """Another content of a file, for a while."""
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)


def test_a_report_shows_what_a_run_was_trained_with(finished: tuple[Path, Plan]) -> None:
    base = finished[0] / "base.yaml"
    with replaced(base, base.read_bytes().replace(b"updates: 4", b"updates: 9")):
        [system] = collect([str(finished[0] / "experiment.yaml")], None, (None, 0), silent).systems
        assert system.config.training.updates == 4


# --- what is left to do -----------------------------------------------------------------------------------------------


def changed(run: Run, *settings: str) -> Run:
    """A run that has begun, with other values of dotted keys."""
    return replace(run, config=load_run_config(run.path, settings))


def test_a_run_is_new_stopped_or_finished(tmp_path: Path) -> None:
    run = plan_of(write_experiment(tmp_path)).runs[0]
    assert remaining(run) == ((), "new")
    run.path.mkdir(parents=True)
    RunDirectory(run.path).config.write_text(dump_config(run.config))
    assert remaining(run) == (("--overwrite",), "stopped before anything was saved, starts again")
    (run.path / "checkpoints/best").mkdir(parents=True)
    with pytest.raises(ConfigError, match="last: missing; it records how far the run has come"):
        remaining(run)
    train(run.config, overwrite=True, stop_after=3)
    assert remaining(run) == (("--resume",), "to be resumed after update 3")
    train(run.config, resume=True)
    assert remaining(run) == (None, "finished after update 4")
    lines = (run.path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run.path / "metrics.jsonl").write_text("".join(line for line in lines if '"test"' not in line))
    assert remaining(run) == (("--resume",), "to be resumed after update 4"), "its test set is not scored"


def test_a_finished_run_goes_on_where_more_is_wanted_and_is_never_replaced(finished: tuple[Path, Plan]) -> None:
    folder, run = finished[0], finished[1].runs[0]
    assert remaining(changed(run, "threads=1", "training.log_every=7")) == (None, "finished after update 4")
    more = (("--resume",), "to be resumed after update 4")
    assert remaining(changed(run, "training.updates=6")) == more
    own = ("--resume", "--set", "precision=fp32"), "to be resumed after update 4"
    assert remaining(changed(run, "training.updates=6", "precision=auto")) == own
    assert remaining(changed(run, "decoding.beam_size=3")) == remaining(changed(run, "evaluation.bins=[3]")) == more
    # nmt-train may change it in the course of training, but the experiment describes another run
    for key in ("training.batch_tokens", "training.accumulation"):
        with pytest.raises(ConfigError, match=rf"^{key} was \d+ and is now 99$"):
            remaining(changed(run, f"{key}=99"))
    with pytest.raises(ConfigError, match=r"^training.updates: 3, but the run has already made 4"):
        remaining(changed(run, "training.updates=3"))
    text = folder / "test.up"
    other = text.read_bytes().replace(b"OAK", b"ELM")
    with replaced(text, other), pytest.raises(ConfigError, match="its corpora have changed"):
        remaining(run)
    with replaced(run.path / "checkpoints/last/training.json", b"{"):
        assert remaining(run) == (("--resume",), "to be resumed"), "resuming explains the damage"


def test_a_new_run_that_cannot_start_from_another_is_refused_before_any_is_trained(finished: tuple[Path, Plan]) -> None:
    folder, plan = finished
    path = write_experiment(folder, {"wide": {"model.encoder.hidden": 16}})
    with pytest.raises(ConfigError, match=r"^wide: model.encoder.hidden was 32 and is now 16"):
        remaining_runs(plan_of(path, f"training.start_from={plan.runs[0].path}"), silent)


# --- translations and results -----------------------------------------------------------------------------------------


def test_results_of_two_seeds(tmp_path: Path) -> None:
    links = tmp_path / "test.gold"
    links.write_text("0-0\n" * 20)
    files = {"source": str(tmp_path / "test.low"), "reference": str(tmp_path / "test.up")}
    path = write_experiment(tmp_path, {"b": {}}, seeds=[1, 2], tests={"test": files | {"gold": {"links": str(links)}}})
    plan = plan_of(path)
    auto = plan_of(path, "precision=auto", "training.validation.patience=9")
    # begun before the experiment, which takes the run for finished
    train(auto.runs[0].config)
    own = ("--set", f"precision={read_manifest(RunDirectory(auto.runs[0].path))['precision']}")
    assert with_precision(auto, {auto.runs[1].label: ()}, silent) == {auto.runs[1].label: own}
    assert not (tmp_path / "out/precision.json").exists(), "nothing is measured again"
    train(plan.runs[1].config)
    page = draw_all(plan, silent)
    written = json.loads((tmp_path / "out/results.json").read_text("utf-8"))
    [row] = written["rows"]
    of_runs = [json.loads((run.path / "test.scores.json").read_text("utf-8")) for run in plan.runs]
    for name in ("bleu", "chrf"):
        assert row[name] == pytest.approx(sum(each[name]["score"] for each in of_runs) / 2)
    assert row["bleu_by_seed"] == pytest.approx([each["bleu"]["score"] for each in of_runs])
    assert row["bleu_low"] <= row["bleu"] <= row["bleu_high"]
    gold = read_gold(files["source"], files["reference"], links)
    reports = [score_alignment(run.path, gold) for run in plan.runs]
    assert row["aer"] == pytest.approx(sum(each["likeliest"]["error_rate"] for each in reports if each) / 2)
    assert (row["seeds"], row["updates"], row["bleu_retained"]) == (2, 4, None)
    assert "| test | b | 2 |" in page and (UNTRAINED in page) == (row["bleu"] < 2)
    assert (UNTRAINED in _cells(row | {"bleu": 0.6})["BLEU"]) and UNTRAINED not in _cells(row | {"bleu": 30.0})["BLEU"]


def test_translations_are_those_of_what_they_were_made_from(finished: tuple[Path, Plan]) -> None:
    folder, _ = finished
    files = {"source": str(folder / "validation.low"), "reference": str(folder / "validation.up"), "draw": []}
    plan = plan_of(write_experiment(folder, {"none": SYSTEMS["none"]}, tests={"other": files}))
    [run] = plan.runs
    assert not is_translated(plan, run, "other")
    translate_all(plan, silent, lambda: None)
    changes = {
        run.path / "checkpoints/best/model.safetensors": False,
        folder / "validation.low": False,
        plan.translations(run, "other"): False,
        folder / "validation.up": True,
    }
    for file, expected in changes.items():
        with replaced(file, file.read_bytes() + b"\n"):
            assert is_translated(plan, run, "other") == expected, file
        assert is_translated(plan, run, "other")
    other = changed(run, "decoding.max_source=2")
    assert not is_translated(replace(plan, runs=(other,)), other, "other")
    said: list[str] = []
    translate_all(replace(plan, runs=(other,)), said.append, lambda: None)
    problem = "1: too long: only its first 2 pieces are translated; more lines with problems: "
    assert said[-1].startswith(f"none: {folder / 'validation.low'}:{problem}")


# --- side by side -----------------------------------------------------------------------------------------------------

CHILD = """
import os, signal, sys, time
def main():
    print("of the data", flush=True)
    print("began", *sys.argv[1:], flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print("ended", file=sys.stderr, flush=True)
    return int(sys.argv[2])
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "waiting_for_a_file.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    return "waiting_for_a_file"


def test_jobs_run_side_by_side_and_their_lines_are_labelled(module: str, tmp_path: Path) -> None:
    gate, said = tmp_path / "gate", list[str]()

    def say(line: str) -> None:
        said.append(line)
        if sum(" began " in each for each in said) == 2:
            gate.touch()  # only two at once can open it

    jobs = {label: (module, str(gate), code) for label, code in (("a", "0"), ("b", "3"), ("c", "0"))}
    assert run_jobs(jobs, 2, say, lambda: None, {"of the data"}) == {"a": 0, "b": 3, "c": 0}
    assert {f"{label}: ended" for label in "abc"} < set(said) and f"a: began {gate} 0" in said
    began = [number for number, line in enumerate(said) if "began" in line]
    assert max(began) > said.index("a: ended") or max(began) > said.index("b: ended"), "the third had to wait"
    assert not any("of the data" in line for line in said), "it was said before"


def test_a_stop_is_passed_on_and_nothing_else_is_started(module: str, tmp_path: Path) -> None:
    said: list[str] = []

    def stop() -> int | None:
        time.sleep(0.05)  # the handler is installed after the line
        return signal.SIGTERM if said else None

    jobs = {label: (module, str(tmp_path / "never"), "0") for label in "ab"}
    codes = run_jobs(jobs, 1, said.append, stop)
    assert set(codes) == {"a"} and codes["a"] in (7, -signal.SIGTERM)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_reports_what_cannot_work_before_it_trains(tmp_path: Path, refused: Callable[..., str]) -> None:
    source = str(tmp_path / "test.low")
    lengths = {"source": source, "reference": str(tmp_path / "test.up"), "short": [1, 2], "long": [51, 70]}
    tests = {"a": lengths, "b": lengths | {"short": [2, 1]}, "c": lengths | {"bins": [2, 1]}}
    said = refused(main, "--config", write_experiment(tmp_path, tests=tests))
    assert "tests.a: long 51-70: no sentence has this length; the longest has " in said
    assert "tests.b: short 2-1: the smaller length" in said and "tests.c: bins: found [2, 1]; must be in asc" in said
    said = refused(main, "--config", write_experiment(tmp_path, tests={"none": lengths}))
    assert "tests.none: a system has this name, too" in said
    missing = {"source": source, "reference": str(tmp_path / "no.up")}
    path = write_experiment(tmp_path, tests={"a": missing, "b": missing | {"optional": True}})
    problem = f"nmt-experiment: error: tests.a: {tmp_path}/no.up: no such file"
    assert problem in refused(main, "--config", path)
    assert "--only luong: no such system" in refused(main, "--config", path, "--only", "luong")
    assert not (tmp_path / "out").exists()


def test_everything_from_finished_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is trained, all is translated, scored and drawn; a second call translates nothing and writes the same."""
    texts = {"source": str(tmp_path / "validation.low"), "reference": str(tmp_path / "validation.up")}
    absent = {"source": "absent", "reference": "absent", "optional": True}
    path = write_experiment(tmp_path, tests={"validation": texts, "absent": absent})
    for run in plan_of(path).runs:
        train(run.config)
    assert main(["--config", str(path), "--only", "none"]) == 0
    assert not (tmp_path / "out/results.csv").exists()
    said = capsys.readouterr().err
    assert "none: translating" in said and "bahdanau" not in said and "test set absent: left out" in said
    assert main(["--config", str(path)]) == 0
    out, said = capsys.readouterr()
    assert "| validation | none | 1 |" in out and "bahdanau: translating" in said and "none: translating" not in said
    assert "warning" not in said
    names = {file.name for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert {"results.csv", "results.md", "results.json", "validation.csv", "validation.png"} < names
    assert {"validation.why.csv", "validation.why.attention.png"} < names
    before = snapshot(tmp_path / "out")
    assert main(["--config", str(path)]) == 0
    out, said = capsys.readouterr()
    assert "translating" not in said and f"results: {tmp_path}/out/results.md" in said
    assert "| validation | none | 1 |" in out
    written = json.loads((tmp_path / "out/results.json").read_text("utf-8"))
    curve = json.loads((tmp_path / "out/validation.json").read_text("utf-8"))
    assert written["comparisons"] == {"validation": curve["overall"]}
    assert before == snapshot(tmp_path / "out")


@pytest.mark.slow
def test_a_dry_run_keeps_nothing_and_a_failure_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_experiment(tmp_path, jobs=2)
    assert main(["--config", str(path), "--dry-run"]) == 0
    said = capsys.readouterr().err
    assert "none: dry run: everything that training needs is there" in said
    assert "dry run: 2 of 2 runs would be trained" in said and not (tmp_path / "out").exists()
    assert main(["--config", str(path), "--set", "device=cuda:77"]) == 2
    said = capsys.readouterr().err
    assert "none: nmt-train ended with code 2; see its messages above" in said
    assert main(["--config", str(path), "--only", "none", "--set", "training.clip=2.0"]) == 0
    assert load_run_config(tmp_path / "out/none").training.clip == 2.0


def test_an_experiment_is_one_process(monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    said = refused(main, "--config", "configs/experiments/demo.yaml")
    assert "nmt-experiment: rank 1: error: nmt-experiment starts processes of its own" in said
