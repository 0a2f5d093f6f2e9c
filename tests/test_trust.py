"""Fast kernels that nobody has tried: a trial decides whether training uses them, and what passed is remembered."""

import faulthandler
import json
import os
import re
import signal
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt import fast
from nmt.config import Config
from nmt.config.schema import Kernels
from nmt.data.batching import Batch
from nmt.data.dataset import PreparedData, prepare
from nmt.errors import NmtWarning
from nmt.fast.teacher_forcing import FastTraining
from nmt.foundation.messages import Highlight
from nmt.foundation.world import ONE_PROCESS, World, in_turn
from nmt.model import Memory, Network, Seq2Seq
from nmt.runs.loading import load_run
from nmt.training import trial, trust
from nmt.training.dry_run import dry_run
from nmt.training.gradients import GraphedGradients
from nmt.training.trial import Disagreement, Found, Outcome, compare, judge, trial_of
from nmt.training.trust import EVERY_DEVICE, setting_of, trusted
from nmt.translation.translator import Translator
from tests import graphs_on_cpu
from tests.models import VARIANTS
from tests.processes import run_processes
from tests.small_run import metrics, options, train, write_corpus

CPU = torch.device("cpu")
ELSEWHERE: list[tuple[str, Any]] = [
    ("nmt.fast.place.__version__", "999"),
    ("torch.__version__", "999"),
    ("torch.version.cuda", "99.9"),
    ("nmt.fast.place._triton", lambda: "999"),
    ("nmt.fast.place._sources", lambda: "other code"),
    ("nmt.fast.place._cpu", lambda: {"name": "another"}),
    ("os.environ", os.environ | {"CC": "another"}),
]
"""Changes after which nothing is known of the fast kernels."""
SIZES = {"embeddings": {"size": 16}, "encoder": {"hidden": 16}, "decoder": {"hidden": 32, "readout": 16}}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a corpus that all tests here train on."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture
def settings(corpus: Path, tmp_path: Path) -> dict[str, Any]:
    """A configuration with a cache and a run directory of its own."""
    values = options(corpus)
    values["data"]["cache"] = str(tmp_path / "cache")
    return values | {"output": str(tmp_path / "run")}


def prepared_of(config: Config) -> PreparedData:
    return prepare(config, lambda _: None)


# --- kernels that are wrong -------------------------------------------------------------------------------------------


