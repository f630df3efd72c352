"""What two versions hold, compared by the hashes that their manifests have: nothing is read.

The hash of a family is a sum over its records, so that partitions add up: also versions with
another number of partitions are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from statemigrate.embedded.storage.content_hash import Contents
from statemigrate.embedded.versions.manifest import PartitionState

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
