"""The requests of clients, checked, and the queue where those that wait become one batch.

In fp32 a translation does not depend on its batch, so that nobody can tell with whom a line was translated.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator, Field, ValidationError
from starlette.exceptions import HTTPException

from nmt.config.problems import explain, show
from nmt.config.schema import Section
from nmt.data.batching import pad_source
from nmt.errors import Stopped
from nmt.translation.results import Translation
from nmt.translation.translator import CheckStop, Translator

LOG = logging.getLogger(__name__)
LISTED = 5
"""Candidates of each piece."""
LIKE = '{"text": "one line"} or {"text": ["line", "line"], "beam_size": 5, "attention": true}'
"""A valid request, for messages."""


@dataclass(frozen=True)
class Limits:
    """How much a client may ask for, and how long its body and its answer may take."""

    body: int = 1 << 18
    """Bytes of a request's body."""
    lines: int = 100
    """Lines of a request."""
    characters: int = 2000
    """Characters of a line."""
    shown: int = 2000
    """Characters of a request that asks for attention: the weights of a line grow with the square of its length."""
    waiting: int = 256
    """Requests that wait for translation; more are refused."""
    connections: int = 256
    """Connections at a time; requests on more are refused."""
    batch: int = 1 << 13
    """Characters of a batch of several requests; a request of more is a batch of its own."""
    arrival: float = 10.0
    """Seconds in which the body of a request must arrive."""
    seconds: float = 30.0
    """Seconds from the arrival of a request to its answer."""