class WrongLoss(FastTraining):
    """By a hundredth of a percent."""

    def loss(self, readouts: Tensor, targets: Tensor, mask: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        objective, likelihood = super().loss(readouts, targets, mask, smoothing)
        return objective, 1.0001 * likelihood


class WrongGradient(FastTraining):
    """By a thousandth, in the encoder alone; the loss is right."""

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        memory = super().encode(source, lengths)
        for tensor in (memory.annotations, memory.summary):
            tensor.register_hook(lambda gradient: 1.001 * gradient)
        return memory


class NotANumber(FastTraining):
    """In all gradients of the readouts."""

    def unroll(self, target_input: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        readouts, weights = super().unroll(target_input, memory)
        readouts.register_hook(lambda gradient: gradient * torch.nan)
        return readouts, weights


class DoesNotCompile(FastTraining):
    """As Triton reports it: over several lines."""

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        raise RuntimeError("\nPTXAS error: out of registers\nsee the log")


class Crashes(FastTraining):
    """With a last word."""

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        faulthandler.disable()  # of pytest
        os.write(2, b"an illegal memory access\n\n")
        os.abort()


class Hangs(FastTraining):
    """Until it is killed."""

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        time.sleep(1000)
        raise AssertionError


BROKEN: dict[type[FastTraining], str] = {
    WrongLoss: r"in fp32 the loss is wrong: relative error 0\.0001 instead of 1e-05 at most \(plain kernels: \S+\)",
    WrongGradient: r"in fp32 the gradient of encoder\.\S+ is wrong: relative error 0\.001 instead of .*",
    NotANumber: r"in fp32 the gradient of \S+ is wrong: relative error nan instead of 0\.0001 at most .*",
    DoesNotCompile: "RuntimeError: PTXAS error: out of registers",
    Crashes: "its process was killed by SIGABRT: an illegal memory access",
    Hangs: "it did not end within 1 seconds",
}


def install(monkeypatch: pytest.MonkeyPatch, kind: type[FastTraining]) -> None:
    """Make it the fast path of training; the process of a trial is a copy of this one and has it, too."""

    def training(model: Seq2Seq, kernels: Kernels = "auto", *, attention_gradients: bool = False) -> Network:
        return kind(model, attention_gradients=attention_gradients) if kernels == "auto" else model

    monkeypatch.setattr(fast, "training", training)
    if kind is Hangs:
        monkeypatch.setattr(trial, "SECONDS", 1.0)


def files(run: Path) -> dict[str, Any]:
    """What a run computed: weights, hypotheses, and all metrics but times."""
    found: dict[str, Any] = {
        name: (run / name).read_bytes() for name in ("test.hypotheses.txt", "checkpoints/last/model.safetensors")
    }
    times = {"seconds", "target_tokens_per_second", "matrix_share"}
    found["metrics"] = [{k: v for k, v in line.items() if k not in times} for line in metrics(run)]
    return found


def warnings_in(said: list[str]) -> list[str]:
    return [line for line in said if "warning" in line]


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: str(kind.__name__))
def test_training_goes_on_with_plain_kernels_as_if_they_had_been_asked_for(
    kind: type[FastTraining], settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; with one warning, and nothing remembered. The configuration of the run stays as it was."""
    install(monkeypatch, kind)
    said = train(Config.model_validate(settings), distrusted=EVERY_DEVICE)
    [warning] = warnings_in(said)
    assert isinstance(warning, Highlight)
    name = fast.place_of(CPU)["device"]["name"]
    before, _, after = warning.partition(f"{name} in fp32: ")
    assert before == "warning: the fast kernels failed their trial on "
    problem, _, advice = after.partition(". Training goes on ")
    assert re.fullmatch(BROKEN[kind], problem)
    assert advice == "with the plain kernels, which are slower (kernels: plain leaves the trial out)"
    assert any(line.startswith("machine: ") and "plain kernels" in line for line in said)
    assert not (tmp_path / "cache" / trust.PASSED).exists()
    assert "kernels: auto" in (tmp_path / "run" / "config.yaml").read_text()
    with pytest.warns(
        NmtWarning, match=r"/run: the plain kernels are used, which are slower: on cpu \(\w+\) the fast "
    ):
        assert load_run(tmp_path / "run", CPU).config.kernels == "plain"
    plain = Config.model_validate(settings | {"kernels": "plain", "output": str(tmp_path / "plain")})
    assert warnings_in(train(plain, distrusted=EVERY_DEVICE)) == []
    assert files(tmp_path / "run") == files(tmp_path / "plain")


# --- kernels that are right -------------------------------------------------------------------------------------------


def test_a_trial_changes_nothing_and_is_made_once(settings: dict[str, Any], tmp_path: Path) -> None:
    """Training is bit for bit what it is without; a second run remembers, as a resumed one does."""
    config = Config.model_validate(settings)
    said = train(config, distrusted=EVERY_DEVICE)
    [line] = [line for line in said if line.startswith("kernels: ")]
    assert re.fullmatch(
        r"kernels: a batch by the fast ones equals the plain ones on cpu \(.*\) in fp32: in fp32 relative errors of "
        r"up to \S+, in the .+ \(plain kernels: \S+\)",
        line,
    )
    [memory] = (tmp_path / "cache" / trust.PASSED).iterdir()
    content = json.loads(memory.read_text("utf-8"))
    assert content["setting"]["network"]["attention"]["type"] == "bahdanau"
    longer = config.model_copy(update={"training": config.training.model_copy(update={"updates": 5})})
    for again, resume in ((config, False), (longer, True)):
        said = train(again, distrusted=EVERY_DEVICE, overwrite=not resume, resume=resume)
        [line] = [line for line in said if line.startswith("kernels: ")]
        assert line.endswith(f" on {content['passed']} (recorded in {memory})")
        if not resume:
            alone = config.model_copy(update={"output": str(tmp_path / "alone")})
            assert not any("kernels: " in line for line in train(alone))
            assert files(tmp_path / "run") == files(tmp_path / "alone")


def test_a_finished_run_makes_no_trial(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is extended does."""
    config = Config.model_validate(settings)
    train(config)
    install(monkeypatch, WrongLoss)
    said = train(config, distrusted=EVERY_DEVICE, resume=True)
    assert any("nothing is left to do" in line for line in said)
    assert not any("kernels" in line for line in said)
    longer = config.model_copy(update={"training": config.training.model_copy(update={"updates": 5})})
    said = train(longer, distrusted=EVERY_DEVICE, resume=True)
    assert len(warnings_in(said)) == 1
    assert any(line.startswith("machine: ") and "plain kernels" in line for line in said)


def test_what_did_not_pass_is_not_used_for_translation_on_the_same_device(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless somebody asks for it; and until it passes. Translation makes no trial."""
    config, run = Config.model_validate(settings), tmp_path / "run"
    with monkeypatch.context() as patched:
        install(patched, WrongLoss)
        train(config, distrusted=EVERY_DEVICE)
    monkeypatch.setattr(trust, "run_trial", pytest.fail)
    assert load_run(run, CPU, kernels="auto").config.kernels == "auto"
    with pytest.warns(NmtWarning) as caught:
        plain = Translator.load(run, "cpu").translate(["oak elm", "fir"])
    assert len(caught) == 1
    assert [each.text for each in plain] == [
        each.text for each in Translator.load(run, "cpu", kernels="plain").translate(["oak elm", "fir"])
    ]
    for part, value in ELSEWHERE:
        with monkeypatch.context() as patched:
            patched.setattr(part, value)
            assert load_run(run, CPU).config.kernels == "auto", part
    longer = config.model_copy(update={"training": config.training.model_copy(update={"updates": 5})})
    train(longer, resume=True)  # without a trial, of which nothing is learned
    with pytest.warns(NmtWarning, match="the plain kernels are used"):
        load_run(run, CPU)
    monkeypatch.setattr(trust, "run_trial", lambda made: Outcome(None, "close"))
    longer = config.model_copy(update={"training": config.training.model_copy(update={"updates": 6})})
    train(longer, distrusted=EVERY_DEVICE, resume=True)
    assert load_run(run, CPU).config.kernels == "auto"


def test_a_lack_of_memory_is_no_failure(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what was not tried is not used, in this training."""

    class TooLarge(FastTraining):
        def encode(self, source: Tensor, lengths: Tensor) -> Memory:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GB\nmore")

    install(monkeypatch, TooLarge)
    config = Config.model_validate(settings)
    kernels, [warning] = lines_of(config, prepared_of(config))
    assert kernels == "plain"
    where = f"{fast.place_of(CPU)['device']['name']} in fp32"
    assert warning == (
        f"warning: the fast kernels could not be tried on {where}: memory is too small, even for one pair "
        "(OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GB). Training goes on with the plain "
        "kernels, which are slower (kernels: plain leaves the trial out)"
    )
    assert not (tmp_path / "cache" / trust.PASSED).exists()
    train(config, distrusted=EVERY_DEVICE)
    assert load_run(tmp_path / "run", CPU).config.kernels == "auto"


def test_a_process_that_cannot_be_started_is_no_failure(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(process: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", start)
    config, said = Config.model_validate(settings), list[str]()
    found = trusted(config, prepared_of(config), CPU, ONE_PROCESS, said.append, EVERY_DEVICE)
    assert (found.config.kernels, found.failed) == ("plain", None)
    where = f"{fast.place_of(CPU)['device']['name']} in fp32"
    assert f"could not be tried on {where}: its process could not be started: no more processes. " in said[0]


def test_a_process_that_is_killed_from_outside_is_no_failure(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system does where memory is short."""

    class IsKilled(FastTraining):
        def encode(self, source: Tensor, lengths: Tensor) -> Memory:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    install(monkeypatch, IsKilled)
    config, said = Config.model_validate(settings), list[str]()
    found = trusted(config, prepared_of(config), CPU, ONE_PROCESS, said.append, EVERY_DEVICE)
    assert (found.config.kernels, found.failed) == ("plain", None)
    assert ": its process was killed by SIGKILL. Training goes on " in said[0]


def test_a_trial_that_nobody_waits_for_ends_itself(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the training that began it was killed."""
    install(monkeypatch, Hangs)
    config = Config.model_validate(settings)
    made = trial_of(config, prepared_of(config), CPU)
    context = get_context("fork")
    (tmp_path / "output").touch()
    _, sends = context.Pipe(duplex=False)
    child = context.Process(target=trial._in_child, args=(sends, made, 0.2 - trial.PATIENCE, str(tmp_path / "output")))
    child.start()
    try:
        child.join(20)
        assert child.exitcode == -signal.SIGALRM
    finally:
        child.kill()
        child.join()


def test_a_record_that_says_nothing_is_none(settings: dict[str, Any], tmp_path: Path) -> None:
    """As a stranger may have written it."""
    train(Config.model_validate(settings))
    for content in ("{}", '{"device": "cpu (x86_64)"}', "7", "null", "[1, {}]"):
        (tmp_path / "run" / "plain_kernels.json").write_text(content)
        assert load_run(tmp_path / "run", CPU).config.kernels == "auto"


def lines_of(config: Config, prepared: PreparedData, device: torch.device = CPU) -> tuple[Kernels, list[str]]:
    """What is decided for a configuration, and what is said."""
    said: list[str] = []
    used = trusted(config, prepared, device, ONE_PROCESS, said.append, EVERY_DEVICE).config
    assert used == config.model_copy(update={"kernels": used.kernels})
    return used.kernels, said


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[trial.Trial]:
    """Trials that were made; all pass."""
    made: list[trial.Trial] = []

    def tried(each: trial.Trial) -> Outcome:
        made.append(each)
        return Outcome(None, "close")

    monkeypatch.setattr(trust, "run_trial", tried)
    return made


def changed(settings: dict[str, Any], section: str, **options: Any) -> Config:
    return Config.model_validate(settings | {section: settings[section] | options})


def test_another_version_device_network_or_precision_is_tried(
    settings: dict[str, Any], tries: list[trial.Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    others = [
        changed(settings, "model", attention={"type": "luong"}),
        changed(settings, "model", encoder={"type": "lstm", "hidden": 32}),
        changed(settings, "training", label_smoothing=0.1),
        changed(settings, "training", guided_attention={"type": "diagonal"}),
        config.model_copy(update={"precision": "bf16"}),
    ]
    for each in (config, *others):
        before = len(tries)
        for _ in range(2):
            assert lines_of(each, prepared)[0] == "auto"
            assert len(tries) == before + 1
    for place, value in (*ELSEWHERE, ("nmt.training.trust.digest", lambda path: "other code")):
        before = len(tries)
        with monkeypatch.context() as patched:
            patched.setattr(place, value)
            lines_of(config, prepared)
            assert len(tries) == before + 1, place
        lines_of(config, prepared)
        assert len(tries) == before + 1
    lines_of(config.model_copy(update={"seed": 7}), prepared)
    assert len(tries) == before + 1  # it decides nothing
    monkeypatch.setattr(prepared.tokenizers.target, "size", 99)
    lines_of(config, prepared)
    assert len(tries) == before + 2


def test_the_setting_of_a_gpu_names_its_driver(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Properties:
        name, major, minor = "NVIDIA H100", 9, 0

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **how: True)
    monkeypatch.setattr(torch._C, "_cuda_getDriverVersion", lambda: 12080, raising=False)
    monkeypatch.setattr("torch.backends.cudnn.version", lambda: 91900)
    config = Config.model_validate(settings | {"precision": "auto"})
    found = []
    for driver in ("550.54", "570.12"):
        (tmp_path / "version").write_text(f"NVRM version: {driver}\nGCC version: 12\n")
        monkeypatch.setattr(fast.place, "DRIVER", tmp_path / "version")
        found.append(setting_of(config, prepared_of(config), torch.device("cuda")))
    assert found[0] != found[1] and found[0]["precision"] == "bf16" and found[0]["versions"]["cudnn"] == 91900
    assert found[1]["device"] == {
        "name": "NVIDIA H100",
        "capability": "9.0",
        "driver": "NVRM version: 570.12",
        "cuda of the driver": 12080,
    }


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"passed": 3}', "null"])
def test_a_damaged_memory_is_made_again(
    damage: str, settings: dict[str, Any], tries: list[trial.Trial], tmp_path: Path
) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    lines_of(config, prepared)
    [memory] = (tmp_path / "cache" / trust.PASSED).iterdir()
    memory.write_text(damage)
    _, (first, second) = lines_of(config, prepared)
    assert first.startswith(f"{memory}: ") and first.endswith("; the fast kernels are tried again")
    assert second.startswith("kernels: a batch by the fast ones equals")
    _, said = lines_of(config, prepared)
    assert len(said) == 1 and len(tries) == 2


def test_a_memory_of_another_setting_is_none(
    settings: dict[str, Any], tries: list[trial.Trial], tmp_path: Path
) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    lines_of(config, prepared)
    [memory] = (tmp_path / "cache" / trust.PASSED).iterdir()
    content = json.loads(memory.read_text())
    content["setting"]["versions"]["torch"] = "1.0"
    memory.write_text(json.dumps(content))
    lines_of(config, prepared)
    assert len(tries) == 2


def test_a_cache_that_is_not_writable_is_said(
    settings: dict[str, Any], tries: list[trial.Trial], tmp_path: Path
) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    (tmp_path / "cache" / trust.PASSED).write_text("a file where a folder should be")
    kernels, said = lines_of(config, prepared)
    assert kernels == "auto" and len(said) == 2
    assert "the trial cannot be recorded: " in said[1]


def test_plain_kernels_and_processors_make_no_trial(settings: dict[str, Any], tries: list[trial.Trial]) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    assert trusted(config, prepared, CPU, ONE_PROCESS, pytest.fail).config is config
    plain = config.model_copy(update={"kernels": "plain"})
    assert trusted(plain, prepared, CPU, ONE_PROCESS, pytest.fail, EVERY_DEVICE).config is plain
    assert tries == []


def test_a_dry_run_makes_a_trial_on_every_device_and_keeps_nothing(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, expected in ((FastTraining, 0), (WrongGradient, 1)):
        install(monkeypatch, kind)
        said: list[str] = []
        dry_run(Config.model_validate(settings), resume=False, overwrite=False, say=said.append)
        assert len(warnings_in(said)) == expected
        assert any("kernels: a batch by the fast ones equals" in line for line in said) == (not expected)
        assert not (tmp_path / "cache").exists() and not (tmp_path / "run").exists()


# --- several processes ------------------------------------------------------------------------------------------------


def decided(world: World, values: dict[str, Any], devices: list[str], wrong: str) -> tuple[Kernels, int, list[str]]:
    """What one of several processes decides, whose device has the name of its rank; that called ``wrong`` fails."""
    made: list[trial.Trial] = []
    said: list[str] = []
    name = devices[world.rank]

    def tried(each: trial.Trial) -> Outcome:
        made.append(each)
        return Outcome("all is wrong" if name == wrong else None, "close")

    config = Config.model_validate(values)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("nmt.fast.place._cpu", lambda: {"name": name})
        patched.setattr(trust, "run_trial", tried)
        prepared = in_turn(world, lambda: prepared_of(config))
        used = trusted(config, prepared, CPU, world, said.append, EVERY_DEVICE).config
    return used.kernels, len(made), said


@pytest.mark.parametrize(
    ("devices", "wrong", "trials"),
    [(["a", "a"], "none", [1, 0]), (["a", "a"], "a", [1, 0]), (["a", "b"], "b", [1, 1]), (["a", "b"], "a", [1, 1])],
)
def test_one_process_of_each_setting_tries_and_all_agree(
    devices: list[str], wrong: str, trials: list[int], settings: dict[str, Any]
) -> None:
    found = run_processes(decided, 2, settings, devices, wrong)
    assert [made for _, made, _ in found] == trials
    [said] = {tuple(said) for _, _, said in found}  # of which a run shows that of one process
    assert {kernels for kernels, *_ in found} == {"auto" if wrong == "none" else "plain"}
    assert len(warnings_in(list(said))) == (wrong != "none")
    if wrong != "none":
        assert f" on {wrong} in fp32: all is wrong. Training goes on" in said[-1]


# --- the comparison ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_network_passes(variant: str, precision: str, settings: dict[str, Any], corpus: Path) -> None:
    settings["data"]["cache"] = str(corpus / "cache")
    config = Config.model_validate(settings | {"precision": precision, "model": SIZES | VARIANTS[variant]})
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        agreement = compare(trial_of(config, prepared_of(config), CPU))
    assert torch.equal(state, torch.get_rng_state())
    assert "in fp32 " in agreement and ("in bf16 " in agreement) == (precision == "bf16")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_graphs_are_tried_too(precision: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With another content than they were recorded with."""
    config = Config.model_validate(settings | {"precision": precision})
    made = trial_of(config, prepared_of(config), CPU)
    graphs_on_cpu.install(monkeypatch)
    monkeypatch.setattr(fast, "records_graphs", lambda model, kernels, device: kernels == "auto")
    replay, replayed = graphs_on_cpu.Graph.replay, []

    def counted(graph: graphs_on_cpu.Graph) -> None:
        replayed.append(graph)
        replay(graph)

    monkeypatch.setattr(graphs_on_cpu.Graph, "replay", counted)
    with torch.random.fork_rng():
        assert compare(made)
        assert len(replayed) == 2 * (1 + (precision == "bf16"))
        monkeypatch.setattr(graphs_on_cpu.Graph, "replay", lambda graph: None)
        with pytest.raises(Disagreement, match="in fp32 the "):
            compare(made)


def test_a_graph_that_repeats_the_batch_of_its_recording_is_wrong(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Therefore it is recorded with another batch than it is tried with."""
    config = Config.model_validate(settings)
    graphs_on_cpu.install(monkeypatch)
    monkeypatch.setattr(fast, "records_graphs", lambda model, kernels, device: kernels == "auto")
    record = GraphedGradients._record

    def unread(self: GraphedGradients, batch: Batch) -> Any:
        """Let later batches be copied to where the graph does not look."""
        return replace(record(self, batch), batch=batch.map(Tensor.clone))

    monkeypatch.setattr(GraphedGradients, "_record", unread)
    with torch.random.fork_rng(), pytest.raises(Disagreement, match="in fp32 the "):
        compare(trial_of(config, prepared_of(config), CPU))


def test_the_batch_has_sentences_of_all_lengths(settings: dict[str, Any]) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    found = trial_of(config, prepared, CPU)
    lengths = [max(len(source), len(target)) for source, target in zip(found.sources, found.targets, strict=True)]
    assert len(lengths) == trial.PAIRS and lengths == sorted(lengths, reverse=True)
    longest = max(prepared.train.source_lengths.max(), prepared.train.target_lengths.max())
    assert lengths[0] == longest and min(lengths) == 1


def test_the_batch_fits_and_no_word_of_it_is_sampled(settings: dict[str, Any]) -> None:
    """Longest sentences of 4 words and the end symbol; rounding might change a word that the network chooses."""
    config = changed(settings, "training", batch_tokens=17, scheduled_sampling={"type": "linear"})
    found = trial_of(config, prepared_of(config), CPU)
    assert len(found.sources) == 3 and found.config.training.scheduled_sampling is None


@pytest.mark.parametrize("variant", ["bahdanau", "sutskever", "deep", "transformer"])
def test_the_network_has_no_dropout_and_no_zeros(variant: str, settings: dict[str, Any]) -> None:
    dropout = {"embedding": 0.5, "annotation": 0.5, "readout": 0.5, "word": 0.5}
    model = SIZES | VARIANTS[variant] | {"dropout": dropout}
    if variant == "transformer":
        model |= {part: VARIANTS[variant][part] | {"dropout": 0.5} for part in ("encoder", "decoder")}
    config = Config.model_validate(settings | {"model": model})
    with torch.random.fork_rng():
        network = trial._network(trial_of(config, prepared_of(config), CPU))
    assert network.training
    ids, lengths = torch.tensor([[5, 4, 3], [4, 5, 0]]), torch.tensor([3, 2])
    assert torch.equal(network(ids, lengths, ids)[0], network(ids, lengths, ids)[0])
    assert all(parameter.all() for parameter in network.parameters())


def test_a_batch_that_is_too_large_is_halved(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.model_validate(settings)
    sizes = []
    encode = Seq2Seq.encode

    def limited(self: Seq2Seq, source: Tensor, lengths: Tensor) -> Memory:
        sizes.append(len(source))
        if len(source) > 4:
            raise torch.OutOfMemoryError("too many")
        return encode(self, source, lengths)

    monkeypatch.setattr(Seq2Seq, "encode", limited)
    with torch.random.fork_rng():
        assert compare(trial_of(config, prepared_of(config), CPU))
    assert sizes == [16, 8, 4, 4]


def test_judging_by_hand() -> None:
    """|g| = 5; the second gradient is below a thousandth of the whole, 5e-3, which it is measured against."""
    gradients = {"a": torch.tensor([3.0, 4.0]).double(), "b": torch.tensor([0.001]).double()}
    exact = Found(100.0, gradients)

    def off(a: float = 0.0, b: float = 0.0, loss: float = 0.0) -> Found:
        return Found(100.0 + loss, {"a": gradients["a"] + torch.tensor([0.0, a]), "b": gradients["b"] + b})

    assert judge(exact, exact, off(a=4.9e-4), torch.float32).startswith(
        "in fp32 relative errors of up to 0.0001, in the gradient of a"
    )
    assert judge(exact, exact, off(b=4.9e-7), torch.float32)
    assert judge(exact, off(a=2e-4, b=2e-4), off(a=7.9e-4, b=7.9e-4), torch.float32)  # four times the plain errors
    assert judge(exact, exact, off(a=2.4, loss=1.9), torch.bfloat16)
    for plain, found, precision, named in (
        (exact, off(a=5.1e-4), torch.float32, "the gradient of a "),
        (exact, off(b=5.1e-7), torch.float32, "the gradient of b "),
        (exact, off(loss=0.0011), torch.float32, "the loss "),
        (off(a=2e-4), off(a=8.1e-4), torch.float32, "the gradient of a "),
        (exact, off(a=2.6), torch.bfloat16, "the gradient of a "),
        (exact, off(loss=-2.1), torch.bfloat16, "the loss "),
        (exact, off(b=float("nan")), torch.bfloat16, "the gradient of b "),
        (off(loss=float("nan")), off(loss=float("inf")), torch.float32, "the loss "),
    ):
        with pytest.raises(Disagreement, match=named):
            judge(exact, plain, found, precision)


@pytest.mark.slow
def test_where_there_is_a_gpu_the_process_is_a_new_one(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a process cannot use the GPU of the first. The new one does not execute the program again."""
    program = ModuleType("__main__")
    program.__file__ = str(tmp_path / "program.py")
    Path(program.__file__).write_text("raise SystemExit('executed again')\n", "utf-8")
    monkeypatch.setitem(sys.modules, "__main__", program)
    config = Config.model_validate(settings)
    made = trial_of(config, prepared_of(config), CPU)
    install(monkeypatch, WrongGradient)  # which a new process does not have
    assert trial.run_trial(made).problem
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    outcome = trial.run_trial(made)
    assert outcome.problem is None and "relative errors" in outcome.agreement
    assert sys.modules["__main__"] is program
