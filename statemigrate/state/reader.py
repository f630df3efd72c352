"""The logical view: a query's stores in their target format, from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from statemigrate.deployment import StorePlan
from statemigrate.scripts.folder import survey_of
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.embedded_blocks import Block, blocks_of
from statemigrate.state.opening import open_state
from statemigrate.state.protocol import Entry, planned

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from statemigrate.native.spark_state.session import Spark


class StateReader:
    """The stores of a checkpoint in their target format, whatever is migrated so far.

    ``migrations`` is the folder of scripts, needed for stores that have some; ``targets`` names, by
    store, the revision to read in, the head unless said otherwise; ``accept_edited`` names applied
    scripts that were corrected since. What is read is the last batch that was committed when the
    reader was made, on either engine; the query may be running, and the checkpoint is never written
    to. Spark keeps that batch for a while only: `get` and `export` begin anew where it has gone.
    Spark's own state is read with ``spark``, the active session unless given, or a function
    that makes one; ``operator`` is the number or name of the operator, where several could be
    meant, and ``stores`` has the names that operators' stores get, as in
    ``{"orders": "aggregation-0"}``. Use it as a context manager, or call `close`.

    Raises `CheckpointError` for what is no checkpoint, or has nothing committed.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        *,
        migrations: str | Path | None = "migrations",
        targets: Mapping[str, str] | None = None,
        accept_edited: Sequence[str] = (),
        operator: int | str | None = None,
        stores: Mapping[str, str] | None = None,
        spark: Spark = None,
    ) -> None:
        self._targets = dict(targets or {})
        self._accept_edited = tuple(accept_edited)
        self._scripts = survey_of(migrations)
        self._lineages = dict(self._scripts.lineages) if self._scripts else {}
        self._state = open_state(
            str(checkpoint),
            self._lineages,
            targets=self._targets,
            operator=operator,
            stores=stores,
            spark=spark,
        )

    def __enter__(self) -> StateReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def batch(self) -> int:
        """The id of the micro-batch that is read, the last committed one."""
        return self._state.batch

    @property
    def engine(self) -> str:
        """What keeps the state: "embedded", "native", or "paged"."""
        return self._state.engine

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores."""
        return tuple(self._state.stores)

    def key_type(self, store: str) -> StructType:
        """The columns of a key: those grouped by, for map state then those of the map's own."""
        from pyspark.sql.types import StructType

        user_key = self._plan(store).declared.user_key
        own = () if user_key is None else user_key.fields
        return StructType([*self._state.key_of(store).fields, *own])

    def value_type(self, store: str) -> DataType:
        """The type of a value, for list state an array."""
        from pyspark.sql.types import ArrayType

        plan = self._plan(store)
        value = plan.target.format.struct_type()
        return ArrayType(value) if plan.declared.kind == "list" else value

    def key_columns(self, store: str) -> tuple[str, ...]:
        """The names of a key's columns."""
        return tuple(self.key_type(store).fieldNames())

    def entries(self, store: str, key: tuple[Any, ...] | None = None) -> Iterator[Entry]:
        """Every key of ``store`` once, with its value.

        A key is a tuple of the grouping columns' values, for map state followed by those of the
        map's key; with ``key`` only keys that begin with it are read. A value is a dictionary by
        field name, for list state a list of them. Raises `StartupError` if scripts and state do not
        fit, `TransformError` for a value that does not migrate, `CorruptFileError` for a damaged
        checkpoint.
        """
        return self._state.entries(self._plan(store), key)

    def parts(self, store: str, block: Block, tick: Callable[[int], None]) -> Iterator[IO[bytes]]:
        """What ``block`` makes of all `entries`, some thousands at once, in their order.

        Each file has one block or several, one after the other, and is closed with the next. Much
        of the embedded engine's state is made into blocks by several processes, to which ``block``
        travels. ``tick`` is told how many entries there were so far.
        """
        plan = self._plan(store)
        if isinstance(self._state, EmbeddedState):
            blocks = self._state.blocks(plan)
            if not blocks.is_small:
                yield from blocks.parts(block, tick)
                return
        done = 0
        for number, data in blocks_of(self._state.entries(plan), block):
            done += number
            tick(done)
            yield BytesIO(data)

    def get(self, store: str, *key: Any) -> Any | None:
        """The value under a key, given column by column; None if there is none."""
        return next((value for _, value in self.entries(store, key)), None)

    def close(self) -> None:
        """Let go of what reading needed."""
        self._state.close()

    def _plan(self, store: str) -> StorePlan:
        """How the store is read; raises what is wrong with this store's scripts."""
        if self._scripts is not None:
            self._scripts.require(store)
        return planned(self._state, store, self._lineages, self._targets, self._accept_edited)
