"""Declared changes: a value by itself, a chain of scripts, and a rewrite.

By the time of the processor, in turn with what they are compared with. The functions by hand are
those that one writes: a new dict, with what stays named field by field.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from benchmarks.measuring import Result, in_turn, median_ratio
from benchmarks.records import KINDS, RecordKind, Value, least
from benchmarks.rewrites import lens_against_columns
from statemigrate.formats import Struct
from statemigrate.lenses import Change, Complement, add, cast, drop, lens, move, rename, scale
from statemigrate.migration import Lineage, Migration

_SCRIPTS = 30
_CENTS = Decimal("0.01")
_ORDER = lens(
    rename("session", "visit"),
    move("email", "contact.email"),
    scale("updated", 3),
    cast("items", "BIGINT"),
    drop("note"),
    add("seen", "TIMESTAMP"),
)


def measure(values: int = 20_000, rounds: int = 5, rows: int = 1_000_000) -> list[Result]:
    """Values of 3 and 20 fields against functions by hand, a chain, a rewrite, complements."""
    small, order = KINDS[0], KINDS[1]
    return [
        _by_hand(small, lens(rename("name", "title"), scale("n", 2)), _small, values, rounds),
        _by_hand(
            order,
            _ORDER,
            _order,
            values,
            rounds,
        ),
        _chain(order, values, rounds),
        lens_against_columns(rows, rounds),
        _with_complements(order, values, rounds),
    ]


def _small(value: Value) -> Value:
    n = value["n"]
    return {
        "n": None if n is None else Decimal(n) * _CENTS,
        "updated": value["updated"],
        "title": value["name"],
    }


def _order(value: Value) -> Value:
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
        migrations.append(
            Migration(
                store="orders",
                revision=f"r{number}",
                down_revision=f"r{number - 1}" if number else None,
                old=change.old,
                new=change.new,
                upgrade=change.upgrade,
                downgrade=change.downgrade,
                change=change,
            )
        )
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


def _with_complements(kind: RecordKind, count: int, rounds: int) -> Result:
    """Stored values that go up and come back, and what each way leaves behind, stored too."""
    change = Change.of(_ORDER, Struct(kind.ddl))
    script = Migration(
        store="orders",
        revision="r0",
        down_revision=None,
        old=change.old,
        new=change.new,
        upgrade=change.upgrade,
        downgrade=change.downgrade,
        change=change,
    )
    lineage = Lineage.build("orders", [script])
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
