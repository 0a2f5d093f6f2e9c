"""nmt-evaluate and nmt-length-curve as a user meets them."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from nmt.cli import evaluate, length_curve
from nmt.cli.options import named
from nmt.cli.translate import main as translate
from nmt.config import dump_config, load_config
from nmt.config.schema import Evaluation
from nmt.evaluation.alignment import diagonal
from nmt.evaluation.by_length import UNTRAINED
from tests.comparison import snapshot
from tests.small_translator import ATTENTIONS, LINES, save_run
from tests.test_experiments import replaced
from tests.test_start_up import run_commands

SOURCES = [" ".join(["word"] * length) for length in (3, 8, 12, 12, 25)]
REFERENCES = [" ".join(f"w{k}" for k in range(length + 1)) for length in (3, 8, 12, 12, 25)]
GOOD = [line.replace("w2", "x") for line in REFERENCES]
BAD = [line.replace("w2", "x").replace("w6", "x y") for line in REFERENCES]
Command = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, which is the working directory, with a test set and the output of two systems; with few resamples."""
    monkeypatch.setattr("nmt.evaluation.by_length.Evaluation", partial(Evaluation, bootstrap=20))
    for name, lines in {"src": SOURCES, "ref": REFERENCES, "good": GOOD, "bad": BAD}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TEST_SET = ("--source", "src", "--reference", "ref")
TWO = ("--system", "good=good", "--system", "worse one=bad", "--output", "out/curve")


def test_scoring_files_does_not_load_pytorch(files: Path) -> None:
    cases = [["evaluate", *TEST_SET, "--hypotheses", "good", "--json", "scores"], ["length_curve", *TEST_SET, *TWO]]
    found = run_commands(cases, ("torch", "matplotlib.pyplot"), files)
    assert found[0] == ("", []) and found[1][1] == []
    assert (files / "scores").exists() and (files / "out/curve.png").exists()


@pytest.fixture(scope="module")
def saved(folder: Path) -> Path:
    """A folder with two runs of random weights, and a source and reference for them."""
    save_run(folder / "bahdanau")
    save_run(folder / "none", ATTENTIONS[2])
    (folder / "src").write_text("\n".join([*LINES[:9], ""]) + "\n", "utf-8")
    (folder / "ref").write_text("\n".join([*(line[::-1] for line in LINES[:9]), ""]) + "\n", "utf-8")
    return folder


