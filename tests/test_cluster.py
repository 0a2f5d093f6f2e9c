"""The jobs of configs/cluster/: each is executed with commands that only write down how they were called, and what they
wrote down is parsed by the parsers of the true commands."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.distributed.run import get_args_parser

from nmt.cli import experiment, train, translate
from nmt.experiments.schema import load_experiment

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "configs/cluster"
JOBS = sorted(FOLDER.glob("*.sbatch"))
PARSERS = {
    "torchrun": get_args_parser,
    "nmt-train": train.main.parser,
    "nmt-experiment": experiment.main.parser,
    "nmt-translate": translate.main.parser,
}
RECORDER = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""
SCONTROL = '#!/bin/bash\n[ "$1 $2 $3" = "show hostnames node[1-2]" ] && printf "node1\\nnode2\\n"\n'
DIRECTIVES = {
    *("job-name", "nodes", "ntasks-per-node", "gpus-per-node", "gpus", "cpus-per-task", "time", "requeue", "signal"),
    *("open-mode", "output"),
}
"""Options of sbatch that the jobs may use."""
SLURM = {
    "SLURM_JOB_ID": "123456",
    "SLURM_JOB_NODELIST": "node[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_GPUS_ON_NODE": "8",
    "SLURM_ARRAY_TASK_ID": "1",
    "SLURM_ARRAY_TASK_COUNT": "3",
}


class Cluster:
    """A folder with commands that write down their arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder, folder / "record"
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        programs = dict.fromkeys(PARSERS, RECORDER) | {"srun": '#!/bin/bash\nexec "$@"\n', "scontrol": SCONTROL}
        for name, text in programs.items():
            (bin_folder / name).write_text(text)
            (bin_folder / name).chmod(stat.S_IRWXU)
        self.path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"

    def call(self, command: list[str], **variables: str) -> tuple[Namespace, Namespace | None]:
        """Execute a job; return the parsed arguments of the command that it calls, and those of the one that torchrun
        would start."""
        self.record.unlink(missing_ok=True)
        environment = {**os.environ, **SLURM, "PATH": self.path, "RECORD": str(self.record), **variables}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        [[name, *arguments]] = map(json.loads, self.record.read_text().splitlines())
        called = PARSERS[name]().parse_args(arguments)
        started = None
        if name == "torchrun":
            assert called.no_python and called.rdzv_backend == "c10d"
            started = PARSERS[called.training_script]().parse_args(called.training_script_args)
        return called, started


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_every_job_is_tested() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        "train.sbatch",
        "experiment.sbatch",
        "translate.sbatch",
        "train.kubernetes.yaml",
    }


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_slurm_reads_the_directives(path: Path) -> None:
    """They stand before the first command, after which sbatch ignores them."""
    subprocess.run(["bash", "-n", str(path)], check=True)
    lines = path.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    directives = [(number, line) for number, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert directives and all(number < first_command for number, _ in directives)
    for _, line in directives:
        [word] = shlex.split(line.removeprefix("#SBATCH"))
        option = re.fullmatch(r"--([a-z-]+)(=\S+)?", word)
        assert option and option[1] in DIRECTIVES, line
    assert any("--requeue" in line for _, line in directives)


def usage(path: Path) -> list[str]:
    """The words of the example in a job's comment."""
    [example] = [line for line in path.read_text().splitlines() if line.startswith("#   sbatch ")]
    return shlex.split(example.removeprefix("#"))


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_the_examples_name_the_job(path: Path) -> None:
    words = usage(path)
    assert f"configs/cluster/{path.name}" in words
    assert all((ROOT / word).exists() for word in words if word.startswith("configs/"))


def expected(run: Path, mode: str) -> dict[str, Any]:
    return {"config": "some.yaml", "output": str(run), "resume": mode == "resume", "overwrite": mode == "overwrite"}


@pytest.mark.parametrize("checkpoint", [None, "last", "previous"])
def test_slurm_trains_and_continues(checkpoint: str | None, cluster: Cluster, tmp_path: Path) -> None:
    run = tmp_path / "a run"
    if checkpoint:
        (run / "checkpoints" / checkpoint).mkdir(parents=True)
    called, started = cluster.call(["bash", str(FOLDER / "train.sbatch"), "some.yaml", str(run)])
    assert (called.nnodes, called.nproc_per_node, called.rdzv_id) == ("2", "8", "123456")
    assert called.rdzv_endpoint == f"node1:{20000 + 3456}"
    found = {"resume": False, "overwrite": False, **vars(started)}
    assert expected(run, "resume" if checkpoint else "begin").items() <= found.items()


@pytest.mark.parametrize("checkpoint", [None, "last", "previous"])
def test_kubernetes_trains_and_continues(checkpoint: str | None, cluster: Cluster, tmp_path: Path) -> None:
    service, job = yaml.safe_load_all((FOLDER / "train.kubernetes.yaml").read_text())
    assert (service["kind"], service["apiVersion"], job["kind"], job["apiVersion"]) == (
        "Service",
        "v1",
        "Job",
        "batch/v1",
    )
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert spec["completionMode"] == "Indexed" and pod["restartPolicy"] == "OnFailure"
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}

    run = tmp_path / "run"
    if checkpoint:
        (run / "checkpoints" / checkpoint).mkdir(parents=True)
    variables = {each["name"]: each["value"] for each in container["env"]}
    variables |= {"RUN": str(run), "CONFIG": "some.yaml"}
    called, started = cluster.call([*container["command"], *container["args"]], **variables)
    assert int(called.nnodes) == spec["completions"] == spec["parallelism"]
    assert int(called.nproc_per_node) == container["resources"]["limits"]["nvidia.com/gpu"]
    assert called.rdzv_endpoint == f"{name}-0.{service['metadata']['name']}:29400"
    found = {"resume": False, "overwrite": False, **vars(started)}
    assert expected(run, "resume" if checkpoint else "begin").items() <= found.items()


def test_slurm_trains_one_system_a_task(cluster: Cluster) -> None:
    """As the example says: its systems are those of the experiment, and the array has a task for each."""
    array, path, config, *systems = usage(FOLDER / "experiment.sbatch")[1:]
    assert array == f"--array=0-{len(systems) - 1}"
    assert systems == list(load_experiment(ROOT / config).systems)
    called, _ = cluster.call(["bash", str(ROOT / path), config, *systems])
    assert (called.config, called.only) == (config, [systems[1]])


def test_a_task_without_a_system_says_so() -> None:
    job = ["bash", str(FOLDER / "experiment.sbatch"), "some.yaml", "none", "luong"]
    variables = {"PATH": os.environ["PATH"], "SLURM_ARRAY_TASK_ID": "2"}
    done = subprocess.run(job, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("--array has a task without a name: use 0 to one less than the names")


def test_slurm_translates_one_shard_a_task(cluster: Cluster) -> None:
    array, path, model, source, output = usage(FOLDER / "translate.sbatch")[1:]
    assert re.fullmatch(r"--array=1-\d+", array), "the first shard is 1"
    called, _ = cluster.call(["bash", str(ROOT / path), model, source, output])
    assert (called.model, called.input, called.output) == ([model], source, f"{output}.1")
    assert called.shard == (1, 3)
