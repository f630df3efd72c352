"""The manifests of a checkpoint: publishing one, and finding the one that counts.

``versions/<n>-<e>.json`` is version n as the writer of epoch e made it; of several the one with the
highest epoch counts. It is made once and never changes. Before there were epochs it was
``versions/<n>.json``, which counts as that of epoch 0.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from statemigrate.checkpoint import Epoch, is_listed, newest_epoch
from statemigrate.checkpoint import claim as claim_epoch
from statemigrate.embedded.content_hash import Contents
from statemigrate.embedded.layout import VERSIONS, Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.errors import CheckpointInUseError, CorruptFileError, without_credentials
from statemigrate.files import RESTORE_COPY, FileEntry, sealed, understood, unsealed

# Beginning an epoch in a checkpoint of the embedded engine, also of before there were epochs.


_FORMAT = 2
BARRIER = 10**18
"""A version that no query reaches. Releases without epochs take its file for state that is further
than Spark's logs, and so refuse a checkpoint whose newer manifests they do not see."""


def claim(layout: Layout) -> Epoch:
    """As `claim` of the epochs; the first one shuts releases without epochs out."""
    return claim_epoch(layout.files, first=partial(_raise_barrier, layout))


def _raise_barrier(layout: Layout) -> None:
    says = "written by a release with epochs; older ones cannot go on from here"
    document = {"format": _FORMAT, "version": BARRIER, "says": says}
    try:
        layout.files.create(f"{VERSIONS}/{BARRIER}.json", sealed(document))
    except FileExistsError:
        # Also of one who was killed before its epoch.
        return


# A sign of life of the query that runs on a remote checkpoint, for commands that need it stopped.
#
# A lock on a local disk says whether a query runs; elsewhere there is none. The sign decides
# nothing about state, which epochs protect: it only keeps a command from stopping a query by taking
# its checkpoint over. Its age is measured by the store's own clock.


SIGN, NOW = "statemigrate/held", "statemigrate/now"
EVERY = 30.0
"""Seconds from one sign to the next."""
GONE = 120.0
"""Seconds without a sign after which a query is not there any more."""
_log = logging.getLogger("statemigrate.embedded")


class WriterHeartbeat:
    """The sign of the writer of an epoch, given until it is released."""

    def __init__(self, epoch: Epoch) -> None:
        self._files = epoch.files
        self._sign = f"epoch {epoch.number}, process {os.getpid()} on {socket.gethostname()}"
        self._ended = threading.Event()
        self._give()
        threading.Thread(target=self._go_on, daemon=True).start()

    def release(self) -> None:
        """Take the sign away, unless it is another's by now."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._take_away()

    def _take_away(self) -> None:
        try:
            if self._files.get(SIGN) == self._sign.encode():
                self._files.delete([SIGN])
        except FileNotFoundError:
            return
        except Exception:
            # With the session that ended the query its way to the files may have ended too.
            _log.warning("the sign of a query that has ended is left; it counts for two minutes")

    def _go_on(self) -> None:
        while not self._ended.wait(EVERY):
            self._give()

    def _give(self) -> None:
        try:
            self._files.replace(SIGN, self._sign.encode())
            if self._ended.is_set():
                # Meanwhile: it may have come after the other was taken away.
                self._take_away()
        except Exception:
            # What fails a heartbeat fails the next commit too, and that raises.
            where = without_credentials(self._files.location)
            _log.warning("no sign of life in %s", where, exc_info=True)


def require_stopped(layout: Layout) -> None:
    """Raise `CheckpointInUseError` where a query has given a sign within the last two minutes."""
    if layout.remote is None:
        return
    sign = layout.files.find(SIGN)
    if sign is None:
        return
    layout.files.replace(NOW, b"")
    now = layout.files.find(NOW)
    age = now.modified - sign.modified if now is not None else 0.0
    if age >= GONE:
        return
    raise CheckpointInUseError(
        "SM-EMBEDDED-019",
        f"the checkpoint {layout.files.location} is in use",
        expected="no running query",
        found=f"a sign of life from {age:.0f} seconds ago: {_holder(layout)}",
        next_action="stop that query first; where it was killed, wait for two minutes",
        path=layout.files.location,
    )


def _holder(layout: Layout) -> str:
    try:
        return layout.files.get(SIGN, most=1_000).decode(errors="replace")
    except FileNotFoundError:
        return "it has just ended"


_FORMATS = {False: 1, True: 2}
"""Of a manifest's document, by whether it has an epoch."""
_NAME = re.compile(r"(0|[1-9][0-9]{0,18})(?:-([1-9][0-9]{0,18}))?\.json")


@dataclass(frozen=True, order=True)
class Published:
    """A manifest that a listing has."""

    version: int
    epoch: int
    entry: FileEntry


def published(layout: Layout) -> list[Published]:
    """The manifests, committed or not, the oldest first, as far as a listing knows them."""
    found = (_published(entry) for entry in layout.files.list(VERSIONS))
    return sorted(each for each in found if each is not None)


def retained_versions(layout: Layout) -> list[int]:
    """The versions that have a manifest, committed or not, the oldest first."""
    return sorted({each.version for each in published(layout)})


