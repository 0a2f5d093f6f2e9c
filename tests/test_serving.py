"""The server: what it answers, what it refuses, how requests share batches, and how it stops."""

import asyncio
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import uvicorn

from nmt.errors import ConfigError, Stopped
from nmt.pages import policy
from nmt.pages.serving.app import application
from nmt.pages.serving.batches import Answer, Batches, Limits, Refused, Request, parse, translating
from nmt.pages.serving.server import LOCAL, known_hosts, listen, make_server
from nmt.translation.results import TranslatedHypothesis, Translation
from nmt.translation.searching import SearchOptions
from nmt.translation.translator import Translator
from tests.processes import until
from tests.small_translator import LINES, network, save_run, translator_of

LIMITS = Limits(arrival=5.0, seconds=10.0)
ABOUT = {"model": "tiny", "source_language": "low-v2", "target_language": "up"}
HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def upper(line: str) -> Translation:
    return Translation(line, [line, "</s>"], [TranslatedHypothesis(line.upper(), -1.0, -0.5, [line.upper(), "</s>"])])


class Fake:
    """Translates into capitals. It notes each batch, waits for ``gate``, and fails for lines with ``fail``."""

    def __init__(self, *, opened: bool = True) -> None:
        self.batches: list[list[str]] = []
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.stopped = 0
        if opened:
            self.gate.set()

    def __call__(self, lines: Sequence[str], asked: Request, check_stop: Callable[[], None]) -> Answer:
        self.batches.append(list(lines))
        self.begun.release()
        while not self.gate.wait(0.01):
            try:
                check_stop()
            except Stopped:
                self.stopped += 1
                raise
        if "fail" in lines:
            raise RuntimeError("as if out of memory")
        return [(upper(line), "too long" if line == "long" else None, None) for line in lines]


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Speaks to the server at a port of this machine."""

    port: int
    server: uvicorn.Server

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def translate(self, content: Any) -> Reply:
        return self.ask("POST", "/translate", json.dumps(content).encode(), content_type="application/json")

    def send(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """Send bytes with pauses between them; -> everything that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            for part in parts:
                with contextlib.suppress(OSError):  # it may be closed already
                    connection.sendall(part)
                time.sleep(pause)
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(1 << 16):
                    found += part
            return found


