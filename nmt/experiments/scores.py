"""Translations of the test sets and their scores; kept as long as nothing that they depend on changes."""

from itertools import islice
from pathlib import Path
from typing import Any

from nmt.data.lines import read_lines
from nmt.device import resolve_device
from nmt.evaluation.alignment import alignment_report, read_gold
from nmt.evaluation.by_length import score_system
from nmt.evaluation.writing import BinnedBy, lengths, tokenizer_of_run, unit_of
from nmt.experiments.plan import Plan, Run
from nmt.experiments.schema import TestSet
from nmt.experiments.training import Say
from nmt.files import digest, read_json, write_json
from nmt.messages import counted
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.translation.files import growing, made_from
from nmt.translation.forced import word_attention
from nmt.translation.options import SearchOptions
from nmt.translation.translator import CheckStop, Translator


def translate_all(plan: Plan, say: Say, check_stop: CheckStop) -> None:
    """Translate and score each test set with each run, unless that is done. Raises what ``check_stop`` raises."""
    for run in plan.runs:
        for test in plan.tests:
            if is_scored(plan, run, test):
                continue
            if not (plan.translated_in_training(run, test) or is_translated(plan, run, test)):
                _translate(plan, run, test, say, check_stop)
            score(plan, run, test)


def _translate(plan: Plan, run: Run, test: str, say: Say, check_stop: CheckStop) -> None:
    """Write all translations of a test set; after a kill, go on after those that are written."""
    source, path = plan.tests[test].source, plan.translations(run, test)
    say(f"{run.label}: translating {source}")
    path.parent.mkdir(parents=True, exist_ok=True)
    translator = Translator.load(run.path, run.config.device)
    options, lines = SearchOptions.from_config(translator.decoding), list(read_lines(source))
    shown = counted(lines, source, len(lines), "lines")
    with growing([path], 1, made_from([run.path], [source], options), say) as (done, [file]):
        for each in translator.stream(islice(shown, done, None), options, first=done + 1, check_stop=check_stop):
            file.write(f"{each.text}\n".encode())


# --- what they depend on ----------------------------------------------------------------------------------------------


def is_translated(plan: Plan, run: Run, test: str) -> bool:
    """Whether current translations of this test set by this run exist."""
    kept, hypotheses = _kept(plan, run, test), plan.translations(run, test)
    return (
        hypotheses.exists()
        and kept.get("hypotheses_sha256") == digest(hypotheses)
        and kept.get("translated_from") == translated_from(run, plan.tests[test])
    )


def is_scored(plan: Plan, run: Run, test: str) -> bool:
    """Whether the scores of these translations, with these options, exist."""
    wanted = scored_by(run, plan.tests[test])
    return is_translated(plan, run, test) and _kept(plan, run, test).get("scored_by") == wanted


def _kept(plan: Plan, run: Run, test: str) -> dict[str, Any]:
    path = plan.scores(run, test)
    kept = read_json(path) if path.exists() else {}
    return kept if isinstance(kept, dict) else {}


def translated_from(run: Run, test: TestSet) -> dict[str, Any]:
    """Describe everything that the translations depend on."""
    return {
        "weights_sha256": digest(RunDirectory(run.path).checkpoints / "best" / "model.safetensors"),
        "source_sha256": digest(Path(test.source)),
        "decoding": run.config.decoding.model_dump(mode="json"),
    }


def scored_by(run: Run, test: TestSet) -> dict[str, Any]:
    """Describe everything else that the scores depend on."""
    return {
        "reference_sha256": digest(Path(test.reference)),
        "links_sha256": digest(Path(test.gold.links)) if test.gold else None,
        "first": test.gold.first if test.gold else None,
        "bins": list(test.bins or ()),
        "evaluation": run.config.evaluation.model_dump(mode="json"),
    }


# --- the scores -------------------------------------------------------------------------------------------------------


def score(plan: Plan, run: Run, test: str) -> None:
    """Score the translations of a test set, and the attention if there are gold alignments; write a JSON file."""
    of, config = plan.tests[test], run.config
    path, file = plan.translations(run, test), plan.scores(run, test)
    sources, references, hypotheses = (list(read_lines(each)) for each in (of.source, of.reference, path))
    binned_by = BinnedBy("source", unit_of(config.data.source_language))
    system = score_system(
        run.system,
        lengths(sources, binned_by.unit),
        hypotheses,
        references,
        tokenizer=tokenizer_of_run(config).tokenizer,
        bins=of.bins or (),
        resamples=config.evaluation.bootstrap,
    )
    scores = system.as_dict() | {"binned_by": str(binned_by)}
    if alignment := _alignment(run, of):
        scores["alignment"] = alignment
    file.parent.mkdir(parents=True, exist_ok=True)
    origin = {"translated_from": translated_from(run, of), "hypotheses_sha256": digest(path)}
    write_json(file, scores | origin | {"scored_by": scored_by(run, of)})


def _alignment(run: Run, test: TestSet) -> dict[str, Any] | None:
    """Score the links of the attention while the run reads the references; None without attention or gold links."""
    if test.gold is None:
        return None
    gold = read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)
    device = resolve_device(run.config.device)
    loaded = load_run(run.path, device)
    if not loaded.model.attends:
        return None
    return alignment_report(gold, word_attention(loaded.network, loaded.tokenizers, gold.pairs, device))
