"""Complements in Spark's variables, of each kind: what a rollback and the next deployment bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.spark_variables import SparkVariables

from statemigrate.deployment import DeploymentSettings
from statemigrate.formats import Struct
from statemigrate.lenses import Change, add, drop, lens, rename
from statemigrate.migration import Lineage, Migration
from statemigrate.native.deployed_variables import Deployed
from statemigrate.native.worker import NativeHandle
from statemigrate.processor.handle import struct_of
from statemigrate.processor.keys import TupleKeyCodec

_OLD = "name STRING, note STRING"
_NEW = "title STRING, seen STRING"
_CHANGE = Change.of(
    lens(rename("name", "title"), drop("note"), add("seen", "STRING")), Struct(_OLD)
)
_KEY = TupleKeyCodec(struct_of("key STRING"))


def _lineage(store: str) -> Lineage:
    up, down = _CHANGE.upgrade, _CHANGE.downgrade
    script = Migration("aaa", None, store, _CHANGE.old, _CHANGE.new, up, down, change=_CHANGE)
    return Lineage.build(store, [script])


class _Query:
    """Batches of one key; without a checkpoint, so that any family may have a value."""

    def __init__(self) -> None:
        self.spark = SparkVariables()
        self.lineages = {store: _lineage(store) for store in ("value", "list", "map")}

    def batch(self, target: str, visit: Callable[..., Any], *, backfill: bool = False) -> Any:
        targets = dict.fromkeys(self.lineages, target)
        handle = NativeHandle(
            self.spark,
            Deployed(DeploymentSettings(targets=targets, complement=True), self.lineages),
        )
        self.spark.begin()
        ddl = _OLD if target == "base" else _NEW
        variables = (
            handle.getValueState("value", ddl),
            handle.getListState("list", ddl),
            handle.getMapState("map", "user STRING", ddl),
        )
        self.spark.key = _KEY.encode(("k",))
        handle.visit(("k",))
        found = visit(*variables)
        if backfill:
            handle.migrate()
        handle.leave()
        self.spark.commit()
        return found


def _fill(value: Any, list_: Any, map_: Any) -> None:
    value.update(("lamp", "oak"))
    list_.put([("a", "note a"), ("b", "note b")])
    map_.updateValue(("x",), ("c", "note c"))
    map_.updateValue(("y",), ("d", "note d"))


def _look(value: Any, list_: Any, map_: Any) -> Any:
    found = value.get()
    entries = {key[0]: tuple(row) for key, row in map_.iterator()}
    return found and tuple(found), [tuple(row) for row in list_.get()], entries


def test_each_kind_comes_back_whole_after_any_writes_between() -> None:
    query = _Query()
    query.batch("base", _fill)

    def write(value: Any, list_: Any, map_: Any) -> None:
        assert tuple(value.get()) == ("lamp", None)
        value.update(("chair", "today"))
        list_.appendValue(("new", "now"))
        map_.updateValue(("x",), ("C", "today"))
        map_.removeKey(("y",))
        map_.updateValue(("y",), ("again", None))

    query.batch("head", write)
    value, list_, map_ = query.batch("base", _look, backfill=True)
    assert value == ("chair", "oak")
    assert list_ == [("a", "note a"), ("b", "note b"), ("new", None)]
    assert map_ == {"x": ("C", "note c"), "y": ("again", None)}
    value, list_, map_ = query.batch("head", _look, backfill=True)
    assert value == ("chair", "today")
    assert list_ == [("a", None), ("b", None), ("new", "now")]
    assert map_ == {"x": ("C", "today"), "y": ("again", None)}


def test_a_backfill_alone_takes_complements_along() -> None:
    query = _Query()
    query.batch("base", _fill)
    before = query.batch("base", _look)
    query.batch("head", lambda *_: None, backfill=True)
    assert not query.spark.committed.get("value")
    assert query.batch("base", lambda *_: None, backfill=True) is None
    assert query.batch("base", _look) == before
    assert not any(query.spark.committed[f"{store}__complement"] for store in query.lineages)


def test_what_is_cleared_leaves_no_complement() -> None:
    query = _Query()
    query.batch("base", _fill)
    query.batch("head", lambda *_: None, backfill=True)
    assert all(query.spark.committed[f"{store}__complement"] for store in query.lineages)

    def clear(*variables: Any) -> None:
        for each in variables:
            each.clear()

    query.batch("head", clear)
    assert not any(query.spark.committed[f"{store}__complement"] for store in query.lineages)
