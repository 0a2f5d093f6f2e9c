"""A large text in chunks: the same bytes as in one go, whoever translates what, and however often it is killed."""

import gzip
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.cli.decoding import load_models
from nmt.cli.shards import own_device, shard_of, write_chunk
from nmt.cli.translate import main, parser
from nmt.errors import ConfigError, DataError, FileError
from nmt.translation.job import Job, Shard, Text, slices
from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.translator import Translator
from tests.small_translator import ATTENTIONS, LINES
from tests.test_cli_translate import save_run

TEXT = ("\ufeff" + "\r\n".join([*LINES, "", "  "]) + "\nb a\n\n" + LINES[3]).encode()
"""A byte-order mark, line ends of two kinds, blank lines, and none at the end."""
COMMAND = str(Path(sys.executable).with_name("nmt-translate"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_run(tmp_path_factory.mktemp("runs") / "bahdanau", ATTENTIONS[0]))


Translate = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is lost here."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def translate(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Translate:
    """Run the command in a directory with the file ``in``: exit code, standard error."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_bytes(TEXT)

    def call(*options: str, model: str = run) -> tuple[int, str]:
        code = main(["--model", model, "--device", "cpu", "--input", "in", *options])
        return code, capsys.readouterr().err

    return call


def shards(size: int) -> list[str]:
    """All shards, in an order that is not theirs."""
    return random.Random(size).sample([f"{number}/{size}" for number in range(1, size + 1)], size)


# --- the same bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chunk_lines", "size"), [(1, 3), (7, 1), (7, 4), (45, 2), (10_000, 2)])
def test_shards_of_any_size_give_what_one_process_gives(translate: Translate, chunk_lines: int, size: int) -> None:
    assert translate("--output", "plain") == (0, "")
    for shard in shards(size):
        code, said = translate("--output", "out", "--shard", shard, "--chunk-lines", str(chunk_lines))
        assert code == 0, said
    assert Path("out").read_bytes() == Path("plain").read_bytes()
    assert Path("out").read_bytes().count(b"\n") == len(LINES) + 5
    assert sorted(path.name for path in Path().iterdir()) == ["in", "out", "out.job", "plain"]
    assert sorted(path.name for path in Path("out.job").iterdir()) == ["job.json", "joined.json"]


NUMBER = re.compile(rb"-?[0-9]+\.[0-9]+(?:e-[0-9]+)?")


@pytest.mark.parametrize(
    "options",
    [
        ["--beam-size", "3", "--n-best", "3", "--scores", "--alignments", "{0}.links", "--attention", "{0}.json"],
        ["--sampling-temperature", "1", "--seed", "3", "--scores"],
        ["--mbr", "3"],
        ["--prefix", "prefixes", "--beam-size", "2"],
    ],
)
def test_all_that_is_written_and_every_way_to_search(translate: Translate, options: list[str]) -> None:
    """Scores and weights are equal to the last digits of fp32, in which batches of other lines differ; two and five
    processes have the same batches."""
    Path("prefixes").write_text("".join("a b\n" if number % 3 else "\n" for number in range(len(LINES) + 5)))
    for name, size in ("plain", 0), ("two", 2), ("five", 5):
        written = ["--output", name, *(option.format(name) for option in options)]
        for more in [["--shard", shard, "--chunk-lines", "11"] for shard in shards(size)] or [[]]:
            assert translate(*written, *more)[0] == 0
    results = [path for path in Path().iterdir() if path.name.startswith("plain")]
    assert len(results) == 1 + ("--attention" in options) + ("--alignments" in options)
    for path in results:
        plain, two, five = (Path(path.name.replace("plain", name)).read_bytes() for name in ("plain", "two", "five"))
        assert two == five
        assert NUMBER.sub(b"", two) == NUMBER.sub(b"", plain)
        numbers = ([float(number) for number in NUMBER.findall(text)] for text in (two, plain))
        assert next(numbers) == pytest.approx(next(numbers), abs=2e-4)


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_text(translate: Translate, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    Path(f"in{suffix}").write_bytes(compress(TEXT))
    assert translate("--output", "plain") == (0, "")
    for shard in shards(2):
        assert translate("--input", f"in{suffix}", "--output", "out", "--shard", shard, "--chunk-lines", "5")[0] == 0
    assert Path("out").read_bytes() == Path("plain").read_bytes()


def test_an_empty_text(translate: Translate) -> None:
    Path("in").write_bytes(b"")
    Path("out").write_text("older\n")
    code, said = translate("--output", "out", "--shard", "2/2")
    assert code == 0 and "all shards done: 0 lines translated, in out" in said
    assert Path("out").read_bytes() == b""


def test_a_line_is_known_by_its_number_in_the_text(translate: Translate) -> None:
    Path("in").write_text("a\n" * 5 + "b " * 1000 + "\n")
    said = "".join(translate("--output", "out", "--shard", shard, "--chunk-lines", "2")[1] for shard in shards(3))
    assert "warning: in:6: too long: only its first 30 pieces are translated\n" in said
    assert said.count("warning") == 1


def test_a_link_stays_a_link(translate: Translate) -> None:
    Path("elsewhere").mkdir()
    Path("out").symlink_to("elsewhere/out")
    assert translate("--output", "out", "--shard", "1/1")[0] == 0
    assert Path("out").is_symlink() and Path("elsewhere/out").read_bytes().count(b"\n") == len(LINES) + 5


# --- chunks and directories, without a model --------------------------------------------------------------------------


def job_of(folder: Path, lines: int, chunk_lines: int, kinds: tuple[str, ...] = ("output",), rows: int = 1) -> Job:
    job = Job(folder / "out.job", lines, chunk_lines, rows, {kind: folder / kind for kind in kinds})
    job.begin({"input": "of the test"})
    return job


def fill(job: Job, chunk: int) -> None:
    """Write a chunk: the numbers of its lines, as often as there are rows."""
    for kind in job.results:
        with job.writing(chunk, kind) as file:
            file.write("".join(f"{kind} {line}\n" * job.rows for line in job.span(chunk)).encode())


@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 3), st.lists(st.integers(1, 4), min_size=1), st.randoms())
@settings(deadline=None, max_examples=30)
def test_any_processes_in_any_order_fill_a_job(
    tmp_path_factory: pytest.TempPathFactory,
    lines: int,
    chunk_lines: int,
    rows: int,
    sizes: list[int],
    chance: random.Random,
) -> None:
    """Groups of any size come, do some of their chunks, and are killed; the last one does the rest."""
    folder = tmp_path_factory.mktemp("job")
    job = job_of(folder, lines, chunk_lines, ("output", "alignments"), rows)
    assert [line for chunk in range(job.chunks) for line in job.span(chunk)] == list(range(lines))
    for size in (*sizes, 3):
        group = [Shard(rank, size) for rank in range(size)]
        assert all(sum(shard.has(chunk) for shard in group) == 1 for chunk in range(job.chunks))
        work = [chunk for shard in group for chunk in job.missing() if shard.has(chunk)]
        chance.shuffle(work)
        for chunk in work if size == 3 else work[: len(work) // 2]:
            fill(job, chunk)
        if job.missing():
            with pytest.raises(FileError, match=f"missing chunks: {len(job.missing())} of {job.chunks}"):
                job.join()
    job.join()
    for kind, path in job.results.items():
        assert path.read_text() == "".join(f"{kind} {line}\n" * rows for line in range(lines))


@given(st.integers(0, 20), st.sets(st.integers(0, 5)))
def test_slices_skip_what_lies_between(lines: int, chosen: set[int]) -> None:
    spans = [range(4 * number, min(4 * number + 4, lines)) for number in sorted(chosen) if 4 * number < lines]
    text = [str(line) for line in range(lines)]
    assert [list(part) for part in slices(text, spans)] == [text[span.start : span.stop] for span in spans]


def test_a_chunk_of_another_length_is_not_joined(tmp_path: Path) -> None:
    job = job_of(tmp_path, 10, 4)
    for chunk in range(3):
        fill(job, chunk)
    damaged = tmp_path / "out.job" / "000001.output"
    whole = damaged.read_text()
    for text in (whole[:-12], whole + "more\n", ""):
        damaged.write_text(text)
        with pytest.raises(FileError) as caught:
            job.join()
        assert str(caught.value) == (
            f"{damaged}: has {text.count(chr(10))} lines and should have 4; delete it, and repeat the command to make "
            "it again"
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.job"], "no output, and nothing beside it"
    damaged.write_text(whole)
    job.join()
    assert job.joined and not job.missing()


def test_an_error_leaves_no_chunk(tmp_path: Path) -> None:
    job = job_of(tmp_path, 3, 3)
    with pytest.raises(DataError, match="fewer lines than it had when the job began"):
        write_chunk(job, 0, iter([translation("a")] * 2), {"output": lambda translation, _: translation.source})
    assert [path.name for path in job.folder.iterdir()] == ["job.json"] and job.missing() == [0]


def test_two_processes_join_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [job_of(tmp_path, 10, 4) for _ in range(2)]
    for chunk in range(3):
        fill(jobs[0], chunk)
    join = Job._join

    def second(self: Job, kind: str, path: Path) -> dict[str, object]:
        """The other process is faster, and has deleted the chunks."""
        monkeypatch.setattr(Job, "_join", join)
        jobs[0].join()
        return join(self, kind, path)

    monkeypatch.setattr(Job, "_join", second)
    jobs[1].join()
    assert (tmp_path / "output").read_text() == "".join(f"output {line}\n" for line in range(10))


def test_what_a_killed_process_has_left_is_deleted(tmp_path: Path) -> None:
    job = job_of(tmp_path, 10, 4)
    others = [".output.fr~host-2.new", ".output.host-1.new"]
    for left in (".output~host-1.new", "out.job/.000001.output~host-1.new", "out.job/.joined.json~host-1.new", *others):
        (tmp_path / left).write_text("half of i")
    (tmp_path / ".out.job~host-1.new").mkdir()
    for chunk in range(3):
        fill(job, chunk)
    job.join()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        *others,
        "out.job",
        "out.job/job.json",
        "out.job/joined.json",
        "output",
    ]


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Nor with the number of chunks, but for a few bytes each."""
    form = {"output": lambda translation, _: translation.text}
    peaks = []
    for lines in (4_000, 40_000):
        folder = tmp_path / str(lines)
        folder.mkdir()
        (folder / "in").write_text("a line of some words\n" * lines)
        tracemalloc.start()
        job = job_of(folder, Text.of(str(folder / "in")).lines, 500)
        for chunk in range(job.chunks):
            with (folder / "in").open() as file:
                [part] = slices(file, [job.span(chunk)])
                write_chunk(job, chunk, map(translation, part), form)
        job.join()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert Text.of(str(folder / "output")).lines == lines
    assert peaks[1] < peaks[0] + 200_000


def translation(line: str) -> Translation:
    text = line.strip().upper()
    return Translation(line, [], [TranslatedHypothesis(text, 0.0, 0.0, [])])


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_another_job_is_refused_with_what_differs(translate: Translate, run: str, tmp_path: Path) -> None:
    first = ("--output", "out", "--shard", "1/2", "--chunk-lines", "9")
    assert translate(*first)[0] == 0
    before = {path: path.read_bytes() for path in Path("out.job").iterdir()}
    other = str(save_run(tmp_path / "other", ATTENTIONS[0], eos=1.0))
    Path("prefixes").write_text("\n" * (TEXT.count(b"\n") + 1))
    for options, difference in (
        (["--beam-size", "3"], "beam_size (2 there, 3 here)"),
        (
            ["--chunk-lines", "8", "--length-penalty", "0.5"],
            "chunk-lines (9 there, 8 here); length_penalty (1.0 there, ",
        ),
        (["--prefix", "prefixes"], "prefix (null there, "),
        (["--scores"], "scores (false there, true here)"),
        (["--alignments", "links"], "alignments (false there, true here)"),
        (["--sampling-temperature", "1"], "beam_size (2 there, 1 here); sampling (null there, {"),
        (["--precision", "bf16"], 'precision ("float32" there, "bfloat16" here)'),
        (["--model", run], "models.2 (null there, {"),
    ):
        code, said = translate(*first, *options)
        assert code == 2 and f"error: out.job: holds a job that differs from this command in {difference}" in said
        assert said.endswith("error: repeat the command with which it began, or delete out.job to start over\n")
    code, said = translate(*first, model=other)
    assert code == 2 and "models.1.weights (" in said and said.count("there") == 1
    Path("in").write_bytes(TEXT.replace(b"b a", b"a b"))
    code, said = translate(*first)
    assert code == 2 and "command in input (" in said and said.count("there") == 1
    assert {path: path.read_bytes() for path in Path("out.job").iterdir()} == before
    Path("in").write_bytes(TEXT)
    assert translate(*first, "--batch-tokens", "50", "--shard", "2/2")[0] == 0, "no translation depends on it"
    assert translate("--output", "plain")[0] == 0
    assert Path("out").read_bytes() == Path("plain").read_bytes()


def test_a_model_that_is_replaced_while_it_is_loaded_is_refused(
    translate: Translate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks would be those of the old weights, and the job would name the new ones."""
    model, newer = (save_run(tmp_path / name, ATTENTIONS[0], eos=eos) for name, eos in (("m", 0.0), ("newer", 1.0)))
    weights = "checkpoints/best/model.safetensors"

    def replaced(runs: Sequence[str], arguments: Namespace, **device: str) -> Translator:
        loaded = load_models(runs, arguments, **device)
        (newer / weights).replace(model / weights)
        return loaded

    monkeypatch.setattr("nmt.cli.shards.load_models", replaced)
    code, said = translate("--output", "out", "--shard", "1/1", model=str(model))
    assert code == 2 and "error: --model: was replaced while it was loaded; translate when" in said
    assert not Path("out.job").exists()
    code, said = translate("--output", "out", "--shard", "1/1", model="nowhere")
    assert code == 2 and said.startswith("nmt-translate: error: nowhere")


@pytest.mark.parametrize("prefix", [False, True])
def test_a_text_that_is_changed_while_it_is_translated_is_refused(
    translate: Translate, prefix: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks would be those of another text than the job names. A file that was only touched is the same."""
    name, contents = ("prefixes", b"\n" * TEXT.count(b"\n") + b"b") if prefix else ("in", TEXT)
    Path("prefixes").write_bytes(contents)
    command = ["--output", "out", "--shard", "1/1", *(["--prefix", "prefixes"] if prefix else [])]
    changes: list[Callable[[], object]] = [
        Path(name).touch,
        lambda: Path(name).write_bytes(contents.replace(b"b", b"a")),
    ]

    def changed(runs: Sequence[str], arguments: Namespace, **device: str) -> Translator:
        loaded = load_models(runs, arguments, **device)
        changes.pop()()
        return loaded

    monkeypatch.setattr("nmt.cli.shards.load_models", changed)
    code, said = translate(*command)
    assert code == 2 and f"error: {name}: has changed since the job began; restore it, and repeat" in said
    assert [path.name for path in Path("out.job").iterdir()] == ["job.json"]
    Path(name).write_bytes(contents)
    assert translate(*command)[0] == 0
    assert Path("out").exists()


def test_a_directory_of_something_else_is_refused(translate: Translate) -> None:
    Path("out.job").mkdir()
    Path("out.job/file").write_text("mine")
    code, said = translate("--output", "out", "--shard", "1/1")
    assert code == 2 and "out.job: is not the directory of a translation; rename it, or choose another" in said
    assert [path.name for path in Path("out.job").iterdir()] == ["file"]


def test_a_finished_job_is_done_once(translate: Translate) -> None:
    options = ("--output", "out", "--shard", "1/1")
    assert translate(*options)[0] == 0
    before = Path("out").stat().st_mtime_ns
    assert translate(*options) == (0, "nmt-translate: shard 1/1: out is finished; delete out.job to translate again\n")
    assert Path("out").stat().st_mtime_ns == before
    code, said = translate(*options, "--beam-size", "1")
    assert code == 2 and "holds a finished job that differs" in said
    Path("out").write_text("changed\n")
    code, said = translate(*options)
    assert code == 2 and "out: has changed since the job was finished; delete out.job to translate again" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "1/2"], "error: --output: is missing; --shard needs files to read and to write"),
        (
            ["--shard", "1/2", "--output", "out", "--precision", "auto"],
            "error: --precision auto: each process, and each new start, would measure anew and may choose otherwise; "
            "with --shard name fp32, bf16 or int8",
        ),
        (["--shard", "1/2", "--output", "/dev/null"], "error: --output /dev/null: must be a regular file with --shard"),
        (["--shard", "1/2", "--input", "/dev/null", "--output", "x"], "error: /dev/null: is read twice, and must be a"),
        (["--shard", "0/2", "--output", "x"], "'0/2' is not a shard; of four they are 1/4, 2/4, 3/4 and 4/4"),
        (["--shard", "3/2", "--output", "x"], "'3/2' is not a shard"),
        (["--shard", "one", "--output", "x"], "'one' is not a shard"),
        (["--chunk-lines", "5"], "--chunk-lines: has no effect without --shard or torchrun; --shard 1/1 is the whole"),
        (["--shard", "1/2", "--output", "x", "--prefix", "in2"], "in has 45 lines and --prefix in2 has 1: line n of"),
        (["--shard", "1/2", "--output", "x", "--input", "in3"], "in3:2: not UTF-8 (byte 0xff at column 1)"),
    ],
)
def test_what_cannot_be_done_is_refused(translate: Translate, options: list[str], message: str) -> None:
    Path("in2").write_text("a\n")
    Path("in3").write_bytes(b"a\n\xff\n")
    code, said = translate(*options)
    assert code == 2 and message in said
    assert sorted(path.name for path in Path().iterdir()) == ["in", "in2", "in3"]


