"""The handle a processor's ``init`` gets: one that records, and one that opens state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NoReturn

from pyspark.sql.streaming.stateful_processor import (
    ListState,
    MapState,
    StatefulProcessorHandle,
    ValueState,
)
from pyspark.sql.types import StructType

from statemigrate.access import DualAccess, DualList
from statemigrate.deployment import Declared, Kind
from statemigrate.embedded.keys import KeyCodec
from statemigrate.embedded.rows import RowCodec
from statemigrate.embedded.states import (
    EmbeddedListState,
    EmbeddedMapState,
    EmbeddedValueState,
    GroupingKey,
)
from statemigrate.errors import StartupError, UnsupportedError
from statemigrate.formats import Struct

Open = Callable[[Declared], DualAccess[Any]]


class EmbeddedHandle(StatefulProcessorHandle):
    """PySpark's handle over the embedded engine.

    ``open_access`` gives the dual access of a declared variable. Timers and time to live are
    refused: silently ignoring either would change what the processor computes.
    """

    def __init__(self, open_access: Open) -> None:
        self.key = GroupingKey()
        self._open = open_access

    def getValueState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> ValueState:
        """The value state ``stateName``, in the format of the store's target revision."""
        declared = self._declared(stateName, "value", schema, ttlDurationMs)
        return EmbeddedValueState(self._open(declared), RowCodec(declared.schema), self.key)

    def getListState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> ListState:
        """The list state ``stateName``, its elements in the format of the target revision."""
        declared = self._declared(stateName, "list", schema, ttlDurationMs)
        access = self._open(declared)
        assert isinstance(access, DualList)  # noqa: S101 - the opener follows the declared kind
        return EmbeddedListState(access, RowCodec(declared.schema), self.key)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        """The map state ``stateName``, its values in the format of the target revision."""
        user_key = struct_of(userKeySchema)
        declared = self._declared(stateName, "map", valueSchema, ttlDurationMs, user_key)
        access = self._open(declared)
        return EmbeddedMapState(access, RowCodec(declared.schema), KeyCodec(user_key), self.key)

    def registerTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def deleteTimer(self, expiryTimestampMs: int) -> NoReturn:  # noqa: ARG002
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def listTimers(self) -> Iterator[int]:
        """Refused: the embedded engine has no timers."""
        raise _unsupported("timers")

    def deleteIfExists(self, stateName: str) -> NoReturn:
        """Refused: it would drop values that were never migrated, without a word."""
        raise UnsupportedError(
            f"deleteIfExists({stateName!r}) is not available on the embedded engine",
            expected="state variables the processor declares",
            found="a variable to drop with all its values",
            next_action="stop declaring the variable: its values stay in the checkpoint, unused",
            store=stateName,
        )

    def _declared(
        self,
        name: str,
        kind: Kind,
        schema: StructType | str,
        ttl: int | None,
        user_key: StructType | None = None,
    ) -> Declared:
        if ttl is not None:
            raise _unsupported(f"time to live (state {name})")
        return Declared(name, kind, struct_of(schema), user_key)


def declared_variables(processor: Any) -> tuple[Declared, ...]:
    """The state variables a processor's ``init`` asks for, found by calling it.

    The variables handed out belong to no state: as with PySpark, ``init`` may only create them.
    It is called on a copy, since it may open what cannot travel to the workers.
    """
    found: list[Declared] = []

    def record(declared: Declared) -> DualAccess[Any]:
        if any(each.store == declared.store for each in found):
            raise StartupError(
                f"the processor declares the state {declared.store} twice",
                expected="one getValueState, getListState or getMapState call a name",
                found=f"a second one, for {declared.kind} state",
                next_action="give one of the two another name",
                store=declared.store,
            )
        found.append(declared)
        return _unopened(declared.kind)

    copy(processor).init(EmbeddedHandle(record))
    return tuple(found)


def struct_of(schema: StructType | str) -> StructType:
    """A schema as PySpark takes it, a type or a DDL string, as a type; needs no JVM."""
    return schema if isinstance(schema, StructType) else Struct(schema).struct_type()


def _unopened(kind: Kind) -> DualAccess[Any]:
    access = DualList if kind == "list" else DualAccess
    return access.__new__(access)


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"the embedded engine has no {what}",
        expected="state without timers and without time to live",
        found=what,
        next_action="run this processor with transformWithState on Spark's own state store, or "
        "keep the time in the value and compare it in handleInputRows",
    )
