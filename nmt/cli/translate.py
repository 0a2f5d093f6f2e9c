"""nmt-translate: lines in, translations out."""

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from nmt.cli.command import Command
from nmt.cli.files import Output, count_lines, open_outputs, require_attention, standard_input, word_links, write_rows
from nmt.cli.options import Device, InputFile, OutputFile, Precision, RunPath, Value
from nmt.cli.terminal import say
from nmt.config import load_run_config
from nmt.config.schema import Count, Data, Positive, Size, Width
from nmt.data.corpus import file_sha256, read_lines, read_terms
from nmt.data.glossary import Glossary
from nmt.data.protection import Protection
from nmt.errors import ConfigError, NmtWarning
from nmt.evaluation.confidence import Calibration, read_calibration
from nmt.evaluation.figures.files import make_folder
from nmt.evaluation.writing import unit_of
from nmt.runs.directory import RunDirectory
from nmt.translation.results import TranslatedHypothesis, Translation

if TYPE_CHECKING:  # PyTorch is slow to import: --help and invalid options must not wait for it
    from nmt.translation.searching import SearchOptions

MOST_PICTURES = 100


def translate(
    *,
    model: list[RunPath],
    input: InputFile | None = None,
    output: OutputFile | None = None,
    n_best: Size = 1,
    scores: bool = False,
    confidence: bool = False,
    alignments: OutputFile | None = None,
    attention: OutputFile | None = None,
    pictures: Annotated[str, Value("DIR", written=True, endings=("/line-001.png",))] | None = None,
    markup: bool = False,
    paragraphs: bool = False,
    glossary: InputFile | None = None,
    device: Device = "auto",
    precision: Precision = "fp32",
    sampling_temperature: Positive | None = None,
    top_k: Width | None = None,
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None,
    seed: Count | None = None,
    **decoding: Any,  # an option for each key of the section decoding
) -> None:
    """Translate raw text line by line, in order, from a file or standard input.

    Args:
        model: run directory of nmt-train; several with the same tokenizers: an ensemble, which averages probabilities
        input: text to translate, also as .gz or .xz (default: standard input)
        output: translations, one per line (default: standard output)
        n_best: write N lines for each line of input, best first; missing hypotheses give empty lines with score -inf
        scores: put the score (log-probability divided by length penalty) and a tab before each translation
        confidence: after nmt-evaluate --calibrate, put before each translation the probability that it is good (chrF
            of at least 50), and a tab
        alignments: write word alignments: i-j joins source word i and target word j, from 0
        attention: write attention weights, one JSON object per line
        pictures: draw the attention of the best translation of each of the first 100 lines: DIR/line-001.png and .svg
        markup: put inline tags, as in <b>word</b>, around the words that attend to the tagged ones
        paragraphs: translate each line sentence by sentence and keep its indentation; scores are summed
        glossary: use these translations of terms; each line has a term, a tab and its translation

    Sampling, instead of beam search:
        sampling_temperature: sample with this temperature; 1 keeps the model's probabilities, lower values favor
            probable pieces
        top_k: sample from the N most probable pieces
        top_p: sample from the smallest set of pieces whose total probability is X
        seed: seed of the random generator (default: 1)

    examples:
      nmt-translate --model runs/en-fr --input test.en --output test.hyp
      echo 'The old cat sleeps.' | nmt-translate --model runs/en-fr --n-best 3 --scores
    """
    drawn = {"--alignments": alignments, "--attention": attention, "--pictures": pictures, "--markup": markup}
    sampled = {"--sampling-temperature": sampling_temperature, "--top-k": top_k, "--top-p": top_p, "--seed": seed}
    rest = {"--n-best": n_best > 1, "--paragraphs": paragraphs, "--confidence": confidence, "--glossary": glossary}
    refuse_contradictions({**drawn, **sampled, **rest})
    if confidence and len(model) > 1:
        raise ConfigError("--confidence: works with one run only; name one --model")
    for path in model if glossary else ():
        if load_run_config(path).data.glossary is None:
            raise ConfigError(f"--glossary: {path} was not trained with terms; train a run with data.glossary")
    require_attention(model, drawn)
    if pictures:
        make_folder(f"{pictures}/line")
    name, lines = (input, read_lines(input)) if input else ("standard input", standard_input())
    config = load_run_config(model[0])
    protection = Protection(config.data.protect, config.data.tags)
    terms = Glossary(read_terms(glossary), protection=protection) if glossary else None
    run, calibration = RunDirectory(model[0]), None
    if confidence:
        search = config.decoding.model_copy(update=decoding).model_dump(exclude={"batch_tokens"})
        search["precision"] = precision
        calibration = read_calibration(run.confidence, run.folder("best") / "model.safetensors", search)
    from nmt.search.greedy import Sampling  # noqa: PLC0415  (slow to import)
    from nmt.translation.markup import refuse_wrong_tags, translate_marked  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415
    from nmt.translation.watching import translate_watched  # noqa: PLC0415

    count = count_lines(input)
    if markup and count:
        refuse_wrong_tags(read_lines(name), name, protection)
    translator = Translator.load(model, device, precision)
    if sampling_temperature is not None:
        sampling = Sampling(sampling_temperature, top_k, top_p, Sampling.seed if seed is None else seed)
        decoding = {"beam_size": 1, **decoding, "sampling": sampling}
    options = translator.options(n_best=n_best, attention=any(drawn.values()), **decoding)
    typed = input is None and sys.stdin.isatty()
    form: Form = partial(format_text, scores=scores, calibration=calibration)
    forms = [(output, form), (alignments, format_alignment), (attention, format_attention)]
    digest = file_sha256(glossary) if glossary else None
    origin = {"markup": markup, "paragraphs": paragraphs, "precision": precision, "glossary": digest}
    columns = {"scores": scores, "confidence": calibration}
    with ExitStack() as stack:
        outputs, done = _open(forms, model, input, options, origin | columns, stack)
        watched = partial(
            translate_watched,
            translator,
            options=options,
            name=name,
            between=(" " if unit_of(config.data.target_language) == "words" else "") if paragraphs else None,
            typed=typed,
            first=done + 1,
            what=None if typed or (output is None and sys.stdout.isatty()) else name,
            total=None if count is None or paragraphs else count - done,
            terms=terms,
        )
        read = islice(with_prompt(lines) if typed else lines, done, None)
        translations = translate_marked(watched, read, name, done + 1, protection) if markup else watched(read)
        for number, translation in enumerate(translations, done + 1):
            if pictures:  # first, because only lines without output are translated again
                draw(translation, number, Path(pictures), config.data)
            hypotheses = [*translation.hypotheses, *[MISSING] * (n_best - len(translation.hypotheses))]
            write_rows(outputs, *((translation, hypothesis) for hypothesis in hypotheses))


