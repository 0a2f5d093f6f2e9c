"""nmt-serve: a run behind HTTP."""

from collections.abc import Callable, Collection, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from nmt.cli.common import say
from nmt.cli.signature import Command, Device, Precision, RunPath, Value
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.serving.batches import Answer, Request, Translate
    from nmt.translation.translator import Translator


def serve(
    *,
    model: list[RunPath],
    host: Annotated[str, Value("ADDRESS")] = "127.0.0.1",
    port: Annotated[int, Field(ge=0, le=65535)] = 8000,
    max_lines: Annotated[int, Field(ge=1, le=10_000)] = 100,
    max_characters: Annotated[int, Field(ge=1, le=100_000)] = 2000,
    max_waiting: Annotated[int, Field(ge=1, le=100_000)] = 256,
    time_limit: Annotated[float, Field(ge=0.1, le=3600)] = 30.0,
    device: Device = "auto",
    precision: Precision = "fp32",
    **decoding: Any,
) -> None:
    """Serve a trained run over HTTP: a page to type into, and translation as JSON.

    Requests that wait become one batch. The server answers this machine alone, unless --host says otherwise; it has no
    passwords and no encryption.

    Args:
        model: run directory of nmt-train; several with the same tokenizers translate together, as an ensemble
        host: address to listen at; 0.0.0.0 answers every machine that can reach this one
        port: port; 0 takes a free one

    Limits:
        max_lines: lines of a request
        max_characters: characters of a line
        max_waiting: requests that wait for translation
        time_limit: seconds until a request is answered

    examples:
      nmt-serve --model runs/en-fr
      nmt-serve --model runs/en-fr --port 9000 --beam-size 3 --time-limit 10
    """
    from nmt.serving.app import LOCAL, application  # noqa: PLC0415  (slow to import)
    from nmt.serving.batches import Limits, Request  # noqa: PLC0415
    from nmt.serving.server import About, listen, run  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415

    translator = Translator.load(model, device, precision)
    limits = Limits(
        lines=max_lines,
        characters=max_characters,
        shown=max(max_characters, Limits.shown),
        body=max(Limits.body, 4 * max_characters),
        waiting=max_waiting,
        seconds=time_limit,
    )
    translate = translating(translator, decoding)
    # wrong options are errors now, and the first request finds all warm
    translate(["a"], Request(text=["a"]), lambda: None)
    about = About.of(model)
    with listen(host, port) as listening:
        address, free_port = listening.getsockname()[:2]
        hosts = known_hosts(host, address, LOCAL)
        shown = f"[{address}]" if ":" in address else address
        where = f"{about.name} translates at http://{shown}:{free_port}/ (Ctrl-C stops)"
        run(application(translate, about, limits, hosts), listening, limits, lambda: say(where))
    say("stopped; everything that was accepted has been answered")


main = Command(serve)


def known_hosts(asked: str, address: str, local: Collection[str]) -> set[str] | None:
    """Return the names by which clients may call a server at a loopback address, which ``--host`` names as ``asked``;
    None, any name, at another address."""
    return {*local, asked.lower(), address} if ip_address(address).is_loopback else None


def translating(translator: "Translator", chosen: Mapping[str, Any]) -> "Translate":
    """Return what translates a batch with the options ``chosen`` of the search."""
    from nmt.search import Sampling  # noqa: PLC0415
    from nmt.serving.batches import Refused  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415

    def translate(lines: Sequence[str], asked: "Request", check_stop: Callable[[], None]) -> "Answer":
        changes: dict[str, Any] = {} if asked.beam_size is None else {"beam_size": asked.beam_size}
        what = f"beam_size {asked.beam_size}"
        if asked.sampling_temperature is not None:
            changes = {
                "beam_size": 1,
                "sampling": Sampling(asked.sampling_temperature, seed=asked.seed),
            }
            what = f"sampling_temperature {asked.sampling_temperature:g}"
        try:
            options = SearchOptions.from_config(translator.decoding, **{**chosen, **changes}, attention=asked.attention)
        except ConfigError as error:
            if not changes:
                raise
            raise Refused(400, f"{what}: {error}") from None
        problems: dict[int, str] = {}
        found = translator.stream(lines, options, warn=problems.__setitem__, check_stop=check_stop)
        return [(each, problems.get(place)) for place, each in enumerate(list(found), 1)]

    return translate
