"""Fast kernels that nobody has tried: a trial decides whether training uses them, and what passed is remembered."""

import faulthandler
import json
import os
import re
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

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
from nmt.model import Memory, Network, Seq2Seq
from nmt.runs.loading import load_run
from nmt.training import trial
from nmt.training.gradients import GraphedGradients
from nmt.training.trial import GPUS, Disagreement, Found, Outcome, compare, judge, setting_of, trial_of, trusted
from nmt.training.world import ONE_PROCESS, World, in_turn
from nmt.translation.translator import Translator
from tests import graphs_on_cpu
from tests.models import VARIANTS
from tests.processes import run_processes
from tests.small_run import metrics, options, train, write_corpus

CPU = torch.device("cpu")
EVERY_DEVICE = GPUS | {"cpu"}
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

    factor = 1.001

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        memory = super().encode(source, lengths)
        for tensor in (memory.annotations, memory.summary):
            tensor.register_hook(lambda gradient: self.factor * gradient)
        return memory


class Fails(FastTraining):
    """While encoding; ``fail`` is what goes wrong."""

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        self.fail()
        raise AssertionError

    def fail(self) -> None:
        """As Triton reports it: over several lines."""
        raise RuntimeError("\nPTXAS error: out of registers\nsee the log")


class Crashes(Fails):
    def fail(self) -> None:
        faulthandler.disable()  # of pytest
        os.write(2, b"an illegal memory access\n\n")
        os.abort()


class Hangs(Fails):
    def fail(self) -> None:
        time.sleep(1000)


class TooLarge(Fails):
    def fail(self) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GB\nmore")


class IsKilled(Fails):
    """As by the system where memory is short."""

    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


BROKEN: list[tuple[type[FastTraining], bool, str]] = [
    (WrongLoss, True, r"in fp32 the loss is wrong: relative error 0\.0001 instead of 1e-05"),
    (WrongGradient, True, r"in fp32 the gradient of encoder\.\S+ is wrong: relative error 0\.001 instead of"),
    (Fails, True, "RuntimeError: PTXAS error: out of registers"),
    (Crashes, True, "its process was killed by SIGABRT: an illegal memory access"),
    (Hangs, True, "it did not end within 1 seconds"),
    (TooLarge, False, r"memory is too small, even for one pair \(OutOfMemoryError: CUDA out of memory"),
    (IsKilled, False, "its process was killed by SIGKILL"),
]
"""Fast kernels; whether they fail their trial, or could not be tried; and why."""


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
    return [line for line in said if line.startswith("warning: the fast kernels")]


