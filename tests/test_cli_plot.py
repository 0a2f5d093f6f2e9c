"""nmt-plot attention, as a user asks for it."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.cli.plot import main
from nmt.cli.systems import System, maybe_named, with_names
from nmt.errors import ConfigError
from tests.small_translator import ATTENTIONS, LINES
from tests.test_cli_translate import rates_of, save_run

Plot = Callable[..., tuple[int, str, str]]
TEXT = LINES[0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    return {each["type"]: str(save_run(folder / each["type"], each)) for each in ATTENTIONS}


@pytest.fixture
def plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plot:
    """Run the command in an empty directory: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(list(words))
        return code, *capsys.readouterr()

    return call


def written(stem: str) -> dict[str, object]:
    """Check that all files of a figure are there, and read its numbers."""
    assert Path(f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert Path(f"{stem}.svg").read_text("utf-8").startswith("<?xml")
    numbers: dict[str, object] = json.loads(Path(f"{stem}.json").read_text("utf-8"))
    return numbers


# --- attention --------------------------------------------------------------------------------------------------------


def test_attention_of_several_systems(plot: Plot, runs: dict[str, str]) -> None:
    """Their own translations, as nmt-translate finds them, with weights that sum to one over the source."""
    models = ["--model", runs["bahdanau"], "--model", f"L={runs['luong']}", "--model", runs["transformer"]]
    code, out, err = plot("attention", *models, "--text", TEXT, "--output", "a.png", "--device", "cpu")
    assert (code, err) == (0, "written: a.png, a.svg, a.json\n")
    systems = written("a")["systems"]
    assert isinstance(systems, list)
    assert [each["system"] for each in systems] == ["bahdanau", "L", "transformer"]
    assert [each["note"] for each in systems] == ["", "", "layer 1 of 2, mean of 3 heads"]
    for each, line in zip(systems, out.splitlines(), strict=True):
        assert each["units"] == ["words", "words"]
        assert each["source"] == [*TEXT.split(), "</s>"]
        text = line.partition(": ")[2].split()
        assert each["target"][: len(text)] == text and each["target"][len(text) :] in ([], ["</s>"])
        np.testing.assert_allclose(np.array(each["weights"]).sum(1), 1, atol=2e-3)


def test_attention_on_a_reference(plot: Plot, runs: dict[str, str], tmp_path: Path) -> None:
    Path("in").write_text(f"{LINES[1]}\n{TEXT}\n", "utf-8")
    Path("ref").write_text(f"x\n{TEXT[::-1]}\n", "utf-8")
    model = ["--model", runs["bahdanau"], "--device", "cpu"]
    by_file = plot("attention", *model, "--input", "in", "--line", "2", "--reference", "ref", "--output", "f")
    by_text = plot("attention", *model, "--text", TEXT, "--reference", TEXT[::-1], "--output", "t")
    assert by_file[0] == by_text[0] == 0 and by_file[1] == by_text[1]
    assert by_text[1].startswith("bahdanau: log-probability of the reference -")
    assert written("f") == written("t")
    systems = written("t")["systems"]
    assert isinstance(systems, list) and systems[0]["target"] == [*TEXT[::-1].split(), "</s>"]
    code, *_ = plot("attention", *model, "--text", TEXT, "--reference", TEXT[::-1], "--output", "p", "--pieces")
    systems = written("p")["systems"]
    assert code == 0 and isinstance(systems, list)
    assert systems[0]["units"] == ["pieces", "pieces"] and systems[0]["source"][0].startswith("▁")


def test_attention_by_layer_and_head(plot: Plot, runs: dict[str, str]) -> None:
    """The mean over heads is that of the heads, and a layer differs from another."""
    model = ["--model", runs["transformer"], "--text", TEXT, "--reference", "abc", "--device", "cpu", "--pieces"]
    assert plot("attention", *model, "--layer", "1,2", "--head", "1,2,3", "--output", "h")[0] == 0
    assert plot("attention", *model, "--layer", "2", "--output", "m")[0] == 0
    heads, mean = written("h")["systems"], written("m")["systems"]
    assert isinstance(heads, list) and isinstance(mean, list)
    assert [each["note"] for each in heads] == [f"layer {k} of 2, head {h} of 3" for k in (1, 2) for h in (1, 2, 3)]
    second = np.array([each["weights"] for each in heads[3:]])
    np.testing.assert_allclose(second.mean(0), mean[0]["weights"], atol=2e-4)
    assert np.abs(second - np.array([each["weights"] for each in heads[:3]])).max() > 0.01


def test_attention_of_standard_input(plot: Plot, runs: dict[str, str]) -> None:
    code, _, err = plot("attention", "--model", runs["luong"], "--output", "s", "--device", "cpu", stdin=f"{TEXT}\n")
    assert (code, err) == (0, "written: s.png, s.svg, s.json\n")


def test_attention_is_read_in_the_precision_that_is_measured_to_be_fastest(
    plot: Plot, runs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the processor multiplies natively."""
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr("nmt.fast.rates", rates_of(33.0, 33.0))
    options = ["--model", runs["luong"], "--text", TEXT, "--output", "f", "--device", "cpu"]
    _, plain, _ = plot("attention", *options)
    code, out, err = plot("attention", *options, "--precision", "auto")
    said = "precision: fp32; target pieces a second on a thread: fp32 575, bf16 33\n"
    assert (code, out, err) == (0, plain, f"{said}written: f.png, f.svg, f.json\n")
    _, _, err = plot("attention", *options, "--precision", "bf16")
    assert err.startswith("nmt-plot attention: warning: --precision bf16: slower than fp32 on this processor: ")


def test_languages_without_spaces_keep_their_pieces(plot: Plot, tmp_path: Path) -> None:
    run = str(save_run(tmp_path / "zh", ATTENTIONS[0], ("zh", "y")))
    assert plot("attention", "--model", run, "--text", "abc ab", "--output", "z", "--device", "cpu")[0] == 0
    systems = written("z")["systems"]
    assert isinstance(systems, list) and systems[0]["units"] == ["pieces", "words"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--model", "{none}", "--text", "a"], "--model {none}: has no attention (model.attention.type is none)"),
        (["--model", "{luong}", "--text", " "], "--text: is blank"),
        (["--model", "{luong}", "--text", "a\nb"], "--text: has several lines"),
        (["--model", "{luong}", "--text", "a", "--input", "x"], "--input: has no effect with --text"),
        (["--model", "{luong}", "--text", "a", "--reference", ""], "--reference: is blank"),
        (
            ["--model", "{luong}", "--text", "a", "--reference", "b", "--beam-size", "2"],
            "--beam-size: has no effect with --reference",
        ),
        (["--model", "{luong}", "--text", "a", "--head", "1"], "--head: has no effect because no --model is"),
        (["--model", "{transformer}", "--text", "a", "--head", "4"], "--head 4: {transformer} has 3 heads"),
        (["--model", "{transformer}", "--text", "a", "--layer", "0"], "'0' is not a list of whole numbers from 1"),
        (["--model", "{luong}", "--input", "two", "--line", "3"], "two: has no line 3"),
        (["--model", "{luong}", "--input", "nowhere"], "nowhere: no such file"),
        (["--model", "nowhere", "--text", "a"], "nowhere"),
        (["--model", "{luong}", "--model", "{luong}", "--text", "a"], "luong: is the name of two systems"),
        (["--model", "{luong}", "--text", "a", "--output", "{luong}/a"], "is inside the run directory"),
    ],
)
def test_wrong_options_of_attention(plot: Plot, runs: dict[str, str], options: list[str], problem: str) -> None:
    Path("two").write_text("a\nb\n", "utf-8")
    code, out, err = plot("attention", "--output", "o", *(option.format(**runs) for option in options))
    assert code == 2 and out == "" and problem.format(**runs) in err
    assert [path.name for path in Path().iterdir()] == ["two"]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a", "runs/b"], ["a", "b"]),
        (["runs/a/seed-1", "runs/b/seed-1"], ["a", "b"]),
        (["runs/a/seed-1", "runs/a/seed-2", "runs/b/seed-1"], ["a/seed-1", "a/seed-2", "b/seed-1"]),
        (["X=runs/a", "runs/a"], ["X", "a"]),
        (["runs/only"], ["only"]),
    ],
)
def test_systems_are_named_after_what_tells_them_apart(paths: list[str], names: list[str]) -> None:
    assert [system.name for system in with_names([maybe_named(path) for path in paths])] == names


def test_two_systems_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="x: is the name of two systems; write NAME=PATH"):
        with_names([System("x", "a"), System("x", "b")])


def test_a_path_with_an_equals_sign_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a=b").mkdir()
    assert maybe_named("a=b") == System("", "a=b") and maybe_named("c=b") == System("c", "b")
