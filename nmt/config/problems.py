"""Descriptions of the schema's keys, and pydantic's errors explained by key, value and permitted values."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import Tag, ValidationError
from pydantic_core import ErrorDetails

from nmt.config.schema import Choice, Config, Problem, Section
from nmt.errors import nearest

LONGEST_SHOWN = 60
"""Characters of a value that a message quotes."""
MOST_KEYS = 3
"""Keys that a message suggests."""
WANTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list: [VALUE, ...]"),
    "bool_type": "true or false",
    "string_type": "text",
    **dict.fromkeys(("string_too_short", "too_short"), "not empty"),
    "too_long": "a list of {max_length}",
    "dict_type": "a section",
    "model_type": "a JSON object",
    "json_invalid": "JSON ({error})",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
"""The right values, for pydantic's types of errors."""

# --- the keys of the schema -------------------------------------------------------------------------------------------

Variants = Mapping[str, type[Section]]
"""The sections that a key allows, by the type or key that selects them."""


def annotation_of(section: type[Section], name: str) -> Any:
    """The type of a field, bounds included; None if there is no such field."""
    field = section.model_fields.get(name)
    if field is None or not field.metadata:
        return field and field.annotation
    return Annotated[field.annotation, *field.metadata]


def variants_of(annotation: Any, tag: str = "") -> Variants:
    """The sections that a type allows, by tag; none for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return dict.fromkeys([tag] if tag else choices(annotation_of(annotation, "type")) or [""], annotation)
    if get_origin(annotation) is Annotated:
        base, *extras = get_args(annotation)
        for extra in extras:
            if isinstance(extra, Choice) and extra.registry is not None:
                return extra.registry.options
            if isinstance(extra, Tag):
                tag = extra.tag
        return variants_of(base, tag)
    return {key: kind for member in get_args(annotation) for key, kind in variants_of(member, tag).items()}


@cache
def keys_by_name(root: type[Section] = Config) -> Mapping[str, Sequence[str]]:
    """The keys that end in each name of the schema."""
    found: dict[str, list[str]] = {}
    for key in dict.fromkeys(_keys(root, "")):
        found.setdefault(key.rpartition(".")[2], []).append(key)
    return found


def _keys(section: type[Section], prefix: str) -> Iterator[str]:
    for name in section.model_fields:
        yield f"{prefix}{name}"
        annotation = annotation_of(section, name)
        inner = f"{prefix}{name}.NAME." if _values_of(annotation) else f"{prefix}{name}."
        for variant in variants_of(annotation).values():
            yield from _keys(variant, inner)


def choices(annotation: Any) -> Sequence[str]:
    """The words that a type allows; none for a type that is not a choice of words."""
    return next((get_args(member) for member in _members(annotation) if get_origin(member) is Literal), ())


def _values_of(annotation: Any) -> Any:
    """The type of the values of a mapping, which may be null; None for another type."""
    return next((get_args(member)[1] for member in _members(annotation) if get_origin(member) is dict), None)


def _members(annotation: Any) -> Sequence[Any]:
    """The types of a union, or the type alone."""
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)


# --- where an error is ------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A key in the schema."""

    key: str
    """The key as a user writes it: ``training.optimizer.betas[1]``."""
    section: type[Section]
    """The section that contains the key."""
    alternatives: Variants
    """This section and its other variants."""
    annotation: Any
    """The type of the value; None for an unknown key."""


def find(location: Sequence[str | int], root: type[Section] = Config) -> Place:
    """Find a location of pydantic, which names the selected variant of each section."""
    key, annotation = "", annotation_of(root, "")
    section, alternatives = root, variants_of(root)
    chosen = siblings = alternatives
    for part in location:
        if part == "[key]":  # not the value but the key itself, which the location already names
            break
        if values := _values_of(annotation):
            key, annotation = f"{key}.{part}", values
        elif isinstance(part, int):
            key, annotation = f"{key}[{part}]", get_args(_members(annotation)[0])[0]
        elif len(chosen) > 1 and part in chosen:
            chosen = {part: chosen[part]}
            continue
        else:
            section, alternatives = next(iter(chosen.values())), siblings
            key, annotation = f"{key}.{part}" if key else part, annotation_of(section, part)
        chosen = siblings = variants_of(annotation)
    return Place(key, section, alternatives, annotation)


# --- explanations -----------------------------------------------------------------------------------------------------


def explain(error: ValidationError, root: type[Section] = Config) -> list[Problem]:
    """Explain what pydantic finds wrong with the schema, or with another ``root``."""
    found = error.errors(include_url=False)
    # pydantic counts only valid entries, so a list with a wrong one also seems too short
    real = [each for each in found if each["type"] != "too_short" or len(each["input"]) < each["ctx"]["min_length"]]
    return [_explain(each, root) for each in real]


def _explain(error: ErrorDetails, root: type[Section]) -> Problem:
    place = find(error["loc"], root)
    kind, found = error["type"], error["input"]
    if kind == "extra_forbidden":
        return _unknown_key(place, error["loc"], root)
    if kind == "value_error":
        return Problem(place.key, str(error["ctx"]["error"]))
    words = choices(place.annotation)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        words = list(variants_of(place.annotation))
        place = place._replace(key=f"{place.key}.type")
        found = found.get("type")
    if kind in ("missing", "union_tag_not_found"):
        return Problem(place.key, f"missing; must be one of {', '.join(words)}" if words else "missing")
    if words:
        hints = nearest(found, words) if isinstance(found, str) else []
        if any(getattr(each, "registry", None) for each in get_args(place.annotation)):
            hints.append("a part of your own is known where its module has been imported: NMT_IMPORT=MODULE")
        return Problem(place.key, "; ".join([f"{show(found)} is not one of {', '.join(words)}", *hints]))
    if variants := variants_of(place.annotation):
        kinds = f" of one of the kinds {', '.join(variants)}" if len(variants) > 1 else ""
        return Problem(place.key, f"found {show(found)}; must be a section{kinds}: {{KEY: VALUE, ...}}")
    return Problem(place.key, explain_value(error))


def explain_value(error: ErrorDetails) -> str:
    """Explain an error of a plain value."""
    wanted = WANTED.get(error["type"], "").format(**error.get("ctx", {}))
    return f"found {show(error['input'])}; {f'must be {wanted}' if wanted else error['msg']}"


def show(value: Any) -> str:
    """A value as a YAML file would have it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "...")
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return str(value).lower()


def _unknown_key(place: Place, location: Sequence[str | int], root: type[Section]) -> Problem:
    name = str(location[-1])
    having = [tag for tag, variant in place.alternatives.items() if name in variant.model_fields]
    if having:
        text = f"has no effect with '{location[-2]}', only with {' or '.join(map(repr, having))}; leave it out"
        return Problem(place.key, text, of_other_type=True)
    if places := keys_by_name(root).get(name):
        named = (each if "." in each else f"{each} at the top level" for each in places[:MOST_KEYS])
        return Problem(place.key, f"unknown key; there is {', '.join(named)}")
    here = list(place.section.model_fields)
    hints = nearest(name, here) or [f"the keys here are {', '.join(here)}"]
    return Problem(place.key, "; ".join(["unknown key", *hints]))
