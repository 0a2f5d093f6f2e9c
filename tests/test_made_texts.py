"""Texts that systems of an experiment make for others: what they need, how they are made, kept and filtered."""

import json
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.cli import experiment as command
from nmt.cli.experiment import main
from nmt.config import dump_config
from nmt.config.schema import FileCorpus
from nmt.data.corpus import Pair
from nmt.errors import ConfigError, DataError, Stopped
from nmt.experiments import making
from nmt.experiments.jobs import Job, run_jobs
from nmt.experiments.making import stand_ins
from nmt.experiments.plan import Plan, make_plan
from nmt.experiments.progress import remaining_texts
from nmt.experiments.runs import PlannedText
from nmt.experiments.schema import load_experiment
from nmt.search import Sampling
from nmt.translation.ensemble import load_translator
from nmt.translation.options import SearchOptions
from nmt.translation.translator import Translator, never_stop
from tests.small_run import config, train


def reversed_data(folder: Path) -> dict[str, Any]:
    """The differences of a system that translates from up to low."""
    splits = {
        f"data.{split}": {"source": str(folder / f"{split}.up"), "target": str(folder / f"{split}.low")}
        for split in ("train", "validation", "test")
    }
    return {"data.source_language": "up", "data.target_language": "low", **splits}


def write_experiment(folder: Path, **sections: Any) -> Path:
    """Back-translation of the test set's targets, which a student is trained on."""
    base = folder / "base.yaml"
    base.write_text(dump_config(config(folder)), "utf-8")
    values: dict[str, Any] = {
        "base": str(base),
        "output": str(folder / "out"),
        "systems": {
            "reverse": reversed_data(folder),
            "student": {"data.train": {"text": "back"}},
        },
        "texts": {"back": {"models": ["reverse"], "source": str(folder / "test.up")}},
    }
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump({**values, **sections}, sort_keys=False), "utf-8")
    return path


def plan_of(path: Path, *settings: str) -> Plan:
    return make_plan(load_experiment(path), str(path), settings)


def make(text: PlannedText, check_stop: Any = never_stop) -> list[str]:
    said: list[str] = []
    making.make(text, said.append, check_stop, lambda lines, _: lines)
    return said


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_a_system_reads_the_sides_of_a_text_by_their_languages(tmp_path: Path) -> None:
    plan = plan_of(write_experiment(tmp_path))
    reverse, student = plan.runs
    [text] = plan.texts
    assert (text.models, text.back, student.texts, reverse.texts) == ((reverse,), (), ("back",), ())
    assert text.lines == tmp_path / "out/texts/back.up" and text.translations == tmp_path / "out/texts/back.low"
    train = {"source": str(text.translations), "target": str(text.lines)}
    assert student.settings == (f"data.train={json.dumps(train)}",)
    assert student.config.data.train.model_dump(include={"source", "target"}) == train
    assert text.decoding == reverse.config.decoding


def test_a_text_stands_anywhere_in_the_data_with_the_other_options_of_a_corpus(tmp_path: Path) -> None:
    systems = {"reverse": reversed_data(tmp_path), "student": {"data.train": {"text": "back", "limit": 7}}}
    student = plan_of(write_experiment(tmp_path, systems=systems)).runs[1]
    assert isinstance(student.config.data.train, FileCorpus) and student.config.data.train.limit == 7
    mixed = {
        "data.corpora": {"real": {"source": "a", "target": "b"}, "made": {"text": "back", "tag": "<bt>"}},
        "data.train": {"mix": {"real": 1.0, "made": 0.5}},
    }
    plan = plan_of(write_experiment(tmp_path, systems={"reverse": reversed_data(tmp_path), "student": mixed}))
    made = plan.runs[1].config.data.corpora["made"]
    texts = tmp_path / "out/texts"
    assert made == FileCorpus(source=str(texts / "back.low"), target=str(texts / "back.up"), tag="<bt>")
    assert plan.runs[1].texts == ("back",)


def test_models_are_systems_with_all_their_seeds_or_single_runs(tmp_path: Path) -> None:
    texts = {
        "all": {"models": ["reverse"], "source": "x"},
        "one": {"models": ["reverse:7"], "source": "x", "decoding": {"beam_size": 3}},
    }
    systems = {"reverse": reversed_data(tmp_path), "b": {"data.train": {"text": "one"}}}
    plan = plan_of(write_experiment(tmp_path, systems=systems, texts=texts, seeds=[1, 7]))
    every, one = plan.texts
    assert [run.label for run in every.models] == ["reverse:1", "reverse:7"]
    assert [run.label for run in one.models] == ["reverse:7"] and one.decoding.beam_size == 3


