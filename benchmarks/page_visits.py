"""Visits of pages: by a batch processor against key by key, and of leaves against whole pages.

The state of Spark is a dictionary here, so that what is measured is what a visit does in Python.
"""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.lenses import one_script
from benchmarks.measuring import Result, median_ratio
from benchmarks.processor import OUTPUT, Records, RecordTables
from benchmarks.records import KINDS, RecordKind
from statemigrate.deployment import (
    Declared,
    DeploymentSettings,
    StoredFamily,
    StoredStore,
    StorePlan,
    plan_store,
)
from statemigrate.formats import Struct
from statemigrate.migration import Lineage
from statemigrate.native.control_rows import MARKER
from statemigrate.pages.columns import PageId
from statemigrate.pages.deployed_pages import PagedDeployment
from statemigrate.pages.packed_rows import BUCKET, pack
from statemigrate.pages.page import LARGEST, Page
from statemigrate.pages.page_leaves import SPLITTING, Splitting
from statemigrate.pages.visit import PagedProcessor
from statemigrate.processor.handle import struct_of

KEY, ROWS = struct_of("key STRING"), struct_of("key STRING, amount BIGINT, name STRING")
_PAGES = ((100, 0.0), (250, 1.0), (1_000, 1.0))
"""Keys of a page, each with a row, and the least ratio that is wanted."""
_LARGE = (25_000, 100_000, 1_000_000)
"""Keys of a page that has split."""
_TOUCHED = 10
_PAGE, _FORMAT = PageId(1, 0, b"k" * 16), b"f" * 16


