"""Manifests: the commit point of a state version.

A manifest names, for every partition, the snapshot and the changelogs that make up version n (the
id of the micro-batch that wrote it), and what each store's families hold. It appears after all
partitions have made their files durable; without it the batch never happened.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.deployment import VARIABLE_KINDS, Occupancy, StoredStore
from statemigrate.embedded.content_hash import Contents
from statemigrate.embedded.durable import FILE, FileReference
from statemigrate.files import OBJECT, Maybe, OneOf, Table, check_shape

EMPTY_STATE = "empty"

_PACK = {"name": str, "offset": int}
_CHANGELOG = {"file": FILE, "state": str, "pack": Maybe(_PACK, missing=True)}
_CONTENTS = Maybe(Table({"records": int, "hash": str}), missing=True)
_SUM_OF_SHA256 = re.compile("[0-9a-f]{64}")
"""A hash of the kind that manifests had first. Contents with it are not known."""
_SNAPSHOT = {
    "file": FILE,
    "state": str,
    "contents": _CONTENTS,
    "records": Maybe(Table(int), missing=True),
    "step": Maybe(_CHANGELOG, missing=True),
}
_CHAIN = {"snapshot": Maybe(_SNAPSHOT), "changelogs": [_CHANGELOG]}
_STATE = {
    **_CHAIN,
    "state": str,
    "contents": _CONTENTS,
    "entries": Table(Maybe(int)),
    "quarantined": Table(int),
    "base": Maybe({**_CHAIN, "written": int}, missing=True),
}
_FAMILY = {"name": str, "revision": str, "format": OBJECT}
_STORE = {
    "kind": OneOf(tuple(VARIABLE_KINDS)),
    "families": [_FAMILY],
    "applied": Table(str),
    "user_key": Maybe(OBJECT),
}
_COLUMN = {"name": str, "type": object, "nullable": bool}
_MANIFEST = {
    "key": {
        "type": Maybe(OneOf(("struct",)), missing=True),
        "fields": Maybe([_COLUMN], missing=True),
    },
    "partitions": [_STATE],
    "stores": Table(_STORE),
    "backfill": OBJECT,
}


@dataclass(frozen=True)
class Pack:
    """Where a changelog is in a file that has those of several partitions: from which byte on."""

    name: str
    offset: int


@dataclass(frozen=True)
class ChangelogReference:
    """A changelog in the chain, and the state's identity once it is applied.

    In the checkpoint it is a file of its own, or part of a ``pack``.
    """

    file: FileReference
    state: str
    pack: Pack | None = None

    def to_json(self) -> dict[str, Any]:
        """The form that a manifest has."""
        found = {"file": vars(self.file), "state": self.state}
        return found if self.pack is None else {**found, "pack": vars(self.pack)}


@dataclass(frozen=True)
class SnapshotReference:
    """A snapshot's listing, and the identity of the state it holds.

    ``records`` are those of each family, read whole in the stored files; None for a snapshot that
    was never read back, as those of the first release. ``contents`` is what it should hold, by
    family; None where that is not known. ``step`` is the changelog of the batch that the
    snapshot was stored in, where nothing else names it: with it the same state can be made from
    the version before.
    """

    file: FileReference
    state: str
    records: dict[str, int] | None = None
    step: ChangelogReference | None = None
    contents: dict[str, Contents] | None = None

    def to_json(self) -> dict[str, Any]:
        """The form that a manifest has."""
        found = {"file": vars(self.file), "state": self.state, "records": self.records}
        found |= _stored_contents(self.contents)
        return found if self.step is None else {**found, "step": self.step.to_json()}


@dataclass(frozen=True)
class CountedBase:
    """What can restore a state without any snapshot that was not read back.

    ``snapshot`` is the newest that was (None: from the beginning), ``changelogs`` are all since,
    and ``written`` is the number of records in them.
    """

    snapshot: SnapshotReference | None = None
    changelogs: tuple[ChangelogReference, ...] = ()
    written: int = 0

    @property
    def is_counted(self) -> bool:
        """Whether that is so; not of what the first release wrote."""
        return self.snapshot is None or self.snapshot.records is not None


@dataclass(frozen=True)
class PartitionState:
    """One partition at one version: a snapshot, the changelogs since, and what they add up to.

    ``state`` identifies the content by its whole history of changelogs. ``entries`` has, for each
    family, the exact number of its records where it is known, else None for "some" and 0 for none.
    ``base`` gives the same state, and is kept as long as this one is. ``contents`` has the number
    and the hash of the records of each family that has any; None of what a release without them
    has written, until it is read whole.
    """

    state: str = EMPTY_STATE
    snapshot: SnapshotReference | None = None
    changelogs: tuple[ChangelogReference, ...] = ()
    entries: dict[str, int | None] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    base: CountedBase = CountedBase()
    contents: dict[str, Contents] | None = None

    @property
    def known_contents(self) -> dict[str, Contents] | None:
        """``contents``, which of the empty state are known."""
        return {} if self.state == EMPTY_STATE else self.contents

    def followed_by(self, file: FileReference, records: int) -> PartitionState:
        """The state once the changelog ``file``, of so many records, is applied; not described."""
        state = state_after(self.state, file)
        changelog = ChangelogReference(file, state)
        base = CountedBase(
            self.base.snapshot, (*self.base.changelogs, changelog), self.base.written + records
        )
        return PartitionState(state, self.snapshot, (*self.changelogs, changelog), base=base)

    def to_json(self) -> dict[str, Any]:
        """The form that manifests and reports of tasks have."""
        return {
            "state": self.state,
            **_chain(self.snapshot, self.changelogs),
            "entries": self.entries,
            "quarantined": self.quarantined,
            **_stored_contents(self.contents),
            "base": {
                **_chain(self.base.snapshot, self.base.changelogs),
                "written": self.base.written,
            },
        }

    def about(self, family: str) -> int:
        """How many records a family has, or where that is not known, may have at the most."""
        found = self.entries.get(family, 0)
        if found is not None:
            return found
        if self.contents is not None:
            return self.contents[family].records if family in self.contents else 0
        counted = self.base.snapshot.records if self.base.snapshot else None
        return (counted or {}).get(family, 0) + self.base.written

    @property
    def all_changelogs(self) -> tuple[ChangelogReference, ...]:
        """Those since either snapshot, and those that lead to them."""
        named = (*self._chains, *self._steps)
        return tuple({each.file.name: each for each in named}.values())

    @property
    def chain_changelogs(self) -> tuple[ChangelogReference, ...]:
        """Those since either snapshot."""
        return tuple({each.file.name: each for each in self._chains}.values())

    @property
    def all_snapshots(self) -> tuple[SnapshotReference, ...]:
        """The newest one, and the newest that was read back."""
        found = (self.snapshot, self.base.snapshot)
        return tuple({each.file.name: each for each in found if each is not None}.values())

    @property
    def _chains(self) -> tuple[ChangelogReference, ...]:
        return (*self.changelogs, *self.base.changelogs)

    @property
    def _steps(self) -> tuple[ChangelogReference, ...]:
        return tuple(each.step for each in self.all_snapshots if each.step is not None)

    @property
    def packs(self) -> dict[str, Pack]:
        """Where changelogs are that are in a pack, by their names."""
        named = (*self._chains, *self._steps)
        return {each.file.name: each.pack for each in named if each.pack is not None}

    def packed(self, packs: Mapping[str, Pack]) -> PartitionState:
        """The same, some of its changelogs, by name, in a pack."""
        return replace(
            self,
            snapshot=_stepped(self.snapshot, packs),
            changelogs=_packed(self.changelogs, packs),
            base=replace(
                self.base,
                snapshot=_stepped(self.base.snapshot, packs),
                changelogs=_packed(self.base.changelogs, packs),
            ),
        )

    @property
    def standalone(self) -> PartitionState:
        """The same, where each changelog since a snapshot is a file, and no version before."""
        return replace(
            self,
            snapshot=_without_step(self.snapshot),
            changelogs=_unpacked(self.changelogs),
            base=replace(
                self.base,
                snapshot=_without_step(self.base.snapshot),
                changelogs=_unpacked(self.base.changelogs),
            ),
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> PartitionState:
        """Read what `to_json` gave."""
        # The first release noted no base: the one snapshot, and what came since.
        base = document.get("base") or {**document, "written": 0}
        return cls(
            document["state"],
            _snapshot(document["snapshot"]),
            _changelogs(document["changelogs"]),
            document["entries"],
            document["quarantined"],
            CountedBase(
                _snapshot(base["snapshot"]), _changelogs(base["changelogs"]), base["written"]
            ),
            _contents(document.get("contents")),
        )


@dataclass(frozen=True)
class Manifest:
    """One committed state version of the whole query, by the writer of an epoch."""

    version: int
    key_schema: dict[str, Any]
    partitions: tuple[PartitionState, ...]
    stores: dict[str, StoredStore]
    backfill: dict[str, Any]
    epoch: int = 1

    def to_json(self) -> dict[str, Any]:
        """All but the version and epoch."""
        return {
            "key": self.key_schema,
            "partitions": [state.to_json() for state in self.partitions],
            "stores": {name: store.to_json() for name, store in self.stores.items()},
            "backfill": self.backfill,
        }

    @classmethod
    def from_json(cls, version: int, epoch: int, document: dict[str, Any]) -> Manifest:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        check_shape(document, _MANIFEST)
        return cls(
            version,
            document["key"],
            tuple(PartitionState.from_json(each) for each in document["partitions"]),
            {name: StoredStore.from_json(each) for name, each in document["stores"].items()},
            document["backfill"],
            epoch,
        )

    def is_empty(self, family: str) -> bool:
        """Whether no partition holds a record of ``family``."""
        return all(state.entries.get(family, 0) == 0 for state in self.partitions)

    @property
    def is_counted(self) -> bool:
        """Whether every partition can be restored without a snapshot that was not read back."""
        return all(state.base.is_counted for state in self.partitions)

    def left(self, family: str) -> int | None:
        """The exact number of records of ``family``, None where it is not counted."""
        counts = [state.entries.get(family, 0) for state in self.partitions]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def stored_stores(self) -> dict[str, StoredStore]:
        """The stores, each family marked by whether it holds anything."""
        return {name: store.marked(self.occupancy_of) for name, store in self.stores.items()}

    def occupancy_of(self, family: str) -> Occupancy:
        """Whether ``family`` has values in any partition's committed state."""
        return "nothing" if self.is_empty(family) else "something"


