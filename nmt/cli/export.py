"""nmt-export: a run for other programs."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from nmt.cli.command import Command
from nmt.cli.options import RunPath, Value
from nmt.cli.terminal import say
from nmt.config import Config, load_run_config
from nmt.errors import ConfigError
from nmt.pages.web import CELLS, refuse_unknown_parts


def export(
    run: RunPath,
    folder: Annotated[str, Value("DIR")],
    *,
    web: bool = False,
    ctranslate2: bool = False,
    onnx: bool = False,
    hub: bool = False,
) -> None:
    """Write a run as files that translate without this package.

    With --web: a page that translates while somebody types, an engine in JavaScript without dependencies, and the
    rounded weights. With --ctranslate2: a model for CTranslate2, an engine in C++ for processors and GPUs. With --onnx:
    two networks for ONNX Runtime, and a program that translates with them. With --hub: a repository for the Hugging
    Face hub, with a model card; nmt-translate --model hf:OWNER/NAME then downloads it.
    README.md in the directory says how to use them in other programs.

    Args:
        run: run directory
        folder: new directory
        web: for browsers and Node; recurrent networks only
        ctranslate2: for CTranslate2; Transformers only
        onnx: for ONNX Runtime; recurrent networks only
        hub: for the Hugging Face hub

    examples:
      nmt-export --web runs/demo/bahdanau page
      nmt-export --ctranslate2 runs/transformer model
      nmt-export --onnx runs/demo/bahdanau model
    """
    if web + ctranslate2 + onnx + hub != 1:
        raise ConfigError("give exactly one of --web, --ctranslate2, --onnx and --hub")
    directory = Path(folder)
    if directory.is_file():
        raise ConfigError(f"DIR: {folder} is a file; choose a new directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigError(f"DIR: {folder} is not empty; choose a new directory")
    config = load_run_config(run)
    if hub:
        from nmt.runs.hub import export_hub  # noqa: PLC0415  (slow to import)

        size, hint = export_hub(run, directory), f"to upload it: hf upload OWNER/NAME {folder}"
    elif web:
        refuse_unknown_parts(config.model)
        from nmt.pages.web.exporting import export_web  # noqa: PLC0415  (slow to import)

        size, hint = export_web(run, directory), f"to see it: python3 -m http.server --directory {folder}"
    elif onnx:
        refuse_other_than_recurrent(config)
        from nmt.translation.onnx import export_onnx  # noqa: PLC0415

        size, hint = export_onnx(run, directory), f"to use it: {directory / 'README.md'}"
    else:
        refuse_other_networks(config)
        from nmt.translation.ctranslate2 import export_ctranslate2  # noqa: PLC0415

        size, hint = export_ctranslate2(run, directory), f"to use it: {directory / 'README.md'}"
    say(f"written: {folder}, {size / 1000:,.0f} kB; {hint}")


main = Command(export)


def refuse_other_networks(config: Config) -> None:
    """Raise ConfigError for a run that CTranslate2 does not translate with, with the key that says so."""
    kinds = {f"model.{name}.type": getattr(config.model, name).type for name in ("encoder", "decoder")}
    others = {key: kind for key, kind in kinds.items() if kind != "transformer"}
    problems = []
    if others:
        listed = " and ".join(f"'{kind}'" for kind in dict.fromkeys(others.values()))
        problems.append(f"{', '.join(others)}: CTranslate2 runs Transformers, not {listed}; use --web")
    if config.data.reverse_source:
        problems.append("data.reverse_source: CTranslate2 does not reverse the source; train a run without it")
    if problems := [*problems, *_of_text(config, "CTranslate2")]:
        raise ConfigError(*problems)


def refuse_other_than_recurrent(config: Config) -> None:
    """Raise ConfigError for a run that --onnx does not export, or without the package that it needs."""
    problems = [
        f"model.{name}.type: --onnx exports {', '.join(CELLS)}, not '{kind}'; use --ctranslate2"
        for name in ("encoder", "decoder")
        if (kind := getattr(config.model, name).type) not in CELLS
    ]
    if (hard := getattr(config.model.attention, "hard", None)) is not None:
        problems.append(f"model.attention.hard: --onnx does not export '{hard.type}'; use --web")
    if find_spec("onnxscript") is None:
        problems.append("--onnx: needs the packages onnx and onnxscript; pip install onnx onnxscript")
    if problems := [*problems, *_of_text(config, "the program of --onnx")]:
        raise ConfigError(*problems)


def _of_text(config: Config, engine: str) -> Iterator[str]:
    """Find what an engine that knows nothing but pieces would read otherwise."""
    if config.data.tags:
        yield f"data.corpora: {engine} reads the tag {config.data.tags[0]} as other pieces; use --web"
    if config.data.protect:
        yield f"data.protect: {engine} does not hide spans; train a run without it"
