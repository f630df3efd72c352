"""Which field of the new format an old field became."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from itertools import product

from statemigrate.formats.schema.capacity import is_convertible
from statemigrate.formats.schema.fingerprint import fingerprint
from statemigrate.formats.schema.nodes import Array, Field, Map, Node, Record
from statemigrate.formats.schema.nullability import without_none

_SIMILAR = 0.6
"""How much of two names is the same, by difflib, for one to be taken for the other's new form."""

Path = tuple[str, ...]
Readable = Callable[[Node, Node], bool]


class Reason(Enum):
    """Why two fields are taken for the same one."""

    KEPT = "kept"
    RENAMED = "renamed"
    MOVED = "moved"


@dataclass(frozen=True)
class Pair:
    """An old field and what it became; a path has several names where structs are on the way."""

    old: Path
    new: Path
    reason: Reason

    def reversed(self) -> Pair:
        """Return the pair for the way back."""
        return Pair(self.new, self.old, self.reason)


def match_fields(old: Record, new: Record, *, readable: Readable) -> tuple[Pair, ...]:
    """Pair the fields of two records: kept ones, then moved ones, then renamed ones.

    What is in no pair was removed or added. ``readable`` says whether a type reads another one's
    values by Avro's rules.
    """
    kept = tuple(_kept(old, new))
    removed, added = _left(old.fields, [p.old for p in kept]), _left(new.fields, _targets(kept))
    moved = tuple(_moved(removed, added))
    removed, added = _left(removed, [p.old for p in moved]), _left(added, _targets(moved))
    return kept + moved + tuple(_renamed(removed, added, readable))


def unpaired(record: Record, taken: Sequence[Path], at: Path = ()) -> Iterator[Path]:
    """Yield the paths of the fields that are in no pair, those of structs within with them.

    ``taken`` are the paths of this record's side of the pairs.
    """
    for field in record.fields:
        path = (*at, field.name)
        if path in taken:
            continue
        inner = without_none(field.type)
        if isinstance(inner, Record) and any(each[: len(path)] == path for each in taken):
            yield from unpaired(inner, taken, path)
        else:
            yield path


def _targets(pairs: Sequence[Pair]) -> list[Path]:
    return [pair.new for pair in pairs]


def _left(fields: Sequence[Field], taken: Sequence[Path]) -> list[Field]:
    names = {path[0] for path in taken}
    return [field for field in fields if field.name not in names]


def _kept(old: Record, new: Record) -> Iterator[Pair]:
    names = {field.name for field in old.fields}
    new_names = {field.name for field in new.fields}
    for field in new.fields:
        # An alias says what a field was called; Avro reads it so too.
        aliases = [a for a in field.aliases if a in names and a not in new_names]
        if field.name in names:
            yield Pair((field.name,), (field.name,), Reason.KEPT)
        elif aliases:
            names.remove(aliases[0])
            yield Pair((aliases[0],), (field.name,), Reason.KEPT)


def _moved(removed: Sequence[Field], added: Sequence[Field]) -> Iterator[Pair]:
    taken: set[Path] = set()
    for same_type in (True, False):
        for (path, old), (target, new) in product(_within(removed), _within(added)):
            one_level = (len(path) == 1) != (len(target) == 1)
            alike = path[-1] == target[-1] and (_same if same_type else _convertible)(old, new)
            if one_level and alike and not _overlaps(path, target, taken):
                taken |= {("old", *path), ("new", *target)}
                yield Pair(path, target, Reason.MOVED)


def _within(fields: Sequence[Field], path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield the fields and those of structs in them, outer ones first."""
    for field in fields:
        yield (*path, field.name), field.type
    for field in fields:
        inner = without_none(field.type)
        if isinstance(inner, Record):
            yield from _within(inner.fields, (*path, field.name))


def _overlaps(path: Path, target: Path, taken: set[Path]) -> bool:
    """Say whether either field, one around it or one in it, is in a pair already."""
    mine = (("old", *path), ("new", *target))
    return any(
        one[: len(other)] == other or other[: len(one)] == one for one in mine for other in taken
    )


def _renamed(
    removed: Sequence[Field], added: Sequence[Field], readable: Readable
) -> Iterator[Pair]:
    candidates = [
        (_similarity(old.name, new.name), old, new)
        for old, new in product(removed, added)
        if _same_kind(old.type, new.type, readable)
    ]
    similar = [each for each in candidates if each[0] >= _SIMILAR]
    taken: set[Path] = set()
    for _, old, new in sorted(similar, key=lambda each: -each[0]):
        if not _overlaps((old.name,), (new.name,), taken):
            taken |= {("old", old.name), ("new", new.name)}
            yield Pair((old.name,), (new.name,), Reason.RENAMED)
    left = [f for f in removed if ("old", f.name) not in taken]
    yield from _only_pairs(left, [f for f in added if ("new", f.name) not in taken], readable)


def _only_pairs(
    removed: Sequence[Field], added: Sequence[Field], readable: Readable
) -> Iterator[Pair]:
    if len(removed) == len(added) == 1 and _same_kind(removed[0].type, added[0].type, readable):
        yield Pair((removed[0].name,), (added[0].name,), Reason.RENAMED)
        return
    before, after = Counter(map(_type_of, removed)), Counter(map(_type_of, added))
    for old, new in product(removed, added):
        kind = _type_of(old)
        if kind == _type_of(new) and before[kind] == after[kind] == 1:
            yield Pair((old.name,), (new.name,), Reason.RENAMED)


def _type_of(field: Field) -> str:
    return fingerprint(without_none(field.type))


def _similarity(old: str, new: str) -> float:
    return SequenceMatcher(None, old.lower(), new.lower()).ratio()


def _same(old: Node, new: Node) -> bool:
    return fingerprint(without_none(old)) == fingerprint(without_none(new))


def _same_kind(old: Node, new: Node, readable: Readable) -> bool:
    before, after = without_none(old), without_none(new)
    if isinstance(before, Record) and isinstance(after, Record):
        return any(
            _same(a.type, b.type)
            for a, b in product(before.fields, after.fields)
            if a.name == b.name
        )
    return readable(before, after)


def _convertible(old: Node, new: Node) -> bool:
    before, after = without_none(old), without_none(new)
    containers = Record | Array | Map
    if isinstance(before, containers) or isinstance(after, containers):
        return False
    return is_convertible(before, after)
