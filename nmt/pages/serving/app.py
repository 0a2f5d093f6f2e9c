"""The routes of the server, whose errors are JSON; a foreign host name is refused before, in plain text."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from nmt.pages import bundled, policy, read
from nmt.pages.serving.batches import LIKE, Answer, Batches, Limits, Refused, Translate, parse
from nmt.pages.serving.server import LOCAL


def application(
    translate: Translate, about: Mapping[str, str], limits: Limits, hosts: Sequence[str] = LOCAL
) -> ASGIApp:
    """Make the application, which calls ``translate`` in a thread of its own.

    ``about`` describes the model in ``/health``. Clients may call the server by the names ``hosts``. A page of another
    site that has its name point to this machine (DNS rebinding) calls it by that name.
    """
    batches = Batches(translate, limits)
    style, script = read("web/parts/parts.css"), bundled("serving/page.js")
    page = read("serving/page.html").replace("{style}", style).replace("{script}", script)
    allowed = policy(style, script, "connect-src 'self'", "frame-ancestors 'none'")

    @contextlib.asynccontextmanager
    async def working(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(batches.run())
            yield
            batches.close()

    async def show(_: HttpRequest) -> Response:
        return HTMLResponse(page, headers={"content-security-policy": allowed})

    async def answer(request: HttpRequest) -> Response:
        try:
            wanted = parse(await _body(request, limits), limits)
            answer = await _wait(request, batches.answer(wanted), limits)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody receives it
        return await asyncio.to_thread(_response, answer, wanted.attention)

    async def health(_: HttpRequest) -> Response:
        return JSONResponse({"status": "ok", **about, "waiting": batches.waiting})

    return Starlette(
        routes=[Route("/", show), Route("/translate", answer, methods=["POST"]), Route("/health", health)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={HTTPException: _error},
        lifespan=working,
    )


async def _error(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    advice = "" if isinstance(error, Refused) else "; there are /, POST /translate and /health"
    return JSONResponse({"error": error.detail + advice}, error.status_code, error.headers)


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
                    raise Refused(413, f"the body is larger than {limits.body:,} bytes; send less text at a time")
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.arrival:g} seconds; send it at once") from None
    return bytes(body)


async def _wait(request: HttpRequest, answer: Coroutine[Any, Any, Answer], limits: Limits) -> Answer:
    """Wait for the answer while the client does. Raises Refused with status 503 when it takes too long."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answered, left = asyncio.create_task(answer), asyncio.create_task(gone())
    try:
        await asyncio.wait((answered, left), timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            return answered.result()
        if left.done():
            raise ClientDisconnect
        raise Refused(503, f"no translation within {limits.seconds:g} seconds; send fewer or shorter lines")
    finally:
        answered.cancel()
        left.cancel()


def _response(answer: Answer, attention: bool) -> Response:
    contents = []
    for translation, problem, candidates in answer:
        content: dict[str, Any] = {"text": translation.text, "score": round(translation.score, 6)}
        if problem is not None:
            content["warning"] = problem
        if attention:
            found = translation.attention
            rounded = None if found is None else found.astype(float).round(4).tolist()
            content |= {"source_pieces": translation.source_pieces, "pieces": translation.pieces}
            content |= {"attention": rounded, "candidates": candidates}
        contents.append(content)
    return JSONResponse({"translations": contents})
