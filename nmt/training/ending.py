"""The steps after the last update: those that are left, the scores of the test set, the results in words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.corpus import Pair
from nmt.data.dataset import PreparedData
from nmt.device import resolve_device
from nmt.evaluation.metrics import METRICS, format_values
from nmt.evaluation.writing import BinnedBy, scoring
from nmt.files import write_json, write_text
from nmt.messages import Result
from nmt.model import build_model
from nmt.runs.changes import History, is_one_of
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import LoadedRun, load_run
from nmt.runs.metrics import best_validation, read_metrics
from nmt.training.log import TEST, Log, in_table_of_runs
from nmt.training.progress import Progress
from nmt.training.summary import hyperparameters
from nmt.training.translating import translated
from nmt.training.world import ONE_PROCESS, World, in_shares, share_tensors
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator


@dataclass(frozen=True)
class Ending:
    """Which steps of a run need not be repeated, because their results are there."""

    trained: bool
    """All updates are made, and ``best`` exists."""
    averaged: bool
    """The average of checkpoints is made, or there is none."""
    scored: bool
    """The test set is translated and scored, or there is none."""
    same_options: bool
    """As ``decoding`` and ``evaluation`` of the configuration say."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return self.averaged and self.scored and self.same_options

    @property
    def left(self) -> list[str]:
        """A line that says what is left to do after training; none if training is left."""
        if not self.trained:
            return []
        steps = [] if self.averaged else ["averaging checkpoints"]
        steps += [] if self.scored and self.same_options else ["translating and scoring the test set"]
        return [f"training is finished; what is left: {' and '.join(steps)}"]

    @classmethod
    def of(cls, run: RunDirectory, config: Config, progress: Progress) -> "Ending":
        """Look into the directory of a run that has come as far as ``progress``; ``config`` is the wanted one.

        Raises FileError for a manifest that cannot be read.
        """
        if not progress.finished(config.training) or not run.has("best"):
            return NOTHING_DONE
        last = {record.get("split"): record.get("step") for record in read_metrics(run.metrics)}
        tested, changed = last.get("test") == progress.update, History.of(run).changed_to(config, progress.update)
        written = run.test_hypotheses.exists() and run.test_scores.exists()
        return cls(
            trained=True,
            averaged=tested
            or config.training.average == 1
            or len(progress.averaged(config.training)) < 2
            or last.get("average") == progress.update,
            scored=config.data.test is None or (tested and written),
            same_options=not any(is_one_of(change.key, ("decoding", "evaluation")) for change in changed),
        )


NOTHING_DONE = Ending(trained=False, averaged=False, scored=False, same_options=False)


def best_run(
    config: Config, prepared: PreparedData, run: RunDirectory, device: torch.device, world: World
) -> LoadedRun:
    """The run with its best weights, in all processes; one of them reads its files."""
    if world.size == 1:
        return load_run(run.path, device, kernels=config.kernels)

    def read() -> Mapping[str, Tensor]:
        return load_run(run.path, torch.device("cpu")).model.state_dict()

    weights = share_tensors(world, read)
    model = build_model(config.model, prepared.tokenizers.source.size, prepared.tokenizers.target.size)
    model.load_state_dict(weights)
    return LoadedRun(config, prepared.tokenizers, model.to(device).eval())


def score_test(
    best: LoadedRun,
    run: RunDirectory,
    pairs: Sequence[Pair],
    log: Log,
    step: int,
    check_stop: CheckStop,
    world: World = ONE_PROCESS,
) -> None:
    """Translate the test set with the best checkpoint; write the output and its scores into the run.

    If ``check_stop`` raises between two batches, nothing is written.
    """
    config = best.config
    translator = Translator.of(best, resolve_device(config.device), torch.float32)
    sources, references = zip(*pairs, strict=True)
    options = SearchOptions.from_config(config.decoding)

    def translate(share: Sequence[str]) -> Iterator[str]:
        return translated(translator, share, options, "translating the test set", check_stop)

    hypotheses = in_shares(world, sources, translate)
    if not world.writes:
        return
    name, section = run.path.name, config.evaluation
    how = scoring(None, {name: config}, sources, references, log.say)
    system = how.score(name, sources, hypotheses, references, bins=section.bins, resamples=section.bootstrap)
    write_text(run.test_hypotheses, "".join(f"{line}\n" for line in hypotheses))
    write_json(run.test_scores, system.as_dict() | {"binned_by": str(BinnedBy("source", how.source_unit))})
    scores = {metric: score.value for metric, score in system.scores.items()}
    log.record(step, TEST, **scores, signature=system.bleu.signature)


def write_row(log: Log, run: RunDirectory, config: Config) -> None:
    """Give a finished run its row in TensorBoard's table of runs."""
    log.hyperparameters(hyperparameters(config), final_metrics(read_metrics(run.metrics)))


def mend_row(run: RunDirectory, config: Config, say: Callable[[str], None]) -> None:
    """Write what TensorBoard lacks of a finished run that was killed after its last line of metrics.jsonl: the row, and
    the scores of the test set, which are in the same file."""
    if in_table_of_runs(run):
        return
    with closing(Log(run, say, keep_average=True)) as log:
        for record in [each for each in read_metrics(run.metrics) if each.get("split") == TEST][-1:]:
            log.scalars(record["step"], TEST, {name: record[name] for name in METRICS if name in record}, TEST)
        write_row(log, run, config)


def final_metrics(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The scalars of TensorBoard by which runs compare: those of the weights that translate, and of the test set.

    The weights may be the average of checkpoints; of several records of a kind the last one counts.
    """
    records = list(records)
    tests = [{}, *(each for each in records if each.get("split") == "test")]
    groups = {"best": best_validation(records), "test": tests[-1]}
    return {
        f"{group}/{name}": record[name]
        for group, record in groups.items()
        for name in METRICS
        if record.get(name) is not None
    }


def final_lines(run: RunDirectory) -> list[Result]:
    """The results of a finished run, in words: the scores of the test set, and which weights translate."""
    records = read_metrics(run.metrics)
    lines = [
        f"test set: {format_values(each)}  {each['signature']}" for each in records if each.get("split") == "test"
    ][-1:]
    if best := best_validation(records):
        weights = f"that of update {best['step']:,}"
        if best["split"] == "average":
            weights = f"the average of those of updates {', '.join(f'{update:,}' for update in best['updates'])}"
        lines.append(f"best checkpoint: {weights}: {run.folder('best')}")
    return [Result(line) for line in lines]