@contextlib.contextmanager
def serving(translate: Any, limits: Limits = LIMITS) -> Iterator[Client]:
    """A server in a thread."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = make_server(application(translate, ABOUT, limits), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Client(port, server)
    finally:
        server.should_exit = True
        thread.join(120)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(Fake()) as client:
        yield client


def asked(*lines: str, **options: Any) -> Request:
    return Request(text=lines, **options)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_hostile_requests_are_refused(client: Client) -> None:
    for body, status, found in (
        (b"", 400, "the body: found 0 bytes; must be JSON"),
        (b'{"text": "\xff"}', 400, "the body: "),
        (b"[" * 100000, 400, "the body: "),
        (b'{"text": "a", "beam": 3}', 400, "beam: unknown key; nearest: beam_size"),
        (b'{"text": "a\\nb"}', 400, "text: the line has a line end or NUL"),
        (b'{"text": ["a", "b\\u0000c"]}', 400, "text: line 2 has a line end or NUL"),
        (b'{"text": "a\\ud800"}', 400, "the body: "),
        (b'{"text": "a", "beam_size": true}', 400, "beam_size: found true"),
        (json.dumps({"text": ["a"] * 10000}).encode(), 413, "text: 10,000 lines; "),
        (json.dumps({"text": "a" * 2001}).encode(), 413, "text: the line has 2,001 characters"),
        (json.dumps({"text": ["a" * 1500] * 2, "attention": True}).encode(), 413, "text: with attention a request may"),
        (b'{"text": 5}', 400, "text: found 5 as line 1; must be a string or a list of strings"),
        (b'{"text": ["a", null]}', 400, "text: found nothing as line 2; must be a string or"),
        (b'{"txt": "a"}', 400, "text: missing; txt: unknown key; nearest: text"),
        (b"[]", 400, "the body: found a list of 0; must be a JSON object"),
        (b"a" * 1000, 400, "the body: found 1,000 bytes; must be JSON"),
    ):
        reply = client.ask("POST", "/translate", body, content_type="application/json")
        assert (reply.status, list(reply.content)) == (status, ["error"]), body[:50]
        assert reply.content["error"].startswith(found)
        assert "Traceback" not in reply.content["error"] and len(reply.body) < 500


def test_a_body_that_is_too_large_is_refused_before_it_has_come(client: Client) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    found = client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 6)
    assert found.startswith(b"HTTP/1.1 413 ") and b"larger than 262,144 bytes" in found


def test_another_content_type_is_refused(client: Client) -> None:
    """A page of another site may send text/plain without asking; JSON it may not."""
    kinds = {"text/plain": 415, "": 415, "Application/JSON; charset=utf-8": 200}
    for kind, status in kinds.items():
        assert client.ask("POST", "/translate", b'{"text": "a"}', content_type=kind).status == status


def test_foreign_host_names_and_pages_of_other_sites_are_refused(client: Client) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example", "ö"):
        found = client.send(b"GET /health HTTP/1.1\r\nHost: " + host.encode() + b"\r\nConnection: close\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 400 "), host
    assert client.send(b"GET /health HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert known_hosts("Ip6-Localhost", "[::2]") == ["*"] == known_hosts("0.0.0.0", "0.0.0.0")
    assert set(known_hosts("Ip6-Localhost", "[::1]")) == {*LOCAL, "ip6-localhost"}
    asked = client.ask("OPTIONS", "/translate", Origin="http://evil.example", Access_Control_Request_Method="POST")
    answered = client.ask("GET", "/health", Origin="http://evil.example")
    assert (asked.status, answered.status) == (405, 200)
    assert not [name for name in (*asked.headers, *answered.headers) if name.startswith("access-control")]


def test_slow_requests_are_ended() -> None:
    with serving(Fake(), replace(LIMITS, arrival=0.1)) as client:
        found = client.send(HEAD + b"Content-Length: 99\r\n\r\n", *[b" "] * 8, pause=0.025)
        assert found.startswith(b"HTTP/1.1 408 ")
        assert client.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000).startswith(b"HTTP/1.1 400 "), "or a large head"
        assert client.send(HEAD + b'Content-Length: 13\r\n\r\n{"text": "a"}').startswith(b"HTTP/1.1 200 ")


def test_a_connection_has_one_request_and_too_many_connections_are_refused(client: Client) -> None:
    found = client.send((HEAD + b'Content-Length: 13\r\n\r\n{"text": "a"}') * 3)
    assert found.count(b"HTTP/1.1 ") == 1 and b" 200 " in found
    with serving(Fake(), replace(LIMITS, connections=2)) as crowded, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(socket.create_connection(("127.0.0.1", crowded.port)))
        until(lambda: len(crowded.server.server_state.connections) == 2)
        assert crowded.ask("GET", "/health").status == 503
        stack.close()
        with socket.create_connection(("127.0.0.1", crowded.port)):
            until(lambda: len(crowded.server.server_state.connections) == 1)
            assert crowded.ask("GET", "/health").status == 200


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_translation_and_what_comes_with_it(client: Client) -> None:
    reply = client.translate({"text": ["tab\tand\u2028é 日本", "long", ""], "beam_size": 3})
    assert reply.status == 200 and reply.headers["content-type"] == "application/json"
    translations = [
        {"text": "TAB\tAND\u2028É 日本", "score": -0.5},
        {"text": "LONG", "score": -0.5, "warning": "too long"},
        {"text": "", "score": -0.5},
    ]
    assert reply.content == {"translations": translations}
    assert client.translate({"text": []}).content == {"translations": []}
    body = b'{"text": "a", "beam_size": 3, "attention": true}'
    assert parse(body, LIMITS) == asked("a", beam_size=3, attention=True)


def test_the_page_allows_its_own_script_and_no_other(client: Client) -> None:
    reply = client.ask("GET", "/")
    page, allowed = reply.body.decode(), reply.headers["content-security-policy"]
    [inlined] = re.findall(r"<style>(.*?)</style>.*<script>(.*?)</script>", page, re.DOTALL)
    assert page.count("<script") == page.count("<style") == 1 and allowed.startswith(policy(*inlined))
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|style=|https?:", page)
    for header in ("x-content-type-options", "referrer-policy", "cache-control", "cross-origin-resource-policy"):
        assert header in reply.headers
    assert "server" not in reply.headers


# --- batches ----------------------------------------------------------------------------------------------------------


def queued(translate: Fake, limits: Limits, requests: Sequence[Request], given_up: int | None = None) -> list[Any]:
    """Ask all while the first is translated, give one up, and close the queue; return the texts or error of each."""

    async def main() -> list[Any]:
        queue = Batches(translate, limits)
        worker = asyncio.create_task(queue.run())
        tasks = [asyncio.create_task(queue.answer(requests[0]))]
        await asyncio.to_thread(translate.begun.acquire)
        tasks += [asyncio.create_task(queue.answer(each)) for each in requests[1:]]
        await asyncio.sleep(0)
        if given_up is not None:
            tasks[given_up].cancel()
            await asyncio.sleep(0)
        queue.close()
        with pytest.raises(Refused) as refusal:
            await queue.answer(asked("late"))
        assert refusal.value.status_code == 503
        translate.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await worker
        return [[each.text for each, *_ in one] if isinstance(one, list) else one for one in found]

    return asyncio.run(main())


def test_what_waits_for_the_same_becomes_one_batch_up_to_its_size() -> None:
    others = [asked("0"), asked("1"), asked("2", beam_size=3), asked("3", attention=True), asked("4")]
    for requests, batches in (
        ([asked(f"{i}", f"{i}x") for i in range(4)], [["0", "0x"], ["1", "1x", "2", "2x"], ["3", "3x"]]),
        (others, [["0"], ["1", "4"], ["2"], ["3"]]),
    ):
        translate = Fake(opened=False)
        found = queued(translate, replace(LIMITS, batch=10), requests)
        assert found == [[line.upper() for line in each.text] for each in requests]
        assert translate.batches == batches


def test_one_request_fails_alone_and_one_that_is_given_up_is_not_translated(caplog: pytest.LogCaptureFixture) -> None:
    translate, lines = Fake(opened=False), ("0", "1", "fail", "3", "gone")
    first, second, failed, fourth, _ = queued(translate, LIMITS, [asked(line) for line in lines], given_up=4)
    assert [first, second, fourth] == [["0"], ["1"], ["3"]]
    assert isinstance(failed, Refused) and failed.status_code == 500
    assert "as if out of memory" in caplog.text, "the reason is in the log"
    assert "gone" not in {line for batch in translate.batches for line in batch}


def test_too_many_waiting_requests_are_refused_and_those_that_wait_are_answered() -> None:
    *answered, refused = queued(Fake(opened=False), replace(LIMITS, waiting=2), [asked(each) for each in "0123"])
    assert answered == [["0"], ["1"], ["2"]]
    assert isinstance(refused, Refused) and refused.status_code == 429


# --- many clients -----------------------------------------------------------------------------------------------------


def test_a_translation_does_not_depend_on_its_batch_and_none_is_lost() -> None:
    translator = translator_of(network())
    translate = translating(translator, {})
    how = SearchOptions.from_config(translator.decoding, attention=True)
    alone = {line: next(translator.stream([line], how)) for line in LINES}
    with serving(translate, replace(LIMITS, seconds=60.0)) as client, ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda line: client.translate({"text": line, "attention": True}), LINES * 2))
        several = client.translate({"text": LINES[:2]}).content["translations"]
    assert [each["text"] for each in several] == [alone[line].text for line in LINES[:2]]
    for line, reply in zip(LINES * 2, replies, strict=True):
        [found] = reply.content["translations"]
        expected = alone[line]
        assert (found["text"], found["pieces"]) == (expected.text, expected.pieces)
        assert found["source_pieces"] == expected.source_pieces
        assert found["score"] == pytest.approx(expected.score, abs=1e-4)
        assert expected.attention is not None
        assert found["attention"] == pytest.approx(expected.attention, abs=2e-4)
        candidates = [dict(each) for each in found["candidates"]]
        chosen = [each[piece] for each, piece in zip(candidates, found["pieces"], strict=True)]
        assert np.log(chosen).sum() == pytest.approx(expected.hypotheses[0].log_probability, abs=0.01 * len(chosen))
        assert all(list(each.values())[:5] == sorted(each.values(), reverse=True)[:5] for each in candidates)


def test_an_answer_that_takes_too_long_or_that_nobody_awaits_is_given_up() -> None:
    translate = Fake(opened=False)
    with serving(translate, replace(LIMITS, seconds=0.3)) as client:
        reply = client.translate({"text": "a"})
        assert reply.status == 503 and "no translation within 0.3 seconds" in reply.content["error"]
        assert reply.headers["retry-after"] == "1"
        until(lambda: translate.stopped == 1)
    translate = Fake(opened=False)
    with serving(translate) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
            connection.sendall(HEAD + b'Content-Length: 13\r\n\r\n{"text": "a"}')
            translate.begun.acquire(timeout=20)
        until(lambda: translate.stopped == 1)
        translate.gate.set()
        assert client.translate({"text": "b"}).status == 200


def test_what_was_accepted_is_answered_before_the_server_stops() -> None:
    translate = Fake(opened=False)
    with ThreadPoolExecutor(6) as pool:
        with serving(translate) as client:
            replies = [pool.submit(client.translate, {"text": "0"})]
            assert translate.begun.acquire(timeout=20)
            replies += [pool.submit(client.translate, {"text": f"{i}"}) for i in range(1, 6)]
            health = {"status": "ok", **ABOUT, "waiting": 5}
            until(lambda: client.ask("GET", "/health").content == health)
            client.server.should_exit = True
            time.sleep(0.3)
            translate.gate.set()
        found = [reply.result() for reply in replies]
    assert [reply.content["translations"][0]["text"] for reply in found] == [f"{i}" for i in range(6)]
    with pytest.raises(ConnectionRefusedError):
        client.ask("GET", "/health")


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"^--host 127.0.0.1 --port {port}: cannot listen: Address"):
            listen("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"^--host 127\.0\.\.1 --port 1: cannot listen: not a host name; "):
        listen("127.0..1", 1)


@contextlib.contextmanager
def started(*options: str) -> Iterator[tuple[Client, list[str]]]:
    """``nmt-serve`` at a free port until it is asked to stop, and what it says."""
    script = "import sys; from nmt.cli.serve import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, *options, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(2)]
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said[-1])
        assert found, said
        yield Client(int(found[1]), None), said  # type: ignore[arg-type]
        process.send_signal(signal.SIGTERM)
        said.append(process.stderr.read())
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    run = save_run(tmp_path / "run")
    with started("--model", str(run), "--device", "cpu") as (client, said):
        expected = next(Translator.load(run, "cpu").translate(iter([LINES[0]])))
        assert client.translate({"text": LINES[0]}).content["translations"][0]["text"] == expected.text
    where = f"run translates at http://127.0.0.1:{client.port}/ (Ctrl-C stops)\n"
    assert said == [f"loading {run}\n", where, "stopped; everything that was accepted has been answered\n"]
