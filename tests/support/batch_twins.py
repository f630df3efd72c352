"""One program as two processors, key by key and by tables, and a partition that runs either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate import BatchProcessor
from statemigrate.budget import BackfillOptions, Tuner
from statemigrate.deployment import (
    VARIABLE_KINDS,
    Declared,
    DeploymentSettings,
    Kind,
    StorePlan,
    plan_store,
)
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.task import OutputRows, processed
from statemigrate.embedded.task_plan import REPORT, BatchPlan, BatchSchema, PartitionReport
from statemigrate.families import Span
from statemigrate.formats import Format, Value
from statemigrate.formats.arrow_values import plain_array, plain_values
from statemigrate.migration import Lineage
from statemigrate.processor.handle import struct_of
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.processor.rows import TupleCodec

ROWS, KEY = struct_of("a STRING, b BIGINT, act INT"), struct_of("a STRING, b BIGINT")
OUTPUT = struct_of("a STRING, b BIGINT, had INT")
USER_KEY = "k STRING, n INT"
KINDS: dict[str, Kind] = {"whole": "value", "many": "list", "named": "map"}
STORES = tuple(KINDS)
_LONGEST = 3


@dataclass
class Program:
    """What becomes of a key's three variables by what its last row says."""

    format: Format
    values: Sequence[Value]

    def after(self, act: int, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """The variables after a key's rows: a value, a list, a map of texts with a number."""
        whole, many, named = state
        if act % 5 == 0:
            return state
        if act % 5 == 1:
            return None, [], {}
        value = self.values[act % len(self.values)]
        name = (f"name {act % 3}", act % 2)
        rest = {key: each for key, each in named.items() if act % 7 or key[1] != act % 2}
        return value if act % 3 else whole, [*many, value][-_LONGEST:], {**rest, name: value}


class ByKey(StatefulProcessor):
    """The program with PySpark's variables.

    With a time to live it renews a value that stays, and keeps what a list begins with.
    """

    def __init__(self, program: Program, ttl: int | None = None) -> None:
        self._program = program
        self._ttl = ttl

    def init(self, handle: Any) -> None:
        struct = self._program.format.struct_type()
        self._codec = TupleCodec(struct)
        self._whole = handle.getValueState("whole", struct, self._ttl)
        self._many = handle.getListState("many", struct, self._ttl)
        self._named = handle.getMapState("named", USER_KEY, struct, self._ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        made, row_of = self._codec.to_value, self._codec.to_tuple
        act = [row.act for row in rows][-1]
        found = self._whole.get()
        many, entries = list(map(made, self._many.get())), dict(self._named.iterator())
        named = {tuple(each): made(value) for each, value in entries.items()}
        before = (None if found is None else made(found), many, named)
        whole, list_, map_ = self._program.after(act, before)
        if whole != before[0] or (self._ttl and whole is not None):
            self._whole.clear() if whole is None else self._whole.update(row_of(whole))
        if self._ttl and many and list_[: len(many)] == many:
            self._many.appendList(list(map(row_of, list_[len(many) :])))
        elif list_ != many:
            self._many.put(list(map(row_of, list_))) if list_ else self._many.clear()
        for each in named.keys() - map_.keys():
            self._named.removeKey(each)
        for each, value in map_.items():
            if value != named.get(each):
                self._named.updateValue(each, row_of(value))
        yield Row(a=key[0], b=key[1], had=len(many) + len(named) + (found is not None))

    def close(self) -> None:
        """Nothing to release."""


class ByTable(BatchProcessor):
    """The same program with tables; ``reorders`` has the new state in another order."""

    def __init__(self, program: Program, ttl: int | None = None, *, reorders: bool = False) -> None:
        self._program = program
        self._ttl = ttl
        self._reorders = reorders

    def init(self, handle: Any) -> None:
        struct = self._program.format.struct_type()
        handle.getValueState("whole", struct, self._ttl)
        handle.getListState("many", struct, self._ttl)
        handle.getMapState("named", USER_KEY, struct, self._ttl)

    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> Any:
        last = {(row["a"], row["b"]): row["act"] for row in rows.to_pylist()}
        before = list(zip(*(plain_values(state[each].chunk(0)) for each in STORES), strict=True))
        after, had = [], []
        for key, (whole, many, named) in zip(keys.to_pylist(), before, strict=True):
            entries = {(e["key"]["k"], e["key"]["n"]): e["value"] for e in named or []}
            made = self._program.after(last[key["a"], key["b"]], (whole, many or [], entries))
            pairs = [{"key": {"k": k, "n": n}, "value": v} for (k, n), v in made[2].items()]
            after.append((made[0], made[1] or None, pairs))
            had.append(len(many or []) + len(entries) + (whole is not None))
        columns = [
            plain_array(list(each), state.schema.field(name).type)
            for name, each in zip(STORES, zip(*after, strict=True), strict=True)
        ]
        new = pa.table([*keys.columns, *columns], names=["a", "b", *STORES])
        if self._reorders:
            new = new.take(list(reversed(range(len(new)))))
        return new, keys.append_column("had", pa.array(had))


@dataclass
class Twin:
    """A partition in a folder, whose batches a processor runs; it keeps its state from batch on."""

    folder: Path
    write_on_read: bool = True
    state: PartitionState = field(default_factory=PartitionState)
    plans: dict[str, StorePlan] = field(default_factory=dict)
    version: int = 0

    def deploy(
        self,
        fmt: Format,
        lineages: dict[str, Lineage] | None = None,
        kinds: dict[str, Kind] | None = None,
    ) -> None:
        """Declare variables in a format: the program's three, or those of ``kinds``."""
        stored = {name: plan.stored() for name, plan in self.plans.items()}
        for name, kind in (kinds or KINDS).items():
            user_key = struct_of(USER_KEY) if VARIABLE_KINDS[kind].has_user_key else None
            declared = Declared(name, kind, fmt.struct_type(), user_key)
            self.plans[name] = plan_store(
                declared, (lineages or {}).get(name), stored.get(name), DeploymentSettings()
            )

    def run(self, processor: Any, rows: Sequence[tuple[Any, Any, int]], size: int = 7) -> Any:
        """Run and commit a batch of rows; its output, and what migrated."""
        schema = BatchSchema(ROWS, KEY, (0, 1), OUTPUT)
        codec = TupleKeyCodec(KEY)
        ordered = sorted(rows, key=lambda row: codec.encode(row[:2]))
        table = pa.table(
            [
                pa.array(each, kind)
                for each, kind in zip(
                    zip(*ordered, strict=True), (pa.string(), pa.int64(), pa.int32()), strict=True
                )
            ],
            names=["column_0", "column_1", "column_2"],
        )
        report, output = PartitionReport(0), OutputRows(OUTPUT)
        made = list(
            processed(iter(table.to_batches(size)), self._plan(), schema, processor, report, output)
        )
        assert all(each is None for batch in made for each in batch.column(REPORT).to_pylist())
        self.state, self.version = PartitionState.from_json(report.state), self.version + 1
        found = [row for batch in made for row in batch.drop_columns([REPORT]).to_pylist()]
        return found, (report.rows, report.keys, report.touched)

    def contents(self) -> Any:
        """Every record of every family, and the content hashes that the state has."""
        from statemigrate.embedded.partition import Partition
        from statemigrate.embedded.task_plan import PartitionPaths

        layout = Layout.of(self.folder / "checkpoint")
        place = PartitionPaths(0, layout.partition(0), self.folder / "elsewhere")
        partition = Partition(place, self.state, 999)
        try:
            found = {}
            for plan in self.plans.values():
                for family in (plan.target, *plan.sources):
                    opened = partition.target(family, "value")
                    found[family.name] = list(opened.scan_encoded(Span()))
        finally:
            partition.abandon()
        return found, self.state.contents

    def _plan(self) -> BatchPlan:
        options = BackfillOptions(enabled=False)
        return BatchPlan(
            version=self.version,
            layout=Layout.of(self.folder / "checkpoint"),
            working=str(self.folder / "working"),
            partitions=(self.state,),
            stores=dict(self.plans),
            retired=frozenset(),
            write_on_read=self.write_on_read,
            backfill=options,
            tuner=Tuner.start(options),
            snapshot_every=3,
            first_of_run=self.version == 0,
            processing_time=1_700_000_000_000,
        )
