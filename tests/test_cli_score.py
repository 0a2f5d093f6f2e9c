"""The command as a user meets it: numbers, pieces, links, files that do not fit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.cli.score import main
from nmt.evaluation.alignment import format_pharaoh, parse_gold, symmetrized
from tests.small_translator import ATTENTIONS, LINES, save_run

Score = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """40 pairs and a blank one."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"{line}\n" for line in [*LINES, ""]))
    target.write_text("".join(f"{line[::-1]}\n" for line in [*LINES, ""]))
    return source, target


@pytest.fixture
def score(random_run: str, files: tuple[Path, Path], command: Score) -> Score:
    """Run the command: exit code, standard output, standard error."""

    def call(*options: str, model: str = random_run) -> tuple[int, str, str]:
        source, target = files
        return command(main, "--model", model, "--source", source, "--target", target, "--device", "cpu", *options)

    return call


def test_a_line_a_pair(score: Score, random_run: str, tmp_path: Path) -> None:
    """The length penalty of the score is that of the run."""
    pieces, links, run = tmp_path / "pieces", tmp_path / "links", shutil.copytree(random_run, tmp_path / "run")
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("length_penalty: 1.0", "length_penalty: 0.5"))
    code, out, err = score("--pieces", str(pieces), "--alignments", str(links), model=str(run))
    assert (code, err) == (0, "")
    rows = [[float(column) for column in line.split("\t")] for line in out.splitlines()]
    objects = [json.loads(line) for line in pieces.read_text().splitlines()]
    lines = links.read_text().splitlines()
    assert len(rows) == len(objects) == len(lines) == len(LINES) + 1
    for (value, total, mean), each in zip(rows[:-1], objects, strict=False):
        assert list(each) == ["source", "target", "log_probabilities"]
        assert each["source"][-1] == each["target"][-1] == "</s>"
        length = len(each["target"])
        assert len(each["log_probabilities"]) == length
        assert sum(each["log_probabilities"]) == pytest.approx(total, abs=1e-3)
        assert mean == pytest.approx(total / length, abs=1e-4)
        assert value == pytest.approx(total / ((5 + length) / 6) ** 0.5, abs=1e-4)
    for line, pairs in zip(LINES, lines, strict=False):
        joined = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
        assert [j for _, j in joined] == list(range(len(line.split())))
    assert rows[-1] == [0.0, 0.0, 0.0] and lines[-1] == ""
    assert objects[-1] == {"source": [], "target": [], "log_probabilities": []}


def test_lines_that_are_cut_off_are_told_once(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.translation.forced.FIRST_WINDOW", 1)  # lines are counted across windows
    long = " ".join(LINES)
    (tmp_path / "long").write_text(f"a\n{long}\n")
    (tmp_path / "twice").write_text(f"a\na\n{long}\n{long}\n")
    (tmp_path / "targets").write_text(f"b\nb\n{long}\nb\n")
    options = ["--source", str(tmp_path / "long"), "--target", str(tmp_path / "targets"), "--n-best", "2"]
    code, out, err = score(*options)
    assert (code, out.count("\n")) == (0, 4)
    said = "nmt-score: warning: {}: too long: only its first {} pieces are read"
    assert err.splitlines() == [
        said.format(f"{tmp_path / 'long'}:2", 30),
        said.format(f"{tmp_path / 'targets'}:3", 2 * 30 + 10),
    ]
    assert score("--source", str(tmp_path / "twice"), "--target", str(tmp_path / "targets"))[1] == out


def test_files_that_do_not_fit(score: Score, files: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = files
    output = tmp_path / "out"
    (tmp_path / "short").write_text("a\nb\n")
    code, out, err = score("--target", str(tmp_path / "short"), "--output", str(output))
    assert (code, out) == (2, "")
    assert f"error: {source} has 41 lines and {tmp_path / 'short'} has 2: " in err
    code, out, err = score("--n-best", "2")
    assert (code, out) == (2, "") and f"error: {source} has 41 lines and {target} has 41: with --n-best 2" in err
    code, _, err = score("--source", str(tmp_path / "short"), "--n-best", "3")
    assert code == 2 and f"{tmp_path / 'short'} has 2 lines and {target} has 41: with --n-best 3" in err
    empty = tmp_path / "empty"
    empty.write_text("")
    assert score("--source", str(empty), "--target", str(empty), "--output", str(output)) == (0, "", "")
    assert output.read_text() == ""


def test_what_cannot_be_done_is_refused(score: Score, files: tuple[Path, Path], tmp_path: Path) -> None:
    before = files[1].read_text()
    code, _, err = score("--output", str(files[1]))
    assert code == 2 and f"error: --output {files[1]}: is the same file as --target" in err
    assert files[1].read_text() == before
    assert "decoding.to: no training corpus has the tag '<2fr>'" in score("--to", "<2fr>")[2]
    assert "--to: found ''; must be not empty" in score("--to", "")[2]
    model = str(save_run(tmp_path / "run", ATTENTIONS[2]))
    code, _, err = score("--alignments", str(tmp_path / "links"), model=model)
    assert code == 2 and f"error: --alignments: {model} has no attention" in err
    assert not (tmp_path / "links").exists() and score(model=model)[0] == 0


def test_links_of_two_runs_are_joined(score: Score, random_run: str, tmp_path: Path) -> None:
    def links(*options: str) -> list[set[str]]:
        assert score("--alignments", str(tmp_path / "links"), *options)[::2] == (0, "")
        return [set(line.split()) for line in (tmp_path / "links").read_text().splitlines()]

    reverse = shutil.copytree(random_run, tmp_path / "reverse")
    text = (reverse / "config.yaml").read_text()
    text = text.replace("source_language: x", "source_language: y").replace("target_language: y", "target_language: x")
    (reverse / "config.yaml").write_text(text)
    both = ("--reverse-model", str(reverse))
    ahead = links()
    joined = links(*both)
    assert joined != ahead and joined[-1] == set()
    assert len(LINES[0].split()) != len(LINES[1].split())
    for side, line in (("source", LINES[0]), ("target", LINES[1])):
        (tmp_path / side).write_text(f"{line}\n")
    [one] = links()
    files = {"--source": tmp_path / "target", "--target": tmp_path / "source", "--model": reverse}
    [other] = links(*(str(word) for option in files.items() for word in option))
    back = frozenset((i, j) for j, i in parse_gold(" ".join(other), "").sure)
    assert links(*both) == [{*format_pharaoh(symmetrized(parse_gold(" ".join(one), "").sure, back)).split()}]
    (reverse / "config.yaml").write_text(text.replace("max_source: 30", "max_source: 2"))
    _, _, err = score("--alignments", str(tmp_path / "links"), *both)
    assert err.startswith(f"nmt-score: warning: {tmp_path / 'target'}:1: {reverse}: too long: only its first 2 pieces")
    code, _, err = score("--alignments", str(tmp_path / "links"), "--reverse-model", random_run)
    assert code == 2 and f"error: --reverse-model: {random_run} translates x to y; must be y to x" in err
    assert "--reverse-model: has no effect without --alignments" in score(*both)[2]