def manifest_name(version: int, epoch: int) -> str:
    """The name of the manifest of ``version`` by ``epoch``."""
    return f"{VERSIONS}/{version}-{epoch}.json" if epoch else f"{VERSIONS}/{version}.json"


def publish_manifest(layout: Layout, manifest: Manifest) -> None:
    """Commit a version: from here on it is what the next batch starts from.

    Raises `CheckpointInUseError` where its epoch has published that version already.
    """
    document = {
        "format": _FORMATS[manifest.epoch > 0],
        "version": manifest.version,
        "epoch": manifest.epoch,
        **manifest.to_json(),
    }
    name = manifest_name(manifest.version, manifest.epoch)
    try:
        layout.files.create(name, sealed(document))
    except FileExistsError as error:
        raise CheckpointInUseError(
            "SM-EMBEDDED-026",
            f"version {manifest.version} of {layout.files.location} is there already",
            expected=f"no manifest of it by epoch {manifest.epoch}",
            found=layout.location_of(name),
            next_action="start the query again: it begins an epoch of its own",
            path=layout.location_of(name),
        ) from error


def read_manifest(layout: Layout, version: int, *, before: int | None = None) -> Manifest:
    """The manifest of ``version`` that counts. Raises `CorruptFileError` if missing or altered.

    ``before`` is a writer's own epoch: where a listing does not have even that one yet, every
    epoch before it is looked for that the listing of manifests does not have. Without it that is
    done only where there is none.
    """
    is_behind = before is not None and not is_listed(layout.files, before)
    listed = [each.epoch for each in published(layout) if each.version == version]
    newest = max(listed, default=-1)
    if is_behind or not listed:
        last = newest_epoch(layout.files) if before is None else before - 1
        listed += range(newest + 1, last + 1)
    for epoch in sorted(listed, reverse=True):
        try:
            return read_published(layout, version, epoch)
        except FileNotFoundError:
            # Never made, or removed since it was listed.
            continue
    raise _missing(layout, version)


def read_published(layout: Layout, version: int, epoch: int) -> Manifest:
    """One manifest. Raises `FileNotFoundError`, and `CorruptFileError` for an altered one."""
    name = manifest_name(version, epoch)
    place = layout.location_of(name)
    document = unsealed(layout.files.get(name), place)
    expected: dict[str, Any] = {"format": _FORMATS[epoch > 0], "version": version}
    expected |= {"epoch": epoch} if epoch else {}
    found = {part: document.get(part) for part in expected}
    if found != expected:
        raise CorruptFileError(
            "SM-EMBEDDED-027",
            f"{place} was written by another release, or for another version",
            expected=_joined_parts(expected),
            found=_joined_parts(found),
            next_action="use the release of statemigrate that wrote it, or restore the file",
            path=place,
        )
    return understood(place, "a manifest", lambda: Manifest.from_json(version, epoch, document))


def newest_only(manifests: Iterable[Published]) -> Iterator[Published]:
    """Of each version the one with the highest epoch, in the order of the versions."""
    yield from {each.version: each for each in sorted(manifests)}.values()


def _published(entry: FileEntry) -> Published | None:
    found = _NAME.fullmatch(entry.base_name)
    if found is None or int(found[1]) >= BARRIER:
        return None
    return Published(int(found[1]), int(found[2] or 0), entry)


def _joined_parts(parts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parts.items())


def _missing(layout: Layout, version: int) -> CorruptFileError:
    numbers = retained_versions(layout)
    known = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
    place = layout.location_of(f"{VERSIONS}/{version}-*.json")
    return CorruptFileError(
        "SM-EMBEDDED-028",
        f"state version {version} is missing",
        expected=f"a manifest {place}",
        found=f"versions {known}",
        next_action=RESTORE_COPY,
        path=place,
    )


# What two versions hold, compared by the hashes that their manifests have: nothing is read.
#
# The hash of a family is a sum over its records, so that partitions add up: also versions with
# another number of partitions are compared.


Pair = tuple[Contents, Contents]


def same_contents(one: Iterable[PartitionState], other: Iterable[PartitionState]) -> bool | None:
    """Whether two versions hold the same records in each family.

    None where a version was written by a release without hashes, and was not read whole since.
    """
    found = [whole_contents(each) for each in (one, other)]
    return None if None in found else found[0] == found[1]


def whole_contents(states: Iterable[PartitionState]) -> dict[str, Contents] | None:
    """By family that holds anything, what all partitions hold of it; None where one is unknown."""
    whole: dict[str, Contents] = {}
    for state in states:
        known = state.known_contents
        if known is None:
            return None
        for name, each in known.items():
            whole[name] = whole.get(name, Contents()) + each
    return whole


def differences(one: Mapping[str, Contents], other: Mapping[str, Contents]) -> dict[str, Pair]:
    """The families that differ, by name, each with what the two hold of it."""
    nothing = Contents()
    pairs = {name: (one.get(name, nothing), other.get(name, nothing)) for name in {*one, *other}}
    return {name: pairs[name] for name in sorted(pairs) if pairs[name][0] != pairs[name][1]}
