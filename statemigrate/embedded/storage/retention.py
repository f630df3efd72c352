"""Removing old versions: manifests past the retained number, and files nothing refers to.

Only what the engine itself has made is ever removed, told by its name; and no version before all
that stands for it was read back. A file goes

- with the last manifest that named it, or
- though no manifest is known that ever did, such as an attempt's that did not commit: once the
  version in its name is before the oldest that is kept, and it is older than that one's manifest,
  and by a day than the newest one.

What the kept manifests name stays, and so does what the two newest versions name, which are not
looked up in a listing but ``held`` by the writer. Since the state of a version names files of the
state before it and new ones, no later version can come to need what goes: neither a listing that
lags, nor a clock, nor a writer of an older epoch that wakes up here can make a loss of it. The
stamps that are compared are all the store's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from statemigrate.embedded.storage.layout import PARTITIONS, VERSIONS, Layout, version_of
from statemigrate.embedded.storage.manifest import Manifest
from statemigrate.embedded.storage.needs import Needs, content_names, needs_of
from statemigrate.embedded.storage.versions import Published, newest_only, published
from statemigrate.errors import CheckpointError
from statemigrate.files import Entry

DAY = 86_400
_UNFINISHED = re.compile(r"\.(.+?)(\.[0-9a-f]{32})?\.tmp")
_BY_HASH = re.compile(r"[0-9a-f]{64}")
"""Content of snapshots had its hash as its name once."""


def remove_old_versions(
    layout: Layout, newest: int, retain: int, held: Sequence[Manifest] = ()
) -> int:
    """Keep the ``retain`` newest versions up to ``newest``; returns the number of files removed.

    ``held`` are the version that the writer has just committed, and the one before. Raises
    `CorruptFileError` where a retained manifest does not say what it needs; then nothing is
    removed.
    """
    manifests = published(layout)
    retained = _retained(layout, manifests, newest - retain)
    if not retained:
        return 0
    keep = {(each.version, each.epoch) for each in retained}
    old = [each for each in manifests if (each.version, each.epoch) not in keep]
    needed = _names(layout, [needs_of(layout, each) for each in retained])
    needed |= _names(layout, [Needs.of(manifest) for manifest in held])
    named = _named_by_old(layout, old)
    now = max(each.entry.modified for each in manifests)
    lost = _Lost(retained[0], now, needed | named).among(layout)
    # Last come the manifests, and before them the listings: interrupted, it is done again.
    doomed = sorted((named - needed) | lost, key=lambda name: (-name.count("/"), name))
    doomed += [each.entry.name for each in old]
    layout.files.delete(doomed)
    return len(doomed)


def _retained(layout: Layout, manifests: list[Published], past: int) -> list[Published]:
    """The versions after ``past``; before it, down to one that was read back whole."""
    counting = list(newest_only(manifests))
    retained = [each for each in counting if each.version > past]
    for each in reversed([each for each in counting if each.version <= past]):
        if retained and needs_of(layout, retained[0]).is_counted:
            break
        retained.insert(0, each)
    return retained


def _names(layout: Layout, needs: Iterable[Needs]) -> set[str]:
    names: set[str] = set()
    for each in needs:
        names |= each.names
        for name, listing in each.listings:
            names |= content_names(layout, name, listing)
    return names


def _named_by_old(layout: Layout, old: Iterable[Published]) -> set[str]:
    """What old manifests name, as far as it can be read; nobody needs it any more."""
    names: set[str] = set()
    for each in old:
        try:
            needs = needs_of(layout, each)
            names |= needs.names
            names |= _names(layout, [needs])
        except (FileNotFoundError, CheckpointError):
            # Damaged, or gone already. What only it named is found among what is lost.
            continue
    return names


class _Lost:
    """Files that no manifest names, and none ever will."""

    def __init__(self, oldest: Published, now: float, named: set[str]) -> None:
        self._oldest = oldest
        self._before = min(oldest.entry.modified, now - DAY)
        self._named = named

    def among(self, layout: Layout) -> set[str]:
        """Their names."""
        files = layout.files.list(PARTITIONS, recursive=True)
        found = [entry for entry in files if self._is_past(entry)]
        unfinished = layout.files.list(VERSIONS)
        found += [entry for entry in unfinished if _UNFINISHED.fullmatch(entry.base_name)]
        return {
            entry.name
            for entry in found
            if entry.modified < self._before and entry.name not in self._named
        }

    def _is_past(self, entry: Entry) -> bool:
        if entry.kind == "folder":
            return False
        unfinished = _UNFINISHED.fullmatch(entry.base_name)
        version = version_of(unfinished[1] if unfinished else entry.base_name)
        if version is not None:
            return version < self._oldest.version
        in_contents = entry.name.rpartition("/")[0].endswith("/files")
        return bool(unfinished or (in_contents and _BY_HASH.fullmatch(entry.base_name)))
