"""Versions of a checkpoint copied elsewhere: as they are, with fewer records, or with others.

With other records the copy of the first version is written whole, and each later one as what has
changed since. Each is a version of its own, with changelogs, counts and hashes of what it holds.

A version that stays as it is has its files copied, never given a second name, and each is compared
with its checksum as it comes: a version that cannot be restored is found before anybody computes
with it.
"""

from __future__ import annotations

import heapq
import logging
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from statemigrate.blocks import in_blocks
from statemigrate.checkpoint import MEANINGS
from statemigrate.checkpoint.logs import Offsets, batches_in, names_in
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.batches import NAME
from statemigrate.embedded.committed import CommittedPartition, CommittedVersion, hold
from statemigrate.embedded.content_hash import Contents
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import PartitionState
from statemigrate.embedded.mirror import Mirror
from statemigrate.embedded.partition import Partition, PartitionPaths, opened
from statemigrate.embedded.versions import publish_manifest, read_manifest, retained_versions
from statemigrate.errors import UnsupportedError, without_credentials
from statemigrate.files import Files, LocalFiles

_AT_ONCE = 32
"""Partitions whose copies are open together, where records move from one to another."""
_BLOCK = 4_096
Write = tuple[bytes, bytes | None, bool]
"""A key, its value from now on or None, and whether the family had it before."""


@dataclass(frozen=True)
class CopiedFamily:
    """A family of records: its ``store``, what a manifest has of that, and the family itself."""

    store: str
    stored: StoredStore
    family: StoredFamily

    @property
    def has_complements(self) -> bool:
        """Whether its records are complements of values."""
        return self.stored.complement == self.family

    @property
    def has_elements(self) -> bool:
        """Whether each of its records is an element of a list, with a position behind the key."""
        return self.stored.variable_kind.has_several_values and not self.has_complements


class RecordChange(Protocol):
    """Changes records, the same record of two versions in the same way."""

    @property
    def moves(self) -> bool:
        """Whether a record may go to another partition than it has come from."""

    def keys(
        self, place: CopiedFamily, keys: Sequence[bytes], partition: int, *, elements: bool
    ) -> Sequence[tuple[int, bytes] | None]:
        """The partition and the key in place of each key of a ``partition``; None for none.

        ``elements`` says that a position is behind each key.
        """

    def values(
        self,
        place: CopiedFamily,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        held: ComplementedValues,
    ) -> Sequence[bytes]:
        """The values in place of some; ``held`` has those that complements belong to."""

    def cause(self, text: str) -> str:
        """What is written in place of the cause for which a value was left behind."""


@dataclass(frozen=True)
class ComplementedValues:
    """The values of a store in one partition, by the keys that the version itself has."""

    partition: CommittedPartition
    stored: StoredStore

    def under(self, key: bytes) -> tuple[StoredFamily, list[bytes]] | None:
        """The bytes under a key, of a list one for each element, and the family that has them."""
        for family in self.stored.families:
            found = self.partition.values_under(family.name, key, self.stored.kind)
            if found:
                return family, found
        return None


def copy_changed(
    old: Files, new: Path, batches: Sequence[int], change: RecordChange, working: Path
) -> None:
    """Copy the state after each of some ``batches``, and their logs, with other records.

    The ``batches`` are in order, and ``working`` is a new directory that the caller removes. Raises
    `UnsupportedError` where two records would have one key, and for a family that no store has;
    `CorruptFileError` for a version whose files do not make it.
    """
    target = LocalFiles(new)
    source, copied = Layout.over(old), Layout(new)
    states: tuple[PartitionState, ...] = ()
    with ExitStack() as held:
        before: CommittedVersion | None = None
        for batch in batches:
            version = held.enter_context(closing(hold(source, batch=batch, deadline=0.0)))
            states = states or (PartitionState(),) * len(version.manifest.partitions)
            step = _CopiedVersion(before, version, copied, working, change)
            states = step.copied_states(states)
            publish_manifest(copied, replace(version.manifest, partitions=states))
            if before is not None:
                before.close()
            before = version
    _copy_logs(old, target, batches)
    _copy_records(old, target, batches[-1])


