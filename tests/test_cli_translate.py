"""The command as a user meets it: files, pipes, exit codes, and what is said on standard error."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from nmt.cli.translate import main
from tests.small_translator import ATTENTIONS, LINES, save_run

TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(scope="module")
def run_without_attention(folder: Path) -> str:
    return str(save_run(folder / "none", ATTENTIONS[2]))


Translate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def translate(random_run: str, monkeypatch: pytest.MonkeyPatch, command: Translate) -> Translate:
    """Run the command on bytes or text of standard input: exit code, standard output, standard error."""

    def call(stdin: str | bytes, *options: str, model: str = random_run) -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))
        return command(main, "--model", model, "--device", "cpu", *options)

    return call


def test_lines_go_in_and_come_out(translate: Translate) -> None:
    code, out, err = translate("\n" + TEXT + "  \n" + LINES[0])
    assert (code, err) == (0, "")
    lines = out.split("\n")
    assert len(lines) == len(LINES) + 4  # the last one lacked its line end, and the split leaves an empty rest
    assert lines[0] == lines[-3] == lines[-1] == ""
    assert lines[1] == lines[-2] and lines[1]
    assert translate("") == (0, "", "")


def test_files(translate: Translate, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert translate("", "--input", str(source), "--output", str(target)) == (0, "", "")
    assert target.read_bytes().decode() == translate(TEXT)[1]


def test_n_best_and_scores(translate: Translate) -> None:
    best = translate(TEXT, "--beam-size", "3")[1].split("\n")
    _, out, _ = translate(TEXT + "\n", "--beam-size", "3", "--n-best", "3", "--scores")
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert len(rows) == 3 * (len(LINES) + 1)
    assert rows[-3:] == [["0.0000", ""], ["-inf", ""], ["-inf", ""]]
    assert [text for _, text in rows[:-3:3]] == best[:-1]
    for group in zip(rows[0:-3:3], rows[1:-3:3], rows[2:-3:3], strict=True):
        scores = [float(score) for score, _ in group]
        assert scores == sorted(scores, reverse=True) and scores[0] < 0


def test_alignments_and_attention(translate: Translate, tmp_path: Path) -> None:
    links, matrices = tmp_path / "links", tmp_path / "attention"
    options = ["--beam-size", "2", "--n-best", "2", "--alignments", str(links), "--attention", str(matrices)]
    code, out, _ = translate(TEXT + "\n", *options)
    assert code == 0
    sources = [line for line in [*LINES, ""] for _ in range(2)]
    outputs = out.split("\n")[:-1]
    aligned, attended = links.read_text().split("\n")[:-1], matrices.read_text().split("\n")[:-1]
    assert len(sources) == len(outputs) == len(aligned) == len(attended)
    for source, target, line, json_line in zip(sources, outputs, aligned, attended, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert [j for _, j in pairs] == list(range(len(target.split())))
        assert all(0 <= i < len(source.split()) for i, _ in pairs)
        matrix = json.loads(json_line)
        assert "".join(matrix["source"]).replace("▁", " ").removesuffix("</s>").strip() == source
        assert "".join(matrix["target"]).replace("▁", " ").removesuffix("</s>").strip() == target
        assert len(matrix["weights"]) == len(matrix["target"])
        for row in matrix["weights"]:
            assert len(row) == len(matrix["source"]) and sum(row) == pytest.approx(1, abs=0.01)


def test_sampling(translate: Translate) -> None:
    def sample(*options: str) -> str:
        code, out, err = translate(TEXT, "--sampling-temperature", "1", *options)
        assert (code, err) == (0, "")
        return out

    assert sample() == sample("--seed", "1", "--batch-tokens", "100")
    assert sample() != sample("--seed", "2")
    assert sample("--top-k", "1") == sample("--top-p", "0.000001") == translate(TEXT, "--beam-size", "1")[1]


def test_runs_translate_together(translate: Translate, run_without_attention: str, tmp_path: Path) -> None:
    alone = translate(TEXT)[1]
    code, together, err = translate(TEXT, "--model", run_without_attention)
    assert (code, err, together.count("\n")) == (0, "", len(LINES)) and together != alone
    code, _, err = translate(TEXT, "--model", run_without_attention, str(tmp_path / "none"))
    assert code == 2 and "no such run directory" in err
    weights = Path(run_without_attention, "checkpoints/best/model.safetensors")
    code, _, err = translate(TEXT, "--model", run_without_attention, "--output", str(weights))
    assert code == 2 and f"is inside the run directory {run_without_attention}" in err


def test_a_line_at_a_terminal_is_answered_at_once(
    random_run: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    answers, prompts = [], []

    def typed() -> Iterator[bytes]:
        for line in LINES[:3]:
            yield line.encode() + b"\n"
            captured = capsysbinary.readouterr()
            answers.append(captured.out.count(b"\n"))
            prompts.append(captured.err)

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=typed(), isatty=lambda: True))
    assert main(["--model", random_run, "--device", "cpu"]) == 0
    assert answers == [1, 1, 1]
    assert prompts == [b"type a line to translate; press Ctrl-D to end\n> > ", b"> ", b"> "]


def test_progress_is_shown_at_a_terminal(translate: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text(TEXT)
    options = ["--input", str(tmp_path / "text"), "--output", str(tmp_path / "out")]
    assert translate("", *options) == (0, "", ""), "nobody is there to watch"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("nmt.cli.terminal.SHOWN_AFTER", 1e9)
    assert translate("", *options) == (0, "", ""), "done in a moment"
    monkeypatch.setattr("nmt.cli.terminal.SHOWN_AFTER", 0.0)
    code, out, err = translate("", *options)
    assert (code, out) == (0, "") and f"{tmp_path}/text: " in err and f"/{len(LINES)} lines [" in err
    code, out, err = translate(TEXT)
    assert code == 0 and out.count("\n") == len(LINES) and "standard input: " in err


def test_a_line_too_long_is_cut_with_a_warning(translate: Translate) -> None:
    code, out, err = translate("a\n" + "b " * 100_000 + "\nc\n")
    assert code == 0 and out.count("\n") == 3
    assert err.startswith("nmt-translate: warning: standard input: line 2: ")
    assert err.endswith(": too long: only its first 30 pieces are translated\n")


def test_tags_stand_in_the_translation_of_the_same_text(translate: Translate, tmp_path: Path) -> None:
    text = f"<b>{LINES[0]}</b>\n\n<i/>{LINES[1]}\n"
    code, out, err = translate(text, "--markup", "--n-best", "2", "--beam-size", "2")
    assert (code, err, out.count("<b>"), out.count("</b>"), out.count("<i/>")) == (0, "", 2, 2, 2)
    plain = translate(f"{LINES[0]}\n\n{LINES[1]}\n", "--n-best", "2", "--beam-size", "2")[1]
    assert re.sub("<[^>]*>", "", out) == plain
    code, out, err = translate(f"{TEXT}a</b>\n", "--markup")
    assert code == 2 and f"standard input:{len(LINES) + 1}: tag </b> at character 2 closes nothing" in err
    (tmp_path / "in").write_text(f"{TEXT}a</b>\n<b>\n")
    code, _, err = translate("", "--markup", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert code == 2 and err.count(f"{tmp_path / 'in'}:") == 2 and [*tmp_path.iterdir()] == [tmp_path / "in"]


def test_a_paragraph_is_translated_sentence_by_sentence(translate: Translate, tmp_path: Path) -> None:
    links, parts = tmp_path / "links", ["ghi jab!", "1 cab def.", "1 abc", LINES[0]]
    texts = [f"  {parts[0]} {parts[1]}  {parts[2]} ", " ", "", parts[3]]
    command = ("--alignments", str(links), "--scores")
    rows = [line.split("\t") for line in translate("\n".join(parts), *command)[1].splitlines()]
    scores, found = zip(*rows, strict=True)
    single = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in links.read_text().splitlines()]
    code, out, err = translate("\n".join(texts), "--paragraphs", *command)
    score, text = out.partition("\n")[0].split("\t")
    assert (code, text, err) == (0, f"  {found[0]} {found[1]}  {found[2]} ", "")
    assert float(score) == pytest.approx(sum(map(float, scores[:3])), abs=1e-3)
    assert out.split("\n")[1:] == ["0.0000\t ", "0.0000\t", f"{scores[3]}\t{found[3]}", ""]
    read, written = (np.cumsum([0, *(len(each.split()) for each in side)]) for side in (parts, found))
    shifted = [f"{i + read[n]}-{j + written[n]}" for n in range(3) for i, j in single[n]]
    assert links.read_text().splitlines() == [" ".join(shifted), "", "", " ".join(f"{i}-{j}" for i, j in single[3])]
    tagged = translate(f"  <b>{texts[0].strip()}</b> \n", "--paragraphs", "--markup")[1]
    assert re.sub("</?b>", "", tagged) == f"{text}\n" and tagged.count("b>") == 2
    err = translate(f"\n{parts[0]} 1 {'b ' * 100}\n", "--paragraphs")[2]
    assert err.startswith("nmt-translate: warning: standard input: line 2: too long: only its first 30 pieces")


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--top-k", "3", "--seed", "3"], "--top-k, --seed: has no effect without sampling"),
        (["--sampling-temperature", "1", "--n-best", "2"], "n-best 2: "),
        (["--markup", "--alignments", "x"], "--alignments: cannot be combined with --markup; leave one out"),
        (["--glossary", __file__, "--markup"], "--markup: cannot be combined with --glossary; leave one out"),
        (["--paragraphs", "--n-best", "2"], "--n-best: cannot be combined with --paragraphs; leave one out"),
        (["--paragraphs", "--confidence"], "--confidence: cannot be combined with --paragraphs; leave one out"),
        (["--sampling-temperature", "1", "--confidence"], "--confidence: cannot be combined with --sampling-temp"),
        (["--sampling-temperature", "0"], "argument --sampling-temperature: found '0'; must be greater than 0"),
        (["--glossary", "missing.tsv"], "missing.tsv: no such file (tried {folder}/missing.tsv)"),
        (["--input", "missing.txt"], "missing.txt: no such file (tried {folder}/missing.txt)"),
        (["--output", "missing/out.txt"], "missing/out.txt: cannot be written: No such file or directory; make"),
        (["--alignments", "/"], "/: cannot be written: Is a directory"),
        (["--output", f"{__file__}/x"], f"{__file__}/x: cannot be written: Not a directory"),
        (["--output", "/dev/full"], "/dev/full: cannot be written: No space left on device\n"),
        (["--pictures", __file__], f"{__file__}: the directory cannot be created: File exists"),
        (["--output", "x", "--attention", "./x"], "--attention ./x: is the same file as --output"),
        (["--device", "abacus"], "device: 'abacus' is not a device"),
    ],
)
def test_what_cannot_be_done_is_refused(
    translate: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = translate(TEXT, *options)
    assert (code, out) == (2, "") and err.startswith(f"nmt-translate: error: {problem.format(folder=tmp_path)}")
    assert err.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_what_standard_input_comes_from_is_not_written_over(random_run: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text(TEXT)
    command = [str(Path(sys.executable).with_name("nmt-translate")), "--model", random_run, "--output", str(text)]
    with text.open() as stream:
        done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is the same file as standard input; choose another" in done.stderr
    assert text.read_text() == TEXT


def test_no_attention_no_alignments(translate: Translate, run_without_attention: str, tmp_path: Path) -> None:
    for option in ("--alignments", "--attention", "--pictures", "--markup"):
        options = [] if option == "--markup" else [str(tmp_path / "file")]
        code, out, err = translate(TEXT, option, *options, model=run_without_attention)
        assert (code, out) == (2, "") and f"error: {option}: {run_without_attention} has no attention" in err
    assert list(tmp_path.iterdir()) == []
    assert translate(TEXT, model=run_without_attention)[0] == 0


# --- pictures of the attention ----------------------------------------------------------------------------------------


def test_pictures_draw_each_line_by_its_number(translate: Translate, tmp_path: Path) -> None:
    folder, other = tmp_path / "new" / "pictures", tmp_path / "attention"
    plain = translate(f"{LINES[0]}\n\n{LINES[1]}\n")
    options = ("--pictures", str(folder), "--attention", str(other), "--n-best", "2")
    drawn = translate(f"{LINES[0]}\n\n{LINES[1]}\n", *options)
    assert (plain[0], drawn[0], drawn[2]) == (0, 0, "")
    assert plain[1].splitlines() == drawn[1].splitlines()[::2]
    expected = {f"line-{line}.{kind}" for line in ("001", "003") for kind in ("png", "svg")}
    assert {path.name for path in folder.iterdir()} == expected
    assert len(other.read_text("utf-8").splitlines()) == 6


def test_pictures_are_bounded(translate: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cli.translate.MOST_PICTURES", 2)
    text = tmp_path / "text"
    text.write_text("ab\n" * 5)
    code, _, err = translate("", "--input", str(text), "--pictures", str(tmp_path))
    assert code == 0 and "warning: --pictures draws lines 1 to 2; others are left out" in err
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["line-001.png", "line-002.png"]


def test_lines_wait_for_their_pictures(translate: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a command that is stopped while it draws, and repeated, leaves out none."""
    (tmp_path / "text").write_text("ab\n")
    monkeypatch.setattr("nmt.cli.translate.draw", Mock(side_effect=KeyboardInterrupt))
    files = ("--input", str(tmp_path / "text"), "--output", str(tmp_path / "output"), "--pictures", str(tmp_path))
    assert translate("", *files)[0] == 130
    assert (tmp_path / "output.partial").read_text() == ""
