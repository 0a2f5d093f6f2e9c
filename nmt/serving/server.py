"""The server: a socket, the time limit for the head of a request, and a graceful stop."""

import asyncio
import math
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.errors import ConfigError
from nmt.serving.requests import Limits

KEEP_ALIVE = 5
"""Seconds that a connection stays open between two requests."""
LARGEST_HEAD = 1 << 14
"""Bytes of the head of a request."""
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    b'{"error": "too many connections; try again later"}'
)
"""The whole answer to a connection too many."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one. Raises ConfigError if that fails."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        raise ConfigError(
            f"--host {host} --port {port}: cannot listen: {error.strerror}; choose another port, or an address of "
            "this machine"
        ) from None


def protocol(limits: Limits) -> type[H11Protocol]:
    """Make a protocol that refuses too many connections, and closes those whose next head does not arrive in time:
    uvicorn would accept all, and wait for ever."""

    class Bounded(H11Protocol):
        _full = False
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._full = len(self.connections) > limits.connections
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._full:  # only now: the system would drop an answer that comes before the request
                self.transport.write(FULL)
                self.transport.close()
                return
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()
            elif self._patience is None:  # the first bytes of the next head
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._patience = self.loop.call_later(limits.arrival, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return Bounded


def make_server(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """Make the server; ``run(sockets=[...])`` runs it until ``should_exit``, then answers what it has accepted."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol(limits),
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=math.ceil(limits.arrival + limits.seconds) + 1,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
    )


def run(app: ASGIApp, listening: socket.socket, limits: Limits, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; finish what was accepted, then return.

    ``ready`` is called as soon as such a signal is obeyed.
    """
    server = make_server(app, limits)

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        ready()
        server.run(sockets=[listening])  # it raises the signal that it has handled once more, for ``stop``
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
