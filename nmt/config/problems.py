"""Descriptions of the schema's keys, and pydantic's errors explained by key, value and permitted values."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import Tag
from pydantic_core import ErrorDetails

from nmt.config.schema import CORPUS_KINDS, Choice, Config, Problem, Section, listed
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


# --- explanations -----------------------------------------------------------------------------------------------------


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
