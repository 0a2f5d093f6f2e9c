"""Errors of pydantic, explained in terms of the configuration."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from nmt.config.schema import Config, Problem, Section, listed
from nmt.config.schema_map import Place, are_corpora, choices, expected, find, keys_by_name, variants_of
from nmt.config.yaml12 import missing_space
from nmt.errors import nearest

LONGEST_SHOWN = 60
"""Characters of a value that a message quotes."""
MOST_KEYS = 3
"""Keys that a message suggests."""
ELSEWHERE = {
    "lr": "training.optimizer.learning_rate",
    "max_steps": "training.updates",
    "batch_size": "training.batch_tokens",
    "hidden_size": "model.encoder.hidden and model.decoder.hidden",
    "num_layers": "model.encoder.layers and model.decoder.layers",
    "emb_dim": "model.embeddings.size",
    "vocab_size": "tokenizer.vocabulary",
    "beam": "decoding.beam_size",
    "save_dir": "output",
}
"""Frequent keys of other toolkits, and ours; others are found by their resemblance."""


def explain(error: ErrorDetails, root: type[Section] = Config) -> Problem:
    """Explain one error of a pydantic ValidationError of the schema, or of another ``root``."""
    place = find(error["loc"], root)
    kind, found, context = error["type"], error["input"], error.get("ctx", {})
    words = choices(place.annotation)
    if kind == "extra_forbidden":
        return Problem(place.key, _unknown_key(place, error["loc"], root))
    if kind == "missing":
        return Problem(place.key, f"missing; must be {expected(place.annotation)}")
    if kind == "value_error":
        return Problem(place.key, str(context["error"]))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        words = list(variants_of(place.annotation))
        if kind == "union_tag_not_found":
            spaced = next(filter(None, map(missing_space, found)), "")
            missing = Problem(f"{place.key}.type", f"missing; must be one of {', '.join(words)}")
            return Problem(place.key, spaced) if spaced else missing
        place = place._replace(key=f"{place.key}.type")
        found = found["type"]
    if words:
        return Problem(place.key, _not_one_of(found, words))
    hint = _hint(place, found)
    return Problem(place.key, f"found {show(found)}; must be {expected(place.annotation)}{hint}")


def show(value: Any) -> str:
    """A value as a YAML file would have it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "...")
    return str(value).lower()


def _hint(place: Place, found: Any) -> str:
    """Suggest how to write the value that was probably meant."""
    variants = variants_of(place.annotation)
    if isinstance(found, str) and variants:
        if found in variants and not are_corpora(variants):
            return f"; write {{type: {found}}}"
        if hint := missing_space(found):
            return f"; {hint}"
    if isinstance(found, int | float) and expected(place.annotation).startswith("text"):
        return f"; write '{show(found)}', in quotes"
    return ""


def _not_one_of(found: Any, words: Sequence[str]) -> str:
    hints = []
    if isinstance(found, str):
        hints = [spaced] if (spaced := missing_space(found)) else nearest(found, words)
    return "; ".join([f"{show(found)} is not one of {', '.join(words)}", *hints])


def _unknown_key(place: Place, location: Sequence[str | int], root: type[Section]) -> str:
    name = str(location[-1])
    having = [tag for tag, variant in place.alternatives.items() if name in variant.model_fields]
    if having:
        chosen = location[-2]
        what = "a corpus with the key" if are_corpora(place.alternatives) else "type"
        return f"has no effect for {what} '{chosen}', only for {listed(map(repr, having))}; leave it out"
    if hint := missing_space(name):
        return f"unknown key; {hint}"
    if root is Config and name in ELSEWHERE:
        return f"unknown key; use {ELSEWHERE[name]}"
    here = list(place.section.model_fields)
    elsewhere = keys_by_name(root)
    known = name if name in elsewhere else next(iter(get_close_matches(name, elsewhere, 1, cutoff=0.8)), "")
    hints = [] if name in elsewhere else nearest(name, here)
    if known not in here and known:
        places = [key if "." in key else f"{key} at the top level" for key in elsewhere[known][:MOST_KEYS]]
        hints.append(f"there is {', '.join(places)}")
    return "; ".join(["unknown key", *(hints or [f"the keys here are {', '.join(here)}"])])
