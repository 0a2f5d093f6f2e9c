"""A headless Chromium for the tests of pages, and axe-core; a test without them skips and says what to install."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

pytest.importorskip("selenium", reason="selenium is not installed: pip install -e '.[dev]'")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.interaction import POINTER_TOUCH
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> tuple[str, str]:
    """The paths of the browser and of its driver."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        missing = "chromium" if program is None else "chromedriver"
        pytest.skip(f"{missing} is not installed: apt install chromium chromium-driver")
    return program, driver


def axe_source() -> str:
    """The text of axe-core."""
    path = Path(os.environ.get("NMT_AXE", Path(__file__).parents[1] / "node_modules/axe-core/axe.min.js"))
    if not path.is_file():
        pytest.skip(f"axe-core is not at {path}: npm install --no-save axe-core, or set NMT_AXE to its axe.min.js")
    return path.read_text("utf-8")


class Page:
    """A page in the browser."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.address = ""

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file; the first panel is drawn when this returns."""
        self.driver.get("about:blank")  # the same file with another fragment would not be loaded
        self.address = path.as_uri()
        self.driver.get(self.address + fragment)
        self.until("return !document.querySelector('nav').hidden")

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> Any:
        return WebDriverWait(self.driver, 60, 0.02).until(lambda _: self.js(script, *arguments), script)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def each(self, selector: str, expression: str) -> list[Any]:
        """The value of an expression of JavaScript for each ``node``, all at one moment."""
        script = f"return [...document.querySelectorAll(arguments[0])].map((node) => {expression})"
        return list(self.js(script, selector))

    def texts(self, selector: str) -> list[str]:
        return self.each(selector, "node.textContent")

    def attributes(self, selector: str, name: str) -> list[str | None]:
        return self.each(selector, f"node.getAttribute('{name}')")

    def weights(self, selector: str) -> list[float]:
        """The weights that nodes are painted with."""
        return self.each(selector, "+node.style.getPropertyValue('--w')")

    @property
    def fragment(self) -> str:
        """What follows # in the address."""
        return str(self.js("return location.hash"))[1:]

    def keys(self, *keys: str, held: str | None = None) -> None:
        """Press keys where the focus is, perhaps while another is held."""
        actions = ActionChains(self.driver, duration=0)
        (actions.key_down(held).send_keys(*keys).key_up(held) if held else actions.send_keys(*keys)).perform()

    def type(self, selector: str, text: str) -> None:
        """Replace the text of a box at once."""
        script = "const [box, text] = arguments; box.focus(); box.value = text; box.dispatchEvent(new Event('input'))"
        self.js(script, self.find(selector), text)

    def size(self, width: int, theme: str = "light") -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 900}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.js("return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")

    @contextmanager
    def touched(self, width: int) -> Iterator[None]:
        """Emulate a screen of this width that is touched."""
        self.size(width)
        emulate = partial(self.driver.execute_cdp_cmd, "Emulation.setTouchEmulationEnabled")
        emulate({"enabled": True, "maxTouchPoints": 1})
        try:
            yield
        finally:
            emulate({"enabled": False})

    def touch(self, selector: str, to: float | None = None) -> None:
        """Scroll to an element as a browser does, and tap its middle, or drag from there to a share of its width."""
        script = """
            const node = document.querySelector(arguments[0]);
            node.scrollIntoView({block: "nearest"});
            const { x, y, width, height } = node.getBoundingClientRect();
            return [x, y + height / 2, width];
        """
        left, y, width = self.js(script, selector)
        mouse = PointerInput(POINTER_TOUCH, "finger")  # type: ignore[no-untyped-call]
        actions = ActionBuilder(self.driver, mouse=mouse, duration=0)  # one command: a slow finger would hold, not tap
        finger: Any = actions.pointer_action
        finger.move_to_location(int(left + width / 2), int(y)).pointer_down()
        for share in [] if to is None else np.linspace(0.5, to, 9).tolist():
            finger.move_to_location(int(left + share * width), int(y))
        if to is not None:
            finger.pause(0.2)  # a finger that lifts while it moves flings, and a tap stops the fling
        finger.pointer_up()
        actions.perform()

    def choose(self, label: str, text: str) -> None:
        """Choose an entry of the drop-down list of the panel that is shown."""
        script = """
            const select = [...document.querySelectorAll("main > section:not([hidden]) label.control")]
              .find((node) => node.firstChild.textContent === arguments[0]).querySelector("select");
            const option = [...select.options].find((each) => each.text === arguments[1]);
            select.value = option.value;
            select.dispatchEvent(new Event("change"));
        """
        self.js(script, label, text)

    def console(self) -> list[str]:
        """Errors and warnings since the last call, violations of the content security policy among them."""
        return [entry["message"] for entry in self._log("browser") if entry["level"] != "INFO"]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(kind))  # type: ignore[no-untyped-call]

    def faults(self) -> list[str]:
        """The serious and critical faults that axe-core finds."""
        if not self.js("return 'axe' in window"):
            self.js(axe_source())
        found = self.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        return [
            f"{fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]}: {fault['nodes'][0]['failureSummary']}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]


@contextmanager
def opened() -> Iterator[Page]:
    """Start a browser; it ends with the block."""
    program, driver_path = browser()
    options = webdriver.ChromeOptions()
    options.binary_location = program
    arguments = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900")
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(driver_path))
    try:
        yield Page(driver)
    finally:
        driver.quit()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; give the address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