def test_torchrun_divides_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    files = ["--model", "m", "--input", "a", "--output", "b"]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert shard_of(parser().parse_args(files)) == Shard(1, 3)
    groups = [Shard(rank, 2) for rank in range(2)]
    for chunk in range(12):
        both = shard_of(parser().parse_args([*files, "--shard", f"{chunk % 2 + 1}/2"]))
        assert both == Shard(3 * (chunk % 2) + 1, 6) and str(both) == f"{3 * (chunk % 2) + 2}/6"
    assert [str(group) for group in groups] == ["1/2", "2/2"]
    with pytest.raises(ConfigError) as caught:
        shard_of(parser().parse_args(files[:2]))
    why = "is missing; torchrun (RANK and WORLD_SIZE are set) needs files to read and to write"
    assert caught.value.problems == (f"--input: {why}", f"--output: {why}")
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(ConfigError, match="RANK=3, WORLD_SIZE=3: must be"):
        shard_of(parser().parse_args(files))


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        (None, 2, {"device": "cuda:1"}),
        ("auto", 2, {"device": "cuda:1"}),
        ("cuda", 2, {"device": "cuda:1"}),
        ("cuda:0", 2, {}),
        ("cpu", 2, {}),
        (None, 1, {}),
        (None, 0, {}),
    ],
)
def test_each_process_of_a_machine_has_its_own_gpu(
    monkeypatch: pytest.MonkeyPatch, name: str | None, gpus: int, expected: dict[str, str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert own_device(name) == {}
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert own_device(name) == expected


# --- progress ---------------------------------------------------------------------------------------------------------


def test_a_shard_is_a_step_that_counts_its_lines(translate: Translate, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--output", "out", "--shard", "1/1", "--chunk-lines", "7", "--verbose")
    count = len(LINES) + 5
    to_do, done, *_ = translate(*options)[1].splitlines()
    assert to_do == f"nmt-translate: shard 1/1: {count} lines to translate"
    assert re.fullmatch(rf"nmt-translate: shard 1/1: {count} lines in \d+s", done)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for path in ("out", "out.job/joined.json", "out.job/job.json"):
        Path(path).unlink()
    Path("out.job").rmdir()
    assert "lines to translate" not in translate(*options)[1], "only the first process of a machine speaks"


# --- real processes ---------------------------------------------------------------------------------------------------


def command(run: str, folder: Path, *options: str) -> list[str]:
    files = ["--input", str(folder / "in"), "--output", str(folder / "out"), "--device", "cpu", "--beam-size", "1"]
    return [COMMAND, "--model", run, *files, "--chunk-lines", "40", *options]


def long_text(run: str, folder: Path, lines: int) -> bytes:
    """Write a text that takes a while, and return its translation in one go."""
    chance = random.Random(1)
    (folder / "in").write_text("".join(f"{chance.choice(LINES)}\n" for _ in range(lines)))
    plain = ["--model", run, "--device", "cpu", "--beam-size", "1", "--input", str(folder / "in")]
    assert main([*plain, "--output", str(folder / "plain")]) == 0
    return (folder / "plain").read_bytes()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)


def test_a_killed_process_goes_on_where_it_was(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = long_text(run, tmp_path, 800)
    done = tmp_path / "out.job" / "000005.output"
    with subprocess.Popen(command(run, tmp_path, "--shard", "1/1"), stderr=subprocess.PIPE) as process:
        wait_for(done.exists, process)
        process.kill()
    assert process.returncode == -signal.SIGKILL and not (tmp_path / "out").exists()
    chunks = {path: path.stat().st_mtime_ns for path in (tmp_path / "out.job").glob("0*.output")}
    assert 6 <= len(chunks) < 20
    said = ""
    for shard in shards(2):
        assert main(command(run, tmp_path, "--shard", shard)[1:]) == 0
        said += capsys.readouterr().err
        assert {path: path.stat().st_mtime_ns for path in chunks if path.exists()}.items() <= chunks.items()
    assert sum(map(int, re.findall(r"shard ./2: ([0-9]+) lines to translate", said))) == 800 - 40 * len(chunks)
    assert (tmp_path / "out").read_bytes() == expected


def test_torchrun_starts_a_killed_rank_again(run: str, tmp_path: Path) -> None:
    expected = long_text(run, tmp_path, 800)
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "2"]
    started = [*torchrun, "--max-restarts", "1", "--monitor-interval", "0.1", "--no-python", *command(run, tmp_path)]
    with subprocess.Popen(started, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            folder = tmp_path / "out.job"
            wait_for(lambda: len(list(folder.glob("0*.output"))) > 3, process)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            [victim] = [pid for pid in children if b"--model" in Path(f"/proc/{pid}/cmdline").read_bytes()][:1]
            os.kill(int(victim), signal.SIGKILL)
            said = process.communicate(timeout=100)[1].decode()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    assert said.count("shard 1/2: ") >= 2 and (tmp_path / "out").read_bytes() == expected
