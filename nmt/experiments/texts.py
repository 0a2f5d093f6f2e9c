"""From the made texts of an experiment to values: which systems they need, which systems read them, and how.

A system names a made text as ``{text: NAME}`` where a corpus stands. Its sides are files named by language, so that the
same text is the right way round for systems of both directions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.problems import explain
from nmt.config.schema import Decoding, search_contradictions
from nmt.errors import nearest
from nmt.experiments.runs import Languages, PlannedText, Run, text_file
from nmt.experiments.schema import Experiment, MadeText

KEY = "text"
"""Names a made text in place of a corpus."""
Corpus = dict[str, Any]


def replaced(value: Any, corpus_of: Callable[[str], Corpus]) -> Any:
    """Replace ``{text: NAME, ...}`` everywhere in a value of ``data`` by a corpus of files with the same options."""
    if isinstance(value, list):
        return [replaced(each, corpus_of) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(name := value.get(KEY), str):
        return {key: option for key, option in value.items() if key != KEY} | corpus_of(name)
    return {key: replaced(each, corpus_of) for key, each in value.items()}


def with_files(differences: Mapping[str, Any], corpus_of: Callable[[str], Corpus]) -> dict[str, Any]:
    """The differences of a system, by dotted key, with the files of its texts."""
    return {
        key: replaced(value, corpus_of) if key.partition(".")[0] == "data" else value
        for key, value in differences.items()
    }


def names_in(differences: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts that a system is trained on, each once."""
    found: list[str] = []

    def note(name: str) -> Corpus:
        found.append(name)
        return {}

    with_files(differences, note)
    return tuple(dict.fromkeys(found))


def files_of(folder: Path, languages: Languages) -> Callable[[str], Corpus]:
    """Name the files of a text for a system of these languages."""
    source, target = languages
    return lambda name: {
        "source": str(text_file(folder, name, source)),
        "target": str(text_file(folder, name, target)),
    }


# --- names ------------------------------------------------------------------------------------------------------------


def name_problems(experiment: Experiment) -> list[str]:
    """Find names that stand for nothing or for two things, and texts that need themselves."""
    texts, problems = experiment.texts, []
    labels = _labels(experiment)
    for name in texts.keys() & experiment.systems.keys():
        problems.append(f"texts.{name}: is the name of a system, too; choose another")
    for system, differences in experiment.systems.items():
        for name in names_in(differences):
            if name not in texts:
                problems.append(f"systems.{system}: {{text: {name}}}: {_unknown(name, 'text', list(texts))}")
    for name, text in texts.items():
        for key, models in _models(text):
            for model in models:
                if model not in labels:
                    problems.append(f"texts.{name}.{key}: {_unknown(model, 'system', list(labels))}")
    return problems or _cycles(experiment, labels)


def _labels(experiment: Experiment) -> dict[str, str]:
    """Everything that selects runs, with the system of the runs."""
    return {
        label: system
        for system in experiment.systems
        for label in (system, *(f"{system}:{seed}" for seed in experiment.seeds or ()))
    }


def _models(text: MadeText) -> Iterator[tuple[str, Sequence[str]]]:
    yield "models", text.models
    if text.round_trip is not None:
        yield "round_trip.models", text.round_trip.models


def _unknown(name: str, kind: str, known: Sequence[str]) -> str:
    problem = f"no {kind} of this experiment is named {name!r}; there is {', '.join(known) or 'none'}"
    return "; ".join([problem, *nearest(name, known)])


def _cycles(experiment: Experiment, labels: Mapping[str, str]) -> list[str]:
    graph: dict[str, Sequence[str]] = {
        system: names_in(differences) for system, differences in experiment.systems.items()
    }
    for name, text in experiment.texts.items():
        graph[name] = [labels[model] for _, models in _models(text) for model in models]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        return [f"texts: {circle}: each is needed by the next, so that none can be made first"]
    return []


# --- the texts --------------------------------------------------------------------------------------------------------


def plan_texts(experiment: Experiment, runs: Sequence[Run], folder: Path) -> tuple[list[PlannedText], list[str]]:
    """Resolve the texts of an experiment whose names are right; return them, and what is wrong."""
    texts, problems = list[PlannedText](), list[str]()

    def select(names: Sequence[str]) -> tuple[Run, ...]:
        return tuple(run for run in runs if run.system in names or run.label in names)

    for name, of in experiment.texts.items():
        models = select(of.models)
        back = select(of.round_trip.models) if of.round_trip else ()
        decoding, found = _decoding(of, models[0].config.decoding)
        texts.append(PlannedText(name, of, models, back, decoding, folder))
        problems += [f"texts.{name}.{problem}" for problem in [*found, *_directions(models, back)]]
    by_name = {text.name: text for text in texts}
    for run in runs:
        for name in run.texts:
            made, read = by_name[name].models[0].languages, run.languages
            if set(made) != set(read):
                problems.append(
                    f"systems.{run.system}: {{text: {name}}}: is in {' and '.join(made)}, and the system translates "
                    f"from {' to '.join(read)}"
                )
    return texts, list(dict.fromkeys(problems))


def _directions(models: Sequence[Run], back: Sequence[Run]) -> Iterator[str]:
    """Problems of systems that translate in other directions than they should."""
    source, target = models[0].languages
    if source == target:
        yield f"models: {models[0].label} translates from {source} to {source}; sides are named by language, and differ"
    for key, runs, wanted in (("models", models, (source, target)), ("round_trip.models", back, (target, source))):
        for run in runs:
            if run.languages != wanted:
                yield f"{key}: {run.label} translates from {' to '.join(run.languages)}; must be {' to '.join(wanted)}"


def _decoding(of: MadeText, usual: Decoding) -> tuple[Decoding, list[str]]:
    """The options of search, and what is wrong with them. Samples have no beam."""
    beam = {"beam_size": 1, "coverage_penalty": 0.0} if of.sampling else {}
    if useless := beam.keys() & of.decoding.keys():
        return usual, [f"decoding.{key}: has no effect with sampling; leave one out" for key in sorted(useless)]
    try:
        decoding = Decoding.model_validate({**usual.model_dump(), **beam, **of.decoding})
    except ValidationError as error:
        found = [explain(detail, Decoding) for detail in error.errors(include_url=False)]
        return usual, [f"decoding.{problem}" for problem in found]
    return decoding, [str(problem) for problem in search_contradictions(decoding)]
