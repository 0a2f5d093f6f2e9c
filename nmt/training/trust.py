"""Whether the fast kernels are used on a device: on a device without a record, a trial decides.

The cache records each setting that has passed: device, driver, versions, network, objective and precision, which decide
the kernels that run. A failure is not recorded there, so that the next training tries again.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from nmt import fast
from nmt.config import Config
from nmt.data.cache import cache_folder
from nmt.data.dataset import PreparedData
from nmt.device import format_of, resolve_precision
from nmt.errors import FileError
from nmt.files import digest, read_json, replacing
from nmt.messages import Caution, step
from nmt.training import gradients
from nmt.training.trial import run_trial, trial_of
from nmt.training.world import World

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


# --- what decides which kernels run -----------------------------------------------------------------------------------


def setting_of(config: Config, prepared: PreparedData, device: torch.device) -> Setting:
    """Name what a trial holds for, as JSON."""
    training = config.training.model_dump(mode="json", include={"label_smoothing", "guided_attention"})
    setting = {
        **fast.place_of(device),
        "gradients": digest(Path(gradients.__file__)),
        "precision": format_of(resolve_precision(config.precision, device)),
        "network": config.model.model_dump(mode="json"),
        "objective": training,
        "vocabularies": [prepared.tokenizers.source.size, prepared.tokenizers.target.size],
    }
    json_value: Setting = json.loads(json.dumps(setting))
    return json_value