@pytest.fixture
def models(saved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the working directory."""
    monkeypatch.chdir(saved)
    return saved


def test_evaluate_a_run(models: Path, tmp_path: Path, command: Command) -> None:
    options = ("--device", "cpu", "--beam-size", "3", "--length-penalty", "0.5", "--batch-tokens", "50")
    code, out, err = command(evaluate.main, *TEST_SET, "--model", "bahdanau", *options, "--verbose")
    assert code == 0 and "bahdanau: translating: 10 lines in " in err
    assert command(translate, "--model", "bahdanau", "--input", "src", "--output", tmp_path / "hyp", *options)[0] == 0
    lines = command(evaluate.main, *TEST_SET, "--hypotheses", tmp_path / "hyp")[1].splitlines()
    assert lines[:2] == out.splitlines()[:2]


def test_curve_of_files(files: Path, command: Command) -> None:
    code, out, err = command(length_curve.main, *TEST_SET, *TWO, "--bins", "10,20")
    assert code == 0
    assert err.startswith("retained BLEU: fewer than two bins have 30 sentences")
    assert err.splitlines()[1] == "written: out/curve.png, out/curve.svg, out/curve.json, out/curve.csv"
    lines = out.splitlines()
    assert lines[0] == "good" and "worse one" in lines and lines[1].startswith("BLEU ")
    assert lines[-1].startswith("good - worse one: +") and lines[-1].endswith("too few sentences for a p-value")
    numbers = json.loads((files / "out/curve.json").read_text("utf-8"))
    assert numbers["test_set"] == "src"
    assert numbers["systems"]["good"]["by_length"][-1]["high"] == 25, "words of the source"
    assert numbers["systems"]["good"]["bleu"]["score"] > numbers["systems"]["worse one"]["bleu"]["score"]


def test_runs_that_share_a_name_are_seeds_of_one_system(models: Path, tmp_path: Path, command: Command) -> None:
    seed, bf16 = shutil.copytree(models / "bahdanau", tmp_path / "2"), shutil.copytree(models / "none", tmp_path / "n")
    written = (seed / "config.yaml").read_text()
    for path, precision in ((seed, "fp32"), (bf16, "bf16")):
        (path / "manifest.json").write_text(json.dumps({"config": {}, "changes": [], "precision": precision}))
    options = [*TEST_SET, "--device=cpu", f"--output={tmp_path}/c", "--system=a=bahdanau", f"--system=a={seed}"]
    assert "differ in nothing" in command(length_curve.main, *options)[2]
    (seed / "config.yaml").write_text(written.replace("seed: 1", "seed: 2"))
    assert "differ in nothing" in command(length_curve.main, *options, f"--system=a={seed}")[2]
    code, _, err = command(length_curve.main, *options, f"--system=b={bf16}")
    advice = "for a fair comparison train all with --set precision=fp32"
    assert code == 0 and f"different precisions: {seed} in fp32, {bf16} in bf16; {advice}\n" in err
    code, _, err = command(length_curve.main, *options, f"--system=a={bf16}")
    assert code == 2 and f"a: bahdanau and {bf16} differ in model.attention" in err


def test_translations_that_are_there_are_drawn_as_those_of_runs(models: Path, tmp_path: Path, command: Command) -> None:
    systems = ("--system=a=bahdanau", "--hypotheses=a=ref", "--system=b=none", "--system=file=ref")
    line = {"split": "validation"}
    validations: list[dict[str, Any]] = [line | {"step": step, "best": step == 1500} for step in (1500, 1584)]
    average: dict[str, Any] = {"split": "average", "step": 1584, "updates": [300, 1500], "best": True}
    metrics = {Path("bahdanau/metrics.jsonl"): validations, Path("none/metrics.jsonl"): [*validations, average]}
    for path, lines in metrics.items():
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    options = ("--device", "cpu", "--beam-size", "3", "--output", f"{tmp_path}/curve.png")
    code, _, err = command(length_curve.main, *TEST_SET, *systems, *options, "--verbose")
    for path in metrics:
        path.unlink()
    assert code == 0
    assert re.findall(r"^(\w+): translating: ", err, re.MULTILINE) == ["none"], "only the other run translates"
    assert {path.name for path in tmp_path.iterdir()} == {f"curve.{kind}" for kind in ("csv", "json", "png", "svg")}
    numbers = json.loads((tmp_path / "curve.json").read_text("utf-8"))
    assert numbers["systems"]["a"]["bleu"]["score"] == pytest.approx(100)
    assert numbers["runs"] == {
        "a": [{"languages": "x to y", "search": "beam 2, length penalty 1", "update": "1,500"}],
        "b": [{"languages": "x to y", "search": "beam 3, length penalty 1", "update": "mean of 2 from 300 to 1,500"}],
        "file": [],
    }


def test_untrained_systems_are_not_compared(files: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.evaluation.significance.MIN_SENTENCES", 2)
    (files / "noise").write_text("z\n" * 5, "utf-8")
    code, out, _ = command(length_curve.main, *TEST_SET, *TWO, "--system", "noise=noise")
    assert code == 0 and f"noise: {UNTRAINED}" in out.splitlines()
    numbers = json.loads((files / "out/curve.json").read_text("utf-8"))
    assert [(each["system"], each["other"]) for each in numbers["overall"]] == [("good", "worse one")]
    assert list(numbers["kept"]["shares"]) == ["good", "worse one"]


def test_the_share_retained_is_that_of_the_lengths_given(files: Path, command: Command) -> None:
    code, out, err = command(length_curve.main, *TEST_SET, *TWO, "--short", "8-12", "--long=25-30", "--bins=10")
    assert code == 0 and "retained BLEU" not in err
    above, below = "BLEU at 25-30 source words (1 sentences)", "BLEU at 8-12 (3), which must be at least 10"
    assert f"retained BLEU: {above} divided by {below}" in out.splitlines()
    parts = [sacrebleu.corpus_bleu(BAD[k:n], [REFERENCES[k:n]]).score for k, n in ((4, 5), (1, 4))]
    kept = json.loads((files / "out/curve.json").read_text("utf-8"))["kept"]
    assert kept["shares"]["worse one"]["share"] == pytest.approx(parts[0] / parts[1])


def test_the_bins_of_a_run_are_those_of_its_configuration(models: Path, tmp_path: Path, command: Command) -> None:
    config = Path("none/config.yaml")
    changed = load_config(config).model_copy(update={"evaluation": Evaluation(bins=(2, 4), bootstrap=10)})

    def bounds(*options: str) -> list[str]:
        _, out, _ = command(evaluate.main, *TEST_SET, "--model", "none", "--device", "cpu", *options)
        return [line.split()[1] for line in out.splitlines() if line.startswith("none ")]

    longest = max(len(line.split()) for line in LINES[:9])
    with replaced(config, dump_config(changed).encode()):
        assert bounds() == ["0-2", "3-4", f"5-{longest}"]
        assert bounds("--bins", "50") == ["0-50"]
        curve = ("--system", "gold=ref", "--system", "none=none", "--output", str(tmp_path / "curve"))
        _, out, _ = command(length_curve.main, *TEST_SET, *curve)
    rows = [line.split() for line in out.splitlines() if line.startswith(("gold ", "none "))]
    assert [row[1] for row in rows[:6]] == ["0-2", "3-4", f"5-{longest}"] * 2
    assert len(rows) == 6  # a system of 0 BLEU is not compared


def test_attention_is_scored_as_alignment(models: Path, tmp_path: Path, command: Command) -> None:
    sources, references = (Path(name).read_text("utf-8").splitlines() for name in ("src", "ref"))
    links = [sorted(diagonal(len(s.split()), len(r.split()))) for s, r in zip(sources, references, strict=True)]
    gold, scores = tmp_path / "gold", tmp_path / "scores"
    options = ("--model", "bahdanau", "--device", "cpu", "--beam-size", "1", "--gold", str(gold))
    for first in (0, 1):
        gold.write_text("".join(" ".join(f"{i + first}-{j + first}" for i, j in line) + "\n" for line in links))
        chosen = ("--gold-first", "1") if first else ()
        code, out, _ = command(evaluate.main, *TEST_SET, *options, *chosen, "--json", str(scores))
        assert code == 0
        assert out.splitlines()[-1] == "AER 0.000  precision 1.000  recall 1.000  diagonal"
    alignment = json.loads(scores.read_text("utf-8"))["alignment"]
    assert 0 < alignment["likeliest"]["error_rate"] < 1
    assert alignment["likeliest"]["links"] == sum(len(reference.split()) for reference in references)
    assert "--gold: none has no attention" in command(evaluate.main, *TEST_SET, "--model", "none", "--gold", gold)[2]


@pytest.mark.parametrize(
    ("main", "options", "problem"),
    [
        (evaluate.main, "--hypotheses short", "src has 5 lines and short has 1"),
        (evaluate.main, "--hypotheses empty --reference empty --source empty", "empty: is empty"),
        (evaluate.main, "--hypotheses good --model out", "out/config.yaml: missing"),
        (evaluate.main, "--hypotheses good --gold src", "--gold: has no effect with --hypotheses"),
        (evaluate.main, "--hypotheses good --calibrate", "--calibrate: has no effect with --hypotheses"),
        (evaluate.main, "--hypotheses good --beam-size 5", "beam_size: has no effect"),
        (evaluate.main, "", "--model, --hypotheses: exactly one of the two is required"),
        (length_curve.main, "--system a=none", "none: no such run directory or file (tried {folder}/none)"),
        (length_curve.main, "--system a=good --length-penalty 1", "length_penalty: has no effect"),
        (length_curve.main, "--system a=good --output src/c", "src: the directory cannot be created: File"),
        (length_curve.main, "--system a=good --output out", "out: is a directory"),
        (length_curve.main, "--system a=good --short 3-8 --long 26-30", "long 26-30: no sentence"),
        (length_curve.main, "--system a=good --short 3-12 --long 12-30", "short 3-12 and long 12-"),
        (length_curve.main, "--system a=good --hypotheses a=bad", "hypotheses a=bad: no system a is a run"),
        (length_curve.main, "--system a=good --why", "a: is a file of translations"),
        # neither text nor a run is written over
        (evaluate.main, "--hypotheses good --json ./good", "--json ./good: is the same file as --hyp"),
        (evaluate.main, "--hypotheses good --json linked", "--json linked: is the same file as --reference"),
        (length_curve.main, "--system a=good --system a=h.csv --output h.png", "--output h: h.csv: is the"),
        (evaluate.main, "--hypotheses good --json run/new", "--json run/new: is inside the run directory {folder}/run"),
        (length_curve.main, "--system a=run/a --output run/manifest", "--output run/manifest: run/manifest.png: is in"),
    ],
)
def test_what_is_refused(files: Path, refused: Refused, main: Callable[..., int], options: str, problem: str) -> None:
    (files / "linked").symlink_to("ref")
    (files / "run/checkpoints").mkdir(parents=True)
    for name in ("h.csv", "h.svg", "run/a", "run/config.yaml", "run/manifest.json"):
        (files / name).write_bytes((files / "bad").read_bytes())
    (files / "short").write_text("one\n")
    (files / "empty").touch()
    (files / "out").mkdir()
    before = snapshot(files)
    output = () if main is evaluate.main else ("--output", "curve")
    err = refused(main, *TEST_SET, *output, *options.split())
    assert f"error: {problem.replace('{folder}', str(files))}" in err and err.count("\n") == 1
    assert snapshot(files) == before


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("--system", text) for text in ("good", "=good", "good=")),
        *(("--short", text) for text in ("20-11", "20")),
        *(("--bins", text) for text in ("10,5", "0,5", "5,x", "")),
    ],
)
def test_what_the_command_line_cannot_mean(files: Path, refused: Refused, option: str, text: str) -> None:
    problem = f"error: argument {option}: '{text}' is not "
    assert problem in refused(length_curve.main, *TEST_SET, "--output", "curve", option, text)
    assert named("a=runs/lr=1") == ("a", "runs/lr=1")


def test_what_will_fail_fails_before_translating(models: Path, tmp_path: Path, command: Command) -> None:
    broken = save_run(tmp_path / "broken")
    weights = broken / "checkpoints" / "best" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    systems = ("--system", "one=bahdanau", "--system", f"other={broken}", "--device", "cpu")
    code, _, err = command(length_curve.main, *TEST_SET, *systems, "--output", tmp_path / "x", "--verbose")
    assert code == 2 and "not a whole safetensors file" in err and "translating" not in err
