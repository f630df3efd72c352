"""Which field of the new format an old field became."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from itertools import product
from math import inf
from typing import Any

from statemigrate.formats.schema.fingerprint import fingerprint, layout
from statemigrate.formats.schema.nodes import (
    INTEGER_RANGES,
    Array,
    Decimals,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    without_none,
)
from statemigrate.formats.schema.nodes import Enum as EnumNode

# What kind of Python value a type holds, and whether another type has a place for all of them.


_NUMBER = re.compile(r"\((\d+)\)")
_MANTISSAS = {"float": 24, "double": 53}
_KINDS = {
    "int": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "string": "text",
    "bytes": "bytes",
    "boolean": "boolean",
    "date": "date",
    "time-micros": "time",
    "timestamp-millis": "instant",
    "timestamp-micros": "instant",
    "local-timestamp-millis": "local",
    "local-timestamp-micros": "local",
}


_AS_TEXT = ("integer", "float", "decimal", "boolean", "date", "time", "instant", "local")
CONVERTIBLE = frozenset(
    {
        *(("integer", kind) for kind in ("float", "decimal", "boolean")),
        *(("float", kind) for kind in ("integer", "decimal", "boolean")),
        *(("decimal", kind) for kind in ("integer", "float")),
        *(("boolean", kind) for kind in ("integer", "float")),
        *(("text", kind) for kind in ("integer", "float", "decimal", "date", "time")),
        *(("text", kind) for kind in ("instant", "local", "bytes")),
        ("bytes", "text"),
        *(("date", kind) for kind in ("local", "instant")),
        *(("instant", kind) for kind in ("date", "local")),
        *(("local", kind) for kind in ("date", "instant")),
        *((kind, "text") for kind in _AS_TEXT),
    }
)
"""The pairs of different kinds between which there is an obvious way."""


def is_convertible(old: Node, new: Node) -> bool:
    """Whether there is an obvious way between two types without None, neither a container."""
    if layout(old) == layout(new):
        return True
    if isinstance(old, Union) or isinstance(new, Union):
        return any(each in _layouts(new) for each in _layouts(old))
    kinds = kind_of(old), kind_of(new)
    if kinds[0] == kinds[1] != "":
        return not (isinstance(old, Fixed) and isinstance(new, Fixed) and kinds[0] == "bytes")
    return kinds in CONVERTIBLE


def _layouts(node: Node) -> list[object]:
    return [layout(each) for each in (node.branches if isinstance(node, Union) else (node,))]


def kind_of(node: Node) -> str:
    """Return the kind of Python value that a single type holds."""
    match node:
        case Primitive(decimals=Decimals()) | Fixed(decimals=Decimals()):
            return "decimal"
        case EnumNode():
            return "text"
        case Fixed():
            return "bytes"
        case Primitive():
            return _KINDS.get(node.logical or node.type, "")
    return ""


def fits_all_values(new: Node, old: Node) -> bool:
    """Say whether ``new`` holds every value of ``old``, both of one kind."""
    match old, new:
        case EnumNode(), EnumNode():
            return set(old.symbols) <= set(new.symbols)
        case Primitive(), EnumNode():
            return False
        case Fixed(decimals=None), Fixed(decimals=None):
            return old.size == new.size
        case Primitive(), Fixed(decimals=None):
            return False
    kind = kind_of(old)
    if kind == "decimal":
        return _digits(new)[0] >= _digits(old)[0] and _digits(new)[1] >= _digits(old)[1]
    return _size(new, kind) >= _size(old, kind)


def fits_integers(new: Node, old: Node) -> bool:
    """Say whether a float or decimal type holds every number of an integer type exactly."""
    assert isinstance(old, Primitive)  # noqa: S101  # the only integer types
    highest: int = INTEGER_RANGES[old.narrow or old.type][1]
    if isinstance(new, Primitive) and new.type in _MANTISSAS:
        return highest.bit_length() <= _MANTISSAS[new.type]
    return len(str(highest)) <= _digits(new)[0]


def _digits(node: Node) -> tuple[int, int]:
    decimals = node.decimals if isinstance(node, Primitive | Fixed) else None
    assert decimals is not None  # noqa: S101  # asked for decimals only
    return decimals.precision - decimals.scale, decimals.scale


def _size(node: Node, kind: str) -> float:
    if isinstance(node, EnumNode):
        return max(map(len, node.symbols))
    if not isinstance(node, Primitive):
        return 0
    if kind == "integer":
        return INTEGER_RANGES[node.narrow or node.type][1]
    if kind in ("instant", "local"):
        return (node.logical or "").endswith("micros")
    if kind == "float":
        return _MANTISSAS[node.type]
    found = _NUMBER.search(node.narrow or "")
    return int(found[1]) if found else inf


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
class FieldPair:
    """An old field and what it became; a path has several names where structs are on the way."""

    old: Path
    new: Path
    reason: Reason

    def reversed(self) -> FieldPair:
        """Return the pair for the way back."""
        return FieldPair(self.new, self.old, self.reason)


def match_fields(old: Record, new: Record, *, readable: Readable) -> tuple[FieldPair, ...]:
    """Pair the fields of two records: kept ones, then moved ones, then renamed ones.

    What is in no pair was removed or added. ``readable`` says whether a type reads another one's
    values by Avro's rules.
    """
    kept = tuple(_pairs_by_name(old, new))
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


def _targets(pairs: Sequence[FieldPair]) -> list[Path]:
    return [pair.new for pair in pairs]


def _left(fields: Sequence[Field], taken: Sequence[Path]) -> list[Field]:
    names = {path[0] for path in taken}
    return [field for field in fields if field.name not in names]


def _pairs_by_name(old: Record, new: Record) -> Iterator[FieldPair]:
    names = {field.name for field in old.fields}
    new_names = {field.name for field in new.fields}
    for field in new.fields:
        # An alias says what a field was called; Avro reads it so too.
        aliases = [a for a in field.aliases if a in names and a not in new_names]
        if field.name in names:
            yield FieldPair((field.name,), (field.name,), Reason.KEPT)
        elif aliases:
            names.remove(aliases[0])
            yield FieldPair((aliases[0],), (field.name,), Reason.KEPT)


def _moved(removed: Sequence[Field], added: Sequence[Field]) -> Iterator[FieldPair]:
    taken: set[Path] = set()
    for same_type in (True, False):
        for (path, old), (target, new) in product(_within(removed), _within(added)):
            one_level = (len(path) == 1) != (len(target) == 1)
            alike = path[-1] == target[-1] and (_same if same_type else _convertible)(old, new)
            if one_level and alike and not _overlaps(path, target, taken):
                taken |= {("old", *path), ("new", *target)}
                yield FieldPair(path, target, Reason.MOVED)


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
    both_paths = (("old", *path), ("new", *target))
    return any(
        one[: len(other)] == other or other[: len(one)] == one
        for one in both_paths
        for other in taken
    )


def _renamed(
    removed: Sequence[Field], added: Sequence[Field], readable: Readable
) -> Iterator[FieldPair]:
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
            yield FieldPair((old.name,), (new.name,), Reason.RENAMED)
    left = [f for f in removed if ("old", f.name) not in taken]
    yield from _only_pairs(left, [f for f in added if ("new", f.name) not in taken], readable)


def _only_pairs(
    removed: Sequence[Field], added: Sequence[Field], readable: Readable
) -> Iterator[FieldPair]:
    if len(removed) == len(added) == 1 and _same_kind(removed[0].type, added[0].type, readable):
        yield FieldPair((removed[0].name,), (added[0].name,), Reason.RENAMED)
        return
    before, after = Counter(map(_type_of, removed)), Counter(map(_type_of, added))
    for old, new in product(removed, added):
        kind = _type_of(old)
        if kind == _type_of(new) and before[kind] == after[kind] == 1:
            yield FieldPair((old.name,), (new.name,), Reason.RENAMED)


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


# Fields by path, as in ``items[].price`` and ``prices{}.cents``, also in values.


_EACH = ("[]", "{}")


@dataclass(frozen=True)
class FieldAddress:
    """A field: ``parts`` are the names on the way, ``[]`` and ``{}`` for all items of a container.

    ``is_leaf`` says that no field lies below it.
    """

    path: str
    parts: tuple[str, ...]
    type: Node
    is_leaf: bool


def field_addresses(record: Record) -> tuple[FieldAddress, ...]:
    """Return every field of a record, and those of records within it, outer ones first."""
    return tuple(_field_addresses(record, ()))


def field_paths(*records: Record) -> set[str]:
    """The paths of all fields of some records, as `field_addresses` has them."""
    return {each.path for record in records for each in field_addresses(record)}


def _field_addresses(record: Record, at: tuple[str, ...]) -> Iterator[FieldAddress]:
    for field in record.fields:
        parts = (*at, field.name)
        inner, steps = _record_in(field.type)
        yield FieldAddress(path_of(parts), parts, field.type, is_leaf=inner is None)
        if inner is not None:
            yield from _field_addresses(inner, (*parts, *steps))


def _record_in(node: Node) -> tuple[Record | None, tuple[str, ...]]:
    """Return the record that a type is made of, and the containers around it."""
    match without_none(node):
        case Record() as record:
            return (record, ()) if record.fields else (None, ())
        case Array(items=items):
            inner, steps = _record_in(items)
            return inner, ("[]", *steps)
        case Map(values=values):
            inner, steps = _record_in(values)
            return inner, ("{}", *steps)
    return None, ()


def path_of(parts: tuple[str, ...]) -> str:
    """Return the path that ``parts`` are of."""
    path = ""
    for part in parts:
        path += part if part in _EACH or not path else f".{part}"
    return path


def is_within(path: str, outer: str) -> bool:
    """Whether a path is ``outer`` or lies below it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}[", f"{outer}{{"))


def values_at(value: Any, parts: tuple[str, ...]) -> Iterator[Any]:
    """Yield what a value has at a place: none or several values where containers are on the way."""
    if not parts:
        yield value
        return
    first, rest = parts[0], parts[1:]
    if first in _EACH:
        for each in _items(value):
            yield from values_at(each, rest)
    elif isinstance(value, dict) and first in value:
        yield from values_at(value[first], rest)


def replaced(value: Any, parts: tuple[str, ...], other: Any) -> Any:
    """Return a copy of a value that has ``other`` wherever it has something at a place."""
    if not parts:
        return other
    first, rest = parts[0], parts[1:]
    if first in _EACH and isinstance(value, list):
        return [replaced(each, rest, other) for each in value]
    if first in _EACH and isinstance(value, dict):
        return {name: replaced(each, rest, other) for name, each in value.items()}
    if isinstance(value, dict) and first in value:
        return {**value, first: replaced(value[first], rest, other)}
    return value


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
