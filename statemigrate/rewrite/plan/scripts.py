"""What the scripts of a store say of a rewrite: the way from the state's revision to the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statemigrate.checkpoint.operators.labels import labelled
from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    StoreShape,
    StructJson,
)
from statemigrate.checkpoint.operators.shown_keys import is_numbered, shown_key
from statemigrate.errors import RewriteError
from statemigrate.formats import Format, compare
from statemigrate.formats.struct_format import struct_from_json
from statemigrate.migration.path import Path
from statemigrate.rewrite.plan.pairing.types import is_same
from statemigrate.shell import argument


@dataclass(frozen=True)
class Scripted:
    """The scripts of ``store`` that are still to run, from the formats of the state to new ones.

    The key is what users know of it. The value is the content of what is stored; of groups it may
    be all of that. ``applied`` has every script that is then applied: revision and checksum;
    ``family`` is how the store's family of the last revision is called.
    """

    store: str
    path: Path
    key: Format
    value: Format
    new_key: Format
    new_value: Format
    applied: tuple[tuple[str, str], ...] = ()
    family: str = ""

    @property
    def is_open(self) -> bool:
        """Whether any is still to run."""
        return bool(self.path.steps)

    def leads_to(self, other: Scripted) -> bool:
        """Whether ``other`` could begin where this ends."""
        return is_same(_json(self.new_value), _json(other.value)) and is_same(
            _json(self.new_key), _json(other.key)
        )

    def taken_of(self, family: FamilyShape) -> FamilyShape:
        """The old family as the scripts see it: all of a group's state, or its struct alone."""
        is_whole = is_same(_json(self.value), labelled(family.value))
        return (
            replace(family, wrapping="none") if family.wrapping == "state" and is_whole else family
        )

    def taken_as(self, family: FamilyShape, shown: StructJson) -> FamilyShape:
        """The ``family`` with keys and values as the scripts take them.

        ``shown`` is what users know of its keys. Where scripts make its keys of others, it is one
        value under each.
        """
        found = family.holding(_json(self.value))
        if is_same(_json(self.key), shown):
            return found
        return replace(found, key=_json(self.key), encoder=NoPrefix(), is_list=False, user_key=None)

    def check(self, value: StructJson, key: StructJson) -> None:
        """Raise `RewriteError` unless the new code keeps what the scripts lead to."""
        self._check("value", self.new_value, value)
        self._check("key", self.new_key, key)

    def _check(self, part: str, said: Format, kept: StructJson) -> None:
        if not is_same(_json(said), labelled(kept)):
            raise RewriteError(
                "SM-REWRITE-037",
                f"{self.store}: the new code keeps another {part} than its scripts lead to",
                expected=f"{said!r}, as at revision {self.path.target}",
                found=f"{struct_from_json(labelled(kept))!r}\n"
                f"{compare(said, struct_from_json(labelled(kept)))}",
                next_action=f"correct the script of revision {self.path.target}, write a further "
                f"one with `statemigrate new {argument(self.store)}`, or correct the code",
                store=self.store,
            )


@dataclass(frozen=True)
class Scripts:
    """The scripts that a rewrite runs, by the names that Spark's kinds and numbers give to stores.

    Those of ``old`` stores, and those of ``new`` ones that go on with a store of another name, or
    with several.
    """

    old: Mapping[str, Scripted] = field(default_factory=dict)
    new: Mapping[str, Scripted] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Scripted]:
        yield from self.old.values()
        yield from self.new.values()

    def between(self, old: str, new: str) -> Scripted | None:
        """Those that are still to run where the store ``new`` goes on with ``old``.

        It is those of ``new`` that begin at what ``old`` has, or else those of ``old``. Raises
        `RewriteError` where the first could also run after the second.
        """
        before, after = self.open_of(old), self.new.get(new)
        if after is None or not after.is_open:
            return before
        if before is not None and before.leads_to(after):
            raise RewriteError(
                "SM-REWRITE-038",
                f"{new} goes on with {old}, and whether scripts of both are to run is not clear",
                expected=f"scripts of {new} that begin at another format than those of {old} end",
                found=f"revision {before.path.target} of {before.store}, and then those of "
                f"{after.store} to {after.path.target}; or the latter alone",
                next_action=f"say --target {before.store}={before.path.source} to leave the former "
                "out",
                store=new,
            )
        return after

    def open_of(self, old: str) -> Scripted | None:
        """Those of an old store that are still to run."""
        found = self.old.get(old)
        return found if found is not None and found.is_open else None


def as_scripted(
    operator: OperatorShape, store: StoreShape, family: FamilyShape, scripted: Scripted
) -> FamilyShape:
    """The family as the scripts leave it, where there is no new code to ask.

    Raises `RewriteError` for keys of several parts that change: which column is of which part only
    the code says.
    """
    key, content = _json(scripted.new_key), _json(scripted.new_value)
    if not is_same(key, shown_key(operator, store, family)):
        if family.is_list or family.user_key or is_numbered(operator, store, family):
            raise RewriteError(
                "SM-REWRITE-039",
                f"the scripts of {scripted.store} change keys that have several parts",
                expected="the new code, which says what its keys are",
                found=f"keys {scripted.new_key!r}, and no new code",
                next_action="say it with --code, or with --like",
                store=scripted.store,
            )
        family = replace(family, key=key)
    return family if is_same(content, labelled(family.content)) else family.holding(content)


def _json(fmt: Format) -> Any:
    return fmt.struct_type().jsonValue()
