"""`current`: which revision each store of a checkpoint is at, and since when, by which code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.following.deployed import scripted_revision
from statemigrate.commands.following.log import Log, LogEntry, read_log
from statemigrate.commands.following.named import look_at_each
from statemigrate.configuration import NamedCheckpoint
from statemigrate.deployment import StoredStore
from statemigrate.errors import StatemigrateError
from statemigrate.files.opening import open_files
from statemigrate.migration import Lineage
from statemigrate.native.spark_state.retrying import looks_again
from statemigrate.state.scripted import Scripts

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


@dataclass(frozen=True)
class CurrentStore:
    """The revision that a store is written at, as the committed state says.

    ``message`` is its script's, None without one, and ``is_head`` whether it is the newest; None
    for a store without scripts. ``is_current`` is whether it is known to be the head, or what was
    asked for, which it is without scripts. ``older`` are the other live families' revisions, whose
    values are still to migrate. ``since``, ``code`` and ``by`` are the log's: when it came to that
    revision, and the code that writes it now; None where the log does not say. ``noted`` is the
    revision that the log has for it, which is another one after a release that keeps no log.
    """

    store: str
    revision: str
    message: str | None
    is_head: bool | None
    is_current: bool
    older: tuple[str, ...]
    since: str | None
    code: str | None
    by: str | None
    noted: str | None

    @property
    def differs(self) -> bool:
        """Whether the log says another revision than the state, which is what counts."""
        return self.noted is not None and self.noted != self.revision


@dataclass(frozen=True)
class Current:
    """The stores of a checkpoint as of its last committed ``batch``, and the ``log``."""

    checkpoint: str
    engine: str
    batch: int
    stores: tuple[CurrentStore, ...]
    log: Log

    @property
    def is_current(self) -> bool:
        """Whether every store is known to be at its head, or at what was asked for."""
        return all(each.is_current for each in self.stores)

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines; of the log, when it begins and what is damaged of it."""
        return {
            "checkpoint": self.checkpoint,
            "engine": self.engine,
            "batch": self.batch,
            "is_current": self.is_current,
            "stores": [
                {**asdict(each), "older": list(each.older), "differs": each.differs}
                for each in self.stores
            ],
            "log_since": self.log.since,
            "log_damaged": [each.to_json() for each in self.log.damaged],
        }


@dataclass(frozen=True)
class CurrentOf:
    """What was found at a checkpoint that has a name, or why nothing was."""

    checkpoint: NamedCheckpoint
    current: Current | None
    error: StatemigrateError | None = None

    def to_json(self) -> dict[str, Any]:
        """The parts, for machines."""
        return {
            "name": self.checkpoint.name,
            "path": self.checkpoint.path,
            "current": None if self.current is None else self.current.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@looks_again
def current(
    checkpoint: str | Path,
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> Current:
    """The revision of each store, read from the state, and what the log says of it.

    No value is counted: `status` does that. The parameters and errors are those of `status`.
    """
    scripts = Scripts.of(migrations, targets)
    with scripts.opened(checkpoint, operator=operator, stores=stores, spark=spark) as state:
        noted = read_log(open_files(state.checkpoint), state.batch)
        made = tuple(
            _store(name, stored, scripts, noted) for name, stored in scripts.told(state).items()
        )
        return Current(state.checkpoint, state.engine, state.batch, made, noted)


def current_of_all(
    checkpoints: Iterable[NamedCheckpoint],
    *,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> tuple[CurrentOf, ...]:
    """`current` of every checkpoint; what is wrong with one is told in its place."""
    shared: dict[str, Any] = {"migrations": migrations, "stores": stores, "spark": spark}
    looks = look_at_each(checkpoints, current, targets, **shared)
    return tuple(CurrentOf(*each) for each in looks)


def _store(store: str, stored: StoredStore, scripts: Scripts, noted: Log) -> CurrentStore:
    revision, lineage = stored.target.revision, scripts.lineages.get(store)
    scripted = None if lineage is None else scripted_revision(lineage, revision)
    mine = [
        each
        for each in noted.entries
        if each.store == store
        and (each.took_place or (each.outcome == "unknown" and each.revision == revision))
    ]
    last = mine[0] if mine else None
    is_its = last is not None and last.revision == revision
    started = next((each for each in mine if each.verb == "start"), None) if is_its else None
    return CurrentStore(
        store,
        revision,
        _message(lineage, revision),
        None if lineage is None else scripted == lineage.head,
        not scripts.is_broken(store)
        if lineage is None
        else scripted == lineage.resolve(scripts.targets.get(store, "head")),
        tuple(each.revision for each in stored.others),
        _since(mine, revision) if is_its else None,
        None if started is None else started.code,
        None if started is None else started.by,
        None if last is None else last.revision,
    )


def _since(mine: list[LogEntry], revision: str) -> str:
    """When the store came to the revision that it has been at since."""
    since = mine[0].time
    for each in mine:
        if each.revision != revision:
            break
        since = each.time
    return since


def _message(lineage: Lineage | None, revision: str) -> str | None:
    if lineage is None or revision not in lineage:
        return None
    applied = lineage.applied(revision)
    return applied[-1].message if applied else None
