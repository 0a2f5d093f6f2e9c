"""What a client may ask: JSON to a checked request, or a refusal that says what would be right."""

import json
from dataclasses import dataclass
from typing import Any

LIKE = '{"text": "one line"} or {"text": ["line", "line"], "beam_size": 5, "attention": true}'
"""A valid request, for messages."""


HOTTEST = 100
"""The highest temperature of a request."""
KEYS = {"text", "beam_size", "attention", "sampling_temperature", "seed"}


@dataclass(frozen=True)
class Limits:
    """How much a client may ask for, and how long anything may take."""

    body: int = 1 << 18
    """Bytes of a request's body."""
    lines: int = 100
    """Lines of a request."""
    characters: int = 2000
    """Characters of a line."""
    shown: int = 2000
    """Characters of a request that asks for attention: the weights of a line grow with the square of its length."""
    beam_size: int = 16
    waiting: int = 256
    """Requests that wait for translation; more are refused."""
    connections: int = 512
    """Connections at a time. One more takes the place of the client that has been waited for longest; if all wait for
    their answers, it is refused."""
    batch: int = 1 << 15
    """Characters of a batch of several requests; a request of more is a batch of its own."""
    weights: int = 1 << 16
    """Attention weights of an answer; lines beyond have none."""
    arrival: float = 10.0
    """Seconds in which the head of a request must arrive, and likewise its body."""
    seconds: float = 30.0
    """Seconds from the arrival of a request to its answer."""
    reading: float = 10.0
    """Seconds in which a client must read its answer."""


class Refused(Exception):
    """A request that is not answered: the status of HTTP, and a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class Request:
    """Lines to translate."""

    lines: list[str]
    beam_size: int | None = None
    """None: that of the server."""
    attention: bool = False
    """Whether the answer is to have the weights."""
    temperature: float | None = None
    """To sample at; None: search."""
    seed: int = 1
    """Of the samples."""

    @property
    def characters(self) -> int:
        """The length of all lines; a blank one counts, too."""
        return sum(len(line) + 1 for line in self.lines)

    def shares(self, other: "Request") -> bool:
        """Whether both can be translated in one batch. A request that samples is a batch of its own: random numbers
        depend on the seed and the place of a line, so that the answer is always the same."""
        searched = self.temperature is None and other.temperature is None
        return searched and (self.beam_size, self.attention) == (other.beam_size, other.attention)


def parse(body: bytes, limits: Limits) -> Request:
    """Read a request. Raises Refused with status 400 for a wrong one, 413 for one that asks for too much."""
    try:
        content = json.loads(body.decode())
    except RecursionError:
        raise Refused(400, f"the body is nested too deeply; send {LIKE}") from None
    except ValueError as error:  # neither UTF-8 nor JSON, or a number of thousands of digits
        raise Refused(400, f"the body is not JSON in UTF-8 ({error}); send {LIKE}") from None
    if not isinstance(content, dict):
        raise Refused(400, f"the body must be an object; send {LIKE}")
    if unknown := sorted(set(content) - KEYS):
        raise Refused(400, f"unknown key {unknown[0]!r:.60}; send {LIKE}")
    beam_size, temperature = _beam_size(content, limits), _temperature(content)
    if temperature is None and content.get("seed") is not None:
        raise Refused(400, "seed: has no effect without sampling_temperature")
    if temperature is not None and (beam_size or 1) > 1:
        raise Refused(400, f"beam_size: sampling needs 1, not {beam_size}; leave it out")
    request = Request(_lines(content, limits), beam_size, _attention(content), temperature, _seed(content))
    if request.attention and request.characters > limits.shown + len(request.lines):
        raise Refused(
            413, f"text: with attention a request may have up to {limits.shown:,} characters; send fewer lines"
        )
    return request


def _lines(content: dict[str, Any], limits: Limits) -> list[str]:
    text = content.get("text")
    lines = [text] if isinstance(text, str) else text
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise Refused(400, f"text: must be a string or a list of strings; send {LIKE}")
    if len(lines) > limits.lines:
        raise Refused(413, f"text: {len(lines):,} lines; send at most {limits.lines:,} at a time")
    for number, line in enumerate(lines, 1):
        if len(line) > limits.characters:
            raise Refused(
                413, f"text: line {number} has {len(line):,} characters; it may have up to {limits.characters:,}"
            )
        if problem := _unreadable(line):
            raise Refused(400, f"text: line {number} has {problem}")
    return lines


def _unreadable(line: str) -> str | None:
    if "\n" in line:
        return "a line end; send a list with a string for each line"
    if "\0" in line:
        return "a NUL character, which is no text; leave it out"
    if any("\ud800" <= character <= "\udfff" for character in line):
        return "half of a surrogate pair, which is no character; send whole characters"
    return None


def _beam_size(content: dict[str, Any], limits: Limits) -> int | None:
    beam_size = content.get("beam_size")
    if beam_size is None:
        return None
    if not isinstance(beam_size, int) or isinstance(beam_size, bool) or not 1 <= beam_size <= limits.beam_size:
        raise Refused(400, f"beam_size: must be a whole number from 1 to {limits.beam_size}")
    return beam_size


def _temperature(content: dict[str, Any]) -> float | None:
    temperature = content.get("sampling_temperature")
    if temperature is None:
        return None
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not number or not 0 < temperature <= HOTTEST:
        raise Refused(400, f"sampling_temperature: must be a number above 0 and up to {HOTTEST}")
    return float(temperature)


def _seed(content: dict[str, Any]) -> int:
    seed = content.get("seed")
    if seed is None:
        return 1
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        raise Refused(400, "seed: must be a whole number from 0 to 2^63 - 1")
    return seed


def _attention(content: dict[str, Any]) -> bool:
    attention = content.get("attention", False)
    if not isinstance(attention, bool):
        raise Refused(400, "attention: must be true or false")
    return attention
