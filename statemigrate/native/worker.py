"""The native engine's handle: Spark's own, with dual access in place of each variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pyspark
from pyspark.sql.types import StructType

from statemigrate.access import DualAccess
from statemigrate.deployment import (
    VARIABLE_KINDS,
    Declared,
    DeploymentSettings,
    Kind,
    StoredFamily,
    StorePlan,
    complement_of,
    missing_path,
)
from statemigrate.errors import StartupError
from statemigrate.families import Span
from statemigrate.native.control_rows import Arrived
from statemigrate.native.deployed_variables import DEPLOYED, Deployed, Stopwatch, Undeployable, Work
from statemigrate.native.deployment_check import is_next_batch
from statemigrate.native.variable_families import (
    VISIT,
    NativeFamily,
    NativeListFamily,
    NativeMapFamily,
    NativeValueFamily,
)
from statemigrate.native.versions import check_kind, release_line
from statemigrate.processor import (
    DualAccessHandle,
    OpenStores,
    Role,
    TupleCodec,
    TupleKeyCodec,
    dual_variable,
)

# Rows within a state value, which PySpark before 4.2 cannot write.
#
# It makes a Row of the generator over its elements, and fails to pickle that. A migrated variable
# hands out and takes Rows from the first batch on, whatever the version; code that relies on it
# must not stop when the migration is over and Spark's own variable takes the place of dual access.


_FIRST = (4, 2)
_WRITES = frozenset({"update", "put", "appendValue", "appendList", "updateValue"})


def taking_rows(state: Any, version: str) -> Any:
    """``state``, a variable of that version of PySpark, so that its values may hold Rows."""
    return state if release_line(version) >= _FIRST else _TakingRows(state)


class _TakingRows:
    """Everything is the variable's own, but what is written has tuples for Rows."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._state, name)
        if name not in _WRITES:
            return method
        return lambda *values, **named: method(*without_rows(list(values)), **without_rows(named))


def without_rows(value: Any) -> Any:
    """``value`` with a plain tuple for every tuple of another class, at any depth."""
    if isinstance(value, tuple):
        return tuple(without_rows(each) for each in value)
    if isinstance(value, list):
        return [without_rows(each) for each in value]
    if isinstance(value, dict):
        return {key: without_rows(each) for key, each in value.items()}
    return value


def variable_of(spark: Any, declared: Declared, name: str, schema: StructType) -> Any:
    """Spark's own variable of a name, of the kind that is declared."""
    return declared.variable_kind.variable(spark, name, schema, declared.user_key, declared.ttl)


class VariableStores(OpenStores):
    """The stores whose families are variables of Spark's, at the key that it calls for.

    ``grouping`` is that key, for error messages.
    """

    asks_after_hit = False

    def __init__(self, spark: Any, settings: DeploymentSettings) -> None:
        super().__init__(write_on_read=settings.write_on_read, on_error=settings.on_error)
        self.grouping: tuple[Any, ...] = ()
        self.families: list[NativeFamily] = []
        self._spark = spark
        self._migrating: list[DualAccess[Any]] = []

    def add(self, plan: StorePlan) -> DualAccess[Any]:
        """See `OpenStores`."""
        access = super().add(plan)
        if plan.migrates_in_background:
            self._migrating.append(access)
        return access

    def migrate(self, span: Span) -> None:
        """Migrate everything that the current key has in an older family."""
        for access in self._migrating:
            for source in access.sources:
                for key, value in source.family.scan(span):
                    self.backfill(access, source, key, value)

    def family(self, plan: StorePlan, family: StoredFamily, role: Role) -> Any:
        """See `OpenStores`."""
        declared = plan.declared
        if role == "complement":
            declared = replace(declared, kind=declared.variable_kind.complement)
        schema = declared.schema if role == "target" else family.format.struct_type()
        opened: NativeFamily
        state, rows = variable_of(self._spark, declared, family.name, schema), TupleCodec(schema)
        if declared.user_key is not None:
            opened = NativeMapFamily(family, state, rows, TupleKeyCodec(declared.user_key))
        elif declared.variable_kind.has_several_values:
            opened = NativeListFamily(family, state, rows)
        else:
            opened = NativeValueFamily(family, state, rows)
        self.families.append(opened)
        return opened

    def shown(self, declared: Declared, key: bytes) -> tuple[Any, ...]:
        """See `OpenStores`."""
        user_key = declared.user_key
        return self.grouping + (
            () if user_key is None else TupleKeyCodec(user_key).decode(key[VISIT:])
        )

    def migrates_on_read(self, plan: StorePlan) -> bool:
        """See `OpenStores`: a value that would live longer for it stays where it is."""
        return self._write_on_read and plan.migrates_in_background

    def refuse(self, plan: StorePlan, family: StoredFamily) -> NoReturn:
        """See `OpenStores`."""
        held = f"family {family.name} holds a value of this key"
        at = repr(self.grouping)
        raise missing_path(plan.lineage, family.revision, plan.target.revision, held=held, at=at)


