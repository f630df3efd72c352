"""`sql`: the stores of a checkpoint, asked in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.arguments import require_alone, required
from statemigrate.formats import Mask, plain_values
from statemigrate.native import looks_again, retried
from statemigrate.state import Project, StateTables, require_masked, selected

if TYPE_CHECKING:
    import pyarrow as pa

    from statemigrate.commands.fleet import Named
    from statemigrate.configuration import NamedCheckpoint
    from statemigrate.native import Spark
    from statemigrate.state import ReadOnError

    _Reading = tuple[Mask, ReadOnError]


@dataclass(frozen=True)
class Selected:
    """What a statement of SQL gave; ``table`` is one of Arrow.

    ``batch`` is the committed batch whose state it is. Of several checkpoints it is None, and
    ``batches`` has that of each by its name.
    """

    batch: int | None
    table: pa.Table
    batches: Mapping[str, int] = field(default_factory=dict)

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
        as_of = {"batches": dict(self.batches)} if self.batch is None else {"batch": self.batch}
        return {**as_of, "columns": list(self.columns), "rows": self.rows}


def sql(  # noqa: PLR0913 - all but two by name
    query: str,
    checkpoint: str | Path | None = None,
    *,
    checkpoints: Named | None = None,
    batch: int | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    on_error: ReadOnError = "raise",
    spark: Spark = None,
) -> Selected:
    """The rows that one SELECT gives over the stores of a checkpoint, each a table of its name.

    With ``checkpoints``, paths by name, each is a schema of its name with its stores, at its newest
    batch. The query runs in DuckDB, which reads the tables alone: no file and no address. The other
    parameters are those of `open_state`, which says what columns there are.

    Raises `SqlError` for a statement that writes or that DuckDB refuses, `MissingPackageError`
    without DuckDB, and the errors of `open_state`, also where one of several checkpoints cannot be
    read.
    """
    project = Project(migrations, targets or {}, stores or {}, spark, operator)
    reading = Mask.of(mask), on_error
    if checkpoints is None:
        return _of_one(query, required("sql", checkpoint), batch, project, reading)
    require_alone("sql", checkpoint=checkpoint, batch=batch, operator=operator)
    from statemigrate.commands.fleet import named_checkpoints

    return _of_several(query, named_checkpoints(checkpoints), project, reading)


@looks_again
def _of_one(
    query: str, checkpoint: str | Path, batch: int | None, project: Project, reading: _Reading
) -> Selected:
    state = _opened(checkpoint, batch, project, reading)
    require_masked(state)
    return Selected(state.batch, state.sql(query))


def _of_several(
    query: str, named: Sequence[NamedCheckpoint], project: Project, reading: _Reading
) -> Selected:
    states: dict[str, StateTables] = {}

    def select() -> Selected:
        for each in named:
            opened = partial(_opened, each.path, None, project.at(each), reading)
            states[each.name] = retried(opened, each.path)
        require_masked(*states.values())
        table = selected(query, None, states)
        return Selected(None, table, {name: each.batch for name, each in states.items()})

    try:
        return select()
    except Exception:
        # A running query may have removed what was read of its state.
        overtaken = [each.checkpoint for each in states.values() if each.failure is not None]
        if not overtaken:
            raise
        return retried(select, overtaken[0])


def _opened(
    checkpoint: str | Path, batch: int | None, project: Project, reading: _Reading
) -> StateTables:
    return StateTables(str(checkpoint), project, batch, *reading)
