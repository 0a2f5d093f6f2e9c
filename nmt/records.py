"""Frozen records of tensors: moved, reordered and cut in one place, whatever fields they have."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True)
class Record:
    """Tensors that share their first axis, the rows; also other records, and tuples of either.

    A subclass is a frozen dataclass. Fields of other types (a number, None) stay as they are.
    """

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Change every tensor: move it to a device, say."""
        return self._replaced(change, lambda record: record.map(change))

    def select(self, rows: Tensor) -> Self:
        """Reorder, repeat or drop rows: row r of the result is row ``rows[r]``."""
        return self._replaced(lambda tensor: tensor.index_select(0, rows), lambda record: record.select(rows))

    def expand(self, width: int) -> Self:
        """Repeat each row ``width`` times, the copies as neighbors."""
        return self._replaced(lambda tensor: tensor.repeat_interleave(width, 0), lambda record: record.expand(width))

    def _replaced(
        self, of_tensor: Callable[[Tensor], Tensor], of_record: "Callable[[Record], Record]", **given: Any
    ) -> Self:
        """Apply a function to each field, except for those that are ``given``."""
        names = (field.name for field in fields(self) if field.name not in given)
        changed = {name: self._changed(getattr(self, name), of_tensor, of_record) for name in names}
        return replace(self, **changed, **given)

    def _changed(
        self, value: Any, of_tensor: Callable[[Tensor], Tensor], of_record: "Callable[[Record], Record]"
    ) -> Any:
        """Apply a function to a field. A closure that calls itself would keep tensors alive as a reference cycle."""
        if isinstance(value, Tensor):
            return of_tensor(value)
        if isinstance(value, Record):
            return of_record(value)
        if isinstance(value, list | dict):
            raise TypeError(f"{type(self).__name__}: a {type(value).__name__} in a record; use a tuple")
        if isinstance(value, tuple):
            return tuple(self._changed(each, of_tensor, of_record) for each in value)
        return value
