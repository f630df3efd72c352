"""A format that has what two others have made of a third, and where the two do not fit together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.errors import FormatError
from statemigrate.formats.format import Format
from statemigrate.formats.stored_formats import Avro, Struct, struct_from_json

MergeOutcome = Literal["added", "kept", "removed", "dropped", "changed", "both"]
"""What a merge has made of a field that the two sides do not have alike.

``ours`` alone has it (*added*), or has changed it where ``theirs`` has removed it (*kept*): the
merged format has it. ``ours`` has removed it (*removed*), or ``theirs`` has (*dropped*), and the
other side left it as it was: it has not. ``ours`` alone has *changed* it, and it is as there; or
*both* sides have changed or added it, and it is as in ``theirs``.
"""
_ELEMENTS = {"array": ("elementType", "items"), "map": ("valueType", "values")}


@dataclass(frozen=True)
class FieldDifference:
    """A field by the names that lead to it; ``[]`` stands for the elements or values of one."""

    path: tuple[str, ...]
    outcome: MergeOutcome

    @property
    def name(self) -> str:
        """The path as people write it."""
        return ".".join(self.path).replace(".[]", "[]")

    @property
    def is_carried(self) -> bool:
        """Whether it is a field of the whole value that ``theirs`` does not know."""
        return self.outcome in ("added", "kept") and len(self.path) == 1


@dataclass(frozen=True)
class Merged:
    """The merged format, and what is to be asked of it."""

    format: Format
    differences: tuple[FieldDifference, ...]


def merge(base: Format, ours: Format, theirs: Format) -> Merged:
    """What becomes of ``base`` where both changes are wanted, that to ``ours`` first.

    Every field of ``ours`` and of ``theirs`` is in the format as it is there, or there is a
    difference that names it, or what it is in. Raises FormatError for formats of two kinds, and
    where the fields of both make no format.
    """
    kinds = {each.kind for each in (base, ours, theirs)}
    if len(kinds) > 1:
        raise FormatError(
            "SM-FORMAT-006",
            "A Struct and an Avro schema cannot be merged.",
            expected="formats of one kind",
            found=", ".join(sorted(kinds)),
            next_action="write the formats of one side as those of the other",
        )
    found: list[FieldDifference] = []
    documents = [each.to_json()["schema"] for each in (base, ours, theirs)]
    merged = {**documents[2], "fields": list(_fields(*documents, path=(), found=found))}
    made = struct_from_json(merged) if isinstance(theirs, Struct) else Avro(merged)
    return Merged(made, tuple(found))


def _fields(
    base: Any, ours: Any, theirs: Any, *, path: tuple[str, ...], found: list[FieldDifference]
) -> Iterator[Any]:
    was, current, yours = (
        {field["name"]: field for field in each["fields"]} for each in (base, ours, theirs)
    )
    for name, field in yours.items():
        here = (*path, name)
        if name in current and name in was:
            yield _field(was[name], current[name], field, path=here, found=found)
        elif name in current:
            found.append(FieldDifference(here, "both"))
            yield field
        elif name not in was:
            yield field
        elif _same(was[name], field):
            found.append(FieldDifference(here, "removed"))
        else:
            found.append(FieldDifference(here, "both"))
            yield field
    for name, field in current.items():
        if name not in yours:
            is_left = name in was and _same(was[name], field)
            outcome: MergeOutcome = "dropped" if is_left else "kept" if name in was else "added"
            found.append(FieldDifference((*path, name), outcome))
            if not is_left:
                yield field


def _field(
    base: Any, ours: Any, theirs: Any, *, path: tuple[str, ...], found: list[FieldDifference]
) -> Any:
    """A field that all three have."""
    if _same(base, ours):
        return theirs
    if _same(base, theirs):
        found.append(FieldDifference(path, "changed"))
        return ours
    types = [each["type"] for each in (base, ours, theirs)]
    return {**theirs, "type": _type(*types, path=path, found=found)}


def _type(
    base: Any, ours: Any, theirs: Any, *, path: tuple[str, ...], found: list[FieldDifference]
) -> Any:
    all_three = (base, ours, theirs)
    # Changed alike, it may be converted twice.
    if ours != theirs and all(isinstance(each, dict) for each in all_three):
        if all("fields" in each for each in all_three):
            return {**theirs, "fields": list(_fields(*all_three, path=path, found=found))}
        for kind, names in _ELEMENTS.items():
            for name in names:
                if all(each["type"] == kind and name in each for each in all_three):
                    inner = [each[name] for each in all_three]
                    if _outside(base, name) == _outside(ours, name) == _outside(theirs, name):
                        return {**theirs, name: _element(*inner, path=path, found=found)}
    found.append(FieldDifference(path, "both"))
    return theirs


def _element(
    base: Any, ours: Any, theirs: Any, *, path: tuple[str, ...], found: list[FieldDifference]
) -> Any:
    if base == ours:
        return theirs
    if base == theirs:
        found.append(FieldDifference(path, "changed"))
        return ours
    return _type(base, ours, theirs, path=(*path, "[]"), found=found)


def _outside(type_: Any, name: str) -> Any:
    return {key: value for key, value in type_.items() if key != name}


def _same(one: Any, other: Any) -> bool:
    return bool(_outside(one, "metadata") == _outside(other, "metadata"))
