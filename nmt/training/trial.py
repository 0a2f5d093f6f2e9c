"""Whether the fast kernels are used on a device: on one without a record, a trial decides.

A trial computes one real batch by the fast path and by the plain one: the loss, and the gradient of every parameter.

The trial runs in a process of its own, because a faulty kernel may crash it, hang, or leave the GPU in an error state
from which a process cannot recover.

Both paths are compared with the plain path in float64, in fp32 and in the precision of training. The fast path may have
errors of up to ``TOLERANCES``, or of ``FACTOR`` times those of the plain path in the same precision, which measure the
rounding of this network on this device. The comparison in fp32 finds small mistakes, that in bf16 those that
only kernels for bf16 have.

The cache records each setting that has passed: device, driver, versions, network, objective and precision, which decide
the kernels that run. A failure is not recorded there, so that the next training tries again.
"""

import hashlib
import json
import math
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import connection, get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from nmt import fast
from nmt.config import Config
from nmt.config.schema import Kernels
from nmt.data.batching import Batch, Specials, collate
from nmt.data.cache import cache_folder
from nmt.data.dataset import PreparedData
from nmt.data.tokenizer import Ids
from nmt.device import format_of, out_of_memory, resolve_device, resolve_precision
from nmt.errors import FileError
from nmt.files import digest, read_json, replacing
from nmt.messages import Caution, step
from nmt.model import Seq2Seq, build_model
from nmt.model.dropout import Dropout, WordDropout
from nmt.training import gradients as gradients_module
from nmt.training.gradients import SENTENCES, GraphedGradients, gradients_on
from nmt.training.objective import objective_of
from nmt.training.world import World

TOLERANCES = {torch.float32: (1e-5, 1e-4), torch.bfloat16: (0.02, 0.5)}
"""Relative errors of the loss and of the gradient of a parameter, as in tests/test_gpu.py, but for gradients in bf16:
those of correct kernels reach 0.25 in tiny networks."""
FACTOR = 4.0
"""How many times the error of the plain path in the same precision an error may be."""
SMALL = 1e-3
"""The share of the norm of all gradients that the error of a smaller gradient is measured against."""
PAIRS = SENTENCES
"""Pairs of the batch: enough for several blocks of every kernel, and for a CUDA graph."""
SECONDS = 600.0
"""How long a trial may take, compilation included."""
SEED = 1
GPUS = frozenset({"cuda"})
"""Types of devices whose kernels are not trusted before a trial; those of CPUs are tested wherever the tests run."""
PASSED = "kernels"
"""The folder of the cache with the settings that have passed, a file for each."""

Setting = dict[str, Any]
"""Everything that decides which kernels run, as JSON."""
Verdict = dict[str, Any]
"""The result of a trial, as JSON: ``lines`` to say; the ``problem`` because of which the fast kernels are not used, or
null; the place where they ``failed``, null if they passed or could not be tried."""
Say = Callable[[str], None]


class Disagreement(Exception):
    """The fast path computes something else."""


@dataclass(frozen=True)
class Trial:
    """The input of a trial; it can be pickled."""

    config: Config
    vocabularies: tuple[int, int]
    specials: Specials
    sources: Sequence[Ids]
    targets: Sequence[Ids]
    links: Sequence[npt.NDArray[np.float32]] | None
    device: str


@dataclass(frozen=True)
class Outcome:
    """The result of a trial."""

    problem: str | None
    """Why the fast path is not to be used; None if it passed."""
    agreement: str = ""
    """How close the paths were."""
    tried: bool = True
    """Whether the fast path was tried; not where memory is too small for it, or no process can be started, or it is
    killed from outside."""


def trial_of(config: Config, prepared: PreparedData, device: torch.device) -> Trial:
    """Take a batch of the training set: pairs of all lengths, the longest among them, so that there is padding.

    Dropout is off. Scheduled sampling chooses words by the network's own outputs, of which rounding may change one, so
    the objective inside it is tried.
    """
    pairs = prepared.train
    longest = np.maximum(pairs.source_lengths, pairs.target_lengths) + 1
    order = np.argsort(longest, kind="stable")
    count = min(len(order), PAIRS, max(2, config.training.batch_tokens // int(longest.max())))
    rows = order[np.linspace(len(order) - 1, 0, count).round().astype(np.int64)]
    training = config.training.model_copy(update={"scheduled_sampling": None})
    tokenizers = prepared.tokenizers
    return Trial(
        config.model_copy(update={"training": training}),
        (tokenizers.source.size, tokenizers.target.size),
        Specials.of(tokenizers),
        *pairs.rows(rows),
        pairs.links(rows),
        str(device),
    )


# --- the comparison ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """The loss and the gradients that a path computed."""

    loss: float
    """The negative log-likelihood, nats."""
    gradients: Mapping[str, Tensor]


def compare(trial: Trial) -> str:
    """Compute the batch by both paths; return how close they are. Raises Disagreement."""
    device = resolve_device(trial.device)
    model = _network(trial)
    batch = collate(trial.sources, trial.targets, trial.specials, trial.links)
    while (agreement := _try_paths(trial, model, batch, device)) is None:
        batch = batch.halves()[0]  # training halves a batch that is too large, too
    return agreement


def _network(trial: Trial) -> Seq2Seq:
    """The network without dropout and with numbers everywhere: a zero, such as the first bias, would hide mistakes."""
    torch.manual_seed(SEED)
    model = build_model(trial.config.model, *trial.vocabularies).train()
    with torch.no_grad():
        for parameter in model.parameters():
            bound = 1 / max(parameter.shape[-1:], default=1) ** 0.5
            parameter.add_(torch.empty_like(parameter).uniform_(-bound, bound))
    for module in model.modules():
        if isinstance(module, Dropout | WordDropout):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase):
            module.dropout = 0.0
    return model


def _try_paths(trial: Trial, model: Seq2Seq, batch: Batch, device: torch.device) -> str | None:
    """Compare the paths in each precision; None if memory is too small for more than one pair."""
    agreements = []
    try:
        exact = _compute(trial, model, batch, device, torch.float64, "plain")
        for precision in dict.fromkeys((torch.float32, resolve_precision(trial.config.precision, device))):
            plain = _compute(trial, model, batch, device, precision, "plain")
            fast = _compute(trial, model, batch, device, precision, "auto")
            agreements.append(judge(exact, plain, fast, precision))
        return "; ".join(agreements)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error) or len(batch.source) == 1:
            raise
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return None