def test_systems_that_only_make_texts_in_another_direction_are_not_compared(tmp_path: Path) -> None:
    plan = plan_of(write_experiment(tmp_path))
    assert plan.compared().systems == ["student"] and plan.systems == ["reverse", "student"]
    assert [text.name for text in plan.only(["back"]).texts] == ["back"] and plan.only(["back"]).runs == ()
    assert plan.only(["student"]).texts == () and plan.only(["student"]).systems == ["student"]
    with pytest.raises(ConfigError, match=r"bakc: no such system, NAME:SEED or text; .*: reverse, student, back$"):
        plan.only(["bakc"])


BACK = {"models": ["reverse"], "source": "x"}


@pytest.mark.parametrize(
    ("sections", "problems"),
    [
        (
            {"texts": {"back": {"models": ["revers"], "source": "x"}}},
            [
                "texts.back.models: no system of this experiment is named 'revers'; there is reverse, student; "
                "nearest: reverse"
            ],
        ),
        ({"texts": {"bakc": BACK}}, ["systems.student: {text: back}: no text of this experiment is named 'back'"]),
        (
            {"texts": {"back": BACK, "reverse": {"models": ["reverse"], "source": "x"}}},
            ["texts.reverse: is the name of a system, too"],
        ),
        ({"texts": {"back": BACK | {"models": ["student"]}}}, ["texts: student -> back -> student: each is needed by"]),
        (
            {"texts": {"back": BACK | {"models": ["reverse", "base"]}}},
            ["texts.back.models: base translates from low to up; must be up to low"],
        ),
        (
            {"texts": {"back": BACK | {"round_trip": {"models": ["reverse"], "chrf": 40}}}},
            ["texts.back.round_trip.models: reverse translates from up to low; must be low to up"],
        ),
        (
            {"texts": {"back": BACK | {"decoding": {"beam_sise": 3}}}},
            ["texts.back.decoding.beam_sise: unknown key; nearest: beam_size"],
        ),
        (
            {"texts": {"back": BACK | {"decoding": {"beam_size": 3}, "sampling": {}}}},
            ["texts.back.decoding.beam_size: has no effect with sampling; leave one out"],
        ),
        (
            {"texts": {"back": BACK | {"decoding": {"beam_size": 1, "coverage_penalty": 0.5}}}},
            ["texts.back.decoding.coverage_penalty: has no effect for one hypothesis"],
        ),
    ],
)
def test_what_is_wrong_with_texts(sections: dict[str, Any], problems: list[str], tmp_path: Path) -> None:
    systems = {"reverse": reversed_data(tmp_path), "student": {"data.train": {"text": "back"}}}
    if any("base" in text["models"] for text in sections["texts"].values()):
        systems["base"] = {}
    path = write_experiment(tmp_path, **{"systems": systems, **sections})
    with pytest.raises(ConfigError) as error:
        plan_of(path)
    assert len(error.value.problems) == len(problems), error.value.problems
    for found, problem in zip(error.value.problems, problems, strict=True):
        assert found.startswith(f"{path}: {problem}")


