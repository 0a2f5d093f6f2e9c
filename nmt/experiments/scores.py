"""The translations of a test set by one run, scored; kept as long as nothing that they depend on changes."""

from pathlib import Path
from typing import Any

from nmt.config.schema import Decoding
from nmt.data.lines import read_lines
from nmt.device import resolve_device
from nmt.evaluation.alignment import alignment_report, read_gold
from nmt.evaluation.by_length import score_system
from nmt.evaluation.writing import BinnedBy, lengths, tokenizer_of_run, unit_of
from nmt.experiments.plan import Plan
from nmt.experiments.runs import Run
from nmt.experiments.schema import TestSet
from nmt.files import digest, read_json, write_json
from nmt.runs.directory import RunDirectory
from nmt.runs.loading import load_run
from nmt.translation.forced import word_attention


def is_translated(plan: Plan, run: Run, test: str) -> bool:
    """Whether current translations of this test set by this run exist."""
    kept, hypotheses = _kept(plan, run, test), plan.translations(run, test)
    return (
        hypotheses.exists()
        and kept.get("hypotheses_sha256") == digest(hypotheses)
        and with_defaults(kept.get("translated_from")) == translated_from(run, plan.tests[test])
    )


def with_defaults(origin: Any) -> Any:
    """An option of decoding that was unknown when the translations were made had the effect of its default."""
    if not isinstance(origin, dict) or not isinstance(origin.get("decoding"), dict):
        return origin
    return origin | {"decoding": Decoding().model_dump(mode="json") | origin["decoding"]}


def is_scored(plan: Plan, run: Run, test: str) -> bool:
    """Whether the scores are there, of these translations and by these options."""
    wanted = scored_by(run, plan.tests[test])
    return is_translated(plan, run, test) and _kept(plan, run, test).get("scored_by") == wanted


def _kept(plan: Plan, run: Run, test: str) -> dict[str, Any]:
    path = plan.scores(run, test)
    kept = read_json(path) if path.exists() else {}
    return kept if isinstance(kept, dict) else {}


def translated_from(run: Run, test: TestSet) -> dict[str, Any]:
    """Everything that the translations depend on."""
    weights = RunDirectory(run.path).checkpoints / "best" / "model.safetensors"
    return {
        "weights_sha256": digest(weights),
        "source_sha256": digest(Path(test.source)),
        "decoding": run.config.decoding.model_dump(mode="json"),
    }


def scored_by(run: Run, test: TestSet) -> dict[str, Any]:
    """Everything else that the scores depend on."""
    return {
        "reference_sha256": digest(Path(test.reference)),
        "links_sha256": digest(Path(test.gold.links)) if test.gold else None,
        "first": test.gold.first if test.gold else None,
        "bins": list(test.bins or ()),
        "evaluation": run.config.evaluation.model_dump(mode="json"),
    }


def score(plan: Plan, run: Run, test: str) -> None:
    """Score the translations of a test set, and the attention if there are gold alignments; write a JSON file."""
    of, config = plan.tests[test], run.config
    path = plan.translations(run, test)
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
    file = plan.scores(run, test)
    file.parent.mkdir(parents=True, exist_ok=True)
    origin = {"translated_from": translated_from(run, of), "hypotheses_sha256": digest(path)}
    write_json(file, scores | origin | {"scored_by": scored_by(run, of)})


def _alignment(run: Run, test: TestSet) -> dict[str, Any] | None:
    """How well the attention links words while the run reads the references; None without attention or gold links."""
    if test.gold is None:
        return None
    gold = read_gold(test.source, test.reference, test.gold.links, first=test.gold.first)
    device = resolve_device(run.config.device)
    loaded = load_run(run.path, device)
    if not loaded.model.attends:
        return None
    return alignment_report(gold, word_attention(loaded.network, loaded.tokenizers, gold.pairs, device))
