"""What one value has and another has not: found by comparing, and put back into a third.

A difference is a JSON document. For each field it has what was kept, and a hash of what stood there
in its place. Where a value still has what stood there, putting back restores what was kept; a field
that was written since stays as it was written.

An element of a list goes by its content, since it has no name: one that was changed since is
another one, wherever it stands.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from statemigrate.typed_json import typed, untyped

Difference = list[Any]
"""One of the documents below, its first item the word for what it is."""

_VALUE, _ADDED, _REMOVED, _FIELDS, _ELEMENTS = "value", "added", "removed", "fields", "elements"
_MISSING: Any = object()
_NESTED = (dict, list)
# A struct's fields have an order of their own, a map's entries have none.
_SORTED = json.JSONEncoder(sort_keys=True, default=typed, separators=(",", ":"))


def difference(kept: Any, other: Any) -> Difference | None:
    """What has to be put into ``other`` so that it is ``kept``; None where both are the same."""
    if isinstance(kept, dict) and isinstance(other, dict):
        found = [
            [typed(key), each]
            for key, one, another in _not_identical(kept, other)
            if (each := _of_field(one, another)) is not None
        ]
        return [_FIELDS, found] if found else None
    if isinstance(kept, list) and isinstance(other, list) and len(kept) == len(other):
        return _of_elements(kept, other)
    return None if _same(kept, other) else [_VALUE, content_hash(other), typed(kept)]


def restored(value: Any, found: Difference) -> Any:
    """``value`` with what was kept, where it has what stood in its place; it stays as it is."""
    match found:
        case [word, replaced, kept] if word == _VALUE:
            return untyped(kept) if content_hash(value) == replaced else value
        case [word, fields] if word == _FIELDS and isinstance(value, dict):
            return _with_fields(value, fields)
        case [word, elements] if word == _ELEMENTS and isinstance(value, list):
            return _with_elements(value, elements)
    return value


def parts(found: Difference) -> Iterator[Difference]:
    """A difference for each single place of another one."""
    word, inner = found[0], found[1]
    if word == _FIELDS:
        for key, each in inner:
            yield from ([_FIELDS, [[key, part]]] for part in parts(each))
    elif word == _ELEMENTS:
        for place, (_, each) in enumerate(inner):
            for part in parts(each) if each is not None else ():
                # Those of the same content stay, since each of them is the next of its kind.
                yield [
                    _ELEMENTS,
                    [[old, part if at == place else None] for at, (old, _) in enumerate(inner)],
                ]
    else:
        yield found


def disagreements(one: Any, other: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    """The places where two values are not the same; an element of a list goes by its place."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = {
            key: (one.get(key, _MISSING), other.get(key, _MISSING)) for key in {**one, **other}
        }
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = dict(enumerate(zip(one, other, strict=True)))
    else:
        return set() if _same(one, other) else {path}
    return {found for key, (a, b) in pairs.items() for found in disagreements(a, b, (*path, key))}


def content_hash(value: Any) -> str:
    """The same text for the same content, whatever the order of a map's entries."""
    if value is None:
        return ""
    try:
        text = _SORTED.encode(value)
    except TypeError:  # keys that JSON does not have, or that have no order
        text = json.dumps(_ordered(value), separators=(",", ":"))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def check_difference(found: Any) -> None:
    """Raise ValueError for a document that is no difference."""
    match found:
        case [word, str(), kept] if word == _VALUE:
            untyped(kept)
        case [word, kept] if word == _ADDED:
            untyped(kept)
        case [word, str()] if word == _REMOVED:
            pass
        case [word, [*fields]] if word == _FIELDS:
            for key, each in fields:
                untyped(key)
                check_difference(each)
        case [word, [*elements]] if word == _ELEMENTS:
            for replaced, each in elements:
                check_difference([_REMOVED, replaced])
                if each is not None:
                    check_difference(each)
        case _:
            raise ValueError(f"no difference: {found!r:.80}")


def copied(value: Any) -> Any:
    """A value that shares no dictionary and no list with another."""
    if isinstance(value, dict):
        return {
            key: copied(each) if isinstance(each, _NESTED) else each for key, each in value.items()
        }
    return [copied(each) for each in value] if isinstance(value, list) else value


def _not_identical(kept: dict[Any, Any], other: dict[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """The keys of two dictionaries with what each has there, but for those of one object."""
    # Most fields pass through a script as they are: then both dictionaries have the same object.
    for key, one in kept.items():
        another = other.get(key, _MISSING)
        if one is not another:
            yield key, one, another
    for key, another in other.items():
        if key not in kept:
            yield key, _MISSING, another


def _of_field(kept: Any, other: Any) -> Difference | None:
    if other is _MISSING:
        return [_ADDED, typed(kept)]
    return [_REMOVED, content_hash(other)] if kept is _MISSING else difference(kept, other)


def _of_elements(kept: list[Any], other: list[Any]) -> Difference | None:
    found = [difference(*pair) for pair in zip(kept, other, strict=True)]
    if not any(found):
        return None
    hashes = [content_hash(each) for each in other]
    differing = {old for old, each in zip(hashes, found, strict=True) if each is not None}
    return [
        _ELEMENTS,
        [[old, each] for old, each in zip(hashes, found, strict=True) if old in differing],
    ]


def _with_fields(value: dict[Any, Any], fields: list[Any]) -> dict[Any, Any]:
    made = dict(value)
    for name, each in fields:
        key = untyped(name)
        match each:
            case [word, kept] if word == _ADDED:
                made.setdefault(key, untyped(kept))
            case [word, replaced] if word == _REMOVED:
                if key in made and content_hash(made[key]) == replaced:
                    del made[key]
            case _ if key in made:
                made[key] = restored(made[key], each)
    return made


def _with_elements(value: list[Any], elements: list[Any]) -> list[Any]:
    waiting = defaultdict(list)
    for replaced, each in reversed(elements):
        waiting[replaced].append(each)
    made = []
    for element in value:
        same = waiting.get(content_hash(element))
        each = same.pop() if same else None
        made.append(element if each is None else restored(element, each))
    return made


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, float | tuple):
        # Zero has two signs, and no NaN equals another.
        return repr(one) == repr(other)
    return bool(one == other)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = [[_ordered(key), _ordered(each)] for key, each in value.items()]
        return {"dict": sorted(pairs, key=lambda pair: json.dumps(pair[0]))}
    return [_ordered(each) for each in value] if isinstance(value, list) else typed(value)