def _compute(
    trial: Trial, model: Seq2Seq, batch: Batch, device: torch.device, precision: torch.dtype, kernels: Kernels
) -> Found:
    """Loss and gradients of the batch. A CUDA graph is recorded with another of its shape, which takes two."""
    model = deepcopy(model).to(device, torch.promote_types(precision, torch.float32))
    objective = objective_of(trial.config, model, trial.specials)
    gradients = gradients_on(model, objective, device, precision, trial.specials, kernels)
    first = batch.map(lambda tensor: tensor[:1].expand_as(tensor).contiguous())
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    likelihood = torch.zeros(())
    for each in (first, first, batch) if isinstance(gradients, GraphedGradients) else (batch,):
        gradients.reset()
        for name, buffer in model.named_buffers():  # the moving average of rewards
            buffer.copy_(buffers[name])
        torch.manual_seed(SEED)
        likelihood = gradients(gradients.prepared(each), batch.target_tokens)
    found = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
    return Found(likelihood.item(), {name: gradient.detach().double().cpu() for name, gradient in found.items()})


def judge(exact: Found, plain: Found, fast: Found, precision: torch.dtype) -> str:
    """Compare the errors of the fast path with those of the plain one in a precision; return the worst that is allowed.

    Raises Disagreement, which names the loss or the parameter that is most of all beyond what is allowed.
    """
    whole = sum(float(gradient.square().sum()) for gradient in exact.gradients.values()) ** 0.5
    scales = {name: max(float(gradient.norm()), SMALL * whole) for name, gradient in exact.gradients.items()}

    def errors(found: Found) -> list[float]:
        gradients = (
            float((found.gradients[name] - gradient).norm()) / scales[name]
            for name, gradient in exact.gradients.items()
        )
        return [abs(found.loss - exact.loss) / abs(exact.loss), *gradients]

    of_loss, of_gradient = TOLERANCES[precision]
    names = ["the loss", *(f"the gradient of {name}" for name in exact.gradients)]
    tolerances = [of_loss, *[of_gradient] * len(exact.gradients)]
    rows = [
        (error, max(tolerance, FACTOR * usual), usual, name)
        for error, usual, tolerance, name in zip(errors(fast), errors(plain), tolerances, names, strict=True)
    ]
    # NaN counts as the worst
    error, allowed, usual, name = max(rows, key=lambda row: math.inf if math.isnan(row[0]) else row[0] / row[1])
    kind = format_of(precision)
    if not error <= allowed:
        raise Disagreement(
            f"in {kind} {name} is wrong: relative error {error:.2g} instead of {allowed:.2g} at most "
            f"(plain kernels: {usual:.2g})"
        )
    return f"in {kind} relative errors of up to {error:.1g}, in {name} (plain kernels: {usual:.1g})"


# --- in a process of its own ------------------------------------------------------------------------------------------


