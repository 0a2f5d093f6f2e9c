"""What training writes down: metrics.jsonl, TensorBoard, and a line of progress."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.tensorboard import SummaryWriter

from nmt.checkpoint import RunDirectory


class Log:
    """Three places that are told the same.

    Args:
        run: whose ``metrics.jsonl`` and ``tensorboard/`` are appended to.
        say: takes lines meant for a person.
        purge: after a resume, the step from which on TensorBoard forgets what it was told before.
    """

    def __init__(self, run: RunDirectory, say: Callable[[str], None], purge: int | None = None) -> None:
        self.say = say
        self._metrics = run.metrics.open("a", encoding="utf-8", newline="\n")
        self._board = SummaryWriter(str(run.tensorboard), purge_step=purge)

    def record(self, step: int, split: str, **values: Any) -> None:
        """One line of metrics.jsonl; numbers become TensorBoard scalars ``split/name``.

        JSON has no infinity and no NaN: such a number is null.
        """
        values = {name: None if _no_number(value) else value for name, value in values.items()}
        record = {"step": step, "split": split, **values}
        self._metrics.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        self._metrics.flush()
        for name, value in values.items():
            if isinstance(value, int | float):
                self._board.add_scalar(f"{split}/{name}", value, step)

    def text(self, step: int, name: str, markdown: str) -> None:
        """A text for TensorBoard."""
        self._board.add_text(name, markdown, step)

    def image(self, step: int, name: str, pixels: npt.NDArray[np.uint8]) -> None:
        """An image for TensorBoard, (height, width, 3)."""
        self._board.add_image(name, pixels, step, dataformats="HWC")

    def close(self) -> None:
        """Write out what is pending."""
        self._board.close()
        self._metrics.close()


def _no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def duration(seconds: float) -> str:
    """Seconds as a person says them: ``45s``, ``12m 05s``, ``3h 20m``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"
