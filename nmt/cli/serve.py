"""Serve a trained run over HTTP: a page to type into, and translation as JSON.

Requests that wait become one batch. The server answers this machine alone, unless --host says otherwise; it has no
passwords and no encryption.

examples:
  nmt-serve --model runs/en-fr
  nmt-serve --model runs/en-fr --port 9000 --beam-size 3 --time-limit 10
"""

import argparse
from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from nmt.cli.common import command, importing, say
from nmt.cli.decoding import SEARCH_OPTIONS, add_decoding_options, add_model_option, load_models, tell_precision
from nmt.cli.files import refuse_missing
from nmt.cli.options import CommandParser, given, number, whole
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.serving.batches import Answer, Request, Translate
    from nmt.translation.translator import Translator

LOCALHOST = "127.0.0.1"


def parser() -> argparse.ArgumentParser:
    """Define the options of ``nmt-serve``."""
    arguments = CommandParser(prog="nmt-serve", description=__doc__)
    add_model_option(arguments)
    arguments.add_argument(
        "--host",
        default=LOCALHOST,
        metavar="ADDRESS",
        help="address to listen at; 0.0.0.0 answers every machine that can reach this one",
    )
    arguments.add_argument("--port", type=whole(0, 65535), default=8000, metavar="N", help="port; 0 takes a free one")
    group = arguments.add_argument_group("limits")
    group.add_argument("--max-lines", type=whole(1, 10_000), default=100, metavar="N", help="lines of a request")
    group.add_argument(
        "--max-characters", type=whole(1, 100_000), default=2000, metavar="N", help="characters of a line"
    )
    group.add_argument(
        "--max-waiting", type=whole(1, 100_000), default=256, metavar="N", help="requests that wait for translation"
    )
    group.add_argument(
        "--time-limit", type=number(0.1, 3600), default=30.0, metavar="S", help="seconds until a request is answered"
    )
    add_decoding_options(arguments)
    return arguments


@command(parser)
def main(arguments: argparse.Namespace) -> None:
    """Serve until a signal asks to stop; requests that were accepted are answered first."""
    refuse_missing([], arguments.model)
    with importing():
        from nmt.serving.app import LOCAL, application  # noqa: PLC0415  (slow to import)
        from nmt.serving.batches import Limits, Request  # noqa: PLC0415
        from nmt.serving.server import (  # noqa: PLC0415
            About,
            listen,
            run,
        )

    translator = load_models(arguments.model, arguments)
    tell_precision(translator, arguments)
    limits = Limits(
        lines=arguments.max_lines,
        characters=arguments.max_characters,
        shown=max(arguments.max_characters, Limits.shown),
        body=max(Limits.body, 4 * arguments.max_characters),
        waiting=arguments.max_waiting,
        seconds=arguments.time_limit,
    )
    translate = translating(translator, arguments)
    # wrong options are errors now, and the first request finds all warm
    translate(["a"], Request(text=["a"]), lambda: None)
    about = About.of(arguments.model)
    with listen(arguments.host, arguments.port) as listening:
        host, port = listening.getsockname()[:2]
        hosts = known_hosts(arguments.host, host, LOCAL)
        shown = f"[{host}]" if ":" in host else host
        where = f"{about.name} translates at http://{shown}:{port}/ (Ctrl-C stops)"
        run(application(translate, about, limits, hosts), listening, limits, lambda: say(where))
    say("stopped; everything that was accepted has been answered")


def known_hosts(asked: str, address: str, local: Collection[str]) -> set[str] | None:
    """Return the names by which clients may call a server at a loopback address, which ``--host`` names as ``asked``;
    None, any name, at another address."""
    return {*local, asked.lower(), address} if ip_address(address).is_loopback else None


def translating(translator: "Translator", arguments: argparse.Namespace) -> "Translate":
    """Return what translates a batch with the decoding options of the command line."""
    from nmt.search import Sampling  # noqa: PLC0415
    from nmt.serving.batches import Refused  # noqa: PLC0415
    from nmt.translation.options import SearchOptions  # noqa: PLC0415

    chosen = given(arguments, SEARCH_OPTIONS)

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
            options = SearchOptions.from_config(translator.decoding, **chosen | changes, attention=asked.attention)
        except ConfigError as error:
            if not changes:
                raise
            raise Refused(400, f"{what}: {error}") from None
        problems: dict[int, str] = {}
        found = translator.stream(lines, options, warn=problems.__setitem__, check_stop=check_stop)
        return [(each, problems.get(place)) for place, each in enumerate(list(found), 1)]

    return translate
