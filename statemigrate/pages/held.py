"""What the committed pages of a checkpoint hold: every page is read, as none unseen is empty."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from statemigrate.errors import PageError, StatemigrateError
from statemigrate.pages.page.layout import Place
from statemigrate.pages.page.page import Page
from statemigrate.pages.rows import BUCKET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Held = Mapping[str, set[bytes]]
"""By family with an entry in any page, the fingerprints of the formats of its values."""
_COLUMNS = "family STRING, format BINARY, error STRING"


def held_in(pages: DataFrame, number: int, keys: bytes) -> Held:
    """The families in committed pages, read where they are. Raises `PageError`.

    ``pages`` are rows of the state reader, ``number`` is how many there are of them at most.
    """
    frame = pages.selectExpr(f"key.{BUCKET} AS number", "value.page AS page")
    rows = frame.mapInArrow(partial(_families, pages=number, keys=keys), _COLUMNS)
    found: dict[str, set[bytes]] = {}
    for row in rows.distinct().collect():
        if row.error is not None:
            raise StatemigrateError.from_json(json.loads(row.error))
        found.setdefault(row.family, set()).add(bytes(row.format))
    return found


def _families(batches: Iterator[Any], *, pages: int, keys: bytes) -> Iterator[Any]:
    import pyarrow as pa

    found: set[tuple[str | None, bytes | None, str | None]] = set()
    for batch in batches:
        for number, data in zip(*(each.to_pylist() for each in batch.columns), strict=True):
            try:
                page = Page(Place(pages, number, keys), data)
            except PageError as error:
                found.add((None, None, json.dumps(error.to_json())))
            else:
                found |= {(name, kind, None) for name, kind in page.formats.items()}
    names, formats, errors = (
        (list(each) for each in zip(*found, strict=True)) if found else ([], [], [])
    )
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(names, pa.string()),
            pa.array(formats, pa.binary()),
            pa.array(errors, pa.string()),
        ],
        names=["family", "format", "error"],
    )
