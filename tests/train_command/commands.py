"""What the tests of ``nmt-train`` share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Train = Callable[..., tuple[int, str]]


def write_config(folder: Path, values: dict[str, Any]) -> Path:
    """As a file; JSON is YAML."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(values))
    return path


def refused(result: tuple[int, str]) -> list[str]:
    """The lines of an error."""
    code, err = result
    assert code == 2 and "Traceback" not in err
    return [line.removeprefix("nmt-train: error: ") for line in err.splitlines()]