@dataclass(frozen=True)
class _CopiedVersion:
    """A version that is copied, and the one before, whose copy is there."""

    before: CommittedVersion | None
    version: CommittedVersion
    copied: Layout
    working: Path
    change: RecordChange

    def copied_states(self, states: Sequence[PartitionState]) -> tuple[PartitionState, ...]:
        """The states of the copy's partitions, from those of the version before."""
        numbers = list(range(len(states)))
        made, places, counted = list(states), self._families(), self._counted()
        size = _AT_ONCE if self.change.moves else 1
        for start in numbers[::size]:
            some = numbers[start : start + size]
            with ExitStack() as stack:
                targets = {
                    number: stack.enter_context(self._target(number, made[number]))
                    for number in some
                }
                copies = _Copies(targets, places)
                for number in numbers if self.change.moves else some:
                    self._copy_partition(number, copies)
                for number, each in targets.items():
                    copies.settle(number, counted)
                    made[number] = each.commit(snapshot=False)
        return tuple(made)

    def _target(self, number: int, state: PartitionState) -> AbstractContextManager[Partition]:
        place = PartitionPaths(
            number, self.copied.partition(number), self.working / f"partition-{number}"
        )
        return opened(place, state, self.version.manifest.version)

    def _families(self) -> dict[str, CopiedFamily]:
        """By name the families that either version has, those of complements last."""
        found: dict[str, CopiedFamily] = {}
        for version in (self.version, self.before):
            if version is not None:
                for store, stored in version.manifest.stores.items():
                    for family in stored.every_family:
                        found.setdefault(family.name, CopiedFamily(store, stored, family))
        return found

    def _counted(self) -> frozenset[str]:
        """The families whose records are counted in each partition that has any."""
        states = self.version.manifest.partitions
        names = {name for state in states for name, count in state.entries.items() if count}
        return frozenset(
            name
            for name in names
            if all(state.entries.get(name, 0) is not None for state in states)
        )

    def _copy_partition(self, number: int, copies: _Copies) -> None:
        with ExitStack() as stack:
            after = stack.enter_context(self.version.partition(number))
            earlier = None
            if self.before is not None:
                earlier = stack.enter_context(self.before.partition(number))
            _check_known(after, copies.places, self.version.location)
            for place in copies.places.values():
                written = _written(earlier, after, place.family.name)
                for block in in_blocks(written, _BLOCK, _size):
                    self._copy_block(place, block, number, after, copies)
                self._copy_marks(place, number, after, copies)

    def _copy_block(
        self,
        place: CopiedFamily,
        block: Sequence[Write],
        number: int,
        after: CommittedPartition,
        copies: _Copies,
    ) -> None:
        keys = [key for key, _, _ in block]
        found = self.change.keys(place, keys, number, elements=place.has_elements)
        kept = [
            (at, write) for at, write in zip(found, block, strict=True)
            if at is not None and at[0] in copies.targets
        ]  # fmt: skip
        puts = [(key, value) for _, (key, value, _) in kept if value is not None]
        held = ComplementedValues(after, place.stored)
        values = iter(
            self.change.values(place, [key for key, _ in puts], [each for _, each in puts], held)
        )
        made = [
            (partition, (key, None if value is None else next(values), is_known))
            for (partition, key), (_, value, is_known) in kept
        ]
        for partition, some in groupby(sorted(made, key=_by_partition), key=itemgetter(0)):
            copies.write(partition, place, [write for _, write in some])

    def _copy_marks(
        self, place: CopiedFamily, number: int, after: CommittedPartition, copies: _Copies
    ) -> None:
        marks = list(after.quarantined(place.family.name))
        keys = self.change.keys(place, [key for key, _ in marks], number, elements=False)
        for found, (_, cause) in zip(keys, marks, strict=True):
            if found is not None and found[0] in copies.targets:
                copies.marks[found[0]].append((place, found[1], self.change.cause(cause)))


class _Copies:
    """The open copies of some partitions, and what is written into them."""

    def __init__(
        self, targets: Mapping[int, Partition], places: Mapping[str, CopiedFamily]
    ) -> None:
        self.targets, self.places = targets, places
        self.marks: dict[int, list[tuple[CopiedFamily, bytes, str]]] = defaultdict(list)
        # Record by record: a list's elements as they are. What was noted of a family is forgotten.
        self._families = {
            (number, name): target.target(place.family, "value")
            for number, target in targets.items()
            for name, place in places.items()
        }

    def write(self, number: int, place: CopiedFamily, writes: Sequence[Write]) -> None:
        """Write records of a family, in the order of their keys."""
        family = self._families[number, place.family.name]
        gone = [key for key, value, _ in writes if value is None]
        changed = [(key, value) for key, value, known in writes if value is not None and known]
        added = [(key, value) for key, value, known in writes if value is not None and not known]
        if gone:
            family.delete_many(gone)
        if changed:
            family.put_many_encoded([key for key, _ in changed], [each for _, each in changed])
        if added:
            keys = [key for key, _ in added]
            if len(set(keys)) < len(keys) or family.contains_any(keys):
                raise _one_key(place)
            family.put_many_encoded(keys, [each for _, each in added])

    def settle(self, number: int, counted: Collection[str]) -> None:
        """Count what the version has counted, and mark what it has marked."""
        for name, place in self.places.items():
            if name in counted:
                self.targets[number].source(place.family, "value")
        for place, key, cause in self.marks[number]:
            self.targets[number].quarantine(place.family.name, key, cause)


def _written(
    before: CommittedPartition | None, after: CommittedPartition, family: str
) -> Iterator[Write]:
    """What makes the records of a family those of the version after, in the order of their keys."""
    old: Iterable[tuple[bytes, bytes]] = () if before is None else before.records(family)
    both = heapq.merge(
        ((key, value, 0) for key, value in old),
        ((key, value, 1) for key, value in after.records(family)),
        key=itemgetter(0),
    )
    for key, some in groupby(both, key=itemgetter(0)):
        found = {side: value for _, value, side in some}
        if found.get(0) != found.get(1):
            yield key, found.get(1), 0 in found


