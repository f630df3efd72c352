"""Declared changes: a value by itself, a chain of scripts, a rewrite, and stored values by columns.

By the time of the processor, in turn with what they are compared with. The functions by hand are
those that one writes: a new dict, with what stays named field by field.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from benchmarks.measuring import Result, in_turn, median_ratio
from benchmarks.records import KINDS, RecordKind, Value, least
from benchmarks.rewrites import lens_against_columns
from benchmarks.states import key_of, place
from statemigrate.access import DualAccess
from statemigrate.budget import Budget, run_chunk
from statemigrate.deployment import StoredFamily
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.partition import Partition
from statemigrate.families import Source
from statemigrate.formats import Struct
from statemigrate.inspect.laws import inverses_of
from statemigrate.inspect.trial import ValueTrial
from statemigrate.lenses import (
    Change,
    Complement,
    LensChain,
    add,
    cast,
    drop,
    lens,
    move,
    rename,
    scale,
)
from statemigrate.migration import Lineage, Migration, MigrationPath
from statemigrate.migration.path import LOADING
from statemigrate.processor.garbage import few_collections
from statemigrate.state.protocol import Block

_SCRIPTS = 30
_BLOCK = 4_096
_CENTS = Decimal("0.01")
ORDERS = StoredFamily("orders", "base", Struct(KINDS[1].ddl))
_SCRIPT = '''"""Contacts of orders."""
from __future__ import annotations
from decimal import Decimal
from statemigrate.formats import Struct
from statemigrate.lenses import add, cast, drop, lens, move, rename, scale

revision = "000000000001"
down_revision = None
branch_labels = ("orders",)
store = "orders"
old = Struct({old!r})
new = Struct({new!r})


{source}

{last}
'''


def order_lens() -> LensChain:
    """What is done to an order: other names and types, one field less, one more."""
    return lens(
        rename("session", "visit"),
        move("email", "contact.email"),
        scale("updated", 3),
        cast("items", "BIGINT"),
        drop("note"),
        add("seen", "TIMESTAMP"),
    )


def measure(values: int = 20_000, rounds: int = 5, rows: int = 1_000_000) -> list[Result]:
    """Values against functions by hand, a chain, a rewrite, complements, and many by columns."""
    small, order = KINDS[0], KINDS[1]
    return [
        _by_hand(small, lens(rename("name", "title"), scale("n", 2)), _small, values, rounds),
        _by_hand(
            order,
            order_lens(),
            order_by_hand,
            values,
            rounds,
        ),
        _chain(order, values, rounds),
        lens_against_columns(rows, rounds),
        _with_complements(order, values, rounds),
        _by_columns(order, values, rounds),
        _backfill(order, values, rounds),
        _dry_run(order, 3 * values, rounds),
    ]


def _small(value: Value) -> Value:
    n = value["n"]
    return {
        "n": None if n is None else Decimal(n) * _CENTS,
        "updated": value["updated"],
        "title": value["name"],
    }


def order_by_hand(value: Value) -> Value:
    """What `order_lens` makes of an order, as one writes it."""
    updated = value["updated"]
    return {
        "order_id": value["order_id"],
        "customer_id": value["customer_id"],
        "shop_id": value["shop_id"],
        "visit": value["session"],
        "created": value["created"],
        "updated": None if updated is None else Decimal(updated).scaleb(-3),
        "shipped": value["shipped"],
        "status": value["status"],
        "currency": value["currency"],
        "total": value["total"],
        "tax": value["tax"],
        "discount": value["discount"],
        "items": value["items"],
        "weight": value["weight"],
        "gift": value["gift"],
        "express": value["express"],
        "address": value["address"],
        "score": value["score"],
        "contact": {"email": value["email"]},
        "seen": None,
    }


def order_script(way: Literal["hand", "lens"]) -> str:
    """A script that does it, with a function or with a lens."""
    written = order_by_hand if way == "hand" else order_lens
    change = Change.of(order_lens(), Struct(KINDS[1].ddl))
    assert isinstance(change.new, Struct)
    last = "upgrade = order_by_hand" if way == "hand" else "change = order_lens()"
    return _SCRIPT.format(
        old=KINDS[1].ddl, new=change.new.ddl, source=inspect.getsource(written), last=last
    )


def _by_hand(
    kind: RecordKind, chain: Any, hand: Callable[[Value], Value], count: int, rounds: int
) -> Result:
    change = Change.of(chain, Struct(kind.ddl))
    values = [kind.value(number) for number in range(count)]
    assert [change.upgrade(each) for each in values] == [hand(each) for each in values]
    declared, written = _in_turn(change.upgrade, hand, values, rounds)
    figures = {"lens_microseconds": declared, "by_hand_microseconds": written}
    ratio = median_ratio(written, declared)
    what = f"a lens, a value of {kind.name}"
    return Result(what, "values/s against the function by hand", ratio, "at least", 1.0, figures)


def _in_turn(
    one: Callable[[Any], Any], other: Callable[[Any], Any], values: list[Any], rounds: int
) -> tuple[list[float], list[float]]:
    for each in (one, other):
        least(each, values, 1)
    return in_turn(lambda: least(one, values, 3), lambda: least(other, values, 3), rounds)


def _chain(kind: RecordKind, count: int, rounds: int) -> Result:
    """Thirty scripts that each rename a field, against the first alone."""
    migrations, fmt = [], Struct(kind.ddl)
    for number in range(_SCRIPTS):
        name = "session" if number == 0 else f"visit_{number}"
        change = Change.of(lens(rename(name, f"visit_{number + 1}")), fmt)
        migrations.append(_script(change, number))
        fmt = change.new  # type: ignore[assignment]
    lineage = Lineage.build("orders", migrations)
    chain, first = lineage.path("base", "r29"), lineage.path("base", "r0")
    values = [kind.value(number) for number in range(count)]
    many, single = _in_turn(chain.apply, first.apply, values, rounds)
    figures = {
        "of_thirty_microseconds": many,
        "of_one_microseconds": single,
        "median": statistics.median(many),
    }
    what = f"{_SCRIPTS} lenses in a chain"
    ratio = median_ratio(single, many)
    return Result(what, "values/s against one of them", ratio, "at least", 0.7, figures)


def _script(change: Change, number: int = 0) -> Migration:
    return Migration(
        store="orders",
        revision=f"r{number}",
        down_revision=f"r{number - 1}" if number else None,
        old=change.old,
        new=change.new,
        upgrade=change.upgrade,
        downgrade=change.downgrade,
        change=change,
    )


def _with_complements(kind: RecordKind, count: int, rounds: int) -> Result:
    """Stored values that go up and come back, and what each way leaves behind, stored too."""
    change, lineage = one_script(kind)
    up, back = lineage.path("base", "r0"), lineage.path("r0", "base")
    stored = [change.old.encode(kind.value(number)) for number in range(count)]

    def alone(data: bytes) -> bytes:
        there = change.new.encode(up.apply(change.old.decode(data)))
        return change.old.encode(back.apply(change.new.decode(there)))

    def kept(data: bytes) -> bytes:
        value, left = up.carry(change.old.decode(data), Complement())
        there, apart = change.new.encode(value), left.to_bytes()
        value, left = back.carry(change.new.decode(there), Complement.from_bytes(apart))
        left.to_bytes()
        return change.old.encode(value)

    assert [kept(each) for each in stored] == stored
    with_them, without = _in_turn(kept, alone, stored, rounds)
    figures = {"with_microseconds": with_them, "without_microseconds": without}
    what = f"complements of {kind.name}, up and back"
    ratio = median_ratio(with_them, without)
    return Result(what, "time a stored value against without", ratio, "at most", 3.0, figures)


def one_script(kind: RecordKind, store: str = "orders") -> tuple[Change, Lineage]:
    """The change of orders, and the lineage of a store that has no other script."""
    change = Change.of(order_lens(), Struct(kind.ddl))
    return change, Lineage.build(store, [replace(_script(change), store=store)])


def _by_columns(kind: RecordKind, count: int, rounds: int) -> Result:
    """Stored values that become other stored values, in blocks as a backfill takes them."""
    change, lineage = one_script(kind)
    path = lineage.path("base", "r0")
    stored = [change.old.encode(kind.value(number)) for number in range(count)]
    blocks = [stored[start : start + _BLOCK] for start in range(0, count, _BLOCK)]

    def alone(block: list[bytes]) -> list[bytes]:
        return change.new.encode_many(path.apply_many(change.old.decode_many(block)))

    def together(block: list[bytes]) -> list[bytes]:
        assert path.columns is not None
        found = path.columns.bytes_of(block)
        assert found is not None
        return found

    path.columns.passed = LOADING  # type: ignore[union-attr]
    assert [together(each) for each in blocks] == [alone(each) for each in blocks]
    columns, itself = _in_turn(together, alone, blocks, rounds)
    a_value = len(blocks) / count
    figures = {
        "by_columns_microseconds": [each * a_value for each in columns],
        "by_itself_microseconds": [each * a_value for each in itself],
    }
    what = f"stored values of {kind.name} by columns"
    ratio = median_ratio(itself, columns)
    return Result(what, "values/s against one by one", ratio, "at least", 3.0, figures)


def _dry_run(kind: RecordKind, count: int, rounds: int) -> Result:
    """The trial of values that are read already, each with its way back and its laws."""
    change = Change.of(LensChain(order_lens().lenses[:4]), Struct(kind.ddl))
    lineage = Lineage.build("orders", [_script(change, 0)])
    path, back = lineage.path("base", "r0"), lineage.path("r0", "base")
    stored = [change.old.encode(kind.value(number)) for number in range(count)]

    def trial() -> ValueTrial:
        inverses = inverses_of(lineage, path)
        return ValueTrial(change.old, change.new, path, back, lambda key: (key,), inverses=inverses)

    def alone() -> None:
        one = trial()
        for key, data in enumerate(stored):
            one.run(key, data, change.old.decode(data))
        assert (one.findings.tried, one.findings.differing) == (count, 0)

    def together() -> None:
        many = trial()
        for start in range(0, count, _BLOCK):
            data = stored[start : start + _BLOCK]
            many.run_block(Block(range(start, start + len(data)), data))
        assert (many.findings.tried, many.findings.differing) == (count, 0)

    columns, itself = in_turn(lambda: _seconds(together), lambda: _seconds(alone), rounds)
    figures = {
        "by_columns_microseconds": [each / count * 1e6 for each in columns],
        "by_itself_microseconds": [each / count * 1e6 for each in itself],
    }
    what = f"a dry run of {kind.name} by columns"
    ratio = median_ratio(itself, columns)
    return Result(what, "values/s against one by one", ratio, "at least", 4.0, figures)


def _seconds(work: Callable[[], None]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _backfill(kind: RecordKind, count: int, rounds: int) -> Result:
    """A partition's backfill within a process, without opening and committing."""
    change, lineage = one_script(kind)
    path = lineage.path("base", "r0")
    old = StoredFamily("orders", "base", change.old)
    new = StoredFamily("orders@r0", "r0", change.new)
    with place() as at:
        partition = Partition(at, PartitionState(), 0)
        written = partition.target(old, "value")
        for number in range(count):
            written.put(key_of(number), kind.value(number))
        state = partition.commit(snapshot=True)

        def migrated(way: MigrationPath) -> float:
            partition = Partition(at, state, 1)
            source: Source[Value] = Source(partition.source(old, "value"), way)
            access: DualAccess[Value] = DualAccess(
                "orders", partition.target(new, "value"), [source]
            )
            began = time.process_time()
            with few_collections():
                chunk = run_chunk(access, source, partition, Budget(count, 1e9))
            passed = time.process_time() - began
            assert chunk.migrated == count
            partition.abandon()
            return passed / count * 1e6

        # A function around the lenses, as a script by hand is one.
        alone = replace(path, steps=(replace(path.steps[0], change=None),))
        assert alone.columns is None
        migrated(path), migrated(alone)
        columns, itself = in_turn(lambda: migrated(path), lambda: migrated(alone), rounds)
    figures = {"by_columns_microseconds": columns, "by_itself_microseconds": itself}
    what = f"a partition's backfill, {kind.name}, by columns"
    ratio = median_ratio(itself, columns)
    return Result(what, "values/s of a processor against one by one", ratio, "at least", 2.5,
                  figures)  # fmt: skip