def test_a_text_in_other_languages_and_a_base_that_is_read_backwards(tmp_path: Path) -> None:
    other = {"data.source_language": "xx", "data.train": {"text": "back"}}
    swapped = {"data.source_language": "up", "data.target_language": "low"}
    path = write_experiment(tmp_path, systems={"reverse": swapped, "other": other})
    with pytest.raises(ConfigError) as error:
        plan_of(path)
    first, *backwards = error.value.problems
    assert first.endswith("systems.other: {text: back}: is in up and low, and the system translates from xx to up")
    assert [problem.split(": ")[2] for problem in backwards] == ["data.train", "data.validation", "data.test"]
    assert f"write 'data.train: {{source: {tmp_path}/train.up, target: {tmp_path}/train.low}}'" in backwards[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ({"source": "x"}, "texts.back.models: missing; must be a list of at least one, each text that is not empty"),
        (BACK | {"models": []}, "texts.back.models: found a list of 0; must be a list of at least one"),
        (BACK | {"chrf": 40}, "texts.back.chrf: unknown key; there is texts.round_trip.chrf"),
        (
            BACK | {"round_trip": {"models": ["x"], "chrf": 0.4}},
            "texts.back.round_trip.chrf: found 0.4; must be a number of at least 1 and up to 100",
        ),
        (BACK | {"sampling": {"temperature": 0}}, "texts.back.sampling.temperature: found 0; must be a number above 0"),
    ],
)
def test_the_schema_of_a_text(text: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = write_experiment(tmp_path, texts={"back": text})
    with pytest.raises(ConfigError) as error:
        load_experiment(path)
    assert [each.startswith(f"{path}: {problem}") for each in error.value.problems] == [True], error.value.problems


def test_the_experiment_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/scaling.md prints it: its systems have the languages that it says, and wait for one another."""
    page = (Path(__file__).parent.parent / "docs/scaling.md").read_text("utf-8")
    [printed] = [block for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S) if "\ntexts:" in block]
    monkeypatch.chdir(tmp_path)
    data = {"source_language": "en", "target_language": "fr"}
    splits = {split: {"source": f"{split}.en", "target": f"{split}.fr"} for split in ("train", "validation", "test")}
    values = config(tmp_path).model_dump(mode="json")
    Path("en-fr.yaml").write_text(yaml.safe_dump({**values, "data": {**data, **splits}}), "utf-8")
    Path("experiment.yaml").write_text(printed, "utf-8")
    plan = plan_of(Path("experiment.yaml"))
    reverse, baseline, augmented = plan.runs
    [text] = plan.texts
    assert (text.models, text.back, augmented.texts) == ((reverse,), (baseline,), ("back",))
    assert plan.compared().systems == ["baseline", "augmented"]


# --- round trips ------------------------------------------------------------------------------------------------------


def test_round_trips_by_hand() -> None:
    """chrF of "a c" that came back of "a b": of 1-grams half, of 2-grams none, so a quarter."""
    pairs = [Pair(*pair) for pair in (("a b", "A B"), ("a b", "A C"), ("a b", "X"), ("", "Y"), ("a b", ""))]
    returned = ["a b", "a c", "x y", "", ""]
    kept = {least: list(making.round_trips(pairs, returned, least)) for least in (1, 25, 25.1, 100)}
    assert kept[1] == kept[25] == pairs[:2] and kept[25.1] == kept[100] == pairs[:1]
    # of "abcd" for "ab": precision (2/4 + 1/3) / 2, recall 1, F2 = 5 PR / (4 P + R) = 25/32
    longer = [len(list(making.round_trips(pairs[:1], ["a b c d"], least))) for least in (78.12, 78.13)]
    assert longer == [1, 0]
    with pytest.raises(ValueError, match="shorter"):
        list(making.round_trips(pairs, returned[:-1], 1))


# --- making -----------------------------------------------------------------------------------------------------------


def trained_plan(folder: Path, *systems: str, **sections: Any) -> Plan:
    plan = plan_of(write_experiment(folder, **sections))
    for run in plan.runs:
        if run.system in systems:
            train(run.config)
    return plan


def test_a_text_is_what_its_models_translate_and_is_made_again_when_they_change(tmp_path: Path) -> None:
    """Two seeds translate as an ensemble; a part of the input is read."""
    texts = {"back": {"models": ["reverse"], "source": str(tmp_path / "test.up"), "skip": 3, "limit": 5}}
    plan = trained_plan(tmp_path, "reverse", texts=texts, seeds=[1, 2])
    [text] = plan.texts
    assert not making.is_made(text)
    make(text)
    assert making.is_made(text)
    wanted = lines_of(tmp_path / "test.up")[3:8]
    ensemble = load_translator([run.path for run in text.models])
    options = SearchOptions.from_config(text.decoding)
    assert lines_of(text.lines) == wanted
    assert lines_of(text.translations) == [each.text for each in ensemble.translate(wanted, options)]
    assert sorted(path.name for path in text.folder.iterdir()) == ["back.json", "back.low", "back.up"]

    assert not making.is_made(replace(text, of=text.of.model_copy(update={"limit": 4})))
    for path in (
        text.models[1].path / "checkpoints/best/model.safetensors",
        tmp_path / "test.up",
        text.lines,
        text.translations,
    ):
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        assert not making.is_made(text), path
        path.write_bytes(before)
        assert making.is_made(text)
    (text.models[1].path / "checkpoints/best/model.safetensors").unlink()
    assert not making.is_made(text)


def test_samples_and_a_round_trip_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "back": {
            "models": ["reverse"],
            "source": str(tmp_path / "test.up"),
            "sampling": {"top_k": 2, "seed": 3},
            "round_trip": {"models": ["forward"], "chrf": 5},
        }
    }
    systems = {"reverse": reversed_data(tmp_path), "forward": {}}
    plan = trained_plan(tmp_path, "reverse", "forward", systems=systems, texts=texts)
    [text] = plan.texts
    stream, firsts = Translator.stream, list[int]()

    def in_windows_of_eight(self: Translator, lines: Any, *arguments: Any, **how: Any) -> Any:
        firsts.append(how.get("first", 1))
        return stream(self, lines, *arguments, **how, window=8)

    batches = iter(range(4))  # three of one direction, one of the other

    def stop_after_four() -> None:
        if next(batches, None) is None:
            raise Stopped

    monkeypatch.setattr(Translator, "stream", in_windows_of_eight)
    with pytest.raises(Stopped):
        make(text, stop_after_four)
    assert not text.lines.exists() and not making.is_made(text)
    firsts.clear()
    make(text)
    assert firsts == [9], "one direction and 8 lines of the other were kept"
    options = SearchOptions.from_config(text.decoding, sampling=Sampling(top_k=2, seed=3))
    lines = lines_of(tmp_path / "test.up")
    forth = [each.text for each in Translator.load(text.models[0].path).translate(lines, options)]
    there = Translator.load(text.back[0].path)
    back = [each.text for each in there.translate(forth, SearchOptions.from_config(text.back[0].config.decoding))]
    kept = list(making.round_trips(map(Pair, lines, forth), back, 5))
    assert list(zip(lines_of(text.lines), lines_of(text.translations), strict=True)) == kept
    assert json.loads(text.manifest.read_text("utf-8"))["pairs"] == len(kept)
    assert not making.is_made(replace(text, of=text.of.model_copy(update={"sampling": None})))


def test_a_text_without_lines_is_refused(tmp_path: Path) -> None:
    texts = {"back": {"models": ["reverse"], "source": str(tmp_path / "test.up"), "skip": 20}}
    plan = trained_plan(tmp_path, "reverse", texts=texts)
    with pytest.raises(
        DataError, match=r"test\.up: has no line after the first 20, which texts\.back\.skip leaves out"
    ):
        make(plan.texts[0])


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_job_waits_for_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys\ndef main():\n    print('done', flush=True)\n    return int(sys.argv[1])\n"
    (tmp_path / "ends_with_a_code.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    jobs = [
        Job(label, "ends_with_a_code", (str(code),), needs)
        for label, code, needs in (
            ("student", 0, ("text",)),
            ("text", 0, ("reverse", "made before")),
            ("reverse", 0, ()),
            ("dependent", 0, ("unlucky",)),
            ("its dependent", 0, ("dependent",)),
            ("unlucky", 3, ()),
        )
    ]
    said: list[str] = []
    codes = run_jobs(jobs, 3, said.append, lambda: None)
    assert codes == {"reverse": 0, "text": 0, "student": 0, "unlucky": 3}
    order = [line for line in said if line.endswith("done")]
    assert order.index("reverse: done") < order.index("text: done") < order.index("student: done")
    assert "dependent: not started, because unlucky failed" in said
    assert "its dependent: not started, because dependent failed" in said


def test_back_translation_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = {"source": str(tmp_path / "test.low"), "reference": str(tmp_path / "test.up")}
    path = write_experiment(tmp_path, tests={"test": sides | {"draw": []}})
    experiment = ["--config", str(path)]
    assert main([*experiment, "--only", "student"]) == 2
    assert "student: its text back must be made first; run with --only back" in capsys.readouterr().err
    assert main([*experiment, "--only", "back"]) == 2
    assert "back: reverse must be finished first; run with --only reverse" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    train(plan_of(path).runs[0].config)
    assert main(experiment) == 0
    out, said = capsys.readouterr()
    assert any(line.startswith("back: 20 pairs: ") for line in said.splitlines()), "no label is said twice"
    assert "| test | student | 1 |" in out and "reverse" not in out
    assert lines_of(tmp_path / "out/texts/back.up") == lines_of(tmp_path / "test.up")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*") if file.is_file()}
    assert main(experiment) == 0
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*") if file.is_file()}

    plan = plan_of(path)
    weights = plan.runs[0].path / "checkpoints/best/model.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    with pytest.raises(ConfigError) as error:
        remaining_texts(plan, plan, {}, print)
    assert error.value.problems[0].endswith("or replace the run, too, with --overwrite student")
    assert [text.name for text in remaining_texts(plan, plan, {"student": ("--overwrite",)}, print)] == ["back"]


def test_a_rehearsal_has_stand_ins_for_texts_that_are_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_experiment(tmp_path)
    plan = plan_of(path)
    with stand_ins(plan.only(["student"]), plan, print) as folder:
        assert folder is not None
        sides = {name: lines_of(folder / name) for name in ("back.low", "back.up")}
        student = make_plan(load_experiment(path), str(path), texts=folder).runs[1]
        assert str(folder / "back.low") in student.settings[0]
    assert sides["back.low"] == sides["back.up"] == lines_of(tmp_path / "test.up")
    assert "back: rehearsed with untranslated lines" in capsys.readouterr().out
    with stand_ins(plan.only(["reverse"]), plan, print) as nothing:
        assert nothing is None


def test_a_signal_stops_the_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_text: Any, _say: Any, check_stop: Any, _progress: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        check_stop()

    monkeypatch.setattr(making, "make", stopped)
    [text] = plan_of(write_experiment(tmp_path)).texts
    assert command._make(text) == 128 + signal.SIGTERM