def measure(keys: int = 20_000, rounds: int = 5) -> list[Result]:
    """Keys that a processor's second visits, by table against key by key; and visits of leaves."""
    by_table = [
        _measured(kind, of_page, limit, keys, rounds) for kind in KINDS for of_page, limit in _PAGES
    ]
    leaves = [_in_leaves(each * keys // 20_000, rounds) for each in _LARGE]
    return [*by_table, *leaves, _backfilled(KINDS[1], keys, rounds)]


def _backfilled(kind: RecordKind, keys: int, rounds: int) -> Result:
    """Pages that a live backfill asks for, whose values migrate by lenses or by a function."""
    change, lineage = one_script(kind, "totals")
    (script,) = lineage.migrations
    lineages = {
        "lens": lineage,
        "function": Lineage.build("totals", [replace(script, change=None)]),
    }
    assert isinstance(change.new, Struct)
    declared = Declared("totals", "value", struct_of(change.new.ddl), None, None)
    stored = StoredStore("value", (StoredFamily("totals", "base", change.old),))
    taken: dict[str, list[float]] = {name: [] for name in lineages}
    for turn in range(rounds + 1):
        for name, each in lineages.items():
            pages = _Pages(Records(kind), kind, keys // 1_000)
            pages.visit(keys, turn)
            plan = plan_store(declared, each, stored, DeploymentSettings())
            taken[name].append(pages.backfill(_Unread(change.new.ddl), plan))
    # In the first round Arrow is loaded.
    by_lens, by_function = taken["lens"][1:], taken["function"][1:]
    return Result(
        f"paged: live backfill, {kind.name}, a lens",
        "values/s of a processor in visits of 1,000 keys of a page, against a function",
        median_ratio(by_function, by_lens),
        "at least",
        5.0,
        {
            "lens_us": round(statistics.median(by_lens) * 1e6 / keys, 1),
            "function_us": round(statistics.median(by_function) * 1e6 / keys, 1),
        },
    )


class _Unread(StatefulProcessor):
    """The new code, which a backfill does not call."""

    def __init__(self, ddl: str) -> None:
        self._ddl = ddl

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.getValueState("totals", self._ddl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        raise AssertionError(key)

    def close(self) -> None:
        pass


def _in_leaves(keys: int, rounds: int) -> Result:
    """A page that has split against the same page whole, some of its keys read and written."""
    times, moved = {}, {}
    for name, splitting in (("whole", Splitting(page=LARGEST)), ("leaves", SPLITTING)):
        outside = _Outside()
        page = Page(_PAGE, None, outside, splitting)
        section = page.section("totals", _FORMAT)
        for key in range(keys):
            section.put(_key(key), b"%030d" % key)
        page.write_outside()
        data = page.written()
        outside.size, times[name] = 0, []
        for turn in range(rounds):
            began = time.process_time()
            page = Page(_PAGE, data, outside, splitting)
            section = page.section("totals", _FORMAT)
            for key in range(turn, keys, keys // _TOUCHED):
                value = section.get(_key(key))
                section.put(_key(key), value[:-1] + b"x")
            page.write_outside()
            data = page.written()
            times[name].append(time.process_time() - began)
        moved[name] = 2 * len(data) + outside.size // rounds
    return Result(
        f"paged: leaves, {_TOUCHED} of {keys:,} keys of a page",
        "visits/s of a processor, against a page that does not split",
        median_ratio(times["whole"], times["leaves"]),
        "at least",
        1.0,
        {"milliseconds": times, "bytes_a_visit": moved},
    )


class _Outside:
    """What lies outside of a page, and how many bytes were read and written."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, bytes], bytes] = {}
        self.size = 0

    def get(self, family: str, key: bytes) -> bytes | None:
        value = self._values.get((family, key))
        self.size += len(value or b"")
        return value

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self._values[family, key] = value
        self.size += len(value)

    def delete(self, family: str, key: bytes) -> None:
        del self._values[family, key]


def _key(number: int) -> bytes:
    return b"\x01key-%08d\x00\x00" % number


def _measured(kind: RecordKind, of_page: int, limit: float, keys: int, rounds: int) -> Result:
    by_key, by_table = (
        _Pages(make(kind), kind, keys // of_page) for make in (Records, RecordTables)
    )
    turns = [(by_key.visit(keys, turn), by_table.visit(keys, turn)) for turn in range(rounds + 1)]
    # The first batch makes the pages.
    theirs, ours = (list(side) for side in zip(*turns[1:], strict=True))
    return Result(
        f"paged: batch processor, {kind.name}, {of_page} keys of a page",
        "keys/s of a processor in visits, all keys with a row, against key by key",
        median_ratio(theirs, ours),
        "at least",
        limit,
        {
            "by_key_us": round(statistics.median(theirs) * 1e6 / keys, 1),
            "by_table_us": round(statistics.median(ours) * 1e6 / keys, 1),
        },
    )


class _Pages:
    """A query's pages in memory."""

    def __init__(self, processor: Any, kind: RecordKind, pages: int) -> None:
        self._pages = pages
        self._spark = _Variables()
        declared = Declared("totals", "value", struct_of(kind.ddl), None, None)
        self._deploy(processor, plan_store(declared, None, None, DeploymentSettings()))

    def _deploy(self, processor: Any, plan: StorePlan) -> None:
        unseen: Any = SimpleNamespace(compare_in_task=lambda: None, deployment="benchmark")
        deployment = PagedDeployment(
            KEY,
            (0,),
            struct_of(OUTPUT),
            {"totals": plan},
            DeploymentSettings(),
            unseen,
            cast(Any, SimpleNamespace(pages=self._pages)),
            note=cast(Any, None),
        )
        self._processor = PagedProcessor(processor, deployment, ROWS)
        self._processor.init(self._spark)

    def backfill(self, processor: Any, plan: StorePlan) -> float:
        """Seconds of a processor for a visit of each page that a backfill asks for."""
        self._deploy(processor, plan)
        make = Row(BUCKET, "layout", "rows", MARKER)
        return self._visited([make(each, None, None, "query") for each in range(self._pages)])

    def visit(self, keys: int, turn: int) -> float:
        """Seconds of a processor for a row of each key."""
        return self._visited(self._rows(keys, turn))

    def _visited(self, rows: list[Any]) -> float:
        times = SimpleNamespace(getCurrentProcessingTimeInMs=lambda: 0)
        began = time.process_time()
        for each in rows:
            number = each[0]
            self._spark.key = struct.pack(">i", number)
            for _ in self._processor.handleInputRows((number,), iter([each]), times):
                pass
        return time.process_time() - began

    def _rows(self, keys: int, turn: int) -> list[Any]:
        columns = [
            pa.array([f"key-{key}" for key in range(keys)]),
            pa.array([turn + key % 7 for key in range(keys)]),
            pa.array(["name"] * keys),
            pa.array([key % self._pages for key in range(keys)], pa.int32()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, [*ROWS.fieldNames(), BUCKET])
        make = Row(BUCKET, "layout", "rows", MARKER)
        packed = (row for each in pack(iter([batch])) for row in each.to_pylist())
        return [make(*row.values(), None) for row in packed]


class _Variables:
    """Spark's handle, as far as a page needs it."""

    def __init__(self) -> None:
        self.key = b""
        self._values: dict[bytes, Any] = {}
        self._large: dict[tuple[bytes, Any], Any] = {}

    def getValueState(self, *_: Any) -> Any:
        held = self._values

        def update(row: Any) -> None:
            held[self.key] = row

        return SimpleNamespace(
            get=lambda: held.get(self.key), update=update, clear=lambda: held.pop(self.key, None)
        )

    def getMapState(self, *_: Any) -> Any:
        held = self._large

        def update(key: Any, value: Any) -> None:
            held[self.key, key] = value

        return SimpleNamespace(
            getValue=lambda key: held.get((self.key, key)),
            updateValue=update,
            removeKey=lambda key: held.pop((self.key, key), None),
        )

    def listTimers(self) -> Iterator[int]:
        return iter(())
