"""What a checkpoint has: the families of a store, and the scripts applied to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from statemigrate.deployment.declared import Kind
from statemigrate.errors import CheckpointError
from statemigrate.formats import Format, format_from_json
from statemigrate.migration import BASE, Lineage

Holds = Literal["nothing", "something", "unknown"]
"""What a family holds. Only having read it makes the first two: not seen is never empty."""


@dataclass(frozen=True)
class StoredFamily:
    """A family as a checkpoint has it, or may have it."""

    name: str
    revision: str
    format: Format
    holds: Holds = "unknown"

    def to_json(self) -> dict[str, Any]:
        """The form checkpoints hold."""
        return {"name": self.name, "revision": self.revision, "format": self.format.to_json()}


@dataclass(frozen=True)
class StoredStore:
    """A store as a checkpoint has it: its families, and the scripts applied by checksum.

    The first family is the one that was written to last, the target of what was deployed then.
    """

    kind: Kind
    families: tuple[StoredFamily, ...] = ()
    applied: Mapping[str, str] = field(default_factory=dict)
    user_key: dict[str, Any] | None = None

    @property
    def target(self) -> StoredFamily:
        """The family that was written to last. Raises `CheckpointError` where there is none."""
        if not self.families:
            raise CheckpointError(
                "SM-EMBEDDED-001",
                "A store of the checkpoint has no families.",
                expected="the family that was written to last, and perhaps older ones",
                found=f"a {self.kind} store without any",
                next_action="restore the checkpoint directory from a copy; no deployment has "
                "written this",
            )
        return self.families[0]

    @property
    def others(self) -> tuple[StoredFamily, ...]:
        """The families that values are still to leave."""
        return self.families[1:]

    def led_by(self, target: str | None, lineage: Lineage | None) -> StoredStore:
        """The same with its families in order: the one named ``target``, then newest first.

        Where no deployment has left a note of its target, the newest is taken for it.
        """
        revisions = (BASE,) if lineage is None else lineage.revisions
        known = {revision: place for place, revision in enumerate(revisions)}
        ordered = sorted(
            self.families,
            key=lambda each: (each.name == target, known.get(each.revision, -1)),
            reverse=True,
        )
        return replace(self, families=tuple(ordered))

    def marked(self, holds: Callable[[str], Holds]) -> StoredStore:
        """The same store with what was found in each family, by its name, filled in."""
        families = tuple(replace(each, holds=holds(each.name)) for each in self.families)
        return replace(self, families=families)

    def to_json(self) -> dict[str, Any]:
        """The form checkpoints hold."""
        families = [each.to_json() for each in self.families]
        return {
            "kind": self.kind,
            "families": families,
            "applied": dict(self.applied),
            "user_key": self.user_key,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> StoredStore:
        """Read what `to_json` gave."""
        families = tuple(
            StoredFamily(each["name"], each["revision"], format_from_json(each["format"]))
            for each in document["families"]
        )
        return cls(document["kind"], families, document["applied"], document["user_key"])


def applied_scripts(
    lineage: Lineage, families: Sequence[StoredFamily], recorded: Mapping[str, str]
) -> dict[str, str]:
    """The checksums of the scripts that led to the newest family, as they were ``recorded``.

    A script was applied if a value was stored with it, or with a later one: that it was deployed,
    as a record says, is not enough, since its first batch may have failed.
    """
    known = [each.revision for each in families if each.revision in lineage]
    newest = max(map(lineage.position, known), default=-1)
    return {
        each.revision: recorded.get(each.revision, each.checksum)
        for each in lineage.migrations
        if lineage.position(each.revision) <= newest
    }
