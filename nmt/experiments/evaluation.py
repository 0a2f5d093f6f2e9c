"""Evaluation as a function, and the systems that are scored: runs or given translations."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, Unpack

from nmt.config import Config, load_run_config
from nmt.config.schema import BleuTokenizer, Evaluation
from nmt.data.corpus import Text, read_aligned, read_test_set
from nmt.errors import ConfigError, NmtWarning
from nmt.evaluation.alignment import GoldPairs, alignment_report
from nmt.evaluation.by_length import SystemScores
from nmt.evaluation.figures.length_curve import About, Origin
from nmt.evaluation.writing import BinnedBy, scoring
from nmt.files import printable, run_name
from nmt.runs.metrics import read_metrics, updates_of_best

if TYPE_CHECKING:  # PyTorch is slow to import
    from nmt.translation.options import SearchChanges

System = Text
"""The path of a run directory, which translates; or existing translations: the path of a file, or lines."""


Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


def warn(problem: str) -> None:
    """Warn as Python's libraries do."""
    warnings.warn(problem, NmtWarning, stacklevel=4)


def is_run(system: System) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a system is a run directory; else it is translations."""
    return isinstance(system, str | os.PathLike) and Path(system).is_dir()


def config_of(system: System) -> Config | None:
    """Load the configuration of a run directory; None for translations. Raises ConfigError, FileError."""
    return load_run_config(Path(system)) if is_run(system) else None


def translations_of(
    run: str | os.PathLike[str],
    source: Text,
    lines: Sequence[str],
    changes: Mapping[str, Any],
    device: str = "auto",
    precision: str = "fp32",
) -> Iterator[str]:
    """Load a run at once, and translate lines one by one, with warnings that name their ``source``.

    ``changes`` are the options of the search that differ from the run's. Raises the errors of
    :meth:`nmt.Translator.load`, and ConfigError for options.
    """
    from nmt.translation.options import SearchOptions  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415
    from nmt.translation.watching import translate_watched  # noqa: PLC0415

    path = Path(run)
    translator = Translator.load(path, device, precision)
    options = SearchOptions.from_config(translator.decoding, **changes)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else "the source"
    what = f"{path}: translating"
    translated = translate_watched(translator, lines, options, run=path, source=name, what=what, total=len(lines))
    return (each.text for each in translated)


def score_alignment(run: str | os.PathLike[str], gold: GoldPairs, device: str = "auto") -> dict[str, Any]:
    """Score the attention of a run, forced to read the references, as word alignment."""
    from nmt.device import resolve_device  # noqa: PLC0415  (PyTorch is slow to import)
    from nmt.runs.loading import load_run  # noqa: PLC0415
    from nmt.translation.forced import word_attention  # noqa: PLC0415

    place = resolve_device(device)
    loaded = load_run(Path(run), place)
    return alignment_report(gold, word_attention(loaded.network, loaded.tokenizers, gold.pairs, place))


class Systems:
    """Systems that are compared on one test set.

    Args:
        named: systems and their names; the same name again is another seed of the same system.
        source: raw text.
        reference: raw translations of the same lines.
        hypotheses: existing translations by the run of a name, which then does not translate.
        device: for the runs that translate.
        precision: likewise.
        changes: options of the search that differ from the runs'.
        say: receives messages.

    Raises ConfigError for hypotheses without a run, and for options of the search where no run translates; DataError
    for wrong texts, CheckpointError for an unusable run.
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
        self.named, self.source, self.changes = named, source, changes or {}
        self.device, self.precision, self.say = device, precision, say
        self.configs = [config_of(system) for _, system in named]
        self.sources, self.references = read_test_set(source, reference)
        self._ready = [
            None if config else read_aligned(system, source, len(self.sources))
            for (_, system), config in zip(named, self.configs, strict=True)
        ]
        for name, text in hypotheses:
            waiting = (i for i, (known, _) in enumerate(named) if known == name and self._ready[i] is None)
            place = next(waiting, None)
            if place is None:
                raise ConfigError(f"hypotheses {name}={text}: no system {name} is a run without hypotheses")
            self._ready[place] = read_aligned(text, source, len(self.sources))
        if self.changes and None not in self._ready:
            raise ConfigError(*(f"{name}: has no effect, because no run translates" for name in self.changes))

    def refuse_files(self) -> None:
        """Raise ConfigError for systems that are no runs."""
        if files := [name for (name, _), config in zip(self.named, self.configs, strict=True) if config is None]:
            raise ConfigError(*(f"{name}: is a file of translations; only a run has a diagnosis" for name in files))

    @property
    def runs(self) -> dict[str, Config]:
        """The configuration of each run, by NAME=PATH."""
        named = zip(self.named, self.configs, strict=True)
        return {f"{name}={path}": config for (name, path), config in named if config is not None}

    @property
    def evaluation(self) -> Evaluation:
        """The section ``evaluation`` of the first run; its defaults without a run."""
        return next((config.evaluation for config in self.runs.values()), Evaluation())

    @cached_property
    def translations(self) -> list[list[str]]:
        """The translations of each system; all runs are loaded before the first translates."""
        how = self.changes, self.device, self.precision
        loaded = [
            ready or translations_of(str(run), self.source, self.sources, *how)
            for (_, run), ready in zip(self.named, self._ready, strict=True)
        ]
        return [list(each) for each in loaded]

    def about(self, resamples: int, binned_by: BinnedBy) -> About:
        """Describe figures of the systems; systems that are files have no origin."""
        origins: dict[str, list[Origin]] = {name: [] for name, _ in self.named}
        for (name, run), config, ready in zip(self.named, self.configs, self._ready, strict=True):
            if config is not None:
                decoding = config.decoding.model_copy(update={} if ready else dict(self.changes))
                origin = Origin(
                    config.data.source_language,
                    config.data.target_language,
                    decoding.beam_size,
                    decoding.length_penalty,
                    updates_of_best(read_metrics(Path(str(run)) / "metrics.jsonl")),
                )
                origins[name].append(origin)
        is_file = isinstance(self.source, str | os.PathLike)
        test_set = printable(Path(str(self.source)).name) if is_file else "test set"
        return About(test_set, resamples, binned_by, origins=origins)


def score_only(
    systems: Systems, bins: Sequence[int], bleu_tokenizer: BleuTokenizer | None
) -> tuple[SystemScores, BinnedBy]:
    """Score the only system; return its scores and the length by which its sentences are binned."""
    section, sources, references = systems.evaluation, systems.sources, systems.references
    how = scoring(bleu_tokenizer, systems.runs, sources, references, systems.say)
    [(name, _)], [found] = systems.named, systems.translations
    bins, resamples = bins or section.bins, section.bootstrap
    scored = how.score(name, sources, found, references, bins=bins, resamples=resamples)
    return scored, BinnedBy("source", how.source_unit)


def evaluate(
    system: System,
    source: Text,
    reference: Text,
    *,
    bins: Sequence[int] = (),
    bleu_tokenizer: BleuTokenizer | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **changes: Unpack["SearchChanges"],
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

    Returns scores from 0 to 100. Raises DataError for texts of different length, CheckpointError for an unusable run,
    ConfigError for options.
    """
    name = run_name(system) if isinstance(system, str | os.PathLike) else "translations"
    systems = Systems([(name, system)], source, reference, (), device, precision, changes, warn)
    return score_only(systems, bins, bleu_tokenizer)[0]
