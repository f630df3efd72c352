"""`sql`: the stores of a checkpoint, asked in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.formats.arrow_values import plain_values
from statemigrate.native.retrying import looks_again
from statemigrate.state.tables import open_state

if TYPE_CHECKING:
    import pyarrow as pa

    from statemigrate.native.session import Spark


@dataclass(frozen=True)
class Selected:
    """What a statement of SQL gave, as of a committed ``batch``; ``table`` is one of Arrow."""

    batch: int
    table: pa.Table

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, which may repeat."""
        return tuple(self.table.schema.names)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as plain values."""
        found: list[tuple[Any, ...]] = []
        for batch in self.table.to_batches():
            found += zip(*map(plain_values, batch.columns), strict=True)
        return found

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, which has its own forms for dates, decimals and bytes."""
        return {"batch": self.batch, "columns": list(self.columns), "rows": self.rows}


@looks_again
def sql(  # noqa: PLR0913 - all but two by name
    query: str,
    checkpoint: str | Path,
    *,
    batch: int | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    spark: Spark = None,
) -> Selected:
    """The rows that one SELECT gives over the stores of a checkpoint, each a table of its name.

    It runs in DuckDB, which reads the tables alone: no file and no address. The other parameters
    are those of `open_state`, which says what columns there are. Raises `SqlError` for a statement
    that writes or that DuckDB refuses, `MissingPackageError` without DuckDB, and the errors of
    `open_state`.
    """
    state = open_state(
        checkpoint,
        batch=batch,
        migrations=migrations,
        targets=targets,
        operator=operator,
        stores=stores,
        mask=mask,
        spark=spark,
    )
    found = state.sql(query)
    return Selected(state.batch, found)
