"""The server: a socket, and a graceful stop."""

import math
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

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
    except (OSError, UnicodeError) as error:  # UnicodeError: 192.168..1
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        problem = f"--host {host} --port {port}: cannot listen: {reason}"
        raise ConfigError(f"{problem}; choose another port, or an address of this machine") from None


def known_hosts(asked: str, address: str) -> list[str]:
    """Return the names by which clients may call a server at ``address``, as an address of a page has it, which
    ``--host`` names as ``asked``: any name, unless only this machine can reach it."""
    return [*LOCAL, asked.lower(), address] if ip_address(address.strip("[]")).is_loopback else ["*"]


def make_server(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """Make the server; ``run(sockets=[...])`` runs it until ``should_exit``, then answers what it has accepted."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",  # answers a large head and a broken one with 400
            headers=HEADERS,
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=math.ceil(limits.arrival + limits.seconds) + 1,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            limit_concurrency=limits.connections + 1,  # the connection that asks is one of them
        )
    )


def run(app: ASGIApp, listening: socket.socket, limits: Limits, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, then finish what was accepted, and return. ``ready`` is called as soon as
    such a signal is obeyed."""
    server = make_server(app, limits)

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):  # Windows lacks it
        signal.signal(number, stop)
    ready()
    server.run(sockets=[listening])  # it raises the signal that it has handled once more, for ``stop``
