"""The logical view: a query's stores in their target format, from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from statemigrate.deployment import StorePlan
from statemigrate.errors import ValueMismatchError
from statemigrate.formats import Struct
from statemigrate.formats.json_values import leaf_from_text, value_from_json
from statemigrate.state.embedded import Block, EmbeddedState, blocks_of
from statemigrate.state.open import open_state
from statemigrate.state.project import Project
from statemigrate.state.protocol import Entry, planned

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from statemigrate.native.session import Spark


class StateReader:
    """The stores of a checkpoint in their target's format, even if values have not migrated yet.

    ``migrations`` is the folder of scripts, which stores with scripts need. ``targets`` names, by
    store, the revision to read in, the head by default; ``accept_edited`` names scripts that were
    edited after they were applied. The reader reads the last batch that was committed when it was
    made, on either engine. The query may be running, and the reader never writes to the checkpoint.
    Spark keeps that batch only for a while: if it is gone, `get` and `export` begin again. Spark's
    own state is read with ``spark``, the active session by default, or a function that makes one.
    ``operator`` is the number or name of the operator, if there are several, and ``stores`` has the
    project's names for the stores of operators, as in ``{"orders": "aggregation-0"}``. Use it as a
    context manager, or call `close`.

    Raises `CheckpointError` if the directory is not a checkpoint, or has no committed batch.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        *,
        migrations: str | Path | None = "migrations",
        targets: Mapping[str, str] | None = None,
        accept_edited: Sequence[str] = (),
        operator: int | str | None = None,
        stores: Mapping[str, str] | None = None,
        spark: Spark = None,
    ) -> None:
        self._project = Project(
            migrations, dict(targets or {}), stores or {}, spark, operator, tuple(accept_edited)
        )
        self._scripts = self._project.survey
        self._lineages = dict(self._scripts.lineages) if self._scripts else {}
        self._state = open_state(checkpoint, self._lineages, self._project)

    def __enter__(self) -> StateReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def batch(self) -> int:
        """The id of the batch that the reader reads, the last committed one."""
        return self._state.batch

    @property
    def engine(self) -> str:
        """The kind of state: "embedded", "native", or "paged"."""
        return self._state.engine

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores."""
        return tuple(self._state.stores)

    def key_type(self, store: str) -> StructType:
        """The columns of a key: those grouped by, for map state followed by the map's own."""
        from pyspark.sql.types import StructType

        user_key = self._plan(store).declared.user_key
        own = () if user_key is None else user_key.fields
        return StructType([*self._state.key_of(store).fields, *own])

    def value_type(self, store: str) -> DataType:
        """The type of a value, for list state an array."""
        from pyspark.sql.types import ArrayType

        plan = self._plan(store)
        value = plan.target.format.struct_type()
        return ArrayType(value) if plan.declared.kind == "list" else value

    def key_columns(self, store: str) -> tuple[str, ...]:
        """The names of a key's columns."""
        return tuple(self.key_type(store).fieldNames())

    def entries(self, store: str, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """Every key of ``store`` once, with its value.

        A key is a tuple of the grouping columns' values, for map state followed by those of the
        map's key; with ``key`` only keys that begin with it are read. A value is a dictionary by
        field name, for list state a list of them. Raises `StartupError` if scripts and state do not
        fit, `TransformError` for a value that does not migrate, `CorruptFileError` for a damaged
        checkpoint.
        """
        return self._state.entries(self._plan(store), key)

    def parts(self, store: str, block: Block, tick: Callable[[int], None]) -> Iterator[IO[bytes]]:
        """The results of ``block`` for all `entries`, some thousands at a time, in their order.

        Each file has one block or several, one after the other, and is closed with the next.
        Several processes make blocks of a large state of the embedded engine, and ``block`` is sent
        to them. ``tick`` gets the number of entries so far.
        """
        plan = self._plan(store)
        if isinstance(self._state, EmbeddedState):
            blocks = self._state.blocks(plan)
            if not blocks.is_small:
                yield from blocks.parts(block, tick)
                return
        done = 0
        for number, data in blocks_of(self._state.entries(plan), block):
            done += number
            tick(done)
            yield BytesIO(data)

    def get(self, store: str, *key: Any) -> Any | None:
        """The value under a key, given column by column; None if there is none."""
        return next((value for _, value in self.entries(store, key)), None)

    def close(self) -> None:
        """Release the resources of the reader."""
        self._state.close()

    def _plan(self, store: str) -> StorePlan:
        """How the store is read; raises what is wrong with this store's scripts."""
        if self._scripts is not None:
            self._scripts.require(store)
        return planned(self._state, store, self._lineages, self._project)


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
