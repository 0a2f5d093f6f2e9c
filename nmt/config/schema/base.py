"""Base of the schema's sections: types of values, and registries of the parts that ``type`` chooses.

A part is a class of options and what builds it. The options are here, so that reading a configuration needs no
PyTorch; ``nmt.model`` and ``nmt.training.optimizer`` build the parts::

    @ENCODERS.register
    class ForwardEncoder(Encoder):
        type: Literal["forward"]

    @ENCODERS.builds(schema.ForwardEncoder)
    class ForwardEncoder(nn.Module): ...
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, TypeAdapter, model_validator
from pydantic.functional_validators import AfterValidator
from pydantic_core import CoreSchema, core_schema

LARGEST = (1 << 63) - 1  # what islice takes
Size = Annotated[int, Field(ge=1, le=LARGEST)]
Width = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=64)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
PathText = Annotated[Text, AfterValidator(os.path.expanduser)]  # "~" is the home directory
LARGEST_BEAM = 1000
Beam = Annotated[int, Field(ge=1, le=LARGEST_BEAM)]
Pieces = Annotated[int, Field(ge=1, le=1 << 24)]


class Problem(NamedTuple):
    """One problem of a configuration."""

    key: str
    """Dotted; empty for the configuration as a whole."""
    text: str
    """The value found and the values allowed."""
    of_other_type: bool = False
    """Whether the key is one of another ``type`` of its section."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}" if self.key else self.text


class Section(BaseModel):
    """Section of the configuration, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _with_tuples(cls, values: Any) -> Any:
        """YAML has lists where the schema has tuples."""
        if not isinstance(values, dict):
            return values
        return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


# --- parts ----------------------------------------------------------------------------------------------------------

Options = TypeVar("Options", bound=Section)
Builder = TypeVar("Builder", bound=Callable[..., Any])


class Registry:
    """The variants of one kind of part: the options of each by its ``type``, and the builder of each."""

    def __init__(self) -> None:
        self.options: dict[str, type[Section]] = {}
        self.builders: dict[type[Section], Callable[..., Any]] = {}

    def register(self, options: type[Options]) -> type[Options]:
        """Allow these options, under each word of ``type``. Raises TypeError without one, ValueError for one in use."""
        field = options.model_fields.get("type")
        if field is None or get_origin(field.annotation) is not Literal:
            raise TypeError(f"{options.__name__}.type: must be a Literal of the words that select it: Literal['NAME']")
        for name in get_args(field.annotation):
            if name in self.options:
                raise ValueError(f"type '{name}' is taken by {self.options[name].__name__}")
            self.options[name] = options
        return options

    def builds(self, options: type[Section]) -> Callable[[Builder], Builder]:
        """Name what builds the part of these options, and of subclasses without a builder of their own: a class or
        function of the options and of what the part is built around, as :mod:`nmt.model.build` passes it."""

        def add(builder: Builder) -> Builder:
            self.builders[options] = builder
            return builder

        return add

    def build(self, options: Section, *around: Any) -> Any:
        """Build the part. Raises LookupError if nothing builds these options."""
        for kind in type(options).__mro__:
            if kind in self.builders:
                return self.builders[kind](options, *around)
        name = type(options).__name__
        raise LookupError(f"nothing builds {name}: decorate what does with builds({name}), and import it")


@dataclass(frozen=True)
class Choice:
    """Annotation of a section that is chosen by its ``type``; a word alone is a type with its defaults."""

    usual: str | None = None
    """The type of a section that names none; None: it has to name one."""
    registry: Registry | None = None
    """The variants are those that it has when a section is read; None: the members of the annotated union."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.registry is None:
            union = handler.generate_schema(Annotated[source, Discriminator("type")])
            return core_schema.no_info_before_validator_function(self._with_type, union)
        return core_schema.no_info_plain_validator_function(self._registered)

    def _with_type(self, value: Any) -> Any:
        if isinstance(value, str):
            return {"type": value}
        return {"type": self.usual, **value} if isinstance(value, dict) and self.usual is not None else value

    def _registered(self, value: Any) -> Any:
        assert self.registry is not None
        return _union(tuple(dict.fromkeys(self.registry.options.values()))).validate_python(self._with_type(value))


@cache
def _union(kinds: tuple[type[Section], ...]) -> TypeAdapter[Any]:
    union: Any = Annotated[reduce(or_, kinds), Discriminator("type")]
    return TypeAdapter(union)
