"""Evaluation as a function, and the systems that are scored: runs or given translations."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config, load_run_config
from nmt.config.schema import BleuTokenizer
from nmt.data.corpus import Text, read_aligned, read_test_set
from nmt.errors import ConfigError, NmtWarning
from nmt.evaluation.alignment import GoldPairs, alignment_report
from nmt.evaluation.by_length import Scoring, SystemScores, scoring
from nmt.evaluation.confidence import GOOD, calibration_error, fit, reliability
from nmt.evaluation.figures.files import numbers, write_all
from nmt.evaluation.figures.length_curve import About
from nmt.evaluation.figures.reliability import draw_reliability
from nmt.evaluation.figures.style import png
from nmt.evaluation.metrics import METRICS
from nmt.evaluation.writing import checked
from nmt.files import digest, printable, run_name
from nmt.messages import Say, silent
from nmt.runs.directory import LENGTH, WITHOUT_EFFECT, RunDirectory, changes_to, is_one_of, say_precisions
from nmt.runs.log import read_metrics, updates_of_best
from nmt.translation.results import Translation

System = Text
"""The path of a run directory, which translates; or existing translations: the path of a file, or lines."""


def warn(problem: str) -> None:
    """Warn as Python's libraries do."""
    warnings.warn(problem, NmtWarning, stacklevel=4)


@dataclass
class Entry:
    """A run, with translations that are given or that it has to make, or given translations alone."""

    name: str
    system: System
    config: Config | None
    """None for translations alone."""
    given: list[str] | None = None
    """Translations; None for a run that has to make them."""

    @property
    def path(self) -> Path:
        """The run directory."""
        assert isinstance(self.system, str | os.PathLike)
        return Path(self.system)


class Systems:
    """Systems that are compared on one test set; a name that is given again is another seed of the same system.

    ``hypotheses`` are existing translations by the run of a name, which then does not translate. Those that do use the
    device, the precision, and ``changes``, options of the search that differ from their own.

    Raises ConfigError for hypotheses without a run, and for options of the search where no run translates; DataError
    for wrong texts, FileError for an unusable run.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, System]],
        source: Text,
        reference: Text,
        hypotheses: Sequence[tuple[str, Text]] = (),
        device: str = "auto",
        precision: str = "fp32",
        changes: Mapping[str, Any] | None = None,
        say: Say = silent,
    ) -> None:
        if not named:
            raise ConfigError("systems: none is given; name at least one, such as {'bahdanau': 'runs/demo/bahdanau'}")
        self.device, self.precision, self.say = device, precision, say
        self.changes = {name: value for name, value in (changes or {}).items() if value is not None}
        self.sources, self.references = read_test_set(source, reference)
        self.source = os.fspath(source) if isinstance(source, str | os.PathLike) else None
        self.entries: list[Entry] = []
        for name, system in named:
            is_run = isinstance(system, str | os.PathLike) and Path(system).is_dir()
            entry = Entry(name, system, load_run_config(Path(str(system))) if is_run else None)
            if not is_run:
                entry.given = read_aligned(system, source, len(self.sources))
            self.entries.append(entry)
        self._refuse_other_systems()
        for name, text in hypotheses:
            waiting = [entry for entry in self.entries if entry.name == name and entry.given is None]
            if not waiting:
                raise ConfigError(f"hypotheses {name}={text}: no system {name} is a run without hypotheses")
            waiting[0].given = read_aligned(text, source, len(self.sources))
        if self.changes and all(entry.given is not None for entry in self.entries):
            raise ConfigError(*(f"{name}: has no effect, because no run translates" for name in self.changes))

    def _refuse_other_systems(self) -> None:
        """Raise ConfigError for runs that share a name although they are not seeds of one system."""
        for other, entry in combinations(self.entries, 2):
            if other.name != entry.name or other.config is None or entry.config is None:
                continue
            changes = changes_to(other.config.model_dump(mode="json"), entry.config)
            keys = [each.key for each in changes if not is_one_of(each.key, (*WITHOUT_EFFECT, *LENGTH, "precision"))]
            if keys != ["seed"]:
                found = f"{other.system} and {entry.system} differ in {', '.join(keys) or 'nothing'}"
                rule = "runs that share a name must differ in their seed, and else at most in length and precision"
                raise ConfigError(f"{entry.name}: {found}; {rule}")

    def scoring(self, edges: Sequence[int] = (), tokenizer: BleuTokenizer | None = None) -> Scoring:
        """Choose how the systems are scored, as :func:`~nmt.evaluation.by_length.scoring` does."""
        runs = {f"{entry.name}={entry.system}": entry.config for entry in self.entries if entry.config is not None}
        say_precisions([RunDirectory(entry.path) for entry in self.entries if entry.config is not None], self.say)
        tokenizer = tokenizer and checked(tokenizer, "--bleu-tokenizer")
        return scoring(runs, self.sources, self.references, self.say, edges, tokenizer)

    @cached_property
    def translations(self) -> list[list[str]]:
        """The translations of each system; all runs are loaded before the first translates."""
        loaded = [self.translate(entry) if entry.given is None else entry.given for entry in self.entries]
        return [[each if isinstance(each, str) else each.text for each in lines] for lines in loaded]

    def translate(self, entry: Entry) -> Iterator[Translation]:
        """Load a run at once, and translate the source line by line, with warnings that name it."""
        from nmt.translation.translator import Translator  # noqa: PLC0415
        from nmt.translation.watching import translate_watched  # noqa: PLC0415

        translator = Translator.load(entry.path, self.device, self.precision)
        options = translator.options(**self.changes)
        source, what, total = self.source or "the source", f"{entry.path}: translating", len(self.sources)
        return translate_watched(translator, self.sources, options, name=source, what=what, total=total)

    def score(self, how: Scoring) -> tuple[SystemScores, ...]:
        """Score the translations of each system; several seeds of one system are scored together."""
        seeds: dict[str, list[list[str]]] = {}
        for entry, lines in zip(self.entries, self.translations, strict=True):
            seeds.setdefault(entry.name, []).append(lines)
        return tuple(how.score(name, *each) for name, each in seeds.items())

    def about(self, how: Scoring, scored: Sequence[SystemScores]) -> About:
        """Describe figures of the systems and their scores, and the runs among these."""
        runs: dict[str, list[dict[str, str]]] = {entry.name: [] for entry in self.entries}
        for entry in self.entries:
            if entry.config is not None:
                changes = self.changes if entry.given is None else {}
                runs[entry.name].append(described(entry.path, entry.config, changes))
        test_set = "test set" if self.source is None else printable(Path(self.source).name)
        untrained = [each.name for each in scored if not each.comparable]
        return About(test_set, how.resamples, how.source_unit, runs, untrained)


def calibrate(systems: Systems, how: Scoring) -> dict[str, Any]:
    """Fit the confidence of a run, the only system, to its translations; write it and its diagram into the run.

    Raises DataError for too few good translations or others, and if the run is not writable.
    """
    [entry], chrf = systems.entries, METRICS["chrf"].of_sentence
    assert chrf is not None
    found = [each.hypotheses[0] for each in systems.translate(entry)]
    entry.given = [each.text for each in found]
    pairs = [(each, text) for each, text in zip(found, systems.references, strict=True) if each.pieces]  # no blank line
    good = np.array([chrf(each.text, text, how.tokenizer) >= GOOD for each, text in pairs])
    per_piece = [each.per_piece for each, _ in pairs]
    calibration = fit(per_piece, good)
    bins = reliability(calibration.probability(per_piece), good)
    run, text = RunDirectory(entry.path), systems.source or "test set"
    assert entry.config is not None
    search = entry.config.decoding.model_copy(update=dict(systems.changes)).model_dump()
    weights = digest(run.folder("best") / "model.safetensors")
    facts = {"text": text, "weights": weights, "precision": systems.precision, **search}
    rows = [dict(zip(("translations", "probability", "good"), row, strict=True)) for row in bins.tolist()]
    content = calibration._asdict() | facts | {"calibration_error": calibration_error(bins), "bins": rows}
    image = png(draw_reliability(bins, text))
    write_all(run.confidence.with_suffix(""), {".json": numbers(content), ".png": image})
    return content


def described(run: Path, config: Config, changes: Mapping[str, Any]) -> dict[str, str]:
    """Describe the run behind a translation; ``changes`` are options of the search that differ from the run's."""
    decoding = config.decoding.model_copy(update=dict(changes))
    search = f"beam {decoding.beam_size}, length penalty {decoding.length_penalty:g}"
    updates = updates_of_best(read_metrics(run / "metrics.jsonl"))
    update = "".join(f"{each:,}" for each in updates)
    if len(updates) > 1:
        update = f"mean of {len(updates)} from {min(updates):,} to {max(updates):,}"
    languages = f"{config.data.source_language} to {config.data.target_language}"
    return {"languages": languages, "search": search, "update": update}


