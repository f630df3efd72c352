"""Avro's schema resolution on two trees: what changed, and whether the new one reads the old."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from statemigrate.formats.canonical import layout
from statemigrate.formats.promotion import Outcome, avro_reads, no_place, promote
from statemigrate.formats.schema import (
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
    type_name,
)
from statemigrate.formats.verdict import FieldChange, Verdict, worst


def changes_between(old: Node, new: Node, path: str) -> Iterator[FieldChange]:
    """Yield every difference at or below ``path``; none if the bytes are the same."""
    if layout(old) == layout(new):
        return
    match _beside_null(old), _beside_null(new):
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
            yield FieldChange(path, type_name(old), type_name(new), outcome.verdict, outcome.note)


def _nullable_or_not(old: Node, new: Node) -> Outcome:
    before, after = _beside_null(old), _beside_null(new)
    if before is old or after is new:
        return _resolve(old, new)
    outcome = _resolve(before, after)
    if outcome.verdict == Verdict.IDENTICAL:
        return Outcome(Verdict.READABLE, "another order in the union")
    return outcome


def _beside_null(node: Node) -> Node:
    """Return the type that a nullable type holds beside null; the type itself otherwise."""
    if isinstance(node, Union) and NULL in node.branches and len(node.branches) == 2:
        return node.branches[1 - node.branches.index(NULL)]
    return node


def _nullability(old: Node, new: Node, path: str) -> Iterator[FieldChange]:
    was, is_now = isinstance(old, Union), isinstance(new, Union)
    names = type_name(old), type_name(new)
    if was and not is_now:
        yield FieldChange(path, *names, Verdict.TRANSFORM, "None has no place in the new type")
    elif is_now and not was:
        yield FieldChange(path, *names, Verdict.READABLE, "may now be None")
    elif isinstance(old, Union) and isinstance(new, Union) and _null_moved(old, new):
        yield FieldChange(path, *names, Verdict.READABLE, "another order in the union")


def _keys(old: Map, new: Map, path: str) -> Iterator[FieldChange]:
    if layout(old.keys) != layout(new.keys):
        names = type_name(old.keys), type_name(new.keys)
        note = "a map's keys are read as they were written"
        yield FieldChange(f"{path} key", *names, Verdict.TRANSFORM, note)


def _null_moved(old: Union, new: Union) -> bool:
    return old.branches.index(NULL) != new.branches.index(NULL)


def _records(old: Record, new: Record, path: str) -> Iterator[FieldChange]:
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
    yield from _added_and_removed(removed, added, path)
    kept = [field.name for field in old.fields if field.name in matched]
    if kept != matched:
        note = "another order of fields; Avro matches them by name"
        names = ", ".join(kept), ", ".join(matched)
        yield FieldChange(path or "(fields)", *names, Verdict.READABLE, note)


def _source(field: Field, before: dict[str, Field], new: Record) -> Field | None:
    """Find the old field that the new one reads: by name, else by one of its aliases."""
    taken = {other.name for other in new.fields}
    names = [field.name, *(alias for alias in field.aliases if alias not in taken)]
    return next((before[name] for name in names if name in before), None)


def _same_field(old: Field, new: Field, path: str) -> Iterator[FieldChange]:
    inner = _join(path, new.name)
    if old.name != new.name:
        note = f"renamed from {old.name}, which its alias says"
        names = type_name(old.type), type_name(new.type)
        yield FieldChange(inner, *names, Verdict.READABLE, note)
    yield from changes_between(old.type, new.type, inner)


def _added_and_removed(
    removed: list[Field], added: list[Field], path: str
) -> Iterator[FieldChange]:
    renames = _probable_renames(removed, added)
    for field in removed:
        note = "Avro drops the old values"
        if field.name in renames:
            note = f"probably renamed to {renames[field.name]}; {note} silently"
        yield FieldChange(
            _join(path, field.name), type_name(field.type), None, Verdict.READABLE, note
        )
    sources = {target: source for source, target in renames.items()}
    for field in added:
        verdict, note = _filled(field)
        if field.name in sources:
            note = f"probable rename of {sources[field.name]}; {note}"
        yield FieldChange(_join(path, field.name), None, type_name(field.type), verdict, note)


def _probable_renames(removed: list[Field], added: list[Field]) -> dict[str, str]:
    """Pair each removed field with the first added one of the same type."""
    renames: dict[str, str] = {}
    for field in removed:
        for other in added:
            same = layout(_beside_null(field.type)) == layout(_beside_null(other.type))
            if same and other.name not in renames.values():
                renames[field.name] = other.name
                break
    return renames


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
            return no_place(old)
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
