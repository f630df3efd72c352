"""Scripts made of lenses, and values that go through one of them by columns."""

from __future__ import annotations

from typing import Any

from statemigrate.formats import Struct
from statemigrate.lenses import Change, add, cast, lens, rename
from statemigrate.migration import Lineage, Migration


def lineage_of(*changes: Change, store: str = "notes") -> Lineage:
    """A script for each change, from base through r0, r1 ..."""
    scripts = [
        Migration(
            store=store,
            revision=f"r{number}",
            down_revision=f"r{number - 1}" if number else None,
            old=change.old,
            new=change.new,
            upgrade=change.upgrade,
            downgrade=change.downgrade,
            change=change,
        )
        for number, change in enumerate(changes)
    ]
    return Lineage.build(store, scripts)


OLD = Struct("id BIGINT NOT NULL, n BIGINT, text STRING, s STRUCT<x: DOUBLE>")
CHANGE = Change.of(
    lens(rename("text", "title"), cast("n", "INT", unfit="fail"), add("seen", "TIMESTAMP")), OLD
)
LINEAGE = lineage_of(CHANGE)


def value(number: int, n: int | None = None) -> dict[str, Any]:
    """The old value number so many; `CHANGE` does not take one whose ``n`` has over 32 bits."""
    return {
        "id": number << 40,
        "n": number if n is None else n,
        "text": None if number % 3 else f"größer {number}",
        "s": {"x": number / 8} if number % 2 else None,
    }
