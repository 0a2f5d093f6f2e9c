"""nmt-translate: lines in, translations out."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from nmt.cli.common import say
from nmt.cli.files import NamedPath, Output, Role, count_lines, open_input, open_outputs, refuse_overwriting
from nmt.cli.signature import Command, Device, InputFile, OutputFile, Precision, RunPath, Value
from nmt.config import Config, load_run_config
from nmt.config.schema import Size, TransformerAttention, TransformerDecoder, Width
from nmt.errors import ConfigError, NmtWarning
from nmt.evaluation.alignment import format_pharaoh, labelled_weights, likeliest_links, word_weights
from nmt.evaluation.figures.files import make_folder, write_all
from nmt.evaluation.writing import has_words

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.evaluation.figures.attention import Side
    from nmt.translation.options import SearchOptions
    from nmt.translation.results import TranslatedHypothesis, Translation

PROMPT = "> "
MOST_PICTURES = 100
"""Lines of which --pictures draws the attention."""


def shard_argument(text: str) -> tuple[int, int]:
    """Parse an argument: I/N, with I from 1 to N."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise ValueError(f"'{text}' is not a shard; of four they are 1/4, 2/4, 3/4 and 4/4")
    return int(index), int(count)


Shard = Annotated[Any, BeforeValidator(shard_argument), Value("I/N")]
Pictures = Annotated[str, Value("DIR", Role.GROWING, ("/line-001.png",))]


