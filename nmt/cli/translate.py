"""nmt-translate: lines in, translations out."""

import shutil
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from nmt.cli.common import importing, say
from nmt.cli.display import draw_attention
from nmt.cli.files import Role, refuse_overwriting
from nmt.cli.output import (
    FORMS,
    Form,
    Output,
    Pictures,
    attention_of_words,
    count_lines,
    open_input,
    open_outputs,
    rows,
    with_prompt,
)
from nmt.cli.signature import (
    Command,
    InputFile,
    OutputFile,
    RunPath,
    Value,
    device_options,
    refuse_useless,
    search_options,
)
from nmt.config import Config, load_run_config
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.options import SearchOptions
    from nmt.translation.results import Translation


def shard_argument(text: str) -> tuple[int, int]:
    """Parse an argument: I/N, with I from 1 to N."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ArgumentTypeError(f"'{text}' is not a shard; of four they are 1/4, 2/4, 3/4 and 4/4")
    return int(index), int(count)


Shard = Annotated[Any, Value("I/N", shard_argument)]


def translate(
    *,
    model: list[RunPath],
    input: InputFile | None = None,
    output: OutputFile | None = None,
    n_best: Annotated[int, Field(ge=1)] = 1,
    scores: bool = False,
    alignments: OutputFile | None = None,
    attention: OutputFile | None = None,
    pictures: Annotated[str, Value("DIR", role=Role.GROWING, endings=("/line-001.png",))] | None = None,
    show_attention: bool = False,
    prefix: InputFile | None = None,
    shard: Shard | None = None,
    sampling_temperature: Annotated[float, Field(ge=0)] | None = None,
    top_k: Annotated[int, Field(ge=1)] | None = None,
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None,
    seed: Annotated[int, Field(ge=0)] | None = None,
    **decoding: Any,
) -> None:
    """Translate raw text line by line, in order, from a file or standard input.

    Args:
        model: run directory of nmt-train; several with the same tokenizers translate together, as an ensemble
        input: text to translate, also as .gz or .xz (default: standard input)
        output: translations, one per line (default: standard output)
        n_best: write N lines for each line of input, best first, empty if there are fewer hypotheses
        scores: put the score and a tab before each translation
        alignments: write word alignments: i-j joins source word i and target word j, from 0
        attention: write attention weights, one JSON object per line
        pictures: draw the attention of the best translation of each of the first 100 lines: DIR/line-001.png and .svg
        show_attention: draw the attention of each translation on standard error, which is for reading at a terminal
        prefix: what each translation must begin with, one per line; empty for no prefix
        shard: translate only shard I, from 1, of N consecutive shards of --input; cat joins the outputs

    Sampling, instead of beam search:
        sampling_temperature: sample with this temperature; 1 keeps the model's probabilities, lower values favor
            probable pieces
        top_k: sample from the N most probable pieces
        top_p: sample from the smallest set of pieces whose total probability is X
        seed: seed of the random generator (default: 1)

    examples:
      nmt-translate --model runs/en-fr --input test.en --output test.hyp
      echo 'the old cat sleeps .' | nmt-translate --model runs/en-fr --n-best 3 --scores
    """
    sampling: dict[str, Any] = {
        key: value for key, value in (("top_k", top_k), ("top_p", top_p), ("seed", seed)) if value is not None
    }
    _check_sampling(sampling_temperature, sampling, decoding.get("beam_size"), n_best)
    if shard and (input is None or not Path(input).is_file()):
        raise ConfigError("--shard: needs --input, a regular file: its lines are counted")
    drawn = {"alignments": alignments, "attention": attention, "pictures": pictures, "show_attention": show_attention}
    if input is None:
        refuse_overwriting([("standard input", "/dev/stdin")], [("--output", output), ("--attention", attention)])
    configs = [load_run_config(run) for run in model]
    if all(config.model.attention.type == "none" for config in configs) and any(drawn.values()):
        why = f"{', '.join(model)} has no attention (model.attention.type is none)"
        raise ConfigError(*(f"--{name.replace('_', '-')}: {why}" for name, value in drawn.items() if value))
    name, lines = open_input(input)
    lines, prefixes = _with_prefixes(lines, name, prefix)
    with importing():
        from nmt.search import Sampling  # noqa: PLC0415
        from nmt.translation.options import SearchOptions  # noqa: PLC0415
        from nmt.translation.translator import Translator  # noqa: PLC0415
        from nmt.translation.watching import translate_watched  # noqa: PLC0415

    translator = Translator.load(model, **device_options(decoding))
    options = search_options(decoding)
    if sampling_temperature is not None:
        options |= {"sampling": Sampling(sampling_temperature, **sampling), "beam_size": 1}
    search = SearchOptions.from_config(translator.decoding, n_best=n_best, attention=any(drawn.values()), **options)
    typed = input is None and prefix is None and sys.stdin.isatty()
    if typed:
        lines = with_prompt(lines)
    album = Pictures(pictures, configs[0]) if pictures else None
    shown = not typed and (output is not None or not sys.stdout.isatty())
    total = count_lines(input) if shown or shard else None
    begin, end = 0, total
    if shard is not None and total is not None:
        begin, end = (total * place // shard[1] for place in (shard[0] - 1, shard[0]))
    with ExitStack() as stack:
        written = {"scores" if scores else "output": output, "alignments": alignments, "attention": attention}
        origin = {"shard": shard, "precision": str(translator.precision)}
        outputs, done = _open(written, model, [input, prefix], search, origin, stack)
        begin += done
        translations = translate_watched(
            translator,
            islice(lines, begin, end),
            search,
            run=model[0],
            source=name,
            typed=typed,
            prefixes=prefixes[begin:end],
            first=begin + 1,
            what=name if shown else None,
            total=None if end is None else end - begin,
        )
        for translation in translations:
            texts = [rows(translation, output.format, n_best) for output in outputs]
            for output_file, text in zip(outputs, texts, strict=True):  # all or none: line counts stay equal
                output_file.write(text)
            if album:
                album.add(translation)
            if show_attention:
                _show_attention(translation, configs[0])
        for output_file in outputs:
            output_file.write([])  # empty input: truncate an older file, too
    if album:
        album.end()


main = Command(translate)


def _show_attention(translation: "Translation", config: Config) -> None:
    """Draw the attention between a line and its best translation; nothing for a blank line."""
    if translation.attention is not None:
        labelled, _ = attention_of_words(translation, config)
        for line in draw_attention(*labelled, width=shutil.get_terminal_size().columns):
            say(line)


def _open(
    written: Mapping[str, str | None],
    runs: Sequence[str],
    read: Sequence[str | None],
    options: "SearchOptions",
    origin: Mapping[str, Any],
    stack: ExitStack,
) -> tuple[list[Output], int]:
    """Open all outputs, by form; return them, and how many lines of the input they already have translations of.

    From files into files the translation can be continued; elsewhere it goes straight to its place.
    """
    forms: list[tuple[str | None, Form]] = [(path, FORMS[name]) for name, path in written.items()]
    texts = [path for path in read if path is not None]
    given = [(path, form) for path, form in forms if path is not None]
    regular = all(Path(path).is_file() or not Path(path).exists() for path in [*texts, *(path for path, _ in given)])
    if read[0] is None or forms[0][0] is None or not regular:
        return open_outputs(*forms, stack=stack), 0
    from nmt.translation.files import growing, made_from  # noqa: PLC0415

    described = made_from(runs, texts, options) | {
        **origin,
        "outputs": [name for name, path in written.items() if path],
    }
    done, files = stack.enter_context(growing([path for path, _ in given], options.n_best, described, say))
    return [Output(path, file, form) for (path, form), file in zip(given, files, strict=True)], done


def _check_sampling(temperature: float | None, others: Mapping[str, Any], beam_size: int | None, n_best: int) -> None:
    """Raise ConfigError for sampling options that would have no effect."""
    if temperature is None:
        refuse_useless(others, "without sampling; add --sampling-temperature 1")
    elif (beam_size or 1) > 1:
        raise ConfigError(
            f"--beam-size {beam_size}: sampling needs a beam size of 1; leave out --beam-size or --sampling-temperature"
        )
    elif n_best > 1:
        raise ConfigError(f"--n-best {n_best}: sampling gives one translation; leave out --n-best")


def _with_prefixes(lines: Iterator[str], name: str, path: str | None) -> tuple[Iterator[str], list[str]]:
    """Read all lines of ``name`` and their prefixes. Raises DataError for a file without a line for each of them."""
    if path is None:
        return lines, []
    read, prefixes = list(lines), list(read_lines(path))
    if len(read) != len(prefixes):
        raise DataError(
            f"{name} has {len(read):,} lines and --prefix {path} has {len(prefixes):,}: "
            "line n of the prefixes must be what the translation of line n begins with, or empty"
        )
    return iter(read), prefixes
