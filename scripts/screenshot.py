"""Take a picture of a page in a state, in headless Chromium: screenshot.py runs/demo/report.html#film=2 film.png."""

import argparse
import io
import shutil
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

COLORS = 128


def screenshot(address: str, output: Path, size: tuple[int, int], seconds: float) -> None:
    """Open an address in a window of (width, height) pixels, wait, and write a PNG."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(address)
        time.sleep(seconds)  # the page may translate meanwhile
        picture = Image.open(io.BytesIO(driver.get_screenshot_as_png()))
        picture.convert("RGB").quantize(COLORS).save(output, optimize=True)
    finally:
        driver.quit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="FILE#STATE")
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, nargs=2, default=(1200, 1300), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--seconds", type=float, default=5.0, help="to wait for the page")
    arguments = parser.parse_args()
    file, _, state = arguments.address.partition("#")
    address = f"{Path(file).resolve().as_uri()}#{state}"
    screenshot(address, arguments.output, arguments.size, arguments.seconds)