def run_trial(trial: Trial) -> Outcome:
    """Make a trial in a process of its own, and wait for it for up to ``SECONDS``."""
    # only a new process can use a GPU; where there is none, a copy of this one is made at once
    context = get_context("spawn") if torch.cuda.is_available() else get_context("fork")
    receives, sends = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile() as output, receives:
        child = context.Process(target=_in_child, args=(sends, trial, output.name), daemon=True)
        try:
            with _no_main_module():
                child.start()
        except (OSError, AssertionError) as error:  # a daemonic process may start none
            return Outcome(f"its process could not be started: {error}", tried=False)
        sends.close()
        try:
            if not connection.wait([receives], SECONDS):
                return Outcome(f"it did not end within {SECONDS:g} seconds")
            outcome: Outcome = receives.recv()
            return outcome
        except EOFError:
            child.join()
            # nothing in a kernel sends SIGKILL: the system does, where memory is short
            return Outcome(_crash(child.exitcode, output.read()), tried=child.exitcode != -signal.SIGKILL)
        finally:
            child.kill()
            child.join()


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide the program's main module: a new process would execute it, and with it the training that called this one."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _in_child(sends: "connection.Connection[Any, Any]", trial: Trial, output: str) -> None:
    """Make the trial and send its outcome; the output of libraries goes to the file ``output``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)  # a copy of a process has none of its other threads
    try:
        outcome = Outcome(None, compare(trial))
    except Disagreement as error:
        outcome = Outcome(str(error))
    except BaseException as error:
        said = f"{type(error).__name__}: {_first_line(str(error))}"
        lacking = out_of_memory(error)
        outcome = Outcome(f"memory is too small, even for one pair ({said})" if lacking else said, tried=not lacking)
    sends.send(outcome)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _crash(code: int | None, output: bytes) -> str:
    """Describe the end of a process that sent no outcome, with the last line that it printed."""
    how = f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with code {code}"
    said = _first_line("\n".join(reversed(output.decode(errors="replace").splitlines())))
    return f"its process {how}" + (f": {said}" if said else "")


# --- trusted, or not --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trust:
    """What was decided about the fast kernels."""

    config: Config
    """The configuration, with plain kernels where the fast ones are not trusted."""
    failed: list[Setting] | None
    """Where they failed, as ``fast.place_of`` names it; None where no trial or record says anything."""


def trusted(
    config: Config,
    prepared: PreparedData,
    device: torch.device,
    world: World,
    say: Say,
    distrusted: Collection[str] = GPUS,
) -> Trust:
    """Decide on plain kernels if the fast ones fail their trial, or cannot be tried, on the device of any process.

    The first process with a setting makes the trial, or finds its record; then all agree. No random number
    of this process is drawn. ``distrusted``: the types of devices on which there is a trial.
    """
    wanted = config.kernels == "auto" and device.type in distrusted
    setting = setting_of(config, prepared, device) if wanted else None
    first = world.gather(setting).index(setting) == world.rank
    verdict = _verdict(config, prepared, device, setting) if setting is not None and first else None
    verdicts = [each for each in world.gather(verdict, patiently=True) if each is not None]
    for line in (line for each in verdicts for line in each["lines"]):
        say(line)
    problems = [each["problem"] for each in verdicts if each["problem"]]
    if not problems:
        return Trust(config, [] if verdicts else None)
    say(
        Caution(
            f"warning: the fast kernels {'; '.join(problems)}. Training goes on with the plain kernels, which are "
            "slower (kernels: plain leaves the trial out)"
        )
    )
    failed = [each["failed"] for each in verdicts if each["failed"]]
    return Trust(config.model_copy(update={"kernels": "plain"}), failed or None)


def _verdict(config: Config, prepared: PreparedData, device: torch.device, setting: Setting) -> Verdict:
    """Find the record of a trial, or make one."""
    where = f"{setting['device']['name']} in {setting['precision']}"
    name = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()
    memory = cache_folder(config.data.cache) / PASSED / f"{name}.json"
    if passed := _passed(memory, setting):
        line = f"kernels: the fast ones passed their trial on {where} on {passed} (recorded in {memory})"
        return {"lines": [line], "problem": None, "failed": None}
    with step("trying the fast kernels", None, "batches"):
        outcome = run_trial(trial_of(config, prepared, device))
    if outcome.problem:
        what = "failed their trial" if outcome.tried else "could not be tried"
        failed = fast.place_of(device) if outcome.tried else None
        return {"lines": [], "problem": f"{what} on {where}: {outcome.problem}", "failed": failed}
    lines = [f"kernels: a batch by the fast ones equals the plain ones on {where}: {outcome.agreement}"]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = json.dumps({"passed": now, "agreement": outcome.agreement, "setting": setting}, indent=1)
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        with replacing(memory, f".{platform.node()}.{os.getpid()}") as file:
            file.write(f"{content}\n".encode())
    except OSError as error:
        lines.append(f"{memory}: the trial cannot be recorded: {error.strerror or error}")
    return {"lines": lines, "problem": None, "failed": None}


def _passed(memory: Path, setting: Setting) -> str | None:
    """Return when a setting passed; None without a record of it."""
    with suppress(FileError):
        content = read_json(memory)
        if isinstance(content, dict) and content.get("setting") == setting:
            return str(content.get("passed"))
    return None


def setting_of(config: Config, prepared: PreparedData, device: torch.device) -> Setting:
    """Name what a trial holds for, as JSON."""
    training = config.training.model_dump(mode="json", include={"label_smoothing", "guided_attention"})
    setting = {
        **fast.place_of(device),
        "gradients": digest(Path(gradients_module.__file__)),
        "precision": format_of(resolve_precision(config.precision, device)),
        "network": config.model.model_dump(mode="json"),
        "objective": training,
        "vocabularies": [prepared.tokenizers.source.size, prepared.tokenizers.target.size],
    }
    json_value: Setting = json.loads(json.dumps(setting))
    return json_value
