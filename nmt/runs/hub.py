"""A run on the Hugging Face hub: a directory to upload, and a run that is loaded by its name there."""

import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from nmt.config import Config, load_run_config
from nmt.errors import FileError
from nmt.files import read_json, run_name, write_text
from nmt.runs.directory import RunDirectory, read_manifest

PREFIX = "hf:"
"""Begins the name of a run on the hub."""
FILES = ("config.yaml", "manifest.json", "data_report.json", "confidence.json", "test.scores.json")
"""What translation and the model card need besides tokenizers and weights. None has sentences of the corpora."""


def local(run: str) -> str:
    """Return the directory of a run; ``hf:OWNER/NAME`` or ``hf:OWNER/NAME@REVISION`` is downloaded into the cache.
    Raises FileError if that fails, DataError without a cache."""
    if not run.startswith(PREFIX):
        return run
    from huggingface_hub import snapshot_download  # noqa: PLC0415  (slow to import)

    from nmt.data.dataset import cache_folder  # noqa: PLC0415

    name, _, revision = run.removeprefix(PREFIX).partition("@")
    folder = cache_folder(None) / "hub" / (revision or "latest") / name  # the last folder names the run
    try:
        patterns = [*FILES, "tokenizer/*", "checkpoints/best/*"]
        snapshot_download(name, revision=revision or None, local_dir=folder, allow_patterns=patterns)
    except Exception as error:  # the hub's library lets errors of httpx through
        found = str(error).strip().partition("\n")[0] or repr(error)
        raise FileError(f"{run}: cannot be downloaded: {found}; must be hf:OWNER/NAME of a public run") from None
    return str(folder)


def export_hub(path: str, output: Path) -> None:
    """Write what translation needs of a run, and README.md, a model card (Mitchell et al. 2019) of the run.

    Raises FileError for a run that cannot be used, before anything is written.
    """
    run = RunDirectory(path)
    run.refuse_links()
    described = card(run, load_run_config(path))
    run.weights("best")  # compared with their checksum
    best = output / "checkpoints/best"
    run.whole("best", lambda: shutil.copytree(run.folder("best"), best, dirs_exist_ok=True))
    shutil.copytree(run.tokenizer, output / "tokenizer")
    for file in FILES:
        if (run.path / file).exists():
            shutil.copyfile(run.path / file, output / file)
    write_text(output / "README.md", described)


def card(run: RunDirectory, config: Config) -> str:
    """Write the model card; the hub reads the part before the heading."""
    data, model, manifest = config.data, config.model, read_manifest(run)
    template = Template(files("nmt.runs").joinpath("model_card.md").read_text("utf-8"))
    return template.substitute(
        languages=json.dumps([data.source_language, data.target_language]),
        source=data.source_language,
        target=data.target_language,
        encoder=model.encoder.type,
        decoder=model.decoder.type,
        attention=model.attention.type,
        megabytes=f"{4 * run.parameters('best') / 1e6:.1f}",
        version=manifest.get("versions", {}).get("nmt-attention", "of unknown version"),
        seed=config.seed,
        facts="\n".join(_facts(run, config, manifest)),
    )


def _facts(run: RunDirectory, config: Config, manifest: dict[str, Any]) -> Iterator[str]:
    if tags := config.data.tags:
        yield f"- Tags before a line: {', '.join(f'`{tag}`' for tag in tags)}; default: {config.decoding.to or 'none'}"
    report: dict[str, Any] = read_json(run.data_report)
    train = report["splits"]["train"]
    longest = train["source_length_histogram"][-1]["high"]
    words = f"{train['source']['words']:,} source words, up to {longest} in a sentence"
    yield f"- Training text: {train['kept']:,} pairs, {words}"
    if first := manifest.get("start_from"):
        yield f"- Started from the weights of {run_name(first['run'])} (SHA-256 {first['model_sha256']})"
    if run.test_scores.exists():
        for name, score in read_json(run.test_scores).items():
            if isinstance(score, dict):
                yield f"- Test set, {name}: {score['score']:.2f} ({score['signature']})"
