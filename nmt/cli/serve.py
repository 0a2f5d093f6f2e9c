"""nmt-serve: a run behind HTTP."""

from typing import Annotated, Any

from pydantic import Field

from nmt.cli.command import Command
from nmt.cli.options import Device, Precision, RunPath, Value
from nmt.cli.terminal import say
from nmt.config import load_run_config
from nmt.files import run_name


def serve(
    *,
    model: list[RunPath],
    host: Annotated[str, Value("ADDRESS")] = "127.0.0.1",
    port: Annotated[int, Field(ge=0, le=65535)] = 8000,
    max_characters: Annotated[int, Field(ge=1, le=100_000)] = 2000,
    time_limit: Annotated[float, Field(ge=0.1, le=3600)] = 30.0,
    device: Device = "auto",
    precision: Precision = "fp32",
    **decoding: Any,  # an option for each key of the section decoding
) -> None:
    """Serve a trained run over HTTP: a web page to type into, and a JSON API.

    Waiting requests are translated in batches. The server answers only this machine unless --host is given. It has no
    passwords and no encryption.

    Args:
        model: run directory of nmt-train; several with the same tokenizers: an ensemble, which averages probabilities
        host: address to listen at; 0.0.0.0 answers every machine that can reach this one
        port: port; 0 takes a free one

    Limits:
        max_characters: longest line, in characters
        time_limit: longest wait for an answer, in seconds

    examples:
      nmt-serve --model runs/en-fr
      nmt-serve --model runs/en-fr --port 9000 --beam-size 3 --time-limit 10
    """
    say(f"loading {', '.join(model)}")
    from nmt.pages.serving.app import application  # noqa: PLC0415  (slow to import)
    from nmt.pages.serving.batches import Limits, Request, translating  # noqa: PLC0415
    from nmt.pages.serving.server import known_hosts, listen, run  # noqa: PLC0415
    from nmt.translation.translator import Translator  # noqa: PLC0415

    translate = translating(Translator.load(model, device, precision), decoding)
    limits = Limits(
        characters=max_characters,
        shown=max(max_characters, Limits.shown),
        body=Limits.body + 12 * max_characters,  # JSON may write an emoji as 12 bytes
        seconds=time_limit,
    )
    # wrong options are errors now, and the first request finds all warm
    translate(["a"], Request(text=("a",)), lambda: None)
    data = load_run_config(model[0]).data
    name, languages = " + ".join(map(run_name, model)), data.model_dump(include={"source_language", "target_language"})
    with listen(host, port) as listening:
        address, free_port = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        where = f"{name} translates at http://{shown}:{free_port}/ (Ctrl-C stops)"
        app = application(translate, {"model": name, **languages}, limits, known_hosts(host, shown))
        run(app, listening, limits, lambda: say(where))
    say("stopped; everything that was accepted has been answered")


main = Command(serve)