@pytest.mark.parametrize(("kind", "tried", "problem"), BROKEN)
def test_kernels_that_do_not_pass_are_not_used(
    kind: type[FastTraining],
    tried: bool,
    problem: str,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one warning; only what failed is remembered, for this place."""
    install(monkeypatch, kind)
    config, said = Config.model_validate(settings), list[str]()
    found = trusted(config, prepared_of(config), CPU, ONE_PROCESS, said.append, EVERY_DEVICE)
    assert found.config == config.model_copy(update={"kernels": "plain"})
    assert found.failed == ([fast.place_of(CPU)] if tried else None)
    [warning] = said
    assert re.search(f"{'failed' if tried else 'could not be tried'} .* in fp32: {problem}", warning)
    assert not (tmp_path / "cache" / trial.PASSED).exists()


def test_a_process_that_cannot_be_started_tries_nothing(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", Mock(side_effect=OSError("no more processes")))
    config = Config.model_validate(settings)
    outcome = trial.run_trial(trial_of(config, prepared_of(config), CPU))
    assert "no more processes" in str(outcome.problem) and not outcome.tried


def test_training_goes_on_with_plain_kernels_as_if_they_had_been_asked_for(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit. The configuration of the run stays as it was; translation on the same device takes the plain ones,
    unless somebody asks for others, and until they pass."""
    config, run = Config.model_validate(settings), tmp_path / "run"
    with monkeypatch.context() as patched:
        install(patched, WrongGradient)
        assert len(warnings_in(train(config, distrusted=EVERY_DEVICE))) == 1
        assert "kernels: auto" in (run / "config.yaml").read_text()
        plain = Config.model_validate(settings | {"kernels": "plain", "output": str(tmp_path / "plain")})
        assert warnings_in(train(plain, distrusted=EVERY_DEVICE)) == []
        assert files(run) == files(tmp_path / "plain")
        assert "nothing is left to do" in "".join(train(config, distrusted=EVERY_DEVICE, resume=True))  # no trial
    monkeypatch.setattr(trial, "run_trial", pytest.fail)
    assert load_run(run, CPU, kernels="auto").config.kernels == "auto"
    with pytest.warns(NmtWarning) as caught:
        assert Translator.load(run, "cpu").translate("oak elm")
    assert len(caught) == 1
    with monkeypatch.context() as patched:
        patched.setattr(*ELSEWHERE[0])
        assert load_run(run, CPU).config.kernels == "auto"
    train(extended(config, 5), resume=True)  # without a trial, of which nothing is learned
    with pytest.warns(NmtWarning, match="the plain kernels are used"):
        assert load_run(run, CPU).config.kernels == "plain"
    monkeypatch.setattr(trial, "run_trial", lambda made: Outcome(None, "close"))
    train(extended(config, 6), distrusted=EVERY_DEVICE, resume=True)
    assert load_run(run, CPU).config.kernels == "auto"


def extended(config: Config, updates: int) -> Config:
    return config.model_copy(update={"training": config.training.model_copy(update={"updates": updates})})


# --- kernels that are right -------------------------------------------------------------------------------------------


def test_a_trial_changes_nothing_and_is_made_once(settings: dict[str, Any], tmp_path: Path) -> None:
    """Training is bit for bit what it is without; a second run remembers, as a resumed one does."""
    config = Config.model_validate(settings)
    [line] = [line for line in train(config, distrusted=EVERY_DEVICE) if line.startswith("kernels: ")]
    assert re.search(r"in fp32: in fp32 relative errors of up to \S+, in the .+ \(plain kernels: \S+\)$", line)
    [memory] = (tmp_path / "cache" / trial.PASSED).iterdir()
    passed = json.loads(memory.read_text("utf-8"))["passed"]
    alone = config.model_copy(update={"output": str(tmp_path / "alone")})
    assert not any("kernels: " in line for line in train(alone))
    assert files(tmp_path / "run") == files(tmp_path / "alone")
    said = train(extended(config, 5), distrusted=EVERY_DEVICE, resume=True)
    [line] = [line for line in said if line.startswith("kernels: ")]
    assert line.endswith(f" on {passed} (recorded in {memory})")


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

    monkeypatch.setattr(trial, "run_trial", tried)
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
    for place, value in (*ELSEWHERE, ("nmt.training.trial.digest", lambda path: "other code")):
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


@pytest.mark.parametrize("content", ["{", "[]", '{"passed": "now", "setting": {}}'])
def test_a_record_of_nothing_is_made_again(
    content: str, settings: dict[str, Any], tries: list[trial.Trial], tmp_path: Path
) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    lines_of(config, prepared)
    [memory] = (tmp_path / "cache" / trial.PASSED).iterdir()
    memory.write_text(content)
    for _ in range(2):
        lines_of(config, prepared)
    assert len(tries) == 2


def test_a_cache_that_is_not_writable_is_said(
    settings: dict[str, Any], tries: list[trial.Trial], tmp_path: Path
) -> None:
    config = Config.model_validate(settings)
    prepared = prepared_of(config)
    (tmp_path / "cache" / trial.PASSED).write_text("a file where a folder should be")
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


# --- several processes ------------------------------------------------------------------------------------------------


def decided(world: World, values: dict[str, Any], cases: list[tuple[list[str], str]]) -> list[tuple[Kernels, int]]:
    """The decisions of one of several processes, whose device has the name of its rank; that called ``wrong`` fails."""
    config, found = Config.model_validate(values), list[tuple[Kernels, int]]()
    prepared = in_turn(world, lambda: prepared_of(config))
    for number, (devices, wrong) in enumerate(cases):
        name, made = devices[world.rank], list[trial.Trial]()

        def tried(each: trial.Trial, wrong: str = wrong, name: str = name, made: list[Any] = made) -> Outcome:
            made.append(each)
            return Outcome("all is wrong" if name == wrong else None, "close")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("nmt.fast.place._cpu", lambda name=name, number=number: {"name": name, "case": number})
            patched.setattr(trial, "run_trial", tried)
            used = trusted(config, prepared, CPU, world, lambda line: None, EVERY_DEVICE).config
        found.append((used.kernels, len(made)))
    return found


def test_one_process_of_each_setting_tries_and_all_agree(settings: dict[str, Any]) -> None:
    cases = [(["a", "a"], "none"), (["a", "a"], "a"), (["a", "b"], "b"), (["a", "b"], "a")]
    first, second = run_processes(decided, 2, settings, cases)
    assert first == [("auto", 1), ("plain", 1), ("plain", 1), ("plain", 1)]
    assert second == [("auto", 0), ("plain", 0), ("plain", 1), ("plain", 1)]


# --- the comparison ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["bahdanau", "sutskever", "transformer"])
def test_a_network_passes(variant: str, settings: dict[str, Any], corpus: Path) -> None:
    settings["data"]["cache"] = str(corpus / "cache")
    config = Config.model_validate(settings | {"precision": "bf16", "model": SIZES | VARIANTS[variant]})
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        agreement = compare(trial_of(config, prepared_of(config), CPU))
    assert torch.equal(state, torch.get_rng_state())
    assert "in fp32 " in agreement and "in bf16 " in agreement


def test_graphs_are_tried_too(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With another content than they were recorded with."""
    config = Config.model_validate(settings | {"precision": "bf16"})
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
        assert len(replayed) == 2 * 2
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


@pytest.mark.parametrize("variant", ["deep", "transformer"])
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
