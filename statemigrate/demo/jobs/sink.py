"""The sink of both engines: one file a batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def output_files(directory: Path) -> Callable[[DataFrame, int], None]:
    """A sink that keeps one file a batch: a batch that is run again replaces its own rows."""

    def write(rows: DataFrame, batch: int) -> None:
        temporary = directory / f".{batch:06d}.tmp"
        pq.write_table(rows.toArrow(), temporary)
        temporary.replace(directory / f"{batch:06d}.parquet")

    return write
