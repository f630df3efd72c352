"""Avro's schema resolution on two trees: what changed, and whether the new one reads the old."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from statemigrate.formats.schema.fingerprint import layout
from statemigrate.formats.schema.matching import FieldPair, Path, Reason, match_fields
from statemigrate.formats.schema.nodes import (
    INTEGER_RANGES,
    NULL,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    branch_name,
    non_null_type,
    type_name,
    without_none,
)

# The words a comparison speaks in.


class Verdict(StrEnum):
    """What it takes to read values of the old format in the new one.

    IDENTICAL: nothing, the bytes are the same. READABLE: Avro's schema resolution, no script.
    TRANSFORM: a migration script.
    """

    IDENTICAL = "identical"
    READABLE = "readable"
    TRANSFORM = "needs a transform"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that asks for most; IDENTICAL if there are none."""
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.IDENTICAL)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One difference. ``path`` is like ``items[].price`` or ``prices{}.cents``.

    ``old`` and ``new`` name the types; None where the field does not exist. ``source`` is the path
    of the old field where the new one is taken for it under another name, or at another place.
    """

    path: str
    old: str | None
    new: str | None
    verdict: Verdict
    note: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class TypeDifference:
    """A `FieldChange` with the types themselves, or a text in place of one."""

    path: str
    old: Node | str | None
    new: Node | str | None
    verdict: Verdict
    note: str = ""
    source: str | None = None


# Which single types read which, by Avro's rules and with Spark's narrower types.


_READERS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_LENGTH = re.compile(r"\((\d+)\)")


class Outcome(NamedTuple):
    """A verdict and what to know about it."""

    verdict: Verdict
    note: str = ""


def avro_reads(old: str, new: str) -> bool:
    """Say whether a reader of the primitive type ``new`` takes values of ``old``."""
    return old == new or new in _READERS.get(old, ())


def no_branch(old: Node) -> Outcome:
    """Return the outcome for values that the new type has no branch for."""
    found = "None" if old == Primitive("null") else "the old type"
    return Outcome(Verdict.TRANSFORM, f"{found} has no place in the new type")


def promote(old: Node, new: Node) -> Outcome:
    """Say whether ``new`` reads values of ``old``, neither of them a union or a container."""
    if layout(old) == layout(new):
        return Outcome(Verdict.IDENTICAL)
    match old, new:
        case Enum(), Enum():
            return _enums(old, new)
        case Primitive(), Primitive():
            return _primitives(old, new)
    if old == Primitive("null"):
        return no_branch(old)
    return Outcome(Verdict.TRANSFORM, "Avro has no rule from the old type to the new one")


def _enums(old: Enum, new: Enum) -> Outcome:
    gone = [symbol for symbol in old.symbols if symbol not in new.symbols]
    if not gone:
        return Outcome(Verdict.READABLE, "no old symbol is missing")
    if new.default is not None:
        return Outcome(Verdict.READABLE, f"{', '.join(gone)} will be read as {new.default}")
    return Outcome(Verdict.TRANSFORM, f"no symbol for {', '.join(gone)}")


def _primitives(old: Primitive, new: Primitive) -> Outcome:
    if old.type == "null":
        return no_branch(old)
    if old.decimals or new.decimals or old.logical != new.logical:
        return Outcome(Verdict.TRANSFORM, "the same number would mean something else")
    if not avro_reads(old.type, new.type):
        return Outcome(Verdict.TRANSFORM, "Avro has no rule from the old type to the new one")
    # A type that is not narrow holds at least what Avro reads into it.
    if new.narrow and _capacity(old) > _capacity(new):
        return Outcome(Verdict.TRANSFORM, f"{type_name(new)} does not hold every old value")
    return Outcome(Verdict.READABLE, _caution(old, new))


def _capacity(node: Primitive) -> int:
    """Return how much the type holds: the highest number, or the most characters or decimals."""
    if node.type in INTEGER_RANGES and not node.logical:
        return INTEGER_RANGES[node.narrow or node.type][1]
    return _length(node)


def _length(node: Primitive) -> int:
    length = _LENGTH.search(node.narrow or "")
    return int(length[1]) if length else sys.maxsize


def _caution(old: Primitive, new: Primitive) -> str:
    if old.type in ("int", "long") and new.type in ("float", "double"):
        digits = 24 if new.type == "float" else 53
        return (
            f"numbers beyond 2**{digits} lose digits" if old.type == "long" or digits < 31 else ""
        )
    if (old.type, new.type) == ("bytes", "string"):
        return "bytes that are not UTF-8 cannot be read"
    return ""


def matched_fields(old: Record, new: Record) -> tuple[FieldPair, ...]:
    """Pair the fields of two records; see `match_fields`."""
    return match_fields(old, new, readable=_is_readable)


def _is_readable(old: Node, new: Node) -> bool:
    return all(each.verdict != Verdict.TRANSFORM for each in changes_between(old, new, ""))


def changes_between(old: Node, new: Node, path: str) -> Iterator[TypeDifference]:
    """Yield every difference at or below ``path``; none if the bytes are the same."""
    if layout(old) == layout(new):
        return
    match non_null_type(old), non_null_type(new):
        case Record() as before, Record() as after:
            yield from _nullability(old, new, path)
            yield from _records(before, after, path)
        case Array() as before, Array() as after:
            yield from _nullability(old, new, path)
            yield from changes_between(before.items, after.items, f"{path}[]")
        case Map() as before, Map() as after:
            yield from _nullability(old, new, path)
            yield from _keys(before, after, path)
            yield from changes_between(before.values, after.values, f"{path}{{}}")
        case _:
            outcome = _nullable_or_not(old, new)
            yield TypeDifference(path, old, new, outcome.verdict, outcome.note)


def _nullable_or_not(old: Node, new: Node) -> Outcome:
    before, after = non_null_type(old), non_null_type(new)
    if before is old or after is new:
        return _resolve(old, new)
    outcome = _resolve(before, after)
    if outcome.verdict == Verdict.IDENTICAL:
        return Outcome(Verdict.READABLE, "another order in the union")
    return outcome


def _nullability(old: Node, new: Node, path: str) -> Iterator[TypeDifference]:
    was, is_now = isinstance(old, Union), isinstance(new, Union)
    names = old, new
    if was and not is_now:
        yield TypeDifference(path, *names, Verdict.TRANSFORM, "None has no place in the new type")
    elif is_now and not was:
        yield TypeDifference(path, *names, Verdict.READABLE, "may now be None")
    elif isinstance(old, Union) and isinstance(new, Union) and _null_moved(old, new):
        yield TypeDifference(path, *names, Verdict.READABLE, "another order in the union")


def _keys(old: Map, new: Map, path: str) -> Iterator[TypeDifference]:
    if layout(old.keys) != layout(new.keys):
        names = old.keys, new.keys
        note = "a map's keys are read as they were written"
        yield TypeDifference(f"{path} key", *names, Verdict.TRANSFORM, note)


def _null_moved(old: Union, new: Union) -> bool:
    return old.branches.index(NULL) != new.branches.index(NULL)


def _records(old: Record, new: Record, path: str) -> Iterator[TypeDifference]:
    before = {field.name: field for field in old.fields}
    matched: list[str] = []
    added: list[Field] = []
    for field in new.fields:
        source = _source(field, before, new)
        if source is None:
            added.append(field)
            continue
        matched.append(source.name)
        yield from _same_field(source, field, path)
    removed = [field for field in old.fields if field.name not in matched]
    yield from _added_and_removed(matched_fields(old, new), removed, added, path)
    kept = [field.name for field in old.fields if field.name in matched]
    if kept != matched:
        note = "another order of fields; Avro matches them by name"
        names = ", ".join(kept), ", ".join(matched)
        yield TypeDifference(path or "(fields)", *names, Verdict.READABLE, note)


def _source(field: Field, before: dict[str, Field], new: Record) -> Field | None:
    """Find the old field that the new one reads: by name, else by one of its aliases."""
    taken = {other.name for other in new.fields}
    names = [field.name, *(alias for alias in field.aliases if alias not in taken)]
    return next((before[name] for name in names if name in before), None)


def _same_field(old: Field, new: Field, path: str) -> Iterator[TypeDifference]:
    inner = _join(path, new.name)
    if old.name != new.name:
        note = f"renamed from {old.name}, as its alias says"
        source = _join(path, old.name)
        yield TypeDifference(inner, old.type, new.type, Verdict.READABLE, note, source)
    yield from changes_between(old.type, new.type, inner)


def _added_and_removed(
    pairs: Sequence[FieldPair], removed: list[Field], added: list[Field], path: str
) -> Iterator[TypeDifference]:
    """The fields that are in one record alone, those that are taken for each other as one."""
    sources = {pair.new: pair for pair in pairs if pair.reason != Reason.KEPT}
    gone = {pair.old for pair in sources.values()}
    for field in removed:
        if (field.name,) not in gone:
            note = "Avro drops the old values"
            yield TypeDifference(_join(path, field.name), field.type, None, Verdict.READABLE, note)
    for field in added:
        yield from _added(field, sources, removed, path)


def _added(
    field: Field, sources: dict[Path, FieldPair], removed: list[Field], path: str
) -> Iterator[TypeDifference]:
    verdict, note = _filled(field)
    pair = sources.get((field.name,))
    if pair is not None:
        old = _type_at(removed, pair.old)
        explanation = f"{_how(pair, path)}; Avro alone takes it for new: {note}"
        source = _join(path, ".".join(pair.old))
        yield TypeDifference(_join(path, field.name), old, field.type, verdict, explanation, source)
        return
    yield TypeDifference(_join(path, field.name), None, field.type, verdict, note)
    for target, inner in sources.items():
        if len(target) > 1 and target[0] == field.name:
            ends = _type_at(removed, inner.old), _type_at([field], target)
            place = _join(path, ".".join(target)), *ends
            source = _join(path, ".".join(inner.old))
            yield TypeDifference(*place, Verdict.READABLE, _how(inner, path), source)


def _how(pair: FieldPair, path: str) -> str:
    return f"{pair.reason.value} from {_join(path, '.'.join(pair.old))}, as it seems"


def _type_at(fields: Sequence[Field], path: Path) -> Node:
    (found,) = (field.type for field in fields if field.name == path[0])
    inner = without_none(found)
    return _type_at(inner.fields, path[1:]) if path[1:] and isinstance(inner, Record) else found


def _filled(field: Field) -> tuple[Verdict, str]:
    if field.has_default:
        return Verdict.READABLE, f"old values get the default {json.dumps(field.default)}"
    return Verdict.TRANSFORM, "no default, so a transform says what old values get"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _resolve(old: Node, new: Node) -> Outcome:
    """Say whether ``new`` reads values of ``old``."""
    if isinstance(old, Union):
        outcomes = [_resolve(branch, new) for branch in old.branches]
        verdict = worst([Verdict.READABLE, *(outcome.verdict for outcome in outcomes)])
        return Outcome(verdict, _joined(o.note for o in outcomes if o.verdict == verdict))
    if isinstance(new, Union):
        branch = next((branch for branch in new.branches if _matches(old, branch, new)), None)
        if branch is None:
            return no_branch(old)
        outcome = _resolve(old, branch)
        return outcome._replace(verdict=worst([Verdict.READABLE, outcome.verdict]))
    if type(old) is type(new) and isinstance(old, Record | Array | Map):
        inner = list(changes_between(old, new, ""))
        verdict = worst(change.verdict for change in inner)
        return Outcome(verdict, _joined(c.note for c in inner if c.verdict == verdict))
    return promote(old, new)


def _matches(old: Node, branch: Node, union: Union) -> bool:
    """Avro reads a value into the first branch that matches it, and does not look inside."""
    named = [other for other in union.branches if isinstance(other, Record | Enum | Fixed)]
    if isinstance(old, Record | Enum | Fixed):
        same_name = _unqualified(old) == _unqualified(branch)
        return type(old) is type(branch) and (len(named) == 1 or same_name)
    if isinstance(old, Primitive) and isinstance(branch, Primitive):
        return avro_reads(old.type, branch.type)
    return type(old) is type(branch)


def _unqualified(node: Node) -> str:
    return branch_name(node).rpartition(".")[2]


def _joined(notes: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(note for note in notes if note))
