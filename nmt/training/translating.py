"""Translate a set of sentences in training: the validation set and the test set."""

from collections.abc import Iterator, Sequence

from nmt.messages import counted_early
from nmt.translation.options import SearchOptions
from nmt.translation.results import Translation
from nmt.translation.translator import CheckStop, Done, Translator
from nmt.translation.windows import WINDOW


def translated(
    translator: Translator, sources: Sequence[str], options: SearchOptions, what: str, check_stop: CheckStop
) -> Iterator[str]:
    """Yield the translation of each sentence, as the step ``what``. ``check_stop`` is called between batches."""

    def stream(done: Done) -> Iterator[Translation]:
        return translator.stream(sources, options, first_window=WINDOW, check_stop=check_stop, done=done)

    return (translation.text for translation in counted_early(stream, what, len(sources), "sentences"))
