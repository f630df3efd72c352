"""The native engine's handle: Spark's own, with dual access in place of each variable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

import pyspark
from pyspark.sql.types import StructType

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared, StoredFamily, StorePlan, dual_access, no_way
from statemigrate.errors import TransformError
from statemigrate.families import Span
from statemigrate.native.live.deployed import Deployed
from statemigrate.native.live.families import (
    VISIT,
    NativeFamily,
    NativeListFamily,
    NativeMapFamily,
    NativeValueFamily,
)
from statemigrate.native.live.rows_within import taking_rows
from statemigrate.native.live.work import Work
from statemigrate.native.spark_state.versions import check_kind
from statemigrate.processor.keys.codec import KeyCodec
from statemigrate.processor.rows.codec import RowCodec
from statemigrate.processor.variables.dual import dual_variable
from statemigrate.processor.variables.handle import DualAccessHandle
from statemigrate.sources import Source


class NativeHandle(DualAccessHandle):
    """Gives out Spark's own variable where a store has one family, dual access where it has more.

    ``grouping`` is the key the processor is called for, for error messages; `visit` moves on to it.
    Only with ``retires`` are drained families dropped: at the batch they were seen to be drained.
    """

    def __init__(self, spark: Any, deployed: Deployed, *, retires: bool = True) -> None:
        super().__init__()
        self.grouping: tuple[Any, ...] = ()
        self._spark = spark
        self._deployed = deployed
        self._retires = retires
        self._visits = 0
        self._families: list[NativeFamily] = []
        self._accesses: list[DualAccess[Any]] = []
        self._migrating: list[DualAccess[Any]] = []
        self._quarantined = 0

    @property
    def is_dual(self) -> bool:
        """Whether any store has more than its target family."""
        return bool(self._families)

    def visit(self, key: tuple[Any, ...]) -> None:
        """Begin with another grouping key."""
        self.grouping = key
        self._visits += 1
        self.key.data = self._visits.to_bytes(VISIT, "big")

    def leave(self) -> None:
        """Write what the processor left to be written for the current key."""
        for family in self._families:
            family.flush()

    def report(self, work: Work | None) -> None:
        """Add what was migrated since the handle was made to the deployment's counts."""
        if self._deployed.counts is not None:
            counts = [access.counts for access in self._accesses]
            touched = sum(each.touched for each in counts)
            backfilled = sum(each.backfilled for each in counts)
            self._deployed.counts.add(touched, backfilled, self._quarantined, work)

    def migrate(self) -> None:
        """Migrate everything the current key has in an older family: one step of the backfill.

        Under ``on_error="quarantine"`` a value whose transform fails stays where it is.
        """
        span = Span.prefix(self.key.data)
        for access in self._migrating:
            for source in access.sources:
                for key, value in source.family.scan(span):
                    self._backfill(access, source, key, value)

    def getValueState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> Any:
        """See `DualAccessHandle`; a store without scripts is Spark's own, whatever it holds."""
        if stateName not in self._deployed.lineages:
            return self._spark.getValueState(stateName, schema, ttlDurationMs)
        return super().getValueState(stateName, schema, ttlDurationMs)

    def getListState(
        self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None
    ) -> Any:
        """See `getValueState`."""
        if stateName not in self._deployed.lineages:
            return self._spark.getListState(stateName, schema, ttlDurationMs)
        return super().getListState(stateName, schema, ttlDurationMs)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> Any:
        """See `getValueState`."""
        if stateName not in self._deployed.lineages:
            return self._spark.getMapState(stateName, userKeySchema, valueSchema, ttlDurationMs)
        return super().getMapState(stateName, userKeySchema, valueSchema, ttlDurationMs)

    def variable(self, declared: Declared) -> Any:
        """See `DualAccessHandle.variable`."""
        plan = self._deployed.plan(declared)
        self._let_go(declared)
        if plan is None:
            return self._state(declared, declared.store, declared.schema)
        target = self._state(declared, plan.target.name, declared.schema)
        if not plan.sources:
            return taking_rows(target, pyspark.__version__)
        check_kind(declared.kind, declared.store)
        access = self._access(declared, plan, target)
        self._accesses.append(access)
        if plan.migrates_unasked:
            self._migrating.append(access)
        return dual_variable(declared, access, self.key)

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

    def _backfill(
        self, access: DualAccess[Any], source: Source[Any], key: bytes, value: Any
    ) -> None:
        try:
            access.backfill(source, key, value)
        except TransformError:
            if self._deployed.settings.on_error == "raise":
                raise
            self._quarantined += 1

    def _let_go(self, declared: Declared) -> None:
        for family in self._deployed.drained.get(declared.store, ()):
            if self._deployed.settings.retire_drained:
                if self._retires:
                    self._spark.deleteIfExists(family.name)
            else:
                # Spark forgets a variable that is not declared.
                self._state(declared, family.name, family.format.struct_type())

    def _access(self, declared: Declared, plan: StorePlan, target: Any) -> DualAccess[Any]:
        sources = [self._source(declared, family) for family in plan.sources]
        user_keys = None if declared.user_key is None else KeyCodec(declared.user_key)
        return dual_access(
            plan,
            self._family(declared, plan.target, target, declared.schema),
            sources,
            write_on_read=self._deployed.settings.write_on_read and plan.migrates_unasked,
            asks_after_hit=False,
            show_key=partial(self._shown, user_keys),
            refuse=partial(self._refuse, plan),
        )

    def _source(self, declared: Declared, family: StoredFamily) -> Any:
        schema = family.format.struct_type()
        return self._family(declared, family, self._state(declared, family.name, schema), schema)

    def _refuse(self, plan: StorePlan, family: StoredFamily) -> NoReturn:
        held = f"family {family.name} holds a value of this key"
        at = repr(self.grouping)
        raise no_way(plan.lineage, family.revision, plan.target.revision, held=held, at=at)

    def _family(
        self, declared: Declared, family: StoredFamily, state: Any, schema: StructType
    ) -> Any:
        opened: NativeFamily
        rows = RowCodec(schema)
        if declared.user_key is not None:
            opened = NativeMapFamily(family, state, rows, KeyCodec(declared.user_key))
        elif declared.kind == "list":
            opened = NativeListFamily(family, state, rows)
        else:
            opened = NativeValueFamily(family, state, rows)
        self._families.append(opened)
        return opened

    def _state(self, declared: Declared, name: str, schema: StructType) -> Any:
        if declared.kind == "map":
            return self._spark.getMapState(name, declared.user_key, schema, declared.ttl)
        if declared.kind == "list":
            return self._spark.getListState(name, schema, declared.ttl)
        return self._spark.getValueState(name, schema, declared.ttl)

    def _shown(self, user_keys: KeyCodec | None, key: bytes) -> tuple[Any, ...]:
        return self.grouping + (() if user_keys is None else user_keys.decode(key[VISIT:]))