class NativeHandle(DualAccessHandle):
    """Gives out Spark's own variable where a store has one family, dual access where it has more.

    `visit` moves on to the key the processor is called for.
    Only with ``retires`` are drained families dropped: at the batch they were seen to be drained.
    """

    def __init__(self, spark: Any, deployed: Deployed, *, retires: bool = True) -> None:
        super().__init__()
        self._spark = spark
        self._deployed = deployed
        self._retires = retires
        self._visits = 0
        self._stores = VariableStores(spark, deployed.settings)

    @property
    def is_dual(self) -> bool:
        """Whether any store has more than its target family."""
        return bool(self._stores.families)

    def visit(self, key: tuple[Any, ...]) -> None:
        """Begin with another grouping key."""
        self._stores.grouping = key
        self._visits += 1
        self.key.data = self._visits.to_bytes(VISIT, "big")

    def leave(self) -> None:
        """Write what the processor left to be written for the current key."""
        for family in self._stores.families:
            family.flush()

    def report(self, work: Work | None) -> None:
        """Add what was migrated since the handle was made to the deployment's counts."""
        if self._deployed.counts is not None:
            self._deployed.counts.add(self._stores.accesses, self._stores.quarantined, work)

    def migrate(self) -> None:
        """Migrate everything the current key has in an older family: one step of the backfill.

        Under ``on_error="quarantine"`` a value whose transform fails stays where it is.
        """
        self._stores.migrate(Span.prefix(self.key.data))

    def asked(
        self,
        kind: Kind,
        name: str,
        schema: StructType | str,
        ttl: int | None,
        user_key: StructType | str | None = None,
    ) -> Any:
        """See `DualAccessHandle.asked`; a store without scripts is Spark's own."""
        if name not in self._deployed.lineages:
            return VARIABLE_KINDS[kind].variable(self._spark, name, schema, user_key, ttl)
        return super().asked(kind, name, schema, ttl, user_key)

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        plan = self._deployed.plan(declared)
        self._let_go(declared)
        if plan is None:
            return variable_of(self._spark, declared, declared.store, declared.schema)
        if plan.dropped is not None and self._retires:
            self._spark.deleteIfExists(plan.dropped.name)
        if not plan.sources and plan.complement is None:
            target = variable_of(self._spark, declared, plan.target.name, declared.schema)
            return taking_rows(target, pyspark.__version__)
        check_kind(declared.kind, declared.store)
        return dual_variable(declared, self._stores.add(plan), self.key)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Spark's own."""
        self._spark.registerTimer(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Spark's own."""
        self._spark.deleteTimer(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:
        """Spark's own."""
        timers: Iterator[int] = self._spark.listTimers()
        return timers

    def deleteIfExists(self, stateName: str) -> None:
        """Drop a variable with everything in it; of a store with scripts, all its families."""
        for name in self._deployed.family_names(stateName):
            self._spark.deleteIfExists(name)
        if stateName in self._deployed.lineages:
            self._spark.deleteIfExists(complement_of(stateName).name)

    def _let_go(self, declared: Declared) -> None:
        for family in self._deployed.drained.get(declared.store, ()):
            if self._deployed.settings.retire_drained:
                if self._retires:
                    self._spark.deleteIfExists(family.name)
            else:
                # Spark forgets a variable that is not declared.
                variable_of(self._spark, declared, family.name, family.format.struct_type())


# Around a processor's calls: dual access in ``init``, and the end of each key's visit.
#
# Spark calls the same methods as always. Nothing of this is in the way where a query has nothing to
# migrate and no backfill source.


def begin(processor: Any, handle: Any, init: Callable[[Any, Any], None]) -> None:
    """What a marked processor's ``init`` does: the user's ``init`` with the engine's handle."""
    if isinstance(handle, DualAccessHandle):
        init(processor, handle)
        return
    deployed = _deployed(processor)
    retires = deployed.observed is None or is_next_batch(deployed.observed, handle)
    native = NativeHandle(handle, deployed, retires=retires)
    init(processor, native)
    _surround(processor, native)


def _deployed(processor: Any) -> Deployed:
    found: Deployed | Undeployable | None = vars(processor).get(DEPLOYED)
    if isinstance(found, Undeployable):
        raise found.error
    if found is None:
        name = type(processor).__qualname__
        raise StartupError(
            "SM-START-015",
            f"{name} was not prepared for Spark's own state",
            expected="@migrated on the class that is instantiated",
            found=f"{name}, a subclass of a class that has it, or one made without __init__",
            next_action=f"put @migrated on {name}, or pass migrated({name}(...), ...)",
        )
    return found


def _surround(processor: Any, handle: NativeHandle) -> None:
    # On the instance, which lives as long as the task: the class stays as the user wrote it.
    calls = _Calls(processor, handle)
    put_on(processor, "handleInputRows", calls.handle_input_rows)
    if handle.is_dual:
        put_on(processor, "handleExpiredTimer", calls.handle_expired_timer)
        put_on(processor, "handleInitialState", calls.handle_initial_state)
        put_on(processor, "close", calls.close)


def put_on(processor: Any, name: str, value: Any) -> None:
    """Set an attribute of a processor, which may be a frozen dataclass."""
    object.__setattr__(processor, name, value)


class _Calls:
    """The processor's methods, each within a visit of its key."""

    def __init__(self, processor: Any, handle: NativeHandle) -> None:
        self._processor = processor
        self._handle = handle
        self._stopwatch = Stopwatch()
        self._input_rows = processor.handleInputRows
        self._expired_timer = processor.handleExpiredTimer
        self._initial_state = processor.handleInitialState
        self._close = processor.close

    def handle_input_rows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Call the user's method unless there are only control rows; migrate if there are any."""
        arrived = Arrived(rows)
        if not self._handle.is_dual:
            if arrived.is_for_user and not arrived.is_marked:
                # All rows of a task are alike: from now on nothing is in the way.
                put_on(self._processor, "handleInputRows", self._input_rows)
            if arrived.is_for_user:
                yield from self._input_rows(key, arrived.rows, timerValues)
            return
        self._stopwatch.begin()
        self._handle.visit(key)
        if arrived.is_for_user:
            yield from self._input_rows(key, arrived.rows, timerValues)
        if arrived.asks_for_migration():
            self._handle.migrate()
        self._handle.leave()
        self._stopwatch.end(asked=not arrived.is_for_user)

    def handle_expired_timer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Call the user's method."""
        self._handle.visit(key)
        yield from self._expired_timer(key, timerValues, expiredTimerInfo)
        self._handle.leave()

    def handle_initial_state(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Call the user's method."""
        self._handle.visit(key)
        self._initial_state(key, initialState, timerValues)
        self._handle.leave()

    def close(self) -> None:
        """Call the user's method, and tell what was migrated."""
        self._close()
        self._handle.report(self._stopwatch.work)
