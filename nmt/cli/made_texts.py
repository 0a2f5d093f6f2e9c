"""The made texts of nmt-experiment: what is left to do for them, their jobs, and stand-ins for a rehearsal."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.cli.common import importing, say
from nmt.cli.decoding import bound_products
from nmt.cli.train import StopRequest
from nmt.errors import ConfigError, Stopped
from nmt.experiments.jobs import Job
from nmt.experiments.plan import Plan
from nmt.experiments.runs import PlannedText, Run
from nmt.messages import counted

Unfinished = Mapping[str, tuple[str, ...]]
"""By label of a run: the options with which ``nmt-train`` finishes it."""


def look(plan: Plan, whole: Plan, unfinished: Unfinished) -> list[PlannedText]:
    """Say which texts are made, and return those that are to be made.

    ``plan`` is the part of the ``whole`` that this command is for. Raises ConfigError, with all problems, where another
    part must come first, and for runs that were begun with a text that is to be made again.
    """
    with importing():
        from nmt.experiments.making import is_made  # noqa: PLC0415  (PyTorch is slow to import)
        from nmt.experiments.progress import remaining  # noqa: PLC0415

    here, waiting, problems = {run.label for run in plan.runs}, list[PlannedText](), list[str]()
    for text in plan.texts:
        others = [run for run in text.runs if run.label not in here]
        missing = [run.label for run in others if remaining(run, say).options is not None]
        if missing:
            first = " ".join(f"--only {label}" for label in missing)
            problems.append(f"{text.name}: {', '.join(missing)} must be finished first; run with {first}")
        elif any(run.label in unfinished for run in text.runs) or not is_made(text):
            say(f"{text.name}: to be made: {text.lines}, {text.translations}")
            waiting.append(text)
        else:
            say(f"{text.name}: made: {text.lines}, {text.translations}")
    again = {text.name for text in waiting if text.manifest.exists()}
    for run in plan.runs:
        for name in again.intersection(run.texts):
            if _is_begun(run, unfinished):
                problems.append(
                    f"{run.label}: was trained on {name}, which is to be made again, because what it is made from has "
                    f"changed; restore that, or replace the run, too, with --overwrite {run.label}"
                )
        for text in whole.texts:
            absent = text.name in run.texts and text not in plan.texts and run.label in unfinished
            if absent and not is_made(text):
                problems.append(f"{run.label}: its text {text.name} must be made first; run with --only {text.name}")
    if problems:
        raise ConfigError(*problems)
    return waiting


def _is_begun(run: Run, unfinished: Unfinished) -> bool:
    """Whether something is there that would go on."""
    return run.path.exists() and unfinished.get(run.label) != ("--overwrite",)


def jobs(texts: Sequence[PlannedText], words: Sequence[str]) -> list[Job]:
    """Return the jobs that make the texts: this command, with the options ``words``, for each text alone."""
    return [
        Job(text.name, "nmt.cli.experiment", (*words, "--only", text.name), tuple(run.label for run in text.runs))
        for text in texts
    ]


def make(text: PlannedText) -> int:
    """Make a text in this process; return 0, or 128 plus the number of the signal that stopped it."""
    bound_products()
    with importing():
        from nmt.experiments import making  # noqa: PLC0415  (PyTorch is slow to import)

    with StopRequest() as stop:

        def check_stop() -> None:
            if stop():
                raise Stopped

        try:
            making.make(text, say, check_stop, lambda lines, what: counted(lines, what, None, "lines"))
        except Stopped:
            assert stop.signal is not None
            return 128 + stop.signal
    return 0


@contextmanager
def stand_ins(plan: Plan, whole: Plan) -> Iterator[Path | None]:
    """Make a temporary folder of texts for a rehearsal; None if all texts that the runs of ``plan`` read are made.

    A text that is not made yet is replaced by its lines, each its own translation.
    """
    with importing():
        from nmt.experiments.making import is_made, stand_in  # noqa: PLC0415  (PyTorch is slow to import)

    read = {name for run in plan.runs for name in run.texts}
    texts = [text for text in whole.texts if text.name in read]
    if all(map(is_made, texts)):
        yield None
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        for text in texts:
            lines, translations = (folder / path.name for path in (text.lines, text.translations))
            if is_made(text):
                lines.symlink_to(text.lines.absolute())
                translations.symlink_to(text.translations.absolute())
            else:
                say(f"{text.name}: rehearsed with untranslated lines")
                stand_in(text, lines, translations)
        yield folder
