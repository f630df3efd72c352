"""Reading a query's state from outside, as of the last version that was committed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from statemigrate.access import DualAccess
from statemigrate.deployment import (
    Declared,
    Settings,
    StoredFamily,
    StoredStore,
    StorePlan,
    dual_access,
    plan_store,
)
from statemigrate.embedded.database import Database
from statemigrate.embedded.families import RocksFamily, family_class
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest
from statemigrate.embedded.query import last_committed
from statemigrate.embedded.restore import open_at
from statemigrate.errors import CheckpointError
from statemigrate.migration import Lineage
from statemigrate.processor.keys import KeyCodec, shown_key

Entry = tuple[tuple[Any, ...], Any]


class StateReader:
    """The stores of a checkpoint in their target format, whatever is migrated so far.

    ``migrations`` is the folder of scripts, needed for stores that have some; ``targets`` names, by
    store, the revision to read in, the head unless said otherwise. The checkpoint is never written
    to: partitions are restored into a temporary directory, which `close` removes. Use it as a
    context manager; it may be used while the query runs.

    Raises `CheckpointError` if nothing is committed.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        *,
        migrations: str | Path | None = None,
        targets: Mapping[str, str] | None = None,
    ) -> None:
        from pyspark.sql.types import StructType

        self._layout = Layout.of(checkpoint)
        self._manifest = _committed(self._layout)
        self._settings = Settings(migrations or "migrations", targets or {})
        self._lineages = {} if migrations is None else _lineages(migrations)
        self._keys = KeyCodec(StructType.fromJson(self._manifest.key_schema))
        self._open: dict[int, Database] = {}
        self._working = Path(tempfile.mkdtemp(prefix="statemigrate-reader-"))

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
    def version(self) -> int:
        """The version that is read: the id of the last committed micro-batch."""
        return self._manifest.version

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores."""
        return tuple(self._manifest.stores)

    def entries(self, store: str) -> Iterator[Entry]:
        """Every key of ``store`` once, with its value; in key order within a partition.

        A key is a tuple of the grouping columns' values, for map state followed by those of the
        map's key. A value is a dictionary by field name, for list state a list of them. Raises
        `StartupError` if scripts and state do not fit, `TransformError` for a value that does not
        migrate, `CorruptFileError` for a damaged checkpoint.
        """
        plan = self._plan(store)
        user_keys = None if plan.declared.user_key is None else KeyCodec(plan.declared.user_key)
        shown = partial(shown_key, self._keys, user_keys)
        for number in range(len(self._manifest.partitions)):
            for key, value in self._access(plan, number, shown).scan():
                yield shown(key), value

    def close(self) -> None:
        """Release the restored partitions and remove them."""
        while self._open:
            _, database = self._open.popitem()
            database.close()
        shutil.rmtree(self._working, ignore_errors=True)

    def _plan(self, store: str) -> StorePlan:
        stored = self._manifest.stored_stores().get(store)
        if stored is None:
            raise CheckpointError(
                f"the checkpoint {self._layout.checkpoint} has no store {store}",
                expected=f"one of {', '.join(self.stores)}",
                found=store,
                next_action="name a store of this checkpoint",
                path=str(self._layout.checkpoint),
            )
        lineage = self._lineages.get(store)
        declared = _as_declared(store, stored, lineage, self._settings)
        return plan_store(declared, lineage, stored, self._settings)

    def _access(
        self, plan: StorePlan, number: int, show_key: Callable[[bytes], tuple[Any, ...]]
    ) -> DualAccess[Any]:
        sources = [self._family(family, plan, number) for family in plan.sources]
        target = self._family(plan.target, plan, number)
        return dual_access(plan, target, sources, show_key=show_key)

    def _family(self, family: StoredFamily, plan: StorePlan, number: int) -> RocksFamily:
        column = self._database(number).column(family.name)
        entries = self._manifest.partitions[number].entries.get(family.name, 0)
        return family_class(plan.declared.kind)(
            family.name,
            family.revision,
            family.format,
            column=column,
            write=_refuse,
            entries=entries,
        )

    def _database(self, number: int) -> Database:
        if number not in self._open:
            state = self._manifest.partitions[number]
            working = self._working / str(number)
            self._open[number] = open_at(state, self._layout.partition(number), working)
        return self._open[number]


def _committed(layout: Layout) -> Manifest:
    manifest = last_committed(layout)
    if manifest is None:
        raise CheckpointError(
            f"nothing is committed in the checkpoint {layout.checkpoint}",
            expected="at least one committed batch",
            found="none",
            next_action="check the path; a query writes its state with its first batch",
            path=str(layout.checkpoint),
        )
    return manifest


def _lineages(migrations: str | Path) -> dict[str, Lineage]:
    from statemigrate.scripts import ScriptFolder

    return ScriptFolder(migrations).lineages()


def _as_declared(
    store: str, stored: StoredStore, lineage: Lineage | None, settings: Settings
) -> Declared:
    """The store as code written for the target would declare it."""
    from pyspark.sql.types import StructType

    target = stored.families[0].format
    if lineage is not None:
        target = lineage.format_of(lineage.resolve(settings.targets.get(store, "head")))
    user_key = None if stored.user_key is None else StructType.fromJson(stored.user_key)
    return Declared(store, stored.kind, target.struct_type(), user_key)


def _refuse(key: bytes, value: bytes | None) -> None:
    raise AssertionError(f"a reader writes nothing, yet {key!r} was to become {value!r}")
