"""The handle a processor's ``init`` gets, and what ``init`` asks of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import StructType

from statemigrate.deployment import Declared, Kind, access_for
from statemigrate.errors import FormatError, StartupError, UnsupportedError
from statemigrate.formats.struct import parse_ddl
from statemigrate.processor.variables import GroupingKey, dual_variable


class DualAccessHandle(StatefulProcessorHandle):
    """PySpark's handle, giving out state variables that read and write by dual access.

    An engine says in `variable` what a declared variable becomes; ``key`` is the key the processor
    is called for, set by the engine.
    """

    def __init__(self) -> None:
        self.key = GroupingKey()

    @abstractmethod
    def variable(self, declared: Declared) -> Any:
        """The state variable for what ``init`` declares."""

    def asked(
        self,
        kind: Kind,
        name: str,
        schema: StructType | str,
        ttl: int | None,
        user_key: StructType | str | None = None,
    ) -> Any:
        """The state variable that one of the methods below was called for."""
        key = None if user_key is None else struct_of(user_key)
        return self.variable(Declared(name, kind, struct_of(schema), key, ttl))

    def getValueState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> Any:
        """The value state ``stateName``, in the format of the store's target revision."""
        return self.asked("value", stateName, schema, ttlDurationMs)

    def getListState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> Any:
        """The list state ``stateName``, its elements in the format of the target revision."""
        return self.asked("list", stateName, schema, ttlDurationMs)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> Any:
        """The map state ``stateName``, its values in the format of the target revision."""
        return self.asked("map", stateName, valueSchema, ttlDurationMs, userKeySchema)


def never_dropped(store: str, engine: str, place: str) -> UnsupportedError:
    """The error for a variable that is to be dropped: values never migrated would go with it."""
    return UnsupportedError(
        "SM-START-027",
        f"deleteIfExists({store!r}) is not available on {engine}",
        expected="state variables the processor declares",
        found="a variable to drop with all its values",
        next_action=f"stop declaring the variable: its values stay in {place}, unused",
        store=store,
    )


class Listening(DualAccessHandle):
    """Calls ``record`` for each variable that ``init`` asks for, and ``drop`` for one it deletes.

    Whatever else it does has no effect.
    """

    def __init__(
        self, record: Callable[[Declared], Any], drop: Callable[[str], Any] | None = None
    ) -> None:
        super().__init__()
        self._record = record
        self._drop = drop

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        return self._record(declared)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Nothing to register with."""

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Nothing to delete from."""

    def listTimers(self) -> Iterator[int]:
        """No timers."""
        return iter(())

    def deleteIfExists(self, stateName: str) -> None:
        """Nothing to drop but what was recorded."""
        if self._drop is not None:
            self._drop(stateName)


def declared_variables(
    processor: Any, listening: Callable[[Callable[[Declared], Any]], DualAccessHandle]
) -> tuple[Declared, ...]:
    """The state variables a processor's ``init`` asks for, found by calling it.

    ``listening`` makes the engine's handle around a function that gets each variable. The
    variables handed out belong to no state: as with PySpark, ``init`` may only create them. It is
    called on a copy, since it may open what cannot travel to the workers.
    """
    found: list[Declared] = []
    key = GroupingKey()

    def record(declared: Declared) -> Any:
        if any(each.store == declared.store for each in found):
            raise StartupError(
                "SM-START-028",
                f"the processor declares the state {declared.store} twice",
                expected="one getValueState, getListState or getMapState call a name",
                found=f"a second one, for {declared.kind} state",
                next_action="give one of the two another name",
                store=declared.store,
            )
        found.append(declared)
        access = access_for(declared.kind)
        return dual_variable(declared, access.__new__(access), key)

    copy(processor).init(listening(record))
    return tuple(found)


def struct_of(schema: StructType | str) -> StructType:
    """A schema as PySpark takes it, a type or a DDL string, as a type; needs no JVM.

    Only where there is a session does Spark read what this package's own reading does not know.
    """
    if isinstance(schema, StructType):
        return schema
    try:
        return StructType.fromJson(parse_ddl(schema))
    except FormatError:
        if SparkSession.getActiveSession() is None:
            raise
        found: StructType = StructType.fromDDL(schema)  # type: ignore[assignment]
        return found
