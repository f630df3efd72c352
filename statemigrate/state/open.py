"""Opening the committed state of a checkpoint, whichever engine wrote it.

Opening a checkpoint of either engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statemigrate.checkpoint import CheckpointDirectory
from statemigrate.errors import CheckpointError, LineageError, UnsupportedError, did_you_mean
from statemigrate.files import Files, Remembered, files_to_read
from statemigrate.quoting import argument
from statemigrate.state.project import Project

if TYPE_CHECKING:
    from statemigrate.deployment import StoredStore
    from statemigrate.migration import Lineage
    from statemigrate.scripts import Applied, Survey
    from statemigrate.state.protocol import State


Engine = Literal["embedded", "native"]


def directory_of(checkpoint: str, files: Files | None = None) -> CheckpointDirectory:
    """The directory of a checkpoint, a path or URI, whose ``files`` may be open already."""
    return CheckpointDirectory(files or files_to_read(checkpoint), checkpoint)


def engine_of(checkpoint: str | Path, files: Files | None = None) -> Engine:
    """What keeps the state of this checkpoint, whose ``files`` may be open already.

    Raises `CheckpointError` for what is not the checkpoint of a query that keeps state.
    """
    directory = directory_of(str(checkpoint), files)
    if directory.is_embedded:
        return "embedded"
    has_commits = directory.has("commits")
    if has_commits and directory.has("state"):
        return "native"
    raise CheckpointError(
        "SM-CHECKPOINT-032",
        f"{checkpoint} is not the checkpoint of a stateful query",
        expected="a checkpoint directory of Spark's, with state/ or statemigrate/versions/ in it",
        found=_found(has_commits, directory.exists),
        next_action="name the directory that the query has as its checkpointLocation; "
        "its first batch makes the state",
        path=str(checkpoint),
    )


def is_embedded(checkpoint: str | Path) -> bool:
    """Whether the embedded engine keeps its state in this directory."""
    return directory_of(str(checkpoint)).is_embedded


def open_committed(
    checkpoint: str | Path, lineages: Mapping[str, Lineage], project: Project
) -> State:
    """The committed state of a checkpoint, read without disturbing a query that may be running.

    Raises `CheckpointError` where there is nothing to read, `LineageError` for a target of a store
    that ``lineages`` do not have.
    """
    path = str(checkpoint)
    if lineages:
        require_scripted(project.targets, lineages)
    given = project.spark
    files = Remembered(files_to_read(path, None if callable(given) else given))
    if engine_of(path, files) == "embedded":
        # RocksDB is loaded where it is needed alone.
        from statemigrate.state.embedded import EmbeddedState

        return EmbeddedState(path)
    from statemigrate.state.open_spark import open_spark_state

    return open_spark_state(path, lineages, project, files)


def require_scripted(targets: Mapping[str, str], stores: Collection[str]) -> None:
    """Raise `LineageError` for a target that is of none of the stores with scripts."""
    for store in sorted(targets.keys() - set(stores)):
        meant = did_you_mean(store, stores)
        raise LineageError(
            "SM-LINEAGE-028",
            f"A target is named for {store}, which has no scripts, or broken ones.",
            expected=f"one of {', '.join(sorted(stores))}",
            found=f"{store}={targets[store]}",
            next_action=f"correct the store in targets, or --target{meant}; for broken ones, "
            "`statemigrate check`",
            store=store,
        )


def _found(has_commits: bool, exists: bool) -> str:
    if has_commits:
        return "a query's checkpoint without state: no batch has kept any"
    return "a directory without either" if exists else "no such directory"


def require_store(checkpoint: str, store: str) -> None:
    """Raise `CheckpointError` if the files of a checkpoint alone tell that it has no such store."""
    if engine_of(checkpoint) == "embedded":
        return
    from statemigrate.checkpoint.operators import known_variables
    from statemigrate.deployment import is_family_of, store_of
    from statemigrate.pages import is_marker, is_paged, records
    from statemigrate.state.protocol import no_such_store

    files = directory_of(checkpoint).files
    variables = known_variables(files)
    if variables is not None and is_paged(files):
        # Another operator of the query may have variables of its own.
        own = {name for name in variables if not is_marker(name)}
        known = [store for each in records(files).values() for store in each.stores]
        variables = frozenset({*own, *known}) if known else None
    if variables is None or any(is_family_of(store, name) for name in variables):
        return
    # Spark keeps variables of its own, with a dollar in front.
    stores = sorted({store_of(name) for name in variables if not name.startswith("$")})
    raise no_such_store(checkpoint, store, stores)


def require_own_state(checkpoint: str) -> None:
    """Raise `UnsupportedError` for state that only Spark's own operators keep.

    No running query migrates it. What a function of ``applyInPandasWithState`` keeps may be.
    """
    from statemigrate.checkpoint.operators import KINDS, operator_names

    names = set(operator_names(directory_of(checkpoint).files).values())
    own = {name for kind in KINDS if kind.is_of_user_code for name in kind.names}
    if names and not names & own:
        raise UnsupportedError(
            "SM-REWRITE-061",
            f"no running query migrates the state in {checkpoint}: it is that of Spark's operators",
            expected="state of a processor or function of yours",
            found=", ".join(sorted(names)),
            next_action=f"stop the query and `statemigrate rewrite {argument(checkpoint)} NEW "
            "--code "
            "MODULE:FUNCTION`, which makes a new checkpoint from it",
            path=checkpoint,
        )


# Opening a checkpoint together with the scripts of its stores, whatever is wrong with those.


@dataclass(frozen=True)
class Scripts:
    """What a project has for the stores of a checkpoint; ``survey`` is None for no folder.

    A store whose scripts are broken is read all the same: the targets are of those that are sound.
    """

    survey: Survey | None
    project: Project

    @classmethod
    def of(cls, project: Project) -> Scripts:
        """Read the folder. Raises `LineageError` for a target of a store that has no scripts."""
        found, targets = project.survey, project.targets
        if found is None:
            return cls(None, replace(project, targets={}))
        require_scripted(targets, found.stores)
        sound = {store: at for store, at in targets.items() if store in found.lineages}
        return cls(found, replace(project, targets=sound))

    @property
    def targets(self) -> Mapping[str, str]:
        """The revisions that are asked for, of the stores in whose scripts nothing is wrong."""
        return self.project.targets

    @property
    def lineages(self) -> Mapping[str, Lineage]:
        """Those of the stores in whose scripts nothing is wrong."""
        return self.survey.lineages if self.survey else {}

    @property
    def stores(self) -> list[str]:
        """The stores that any script names."""
        return self.survey.stores if self.survey else []

    def reported_stores(self, state: State) -> Mapping[str, StoredStore]:
        """The stores of a state that are reported, by name."""
        from statemigrate.state.protocol import reported_stores

        return reported_stores(state, self.stores)

    def is_broken(self, store: str) -> bool:
        """Whether something is wrong with its scripts, or with one that may be of any store."""
        if self.survey is None:
            return False
        if any(fault.store is None for fault in self.survey.found_faults):
            return True
        return store in self.stores and store not in self.lineages

    @contextmanager
    def opened(self, checkpoint: str | Path) -> Iterator[State]:
        """The state of a checkpoint, as `open_committed` opens it."""
        with closing(open_committed(checkpoint, dict(self.lineages), self.project)) as state:
            yield state


# What was applied to a checkpoint, of either engine, as it says itself.


def applied_by(checkpoint: str) -> Applied:
    """By store and revision, the checksum that the script had.

    Raises `CheckpointError` for what is not a checkpoint, `CorruptFileError` for a damaged one.
    """
    directory = directory_of(checkpoint)
    if directory.is_embedded:
        from statemigrate.embedded import Layout, last_committed

        manifest = last_committed(Layout.over(files_to_read(checkpoint)))
        return _checksums(manifest.stores if manifest else {})
    from statemigrate.native import read_record
    from statemigrate.pages import records

    # Those of its pages' operators and of others; of one store name several may tell.
    found: dict[str, dict[str, str]] = {}
    for stores in (read_record(checkpoint), *(p.stores for p in records(directory.files).values())):
        for store, applied in _checksums(stores).items():
            found[store] = {**found.get(store, {}), **applied}
    if not (found or directory.has("offsets") or directory.has("commits")):
        raise CheckpointError(
            "SM-CHECKPOINT-001",
            f"{checkpoint} is not the checkpoint of a streaming query",
            expected="a directory with the folders offsets and commits",
            found="no such folders",
            next_action="name the directory that the query has as its checkpoint",
            path=checkpoint,
        )
    return found


def _checksums(stores: Any) -> Applied:
    return {store: dict(each.applied) for store, each in stores.items()}
