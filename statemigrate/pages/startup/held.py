"""What the committed pages of a checkpoint hold: every page is read, as none unseen is empty."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from statemigrate.errors import PageError, StatemigrateError
from statemigrate.pages.live.rows import BUCKET, arrow_schema
from statemigrate.pages.page.layout import Place
from statemigrate.pages.page.page import Page
from statemigrate.processor.variables.handle import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS = (
    "family STRING, format BINARY, error STRING, "
    "pages BIGINT, size BIGINT, largest BIGINT, entries BIGINT"
)


@dataclass(frozen=True)
class Held:
    """What pages hold.

    ``families`` has, by family with an entry in any page, the fingerprints of the formats of its
    values; ``pages`` are those with an entry, ``size`` and ``largest`` their bytes together and of
    the largest one.
    """

    families: Mapping[str, set[bytes]]
    pages: int = 0
    size: int = 0
    largest: int = 0
    entries: int = 0


def held_in(pages: DataFrame, number: int, keys: bytes) -> Held:
    """What committed pages hold, read where they are. Raises `PageError`.

    ``pages`` are rows of the state reader, ``number`` is how many there are of them at most.
    """
    frame = pages.selectExpr(f"key.{BUCKET} AS number", "value.page AS page")
    rows = frame.mapInArrow(partial(_surveyed, pages=number, keys=keys), _COLUMNS).collect()
    families: dict[str, set[bytes]] = {}
    for row in rows:
        if row.error is not None:
            raise StatemigrateError.from_json(json.loads(row.error))
        if row.family is not None:
            families.setdefault(row.family, set()).add(bytes(row.format))
    told = [row for row in rows if row.family is None]
    count, size, entries = (sum(row[at] for row in told) for at in ("pages", "size", "entries"))
    return Held(families, count, size, max((row.largest for row in told), default=0), entries)


def _surveyed(batches: Iterator[Any], *, pages: int, keys: bytes) -> Iterator[Any]:
    import pyarrow as pa

    found: set[tuple[str, bytes]] = set()
    errors: set[str] = set()
    sizes, entries = [], 0
    for batch in batches:
        for number, data in zip(*(each.to_pylist() for each in batch.columns), strict=True):
            try:
                page = Page(Place(pages, number, keys), data)
            except PageError as error:
                errors.add(json.dumps(error.to_json()))
            else:
                found |= set(page.formats.items())
                sizes.append(len(data))
                entries += sum(page.counts.values())
    total = {"pages": len(sizes), "size": sum(sizes), "largest": max(sizes, default=0)}
    rows = [
        {**total, "entries": entries},
        *({"family": name, "format": kind} for name, kind in found),
        *({"error": error} for error in errors),
    ]
    yield pa.RecordBatch.from_pylist(rows, arrow_schema(struct_of(_COLUMNS)))
