"""A store of three revisions whose transforms count inside the value how often they ran.

No transform is idempotent: run twice, or along the wrong path, it raises or leaves a wrong count.
The text `POISON` is one that no transform takes.
"""

from __future__ import annotations

from typing import Any

from statemigrate.deployment import StoredFamily, family_name
from statemigrate.formats import Struct, Value
from statemigrate.migration import Lineage, Migration

OLD, MIDDLE, NEW = "base", "r1", "r2"
REVISIONS = (OLD, MIDDLE, NEW)
FIELDS = {OLD: "text", MIDDLE: "label", NEW: "title"}
FORMATS = {
    revision: Struct(f"{name} STRING, ups INT, downs INT") for revision, name in FIELDS.items()
}


POISON = "poison"


class PoisonedError(Exception):
    """What a transform, and the model of it, makes of the text `POISON`."""


def note(revision: str, text: str, ups: int = 0, downs: int = 0) -> Value:
    """A value of ``revision``."""
    return {FIELDS[revision]: text, "ups": ups, "downs": downs}


def carried(value: Value, source: str, target: str) -> Value:
    """What a value of ``source`` is at ``target``, computed without the transforms."""
    if value[FIELDS[source]] == POISON:
        raise PoisonedError(POISON)
    distance = REVISIONS.index(target) - REVISIONS.index(source)
    ups, downs = value["ups"] + max(distance, 0), value["downs"] + max(-distance, 0)
    return note(target, value[FIELDS[source]], ups, downs)


def _checked(text: str) -> str:
    if text == POISON:
        raise PoisonedError(text)
    return text


def _up(source: str, target: str) -> Any:
    def upgrade(value: Value) -> Value:
        text = _checked(value.pop(FIELDS[source]))
        return {FIELDS[target]: text, **value, "ups": value["ups"] + 1}

    return upgrade


def _down(source: str, target: str) -> Any:
    def downgrade(value: Value) -> Value:
        text = _checked(value.pop(FIELDS[source]))
        return {FIELDS[target]: text, **value, "downs": value["downs"] + 1}

    return downgrade


def _migration(store: str, source: str, target: str) -> Migration:
    down_revision = None if source == OLD else source
    return Migration(
        target,
        down_revision,
        store,
        FORMATS[source],
        FORMATS[target],
        _up(source, target),
        _down(target, source),
        checksum=target * 32,
        path=f"versions/{target}.py",
    )


def lineage(store: str = "notes") -> Lineage:
    """The lineage of a store of notes."""
    return Lineage.build(store, [_migration(store, OLD, MIDDLE), _migration(store, MIDDLE, NEW)])


def family(store: str, revision: str) -> StoredFamily:
    """The family of a revision as a checkpoint has it."""
    return StoredFamily(family_name(lineage(store), revision), revision, FORMATS[revision])