def _chain(
    snapshot: SnapshotReference | None, changelogs: tuple[ChangelogReference, ...]
) -> dict[str, Any]:
    return {
        "snapshot": None if snapshot is None else snapshot.to_json(),
        "changelogs": [each.to_json() for each in changelogs],
    }


def _packed(
    changelogs: tuple[ChangelogReference, ...], packs: Mapping[str, Pack]
) -> tuple[ChangelogReference, ...]:
    return tuple(
        replace(each, pack=packs[each.file.name]) if each.file.name in packs else each
        for each in changelogs
    )


def _stepped(
    snapshot: SnapshotReference | None, packs: Mapping[str, Pack]
) -> SnapshotReference | None:
    if snapshot is None or snapshot.step is None:
        return snapshot
    return replace(snapshot, step=_packed((snapshot.step,), packs)[0])


def _without_step(snapshot: SnapshotReference | None) -> SnapshotReference | None:
    return None if snapshot is None else replace(snapshot, step=None)


def _unpacked(changelogs: tuple[ChangelogReference, ...]) -> tuple[ChangelogReference, ...]:
    return tuple(replace(each, pack=None) for each in changelogs)


def _snapshot(document: dict[str, Any] | None) -> SnapshotReference | None:
    if document is None:
        return None
    step = document.get("step")
    return SnapshotReference(
        _file(document["file"]),
        document["state"],
        document.get("records"),
        None if step is None else _changelogs([step])[0],
        _contents(document.get("contents")),
    )


def _changelogs(documents: list[dict[str, Any]]) -> tuple[ChangelogReference, ...]:
    return tuple(
        ChangelogReference(_file(each["file"]), each["state"], _pack(each.get("pack")))
        for each in documents
    )


def _stored_contents(contents: dict[str, Contents] | None) -> dict[str, Any]:
    if contents is None:
        return {}
    return {"contents": {name: each.to_json() for name, each in contents.items()}}


def _contents(document: dict[str, Any] | None) -> dict[str, Contents] | None:
    if document is None or any(
        _SUM_OF_SHA256.fullmatch(each["hash"]) for each in document.values()
    ):
        return None
    return {name: Contents.from_json(each) for name, each in document.items()}


def _pack(document: dict[str, Any] | None) -> Pack | None:
    return None if document is None else Pack(document["name"], document["offset"])


def _file(document: dict[str, Any]) -> FileReference:
    return FileReference(document["name"], document["sha256"], document["size"])


def state_after(before: str, changelog: FileReference) -> str:
    """The identity of a state: that of the one before, and the changelog applied to it."""
    return hashlib.sha256(f"{before}/{changelog.sha256}".encode()).hexdigest()
