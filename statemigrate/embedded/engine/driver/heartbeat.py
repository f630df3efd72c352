"""Keeping batches coming while a backfill is under way and the input is idle.

Spark runs no micro-batch without new data. Every embedded query therefore has a second source from
its first day: a directory in its checkpoint. A file put there makes one more batch; its content is
never read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.durable import unwritable
from statemigrate.embedded.storage.layout import HEARTBEAT, Layout
from statemigrate.files import whole_number
from statemigrate.processor.named_sources import reader_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "statemigrate_heartbeat"
"""The source's name in a query whose sources have names."""


def with_heartbeat(stream: DataFrame, layout: Layout) -> DataFrame:
    """``stream`` with the heartbeat source beside it; its rows are those of ``stream`` alone."""
    from pyspark.sql.functions import lit

    if layout.remote is None:
        with unwritable(layout.heartbeat):
            confined(layout.heartbeat).mkdir()
    # As a pattern, since Spark refuses to go on with a directory that was moved, but not with this.
    pattern = f"{_literally(layout.location)}/{HEARTBEAT}/*.txt"
    beats = reader_named(stream.sparkSession, NAME).text(pattern)
    nothing = [lit(None).cast(field.dataType).alias(field.name) for field in stream.schema.fields]
    return stream.unionAll(beats.where(lit(False)).select(*nothing))


def beat(layout: Layout, version: int) -> None:
    """Ask for one more batch after ``version``."""
    layout.files.put(f"{HEARTBEAT}/{version}.txt", f"{version}\n".encode())


def remove_old_beats(layout: Layout, newest: int, retain: int) -> None:
    """Remove the files of versions that are no longer retained."""
    layout.files.delete(
        entry.name
        for entry in layout.files.list(HEARTBEAT)
        if _is_before(entry.base_name, newest - retain)
    )


def _is_before(name: str, last: int) -> bool:
    version = whole_number(name.removesuffix(".txt")) if name.endswith(".txt") else None
    return version is not None and version <= last


def _literally(path: str) -> str:
    # A file source reads its path as a pattern.
    return re.sub(r"([][{}*?\\])", r"\\\1", path)
