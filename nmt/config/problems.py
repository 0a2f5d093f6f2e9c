"""Errors of pydantic, explained in terms of the configuration."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic_core import ErrorDetails

from nmt.config.foreign_keys import SCORES, counterpart
from nmt.config.schema import AnyAttention, Config, Dropout, MovingAverage, Problem, Sampling, Score, Section, listed
from nmt.config.schema_map import Place, are_corpora, choices, expected, find, keys_by_name, variants_of
from nmt.config.yaml12 import missing_space
from nmt.errors import nearest

LONGEST_SHOWN = 60
"""Characters of a value that a message quotes."""
SINGLE = {Dropout: ("embedding", "annotation", "readout"), MovingAverage: ("decay",), Sampling: ("alpha",)}
"""The keys of a section that a single number between 0 and 1 may have been meant for."""
ELSEWHERE = {("transformer", "model.attention.heads"): "there is model.decoder.heads"}
"""Keys that another section has for a type."""
MOST_KEYS = 3
"""Keys that a message suggests."""


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
    meant = next((SINGLE[variant] for variant in variants.values() if variant in SINGLE), ())
    if meant and isinstance(found, float) and 0 <= found < 1:
        return f"; write {{{', '.join(f'{name}: {found}' for name in meant)}}}"
    if isinstance(found, int | float) and expected(place.annotation).startswith("text"):
        return f"; write '{show(found)}', in quotes"
    return ""


def _not_one_of(found: Any, words: Sequence[str]) -> str:
    hints = nearest(found, words) if isinstance(found, str) else []
    if words == get_args(Score) and isinstance(found, str) and found in SCORES:
        hints = [f"use {SCORES[found]}"]
    elif words == list(variants_of(AnyAttention)) and found in get_args(Score):
        hints = [f"for the score, write {{type: {'bahdanau' if found == 'additive' else 'luong'}, score: {found}}}"]
    return "; ".join([f"{show(found)} is not one of {', '.join(words)}", *hints])


def _unknown_key(place: Place, location: Sequence[str | int], root: type[Section]) -> str:
    name = str(location[-1])
    having = [tag for tag, variant in place.alternatives.items() if name in variant.model_fields]
    if having:
        chosen = location[-2]
        what = "a corpus with the key" if are_corpora(place.alternatives) else "type"
        hint = ELSEWHERE.get((str(chosen), place.key), "leave it out")
        return f"has no effect for {what} '{chosen}', only for {listed(map(repr, having))}; {hint}"
    if hint := missing_space(name):
        return f"unknown key; {hint}"
    if root is Config and (foreign := counterpart(name)):
        return f"unknown key; use {foreign}"
    here = list(place.section.model_fields)
    elsewhere = keys_by_name(root)
    known = name if name in elsewhere else next(iter(get_close_matches(name, elsewhere, 1, cutoff=0.8)), "")
    hints = [] if name in elsewhere else nearest(name, here)
    if known not in here and known:
        places = [key if "." in key else f"{key} at the top level" for key in elsewhere[known][:MOST_KEYS]]
        hints.append(f"there is {', '.join(places)}")
    return "; ".join(["unknown key", *(hints or [f"the keys here are {', '.join(here)}"])])