main = Command(translate)


def refuse_contradictions(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for options, by their flags, that contradict each other."""
    given = [flag for flag, value in options.items() if value is not None and value is not False]
    chosen = [flag for flag in ("--top-k", "--top-p", "--seed") if flag in given]
    if chosen and "--sampling-temperature" not in given:
        raise ConfigError(f"{', '.join(chosen)}: has no effect without sampling; add --sampling-temperature 1")
    excluded = {
        "--markup": ("--alignments", "--pictures"),
        "--glossary": ("--alignments", "--pictures", "--markup", "--confidence"),
        "--paragraphs": ("--n-best", "--sampling-temperature", "--confidence"),
        "--sampling-temperature": ("--confidence",),
    }
    for option, others in excluded.items():
        if option in given and (named := [flag for flag in others if flag in given]):
            raise ConfigError(f"{', '.join(named)}: cannot be combined with {option}; leave one out")


def with_prompt(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines that a person types, with a prompt on standard error before each."""
    say("type a line to translate; press Ctrl-D to end")
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            say("")
            return
        yield line


def draw(translation: Translation, number: int, folder: Path, data: Data) -> None:
    """Draw the attention of the best translation of line ``number`` of the input; a blank line has no picture."""
    if number > MOST_PICTURES:
        warnings.warn(f"--pictures draws lines 1 to {MOST_PICTURES}; others are left out", NmtWarning, stacklevel=2)
    elif translation.attention is not None and translation.pieces:
        from nmt.evaluation.figures.attention import write_attention  # noqa: PLC0415  (slow to import)

        pieces, texts = (translation.source_pieces, translation.pieces), (translation.source, translation.text)
        languages = (data.source_language, data.target_language)
        write_attention(folder / f"line-{number:03}", translation.attention, pieces, texts, languages)


# --- outputs ----------------------------------------------------------------------------------------------------------

Form = Callable[[Translation, TranslatedHypothesis], str]
"""Makes the line of a hypothesis of a translation."""
MISSING = TranslatedHypothesis("", -math.inf, -math.inf, [])
"""Stands for a hypothesis that the search did not find."""


def format_text(
    translation: Translation, hypothesis: TranslatedHypothesis, *, scores: bool, calibration: Calibration | None
) -> str:
    """Return score, confidence (0 of no translation) and translation, with a tab after each number that is wanted."""
    numbers = [hypothesis.score] if scores else []
    if calibration is not None:
        numbers.append(float(calibration.probability(hypothesis.per_piece)) if hypothesis.pieces else 0.0)
    return "".join(f"{number:.4f}\t" for number in numbers) + hypothesis.text


def format_alignment(translation: Translation, hypothesis: TranslatedHypothesis) -> str:
    """Return links between whitespace words: ``i-j`` joins source word i and target word j."""
    from nmt.evaluation.alignment import format_pharaoh  # noqa: PLC0415  (slow to import)

    pieces, texts = (translation.source_pieces, hypothesis.pieces), (translation.source, hypothesis.text)
    return format_pharaoh(word_links(hypothesis.attention, pieces, texts))


def format_attention(translation: Translation, hypothesis: TranslatedHypothesis) -> str:
    """Return a JSON object: source pieces, target pieces, and a row of weights for each target piece."""
    weights = [] if hypothesis.attention is None else hypothesis.attention.tolist()
    rows = [[round(weight, 4) for weight in row] for row in weights]
    content = {"source": translation.source_pieces, "target": hypothesis.pieces, "weights": rows}
    return json.dumps(content, ensure_ascii=False)


def _open(
    forms: Sequence[tuple[str | None, Form]],
    runs: Sequence[str],
    text: str | None,
    options: "SearchOptions",
    origin: Mapping[str, Any],
    stack: ExitStack,
) -> tuple[list[Output], int]:
    """Open all outputs; return them, and how many lines of the input they already have translations of.

    From files into files the translation can be continued; elsewhere it goes straight to its place.
    """
    given = [(path, form) for path, form in forms if path is not None]
    regular = all(Path(path).is_file() or not Path(path).exists() for path in [text or "", *dict(given)])
    if text is None or forms[0][0] is None or not regular:
        return open_outputs(forms, stack), 0
    from nmt.translation.files import growing, made_from  # noqa: PLC0415  (slow to import)

    made = made_from(runs, text, options) | {**origin, "outputs": [path is not None for path, _ in forms]}
    done, files = stack.enter_context(growing([path for path, _ in given], options.n_best, made, say))
    return [Output(path, file, form) for (path, form), file in zip(given, files, strict=True)], done
