"""The entries of a store in its target's format, and keys as people type them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

from statemigrate.deployment import StorePlan
from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Struct, leaf_from_text, value_from_json
from statemigrate.state.project import Project
from statemigrate.state.protocol import Entry, State, planned

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

BlockWriter = Callable[[Sequence[Entry]], bytes]
"""What becomes of some entries; it is sent to other processes."""


@dataclass(frozen=True)
class StoreEntries:
    """Every key of a store once, as code for the target would access it; nothing is written."""

    state: State
    plan: StorePlan

    @classmethod
    def of(cls, state: State, store: str, project: Project) -> StoreEntries:
        """The entries of a store. Raises `StartupError` if its scripts and its state do not fit."""
        survey, lineages = project.survey, dict[str, Any]()
        if survey is not None:
            survey.require(store)
            lineages = dict(survey.lineages)
        return cls(state, planned(state, store, lineages, project))

    @property
    def key_type(self) -> StructType:
        """The columns of a key: those grouped by, for map state followed by the map's own."""
        from pyspark.sql.types import StructType

        declared = self.plan.declared
        own = () if declared.user_key is None else declared.user_key.fields
        return StructType([*self.state.key_of(declared.store).fields, *own])

    @property
    def value_type(self) -> DataType:
        """The type of a value, for list state an array."""
        from pyspark.sql.types import ArrayType

        value = self.plan.target.format.struct_type()
        return ArrayType(value) if self.plan.declared.variable_kind.has_several_values else value

    def under(self, key: tuple[Any, ...] | None) -> Iterator[Entry]:
        """The entries whose keys begin with ``key``; all for None."""
        return self.state.entries(self.plan, key)

    def parts(self, block: BlockWriter, tick: Callable[[int], None]) -> Iterator[IO[bytes]]:
        """The results of ``block`` for all entries, some thousands at a time, in their order.

        Each file has one block or several, one after the other, and is closed with the next.
        Several processes make blocks of a large state of the embedded engine, and ``block`` is sent
        to them. ``tick`` gets the number of entries so far.
        """
        from statemigrate.state.embedded import EmbeddedState, blocks_of

        if isinstance(self.state, EmbeddedState):
            blocks = self.state.blocks(self.plan)
            if not blocks.is_small:
                yield from blocks.parts(block, tick)
                return
        done = 0
        for number, data in blocks_of(self.state.entries(self.plan), block):
            done += number
            tick(done)
            yield BytesIO(data)


# Keys as people type them.


def key_from_texts(columns: StructType, texts: Sequence[str]) -> tuple[Any, ...]:
    """The key, or the beginning of one, that ``texts`` give column by column.

    A text column takes any text; the others numbers, ``true``, ISO dates and times, or ``null``; a
    struct such as a window takes JSON, as in ``{"start": "2026-01-01T00:00:00Z", "end": ...}``.
    Raises `ValueMismatchError` for a text that is not of its column's type, or one too many.
    """
    fields = Struct(columns).schema.fields
    if not 0 < len(texts) <= len(fields):
        raise ValueMismatchError(
            "SM-VALUE-012",
            f"a key of {len(fields)} columns was given {len(texts)} texts",
            expected=f"at most {', '.join(field.name for field in fields)}, in this order",
            found=" ".join(texts) or "nothing",
            next_action="give one text a column; fewer mean all keys that begin with them",
            field="key",
        )
    return tuple(
        _checked(leaf_from_text(field.type, text, field.name), columns, number, text)
        for number, (field, text) in enumerate(zip(fields, texts, strict=False))
    )


def keys_from_texts(columns: StructType, texts: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """What `key_from_texts` gives; of one text that is a JSON list, also the key that this lists.

    A dry run and `status --failed` print keys as such lists. A text column may hold what looks like
    one, so that both are meant then, the list first. Raises as `key_from_texts`.
    """
    listed = _listed(columns, texts[0]) if len(texts) == 1 else None
    if listed is None:
        return (key_from_texts(columns, texts),)
    try:
        return listed, key_from_texts(columns, texts)
    except ValueMismatchError:
        return (listed,)


def _listed(columns: StructType, text: str) -> tuple[Any, ...] | None:
    """The key, or its beginning, that a JSON list has; None for any other text."""
    from pyspark.sql.types import StructType

    try:
        items = json.loads(text) if text.startswith("[") else None
    except ValueError:
        return None
    if not isinstance(items, list) or not 0 < len(items) <= len(columns.fields):
        return None
    named = Struct(StructType(columns.fields[: len(items)]))
    names = [field.name for field in named.schema.fields]
    try:
        found = value_from_json(named, dict(zip(names, items, strict=True)))
        named.validate(found)
    except ValueMismatchError:
        return None
    return tuple(found[name] for name in names)


def _checked(value: Any, columns: StructType, number: int, text: str) -> Any:
    from pyspark.sql.types import StructType

    # The format knows what its type holds: the range of an integer, the digits of a decimal.
    field = columns.fields[number]
    try:
        Struct(StructType([field])).validate({field.name: value})
    except ValueMismatchError as error:
        raise error.but(
            summary=f"{text!r} is not a key of column {field.name}",
            next_action="type the key as its column has it",
            field=field.name,
        ) from error
    return value
