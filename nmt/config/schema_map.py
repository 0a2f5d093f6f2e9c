"""Lookup of keys in the schema, and descriptions of the values they allow."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import Tag

from nmt.config.schema import CORPUS_KINDS, Choice, Config, Section

Variants = Mapping[str, type[Section]]
"""The sections that a key allows, by the type or key that selects them."""


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


KEY = "[key]"
"""What pydantic appends to the location of a mapping's key that is wrong."""


def find(location: Sequence[str | int], root: type[Section] = Config) -> Place:
    """Find a location of pydantic, which names the selected variant of each section."""
    key, annotation = "", annotation_of(root, "")
    section = root
    options = alternatives = siblings = variants_of(root)
    for part in location:
        if len(options) > 1 and part in options:
            options = {str(part): options[str(part)]}
        elif isinstance(part, int):
            key, annotation = f"{key}[{part}]", get_args(_bare(annotation))[0]
        elif part == KEY:  # not the value but the key itself, which the location already names
            break
        elif values := _values_of(annotation):
            key, annotation = f"{key}.{part}", values
            options = siblings = variants_of(annotation)
        else:
            section, alternatives = next(iter(options.values())), siblings
            key = f"{key}.{part}" if key else part
            annotation = annotation_of(section, part)
            options = siblings = variants_of(annotation)
    return Place(key, section, alternatives, annotation)


def annotation_of(section: type[Section], name: str) -> Any:
    """The type of a field, bounds included; None if there is no such field."""
    field = section.model_fields.get(name)
    if field is None or not field.metadata:
        return field and field.annotation
    return Annotated[field.annotation, *field.metadata]


def _values_of(annotation: Any) -> Any:
    """The type of the values of a mapping, which may be null; None for another type."""
    bare = _bare(annotation)
    members = get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)
    return next((get_args(member)[1] for member in members if get_origin(member) is dict), None)


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def variants_of(annotation: Any, tag: str = "") -> Variants:
    """The sections that a type allows, by tag; none for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return {tag or next(iter(choices(annotation_of(annotation, "type"))), ""): annotation}
    if get_origin(annotation) is Annotated:
        base, *extras = get_args(annotation)
        if choice := next((extra for extra in extras if isinstance(extra, Choice)), None):
            return choice.registry.options
        return variants_of(base, next((extra.tag for extra in extras if isinstance(extra, Tag)), tag))
    return {key: kind for member in get_args(annotation) for key, kind in variants_of(member, tag).items()}


def are_corpora(variants: Variants) -> bool:
    """Whether the variants are kinds of a corpus, each selected by a key that only it has."""
    return variants.keys() >= CORPUS_KINDS.keys()


@cache
def keys_by_name(root: type[Section] = Config) -> Mapping[str, Sequence[str]]:
    """The keys that end in each name of the schema."""
    found: dict[str, list[str]] = {}
    for key in _keys(root, ""):
        keys = found.setdefault(key.rpartition(".")[2], [])
        if key not in keys:
            keys.append(key)
    return found


def _keys(section: type[Section], prefix: str) -> Iterator[str]:
    for name in section.model_fields:
        yield f"{prefix}{name}"
        for variant in variants_of(annotation_of(section, name)).values():
            yield from _keys(variant, f"{prefix}{name}.")


# --- descriptions -----------------------------------------------------------------------------------------------------

KINDS = {
    int: "a whole number",
    float: "a number",
    str: "text that is not empty",
    bool: "true or false",
    NoneType: "null",
}
LIMITS = {"ge": "of at least", "gt": "above", "le": "up to", "lt": "below"}


def choices(annotation: Any) -> Sequence[str]:
    """The words that a type allows; none for a type that is not a choice of words."""
    bare = _bare(annotation)
    return get_args(bare) if get_origin(bare) is Literal else ()


def expected(annotation: Any, bounds: Sequence[Any] = ()) -> str:
    """Describe the values of a type."""
    origin, members = get_origin(annotation), get_args(annotation)
    if (variants := variants_of(annotation)) or _values_of(annotation):
        return _expected_section(variants)
    if origin is Annotated:
        extras = [part for extra in members[1:] for part in getattr(extra, "metadata", [extra])]
        return expected(members[0], [*bounds, *extras])
    if origin in (Union, UnionType):
        return " or ".join(expected(member, bounds) for member in members)
    if origin is Literal:
        return f"one of {', '.join(members)}"
    if origin is tuple:
        size = "one or more" if Ellipsis in members else str(len(members))
        return f"a list of {size}, each {expected(members[0])}"
    limits = [
        f"{words} {getattr(bound, name):.9g}"
        for bound in bounds
        for name, words in LIMITS.items()
        if hasattr(bound, name)
    ]
    return f"{KINDS.get(annotation, annotation.__name__)} {' and '.join(limits)}".strip()


def _expected_section(variants: Variants) -> str:
    if not variants:
        return "a section of names"
    if len(variants) == 1:
        return "a section of keys and values"
    if are_corpora(variants):
        return f"a section with one of the keys {', '.join(variants)}"
    return f"a section with a type: {', '.join(variants)}"
