"""The routes, and the guard around them: host names, security headers, and errors as JSON."""

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Collection, MutableMapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.evaluation.alignment import Weights, labelled_weights
from nmt.evaluation.writing import has_words
from nmt.pages.serving.batches import LIKE, Answer, Batches, Limits, Refused, Translate, parse
from nmt.pages.serving.server import LOCAL
from nmt.translation.results import Translation

CLIENT_GONE = 499
"""The status of an answer to a client that went away; nobody receives it."""
POLICY = "default-src 'none'; {} connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy, without the style and the script of the page."""


def page() -> tuple[str, str]:
    """Return the page and the content security policy that allows its own style and script, and nothing else."""
    text = files("nmt.pages.serving").joinpath("page.html").read_text("utf-8")
    hashes = {}
    for kind in ("style", "script"):
        [inside] = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        hashes[kind] = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    sources = " ".join(f"{kind}-src 'sha256-{digest}';" for kind, digest in hashes.items())
    return text, POLICY.format(sources)


@dataclass(frozen=True)
class About:
    """The model behind a server, as ``/health`` describes it."""

    model: str
    source_language: str
    target_language: str


def application(translate: Translate, about: About, limits: Limits, hosts: Collection[str] | None = LOCAL) -> ASGIApp:
    """Make the application.

    Args:
        translate: what translates a batch, in a thread of its own.
        about: the model.
        limits: how much a client may ask for.
        hosts: names by which clients may call the server; None: any. A page of another site that has its name point
            to this machine (DNS rebinding) calls it by that name.
    """
    batches = Batches(translate, limits)
    text, policy = page()

    @contextlib.asynccontextmanager
    async def working(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(batches.run())
            yield
            batches.close()

    async def show(_: HttpRequest) -> Response:
        return HTMLResponse(text, headers={"content-security-policy": policy})

    async def answer(request: HttpRequest) -> Response:
        try:
            wanted = parse(await _body(request, limits), limits)
            answer = await _wait(request, batches.answer(wanted), limits)
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)
        return await asyncio.to_thread(_response, answer, wanted.attention, limits, about)

    async def health(_: HttpRequest) -> Response:
        return JSONResponse({"status": "ok", **asdict(about), "waiting": batches.waiting})

    app = Starlette(
        routes=[
            Route("/", show),
            Route("/translate", answer, methods=["POST"]),
            Route("/health", health),
        ],
        exception_handlers={HTTPException: _http_error, Refused: _refusal, Exception: _defect},
        lifespan=working,
    )
    return Guard(app, hosts)


async def _body(request: HttpRequest, limits: Limits) -> bytes:
    """Read the body. Raises Refused with status 408, 413 or 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # which a page of another site cannot send without asking first
        raise Refused(415, f"the body must have content-type application/json; send {LIKE}")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.arrival):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    raise Refused(413, f"the body is larger than {limits.body:,} bytes; send fewer lines at a time")
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.arrival:g} seconds; send it at once") from None
    return bytes(body)


async def _wait(request: HttpRequest, answer: Any, limits: Limits) -> Answer:
    """Wait for the answer while the client does. Raises Refused with status 503 when it takes too long."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = asyncio.ensure_future(answer), asyncio.ensure_future(gone())
    try:
        await asyncio.wait(tasks, timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()  # type: ignore[no-any-return]
        if tasks[1].done():
            raise ClientDisconnect
        raise Refused(503, f"no translation within {limits.seconds:g} seconds; send fewer or shorter lines")
    finally:
        for task in tasks:
            task.cancel()


def _response(answer: Answer, attention: bool, limits: Limits, about: About) -> Response:
    contents, weights = [], 0
    for translation, problem in answer:
        content: dict[str, Any] = {"text": translation.text, "score": round(translation.score, 6)}
        if problem is not None:
            content["warning"] = problem
        if attention:
            found = translation.attention
            if found is not None and (weights := weights + found.size) > limits.weights:
                found = None
                content.setdefault("warning", f"no attention: an answer has up to {limits.weights:,} weights")
            content |= _attention(translation, found, about)
        contents.append(content)
    return JSONResponse({"translations": contents})


def _attention(translation: Translation, weights: Weights | None, about: About) -> dict[str, Any]:
    """Return what a client receives for a line: weights are (pieces, source pieces), and those of words (target,
    source): added over a source word's pieces, averaged over a target word's. Pieces stay where the language has no
    spaces."""
    source, target, pieces = translation.source, translation.text, (translation.source_pieces, translation.pieces)
    found: dict[str, Any] = {"source_pieces": pieces[0], "pieces": pieces[1], "attention": None, "words": None}
    if weights is not None:
        words = has_words(about.source_language, source), has_words(about.target_language, target)
        joined = labelled_weights(weights, *pieces, source, target, words=words)
        found["attention"] = _rounded(weights)
        found["words"] = {"source": joined.source, "target": joined.target, "attention": _rounded(joined.weights)}
    return found


def _rounded(weights: Weights) -> list[list[float]]:
    found: list[list[float]] = weights.astype(float).round(4).tolist()
    return found


# --- errors -----------------------------------------------------------------------------------------------------------


def _error(status: int, message: str, headers: MutableMapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


async def _refusal(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"retry-after": "1"} if error.status in (429, 503) else {}
    return _error(error.status, error.message, headers)


async def _http_error(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    paths = "there are /, POST /translate and /health"
    return _error(error.status_code, f"{error.detail}; {paths}", dict(error.headers or {}))


async def _defect(_: HttpRequest, error: Exception) -> Response:
    return _error(500, "the server has a defect; its log has the reason")


# --- around all routes ------------------------------------------------------------------------------------------------


class Guard:
    """Refuses foreign host names, and adds security headers."""

    HEADERS = (
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"connection", b"close"),  # one request a connection: nobody can queue more than the limits allow
    )

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.HEADERS]
            await send(message)

        app = self._app if self._knows(scope) else _error(400, "unknown host name in the Host header")
        await app(scope, receive, with_headers)

    def _knows(self, scope: Scope) -> bool:
        """Whether the one Host header names this server."""
        if self._hosts is None:
            return True
        names = [value for key, value in scope["headers"] if key == b"host"]
        try:
            [name] = (urlsplit(f"//{value.decode('ascii')}").hostname for value in names)
        except ValueError:
            return False
        return name in self._hosts
