"""A trained network in a browser: the engine in JavaScript, and the export of a run for it."""

from nmt.config import schema
from nmt.errors import ConfigError

CELLS = ("gru", "lstm", "ssru")
SCORES = ("additive", "concat", "coverage", "dot", "scaled_dot", "general", "cosine", "location")
"""Those of the engine: engine/cells.js, engine/attention.js."""


def refuse_unknown_parts(model: schema.Model) -> None:
    """Raise ConfigError for a network that the engine does not run, with the key that says so."""
    attention, problems = model.attention, []
    for name in ("encoder", "decoder"):
        if (kind := getattr(model, name).type) not in CELLS:
            found = f"the engine runs {', '.join(CELLS)}, not '{kind}'; for Transformers: nmt-export --ctranslate2"
            problems.append(f"model.{name}.type: {found}")
    if isinstance(attention, schema.ScoredAttention):
        if (kind := attention.score.type) not in SCORES:
            problems.append(f"model.attention.score: the engine has {', '.join(SCORES)}, not '{kind}'")
    elif attention.type != "none":
        problems.append(f"model.attention.type: the engine has no attention '{attention.type}'")
    ConfigError.raise_if_any(problems)
