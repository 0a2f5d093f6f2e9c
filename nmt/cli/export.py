"""nmt-export: a run for other programs."""

import re
import shlex
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
    argos: bool = False,
    onnx: bool = False,
    hub: bool = False,
) -> None:
    """Convert a run for other programs, or for the Hugging Face hub.

    With --web: a page that translates as you type, an engine in JavaScript without dependencies, and the
    weights in fp16. With --ctranslate2: a model for CTranslate2, an engine in C++ for processors and GPUs. With
    --argos: the same as a package that Argos Translate and LibreTranslate install. With --onnx: two networks for ONNX
    Runtime, and a program that translates with them. With --hub: a repository for the Hugging Face hub, with a model
    card; nmt-translate --model hf:OWNER/NAME then downloads it.
    README.md in the directory says how to use them in other programs.

    Args:
        run: run directory
        folder: new directory
        web: for browsers and Node; only recurrent networks without data.protect
        ctranslate2: for CTranslate2; only Transformers without data.protect, data.reverse_source or tags
        argos: for Argos Translate and LibreTranslate; Transformers as for --ctranslate2, with a shared tokenizer
        onnx: for ONNX Runtime; only recurrent networks without data.protect, tags or hard attention
        hub: for the Hugging Face hub

    examples:
      nmt-export --web runs/demo/bahdanau page
      nmt-export --ctranslate2 runs/transformer model
      nmt-export --argos runs/transformer package
      nmt-export --onnx runs/demo/bahdanau model
    """
    if web + ctranslate2 + argos + onnx + hub != 1:
        raise ConfigError("give exactly one of --web, --ctranslate2, --argos, --onnx and --hub")
    directory = Path(folder)
    if directory.is_file():
        raise ConfigError(f"DIR: {folder} is a file; choose a new directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigError(f"DIR: {folder} is not empty; choose a new directory")
    config = load_run_config(run)
    hint = f"to use it: {directory / 'README.md'}"
    if config.data.rough and not hub:
        say("data.rough: nmt-translate lowercases text in capitals; the exported engine does not")
    if hub:
        from nmt.runs.hub import export_hub  # noqa: PLC0415  (slow to import)

        export_hub(run, directory)
        hint = f"to upload it (config.yaml has the paths of your corpora): hf upload OWNER/NAME {shlex.quote(folder)}"
    elif web:
        refuse_unknown_parts(config.model)
        from nmt.pages.web.exporting import export_web  # noqa: PLC0415  (slow to import)

        export_web(run, directory)
        hint = f"to see it: python3 -m http.server --directory {shlex.quote(folder)}"
    elif onnx:
        ConfigError.raise_if_any(onnx_problems(config))
        from nmt.translation.onnx import export_onnx  # noqa: PLC0415

        export_onnx(run, directory)
    else:
        ConfigError.raise_if_any([*ctranslate2_problems(config), *(argos_problems(config) if argos else ())])
        from nmt.translation.ctranslate2 import export_argos, export_ctranslate2  # noqa: PLC0415

        (export_argos if argos else export_ctranslate2)(run, directory)
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    say(f"written: {folder}, {size / 1000:,.0f} kB; {hint}")


main = Command(export)


def ctranslate2_problems(config: Config) -> Iterator[str]:
    """Yield what CTranslate2 cannot run, each with its key."""
    for name in ("encoder", "decoder"):
        if (kind := getattr(config.model, name).type) != "transformer":
            yield f"model.{name}.type: CTranslate2 runs Transformers, not '{kind}'; for others: --onnx, --web"
    if config.data.reverse_source:
        yield "data.reverse_source: CTranslate2 does not reverse the source; train a run without it"
    yield from _of_text(config, "CTranslate2")


def argos_problems(config: Config) -> Iterator[str]:
    """Yield what a package of Argos Translate cannot have: two tokenizers, and languages without a code."""
    if not config.tokenizer.shared:
        yield "tokenizer: Argos Translate has one for both languages; train a run with tokenizer.shared: true"
    for key in ("source_language", "target_language"):
        if not re.fullmatch("[a-z]{2,3}", code := getattr(config.data, key)):
            right = "must be two or three lower-case letters, such as en; change it in a copy of the run"
            yield f"data.{key}: '{code}' is no language code of Argos Translate; {right}"


def onnx_problems(config: Config) -> Iterator[str]:
    """Yield what --onnx does not export, and the package that it lacks."""
    for name in ("encoder", "decoder"):
        if (kind := getattr(config.model, name).type) not in CELLS:
            yield f"model.{name}.type: --onnx exports {', '.join(CELLS)}, not '{kind}'; for Transformers: --ctranslate2"
    if (hard := getattr(config.model.attention, "hard", None)) is not None:
        yield f"model.attention.hard: --onnx does not export '{hard.type}'; use --web"
    if find_spec("onnxscript") is None:
        yield "--onnx: needs the packages onnx and onnxscript; pip install onnx onnxscript"
    yield from _of_text(config, "the program of --onnx")


def _of_text(config: Config, engine: str) -> Iterator[str]:
    """Yield the options that change text before it becomes pieces, which the engine does not do."""
    for key, corpus in config.data.training_corpora.items():
        if corpus.tag is not None:
            yield f"data.{key}.tag: {engine} reads {corpus.tag} as other pieces; train a run without it"
    if config.data.protect:
        yield f"data.protect: {engine} does not hide spans; train a run without it"
