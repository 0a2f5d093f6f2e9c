"""The pages translate in Firefox too, which speaks WebDriver BiDi without another program."""

import json
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import websocket  # with selenium

from nmt.pages.web.exporting import export_web
from nmt.translation.translator import Translator
from tests.browser import served
from tests.processes import until
from tests.report_page.made_up import LUONG

LINE = "oak elm ash yew"


class Firefox:
    """The tab of a Firefox."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self.socket = socket
        self.ask("session.new", capabilities={})
        self.tab = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command; return its result."""
        self.socket.send(json.dumps({"id": 1, "method": method, "params": parameters}))
        while (answer := json.loads(self.socket.recv()))["type"] == "event":
            pass
        return answer["result"]

    def until(self, condition: str) -> None:
        """Wait until a condition in JavaScript is true."""
        asked = {"expression": condition, "target": {"context": self.tab}, "awaitPromise": False}
        until(lambda: self.ask("script.evaluate", **asked)["result"].get("value"))

    def translates(self, text: str, address: str, translation: str) -> None:
        """Type a text into a page, and wait for its translation."""
        self.ask("browsingContext.navigate", context=self.tab, url=address, wait="complete")
        self.until("document.querySelector('textarea')?.select(), document.activeElement.matches('textarea')")
        keys = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.ask("input.performActions", context=self.tab, actions=[{"type": "key", "id": "keys", "actions": keys}])
        self.until(f"document.body.innerText.includes({json.dumps(translation)})")


@pytest.mark.slow(seconds=20)
def test_the_exported_page_and_the_live_report_translate(runs: dict[str, Path], live: Path, tmp_path: Path) -> None:
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip("firefox is not installed: apt install firefox-esr")
    export_web(runs[LUONG], tmp_path / "page")
    expected = Translator.load(runs[LUONG]).translate(LINE, beam_size=1).text
    command = [program, "--headless", "--remote-debugging-port=0", "--profile", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, served(tmp_path / "page") as page:
        assert process.stderr
        try:
            address = next(line.split()[-1] for line in process.stderr if "BiDi listening" in line)
            with closing(websocket.create_connection(f"{address}/session", suppress_origin=True, timeout=60)) as socket:
                firefox = Firefox(socket)
                firefox.translates(LINE, page, expected)
                firefox.until("document.querySelector('h1').innerText === 'Translate low to up'")
                firefox.until("document.querySelectorAll('.heat td').length > 4 && document.querySelector('.chosen')")
                firefox.translates(LINE, f"{live.as_uri()}#translate=&beam=1", expected)
        finally:
            process.terminate()
