"""The aggregate functions of an operator, and the fields of state that each of them keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemigrate.rewrite.plan.pairing.types import is_same, type_text

BufferField = tuple[str, Any]
"""The name of a field of a function's buffer, and its type in Spark's JSON form."""


@dataclass(frozen=True)
class AggregateFunction:
    """A function in the order of the plan, and the ``fields`` that its buffer has, in theirs.

    ``text`` is what users know it by, as ``max(amount)``. ``meaning`` is the same expression by
    what it is computed from, so that it can be compared with one of another code; it is empty where
    no code was seen. ``uncast`` is the meaning without casts of the arguments. ``function`` is
    Spark's name of the function, ``argument`` the type of its first argument, ``result`` the
    column that it becomes. ``empty`` has what the buffer of a group without rows has, as JSON's
    plain values by field; None where that is not known. The buffer of one that ``is_opaque`` is
    bytes that only the function reads.
    """

    text: str
    fields: tuple[BufferField, ...]
    meaning: str = ""
    uncast: str = ""
    function: str = ""
    argument: Any = None
    result: str = ""
    empty: tuple[Any, ...] | None = None
    is_opaque: bool = False

    @property
    def words(self) -> str:
        """How a question calls it."""
        named = self.result and self.result != self.text
        return f"{self.result} = {self.text}" if named else self.text

    def has_shape_of(self, other: AggregateFunction) -> bool:
        """Whether both keep fields of the same names and types, in the same order."""
        return fields_agree(self.fields, other.fields)


@dataclass(frozen=True)
class KnownFunctions:
    """What is known of the functions of aggregations, by the numbers of their operators.

    An operator that is not in ``old`` or ``new`` has functions that no code has shown.
    """

    old: Mapping[int, tuple[AggregateFunction, ...]] = field(default_factory=dict)
    new: Mapping[int, tuple[AggregateFunction, ...]] = field(default_factory=dict)


def fields_agree(one: Sequence[BufferField], other: Sequence[BufferField]) -> bool:
    """Whether two sequences of fields are the same in names and types."""
    return len(one) == len(other) and all(
        before[0] == after[0] and is_same(before[1], after[1])
        for before, after in zip(one, other, strict=True)
    )


def fields_of(struct: Mapping[str, Any]) -> tuple[BufferField, ...]:
    """The names and types of the fields of a struct in Spark's JSON form."""
    return tuple((str(each["name"]), each["type"]) for each in struct["fields"])


def fields_text(fields: Sequence[BufferField]) -> str:
    """Fields as a person reads them, the first of many."""
    shown = ", ".join(f"{name} {type_text(spark)}" for name, spark in fields[:8])
    return shown + (f" and {len(fields) - 8} more" if len(fields) > 8 else "")