def _size(write: Write) -> int:
    return len(write[0]) + len(write[1] or b"")


def _by_partition(write: tuple[int, Write]) -> tuple[int, bytes]:
    return write[0], write[1][0]


def _check_known(
    partition: CommittedPartition, places: Mapping[str, CopiedFamily], location: str
) -> None:
    """Raise `UnsupportedError` for records of a family that no store has, whose format is lost."""
    unknown = sorted(partition.filled - places.keys())
    if unknown:
        raise UnsupportedError(
            "SM-EMBEDDED-035",
            f"{location} has records of {unknown[0]}, which no store has",
            expected="families of the stores that the manifest names",
            found=unknown[0],
            next_action="copy the version as it is; nobody knows the format of these records",
            family=unknown[0],
            path=location,
        )


def _one_key(place: CopiedFamily) -> UnsupportedError:
    return UnsupportedError(
        "SM-EMBEDDED-034",
        f"two records of {place.store} would have one key in the copy",
        expected="another key for each of them",
        found="the same key twice",
        next_action="leave the columns of the key as they are; those of few different values "
        "have no room for others",
        store=place.store,
    )


_log = logging.getLogger("statemigrate.embedded")


def heartbeat_line(offsets: Offsets) -> str:
    """The line of an offset log that is the engine's own source, which has no rows."""
    # It is united with the stream, behind whatever that reads.
    return NAME if offsets.named else next(reversed(offsets.by_source))


def removed_versions(files: Files, batches: Sequence[int]) -> list[int]:
    """Those of some ``batches`` whose state is retained no longer.

    Raises `UnsupportedError` for a query that has state of Spark's too.
    """
    if files.list("state"):
        raise UnsupportedError(
            "SM-EMBEDDED-032",
            f"the query of {files.location} has state of Spark's and of the embedded engine",
            expected="a stream without stateful operators in front of the processor",
            found=f"{files.location}/state",
            next_action="nothing here copies both together; let the processor do what the "
            "operator does",
            path=files.location,
        )
    there = set(retained_versions(Layout.over(files)))
    return [batch for batch in batches if batch not in there]


def fork_versions(old: Files, new: Path, batches: Sequence[int]) -> None:
    """Copy the state after each of some ``batches``, and their logs and records, to a directory.

    The new place has the query's id. What its sources keep is left out. Raises `CorruptFileError`
    for a version whose files do not make it.
    """
    _copy_versions(old, new, batches)
    _copy_records(old, LocalFiles(new), batches[-1])


def fork_version(old: Files, new: Path, batch: int) -> None:
    """Copy the state after a ``batch`` to a directory, for a query with an id of its own.

    What the old query's starts have recorded is left out. Raises as `fork_versions`.
    """
    _copy_versions(old, new, [batch])
    target = LocalFiles(new)
    target.replace("metadata", f'{{"id":"{uuid.uuid4()}"}}'.encode())
    if batch > 0:
        # A query that starts reads the offsets of the batch before, and goes on from the last.
        target.put(f"offsets/{batch - 1}", old.get(f"offsets/{batch}"))


def _copy_versions(old: Files, new: Path, batches: Sequence[int]) -> None:
    layout, copied = Layout.over(old), Layout(new)
    mirror = Mirror(Layout(new, old))
    for batch in batches:
        manifest = read_manifest(layout, batch)
        brought = mirror.bring(manifest.partitions)
        if mirror.lost:
            mirror.require_whole(brought)
        states = tuple(each.standalone for each in brought)
        publish_manifest(copied, replace(manifest, partitions=states))
    for each in mirror.lost:
        _log.warning(
            "%s (%s); other files make the version", without_credentials(each.headline), each.found
        )
    _copy_logs(old, LocalFiles(new), batches)


def _copy_logs(old: Files, target: LocalFiles, batches: Sequence[int]) -> None:
    for batch in batches:
        for name in (f"offsets/{batch}", f"commits/{batch}"):
            target.put(name, old.get(name))
    target.put("metadata", old.get("metadata"))


def _copy_records(old: Files, target: LocalFiles, batch: int) -> None:
    """Copy what starts up to a batch have recorded of the code: its settings are among it."""
    for start in batches_in(names_in(old, MEANINGS)):
        if start <= batch:
            name = f"{MEANINGS}/{start}"
            target.put(name, old.get(name))


def contents_at(files: Files, batch: int) -> dict[str, Contents]:
    """By family what the state after a ``batch`` holds, every record of it read.

    Raises as `hold`.
    """
    found: dict[str, Contents] = {}
    with closing(hold(Layout.over(files), batch=batch, deadline=0.0)) as version:
        for number in range(len(version.manifest.partitions)):
            with version.partition(number) as partition:
                for name, each in partition.contents().items():
                    found[name] = found.get(name, Contents()) + each
    return found