class Refused(HTTPException):
    """A request that is not answered: the status of HTTP, and a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message, {"retry-after": "1"} if status in (429, 503) else None)


def lines_of(text: Any) -> tuple[str, ...]:
    """Return the lines of a client. Raises ValueError for anything but a string or a list of strings."""
    lines = text if isinstance(text, tuple) else (text,)
    if wrong := [f"{show(line)} as line {place}" for place, line in enumerate(lines, 1) if not isinstance(line, str)]:
        raise ValueError(f"found {wrong[0]}; must be a string or a list of strings")
    return lines


class Request(Section):
    """Lines to translate: the body of a request."""

    text: Annotated[tuple[str, ...], BeforeValidator(lines_of)]
    beam_size: Annotated[int, Field(ge=1, le=16)] | None = None
    """None: that of the server."""
    attention: bool = False
    """Whether the answer has the weights."""

    @property
    def characters(self) -> int:
        """The length of all lines; a blank one counts, too."""
        return sum(len(line) + 1 for line in self.text)

    def shares(self, other: "Request") -> bool:
        """Whether both can be translated in one batch."""
        return (self.beam_size, self.attention) == (other.beam_size, other.attention)


def parse(body: bytes, limits: Limits) -> Request:
    """Read a request. Raises Refused with status 400 for a wrong one, 413 for one that asks for too much."""
    try:
        request = Request.model_validate_json(body)
    except ValidationError as error:
        found = "; ".join(f"{each.key[:60] or 'the body'}: {each.text[:200]}" for each in explain(error, Request)[:3])
        raise Refused(400, f"{found}; send {LIKE}") from None
    if len(request.text) > limits.lines:
        raise Refused(413, f"text: {len(request.text):,} lines; send at most {limits.lines:,} at a time")
    for number, line in enumerate(request.text, 1):
        place = f"line {number}" if len(request.text) > 1 else "the line"
        if len(line) > limits.characters:
            raise Refused(413, f"text: {place} has {len(line):,} characters; it may have up to {limits.characters:,}")
        if "\n" in line or "\0" in line:
            raise Refused(400, f"text: {place} has a line end or NUL; send a list with a string for each line")
    if request.attention and request.characters > limits.shown + len(request.text):
        limit = f"with attention a request may have up to {limits.shown:,} characters"
        raise Refused(413, f"text: {limit}; send fewer lines")
    return request


# --- the queue --------------------------------------------------------------------------------------------------------

Candidates = list[list[tuple[str, float]]]
"""For each piece of a translation the likeliest pieces at its place, and itself, with their probabilities."""
Answer = list[tuple[Translation, str | None, Candidates | None]]
"""The translation of each line, what is wrong with the line, if anything, and candidates if attention is wanted."""
Translate = Callable[[Sequence[str], Request, CheckStop], Answer]
"""Translates a batch: the lines of several requests that ask for the same, and one of these requests. It calls
``check_stop`` now and then, which raises Stopped when nobody waits any more."""


def translating(translator: Translator, chosen: Mapping[str, Any]) -> Translate:
    """Return what translates a batch with the options ``chosen`` of the search."""

    def translate(lines: Sequence[str], asked: Request, check_stop: CheckStop) -> Answer:
        beam = {} if asked.beam_size is None else {"beam_size": asked.beam_size}
        options = translator.options(**{**chosen, **beam}, attention=asked.attention)
        problems: dict[int, str] = {}
        found = list(translator.stream(lines, options, warn=problems.__setitem__, check_stop=check_stop))
        listed = [candidates(translator, each, check_stop) if asked.attention else None for each in found]
        return [(each, problems.get(place), listed[place - 1]) for place, each in enumerate(found, 1)]

    return translate


@torch.inference_mode()
def candidates(translator: Translator, translation: Translation, check_stop: CheckStop) -> Candidates:
    """Return the candidates of each piece of the best translation."""
    check_stop()
    target, searchable = translator.tokenizers.target, translator.searchable
    found: Candidates = []
    read, lengths = pad_source([translation.source_ids[:-1]], translator.specials)
    with searchable.searching():
        state = searchable.start(searchable.encode(read.to(translator.device), lengths))
        previous = translator.specials.target_bos
        for token in translation.hypotheses[0].ids:
            log_probs, state, _ = searchable.step(torch.tensor([previous], device=translator.device), state)
            previous = token
            best = log_probs[0].topk(min(LISTED, target.size)).indices.tolist()
            listed = [*best, *({previous} - {*best})]
            probabilities = log_probs[0, listed].exp().tolist()
            names = target.pieces(listed, translation.spans)
            found.append([(name, round(p, 4)) for name, p in zip(names, probabilities, strict=True)])
    return found


@dataclass(eq=False)
class Waiting:
    """A request that waits."""

    request: Request
    answer: "asyncio.Future[Answer]"

    @property
    def wanted(self) -> bool:
        """Whether the client still waits."""
        return not self.answer.done()


class Batches:
    """The queue. :meth:`answer` is called for each request; :meth:`run` works until :meth:`close`."""

    def __init__(self, translate: Translate, limits: Limits) -> None:
        self._translate = translate
        self._limits = limits
        self._waiting: list[Waiting] = []
        self._arrived = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Requests that no batch has taken yet."""
        return len(self._waiting)

    async def answer(self, request: Request) -> Answer:
        """Wait for the translation of a request; cancelling gives it up.

        Raises Refused with status 429 if too many requests wait, 500 if the translation fails, 503 when stopping.
        """
        if self._closed:
            raise Refused(503, "the server is stopping; try again later")
        if len(self._waiting) >= self._limits.waiting:
            raise Refused(429, f"{len(self._waiting)} requests are waiting already; try again in a second")
        if not request.text:
            return []
        job = Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._arrived.set()
        return await job.answer

    async def run(self) -> None:
        """Translate batch after batch, in a thread, until closed and nothing waits."""
        with ThreadPoolExecutor(1, "translation") as thread:
            while (jobs := self._take()) or not self._closed:
                if jobs:
                    await self._work(jobs, thread)
                else:
                    self._arrived.clear()
                    await self._arrived.wait()

    def close(self) -> None:
        """Refuse new requests; :meth:`run` ends when those that wait are answered."""
        self._closed = True
        self._arrived.set()

    def _take(self) -> list[Waiting]:
        """Take the first request, and those that can share its batch; none if none waits."""
        self._waiting = [job for job in self._waiting if job.wanted]
        taken: list[Waiting] = []
        characters = 0
        for job in self._waiting:
            fits = characters + job.request.characters <= self._limits.batch
            if not taken or (fits and job.request.shares(taken[0].request)):
                taken.append(job)
                characters += job.request.characters
        self._waiting = [job for job in self._waiting if job not in taken]
        return taken

    async def _work(self, jobs: list[Waiting], thread: ThreadPoolExecutor) -> None:
        """Answer some requests by one batch; if that fails, each by a batch of its own."""
        lines = [line for job in jobs for line in job.request.text]

        def check_stop() -> None:
            if not any(job.wanted for job in jobs):
                raise Stopped

        try:
            loop = asyncio.get_running_loop()
            answer = iter(await loop.run_in_executor(thread, self._translate, lines, jobs[0].request, check_stop))
        except Stopped:
            return
        except Exception:  # whatever it is, the server and the other requests go on
            if len(jobs) > 1:
                for job in jobs:
                    await self._work([job], thread)
            elif jobs[0].wanted:
                LOG.exception("a translation failed")
                failed = Refused(500, "the translation failed; the log of the server has the reason")
                jobs[0].answer.set_exception(failed)
        else:
            for job in jobs:
                found = list(islice(answer, len(job.request.text)))
                if job.wanted:
                    job.answer.set_result(found)