def translate(
    *,
    model: list[RunPath],
    input: InputFile | None = None,
    output: OutputFile | None = None,
    n_best: Size = 1,
    scores: bool = False,
    alignments: OutputFile | None = None,
    attention: OutputFile | None = None,
    pictures: Pictures | None = None,
    shard: Shard | None = None,
    device: Device = "auto",
    precision: Precision = "fp32",
    sampling_temperature: Annotated[float, Field(ge=0)] | None = None,
    top_k: Width | None = None,
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None,
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None,
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
    if sampling and sampling_temperature is None:
        raise ConfigError(f"{', '.join(sampling)}: has no effect without sampling; add --sampling-temperature 1")
    if shard and (input is None or not Path(input).is_file()):
        raise ConfigError("--shard: needs --input, a regular file: its lines are counted")
    given = {"--output": output, "--alignments": alignments, "--attention": attention}
    if input is None:
        written = [NamedPath(Role.WRITTEN, name, path) for name, path in given.items() if path]
        refuse_overwriting([NamedPath(Role.READ, "standard input", "/dev/stdin"), *written])
    configs = [load_run_config(run) for run in model]
    drawn = {"--alignments": alignments, "--attention": attention, "--pictures": pictures}
    if all(config.model.attention.type == "none" for config in configs) and any(drawn.values()):
        why = f"{', '.join(model)} has no attention (model.attention.type is none)"
        raise ConfigError(*(f"{name}: {why}" for name, value in drawn.items() if value))
    if pictures:
        make_folder(f"{pictures}/line")
    name, lines = open_input(input)
    from nmt.search import Sampling  # noqa: PLC0415  (slow to import)
    from nmt.translation.options import SearchOptions  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415
    from nmt.translation.watching import translate_watched  # noqa: PLC0415

    translator = Translator.load(model, device, precision)
    if sampling_temperature is not None:
        decoding = {"beam_size": 1, **decoding, "sampling": Sampling(sampling_temperature, **sampling)}
    search = SearchOptions.from_config(translator.decoding, n_best=n_best, attention=any(drawn.values()), **decoding)
    typed = input is None and sys.stdin.isatty()
    shown = not typed and (output is not None or not sys.stdout.isatty())
    total = count_lines(input) if shown or shard else None
    begin, end = 0, total
    if shard is not None and total is not None:
        begin, end = (total * place // shard[1] for place in (shard[0] - 1, shard[0]))
    forms = {"scores" if scores else "output": output, "alignments": alignments, "attention": attention}
    origin = {"shard": shard, "precision": str(translator.precision)}
    with ExitStack() as stack:
        outputs, done = _open(forms, model, input, search, origin, stack)
        begin += done
        translations = translate_watched(
            translator,
            islice(with_prompt(lines) if typed else lines, begin, end),
            search,
            run=model[0],
            source=name,
            typed=typed,
            first=begin + 1,
            what=name if shown else None,
            total=None if end is None else end - begin,
        )
        for number, translation in enumerate(translations, 1):
            texts = [rows(translation, each.format, n_best) for each in outputs]
            for each, text in zip(outputs, texts, strict=True):  # all or none: line counts stay equal
                each.write(text)
            if pictures and number <= MOST_PICTURES:
                draw(translation, configs[0], Path(pictures) / f"line-{number:03}")
            elif pictures and number == MOST_PICTURES + 1:
                warnings.warn(f"--pictures draws {MOST_PICTURES} lines; others are left out", NmtWarning, stacklevel=2)


main = Command(translate)


def with_prompt(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines that a person types, with a prompt on standard error before each."""
    say("type a line to translate; press Ctrl-D to end")
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            say("")
            return
        yield line


def _open(
    written: Mapping[str, str | None],
    runs: Sequence[str],
    text: str | None,
    options: "SearchOptions",
    origin: Mapping[str, Any],
    stack: ExitStack,
) -> tuple[list[Output], int]:
    """Open all outputs, by form; return them, and how many lines of the input they already have translations of.

    From files into files the translation can be continued; elsewhere it goes straight to its place.
    """
    forms: list[tuple[str | None, Form]] = [(path, FORMS[name]) for name, path in written.items()]
    given = [(path, form) for path, form in forms if path is not None]
    regular = all(
        Path(path).is_file() or not Path(path).exists() for path in [text or "", *(path for path, _ in given)]
    )
    if text is None or forms[0][0] is None or not regular:
        return open_outputs(*forms, stack=stack), 0
    from nmt.translation.files import growing, made_from  # noqa: PLC0415

    names = [name for name, path in written.items() if path]
    described = made_from(runs, [text], options) | {**origin, "outputs": names}
    done, files = stack.enter_context(growing([path for path, _ in given], options.n_best, described, say))
    return [Output(path, file, form) for (path, form), file in zip(given, files, strict=True)], done


# --- forms ------------------------------------------------------------------------------------------------------------

Form = Callable[["Translation", "TranslatedHypothesis | None"], str]
"""Makes the line of a hypothesis of a translation; None stands for one that was not found."""


def rows(translation: "Translation", form: Form, n_best: int) -> list[str]:
    """Return ``n_best`` lines for a line of input."""
    hypotheses = [*translation.hypotheses, *[None] * (n_best - len(translation.hypotheses))]
    return [form(translation, hypothesis) for hypothesis in hypotheses]


def format_text(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return the translation."""
    return "" if hypothesis is None else hypothesis.text


def format_scored(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return score, tab and translation; only the tab without a hypothesis."""
    return "\t" if hypothesis is None else f"{hypothesis.score:.4f}\t{hypothesis.text}"


def format_alignment(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return links between whitespace words: ``i-j`` joins source word i and target word j."""
    if hypothesis is None or hypothesis.attention is None:
        return ""
    weights = hypothesis.attention
    words = word_weights(weights, translation.source_pieces, hypothesis.pieces, translation.source, hypothesis.text)
    return format_pharaoh(likeliest_links(words))


def format_attention(translation: "Translation", hypothesis: "TranslatedHypothesis | None") -> str:
    """Return a JSON object: source pieces, target pieces, and a row of weights for each target piece."""
    pieces = [] if hypothesis is None else hypothesis.pieces
    weights = [] if hypothesis is None or hypothesis.attention is None else hypothesis.attention.tolist()
    rows = [[round(weight, 4) for weight in row] for row in weights]
    return json.dumps({"source": translation.source_pieces, "target": pieces, "weights": rows}, ensure_ascii=False)


FORMS: dict[str, Form] = {
    "output": format_text,
    "scores": format_scored,
    "alignments": format_alignment,
    "attention": format_attention,
}
"""What nmt-translate can write for a hypothesis."""


def which_weights(config: Config) -> str:
    """Say which weights a system shows that has several heads or layers; "" for a single attention."""
    attention, decoder = config.model.attention, config.model.decoder
    heads = decoder.heads if isinstance(decoder, TransformerDecoder) else getattr(attention, "heads", 1)
    if isinstance(attention, TransformerAttention) and isinstance(decoder, TransformerDecoder):
        layer = attention.layer or max(decoder.layers - 1, 1)
        head = f"mean of {heads} heads" if attention.head is None else f"head {attention.head} of {heads}"
        return f"layer {layer} of {decoder.layers}, {head}"
    return f"mean of {heads} heads" if heads > 1 else ""


def draw(translation: "Translation", config: Config, stem: Path) -> None:
    """Draw the attention of the best translation of a line as ``stem``.png and .svg; a blank line has no picture.

    Raises DataError if a file cannot be written.
    """
    from nmt.evaluation.figures.attention import AttentionMap, draw_attention  # noqa: PLC0415
    from nmt.evaluation.figures.style import png, svg  # noqa: PLC0415

    data, source, best = config.data, translation.source, translation.hypotheses[0]
    if best.attention is None or not best.pieces:
        return
    words = has_words(data.source_language, source), has_words(data.target_language, best.text)
    labelled = labelled_weights(best.attention, translation.source_pieces, best.pieces, source, best.text, words=words)
    units: tuple[Side, Side] = ("words" if words[0] else "pieces", "words" if words[1] else "pieces")
    about = [f"{stem.name.replace('-', ' ').capitalize()}."]
    if any(words):
        about.append("Weights of pieces are added over a source word and averaged over a target word.")
    drawn = AttentionMap(*labelled, note=which_weights(config), units=units)
    figure = draw_attention(drawn, caption=[" ".join(about)])
    write_all(stem, {".png": png(figure), ".svg": svg(figure)})