def score_alignment(
    run: str | Path, gold: GoldPairs, device: str = "auto", changes: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Score the attention of a run, forced to read the references, as word alignment; None without attention.
    ``changes`` are options of the search that differ from the run's."""
    from nmt.device import resolve_device  # noqa: PLC0415  (PyTorch is slow to import)
    from nmt.runs.loading import load_run  # noqa: PLC0415
    from nmt.translation.forced import word_attention  # noqa: PLC0415
    from nmt.translation.searching import SearchOptions  # noqa: PLC0415

    place = resolve_device(device)
    loaded = load_run(run, place)
    if not loaded.model.attends:
        return None
    limits = SearchOptions.from_config(loaded.config.decoding, **(changes or {}))
    return alignment_report(gold, word_attention(loaded.network, loaded.tokenizers, gold.pairs, place, limits))


def evaluate(
    system: System,
    source: Text,
    reference: Text,
    *,
    bins: Sequence[int] = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **changes: Any,
) -> SystemScores:
    """Score a run, or translations, as ``nmt-evaluate`` does: BLEU and chrF by sacreBLEU, and BLEU by source length.

    >>> scores = evaluate("runs/tiny", "test.low", "test.up", bins=[2])
    >>> print(scores.bleu.signature.partition("|version")[0])
    nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp
    >>> [(row.low, row.high) for row in scores.rows]
    [(1, 2), (3, 4)]
    >>> evaluate(["ELM OAK"], ["oak elm"], ["ELM OAK"]).scores["chrf"].value
    100.0

    Args:
        system: path of a run directory; or translations, one a line: path of a file, or lines.
        source: raw text, one sentence a line: path of a file, or lines.
        reference: raw translations of the same lines.
        bins: largest length of each bin, ascending, in words (characters for a language without spaces); longer
            sentences form one more bin. Default: ``evaluation.bins`` of the run, or of the schema.
        bleu_tokenizer: sacreBLEU's; default: the run's, without a run by the script of the references.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``.
        precision: ``fp32``, ``bf16`` or ``int8``.
        changes: options of the search that differ from the run's, as for :meth:`Translator.translate`.

    Returns scores from 0 to 100. Raises DataError for texts of different length, FileError for an unusable run,
    ConfigError for options.
    """
    name = run_name(system) if isinstance(system, str | os.PathLike) else "translations"
    systems = Systems([(name, system)], source, reference, (), device, precision, changes, warn)
    [scored] = systems.score(systems.scoring(bins, bleu_tokenizer))
    return scored
