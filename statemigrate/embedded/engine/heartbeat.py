"""Keeping batches coming while a backfill is under way and the input is idle.

Spark runs no micro-batch without new data. Every embedded query therefore has a second source from
its first day: a directory in its checkpoint. A file put there makes one more batch; its content is
never read.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from statemigrate.embedded.storage.confined import confined
from statemigrate.embedded.storage.durable import unwritable
from statemigrate.embedded.storage.layout import Layout, spark_path
from statemigrate.files import whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_heartbeat(stream: DataFrame, layout: Layout) -> DataFrame:
    """``stream`` with the heartbeat source beside it; its rows are those of ``stream`` alone."""
    from pyspark.sql.functions import lit

    with unwritable(layout.heartbeat):
        confined(layout.heartbeat).mkdir()
    # As a pattern, since Spark refuses to go on with a directory that was moved, but not with this.
    pattern = f"{_literally(spark_path(layout.heartbeat))}/*.txt"
    beats = stream.sparkSession.readStream.text(pattern)
    nothing = [lit(None).cast(field.dataType).alias(field.name) for field in stream.schema.fields]
    return stream.unionAll(beats.where(lit(False)).select(*nothing))


def beat(layout: Layout, version: int) -> None:
    """Ask for one more batch after ``version``."""
    path = confined(layout.heartbeat / f"{version}.txt")
    with unwritable(layout.heartbeat):
        # A name starting with a dot is invisible to Spark until the renaming.
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        with temporary.open("xb") as file:
            file.write(f"{version}\n".encode())
        temporary.rename_to(path)


def remove_old_beats(layout: Layout, newest: int, retain: int) -> None:
    """Remove the files of versions that are no longer retained."""
    for path in confined(layout.heartbeat).glob("*.txt"):
        version = whole_number(path.stem)
        if version is not None and version <= newest - retain:
            path.unlink(missing_ok=True)


def _literally(path: str) -> str:
    # A file source reads its path as a pattern.
    return re.sub(r"([][{}*?\\])", r"\\\1", path)
