"""What differs between the configurations of the systems, and whether that is the width of the encoder's vector."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nmt.config import Config
from nmt.config.schema import ScoredAttention
from nmt.report.records import Row

ELSEWHERE = ("output", "device", "threads", "kernels", "data.cache", "data.processes")
"""Keys that say where and how fast a run is made, not what it is."""
WIDTH = "model.encoder.hidden"
ATTENTION = "model.attention."


def flat(section: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten a section to dotted keys and values as text; "" for null."""
    values: dict[str, str] = {}
    for key, value in section.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            values[f"{prefix}{key}"] = "" if value is None else text
    return values


def differing_settings(configs: Sequence[Config]) -> list[dict[str, str]]:
    """Return for each system the dotted keys whose values are not the same in all systems; "" where unset."""
    every = [flat(config.model_dump(mode="json")) for config in configs]
    keys = [key for key in dict.fromkeys(key for one in every for key in one) if key not in ELSEWHERE]
    differing = [key for key in keys if len({one.get(key, "") for one in every}) > 1]
    return [{key: one.get(key, "") for key in differing} for one in every]


def is_hard(config: Config) -> bool:
    """Whether the attention reads one position in each step."""
    attention = config.model.attention
    return isinstance(attention, ScoredAttention) and attention.hard is not None


def bottleneck(names: Sequence[str], configs: Sequence[Config]) -> list[Row]:
    """Return the width of each system's vector, and whether it attends, if the systems differ in nothing else.

    The vector is the encoder's summary, as wide as its states, those of both directions where there are two. None
    unless there are two widths.
    """
    settings = differing_settings(configs)
    if any(key != WIDTH and not key.startswith(ATTENTION) for key in settings[0]):
        return []
    rows = []
    for name, config in zip(names, configs, strict=True):
        encoder = config.model.encoder
        ways = 2 if getattr(encoder, "directions", "forward") == "both" else 1
        attends = config.model.attention.type != "none"
        rows.append({"system": name, "width": ways * encoder.hidden, "attention": attends})
    return rows if len({row["width"] for row in rows}) > 1 else []
