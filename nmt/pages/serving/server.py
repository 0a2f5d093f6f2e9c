"""The server: a socket, limits of a connection, and a graceful stop."""

import asyncio
import math
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.errors import ConfigError
from nmt.pages.serving.batches import Limits

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine, for itself."""
LARGEST_HEAD = 1 << 14
"""Bytes of the head of a request."""
HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
    ("connection", "close"),  # one request a connection: nobody can queue more than the limits allow
]
"""Headers of every answer."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one. Raises ConfigError if that fails."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        problem = f"--host {host} --port {port}: cannot listen: {error.strerror}"
        raise ConfigError(f"{problem}; choose another port, or an address of this machine") from None


def known_hosts(asked: str, address: str) -> list[str]:
    """Return the names by which clients may call a server at ``address``, as an address of a page has it, which
    ``--host`` names as ``asked``: any name, unless only this machine can reach it."""
    return [*LOCAL, asked.lower(), address] if ip_address(address.strip("[]")).is_loopback else ["*"]


def protocol(limits: Limits) -> type[H11Protocol]:
    """Make a protocol of one request a connection, which limits connections and the time that a client may take to ask
    and to read. Uvicorn alone would queue any number of requests, and wait for its client without end."""

    class Connection(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        """Runs while the client is waited for."""
        _since = 0.0
        """When it began."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait(limits.arrival)
            if len(self.connections) > limits.connections:
                self._make_room()

        def data_received(self, data: bytes) -> None:
            if self.cycle is None or self.cycle.more_body:  # what follows the request is dropped
                began = self.cycle is not None
                super().data_received(data)
                if self.cycle is None or self.cycle.response_complete:
                    return
                if not self.cycle.more_body:
                    self._stop_waiting()
                elif not began:
                    self._wait(limits.arrival + 1)  # for the body; the application refuses a late one before

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._wait(limits.reading)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _make_room(self) -> None:
            """Close the connections whose clients have been waited for longest, unless all wait for their answers."""
            others = (each for each in self.connections if isinstance(each, Connection) and each is not self)
            waiting = [each for each in others if each._timer is not None]
            for each in sorted(waiting, key=lambda each: each._since)[: len(self.connections) - limits.connections]:
                self.connections.discard(each)
                each.transport.abort()

        def _wait(self, seconds: float) -> None:
            self._stop_waiting()
            self._since = self.loop.time()
            self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Connection


def make_server(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """Make the server; ``run(sockets=[...])`` runs it until ``should_exit``, then answers what it has accepted."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol(limits),
            headers=HEADERS,
            limit_concurrency=2 * limits.connections,
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=math.ceil(limits.arrival + limits.seconds + limits.reading) + 1,
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

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    ready()
    server.run(sockets=[listening])  # it raises the signal that it has handled once more, for ``stop``
