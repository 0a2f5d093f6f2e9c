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

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of this machine, for itself."""
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


def known_hosts(asked: str, address: str) -> set[str] | None:
    """Return the names by which clients may call a server at a loopback address, which ``--host`` names as ``asked``;
    None, any name, at another address."""
    return {*LOCAL, asked.lower(), address} if ip_address(address).is_loopback else None


def protocol(limits: Limits) -> type[H11Protocol]:
    """Make a protocol of one request a connection, which limits connections and the time that a client may take to ask
    and to read. Uvicorn alone would queue any number of requests, and wait for its client without end."""

    class Connection(H11Protocol):
        _full = False
        _timer: asyncio.TimerHandle | None = None
        """Runs while the client is waited for."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait(limits.arrival)
            if len(self.connections) > limits.connections:
                self._make_room()

        def data_received(self, data: bytes) -> None:
            if self._full:  # only now: the system would drop an answer that comes before the request
                self.transport.write(FULL)
                self.transport.close()
            elif self.cycle is None or self.cycle.more_body:  # what follows the request is dropped
                super().data_received(data)
                if self.cycle is not None and not self.cycle.response_complete:
                    self._stop_waiting()  # the application limits the time for the body

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._wait(limits.reading)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _make_room(self) -> None:
            """Close the connection whose client has been waited for longest; without one, refuse this one."""
            waiting = [each for each in self.connections if isinstance(each, Connection) and each is not self]
            timers = {each: each._timer.when() for each in waiting if each._timer is not None}
            if timers:
                min(timers, key=lambda each: timers[each]).transport.abort()
            else:
                self._full = True

        def _wait(self, seconds: float) -> None:
            self._stop_waiting()
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

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        ready()
        server.run(sockets=[listening])  # it raises the signal that it has handled once more, for ``stop``
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
