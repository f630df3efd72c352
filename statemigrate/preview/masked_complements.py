"""Complements of values with pseudonyms: what scripts have left out of a value, under its fields.

A complement has what was left out, and hashes: of the value that it belongs to, and of what stood
in the place of what was left out. A hash of values that are masked is made again where that is
possible, and is one that fits nothing where the value was written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from statemigrate.checkpoint.operators import row_json
from statemigrate.checkpoint.rows import arrow_schema
from statemigrate.deployment import StoredFamily
from statemigrate.errors import StatemigrateError, UnsupportedError
from statemigrate.families import FORMAT
from statemigrate.formats import plain_values
from statemigrate.lenses import Complement, Remainder, content_hash
from statemigrate.preview.pseudonyms import Pseudonyms
from statemigrate.typed_json import typed, untyped

_NOTHING: tuple[Any, ...] = (None, "", 0, 0.0, False, b"", [], {})
_ENTRY = "value"
"""What a map has under a key, as Arrow calls it."""
_EMPTY = frozenset(map(content_hash, _NOTHING))
"""Hashes of what scripts put in the place of what they drop: they tell nothing."""


@dataclass(frozen=True)
class ComplementMask:
    """Masks the complements of a ``store``, which has values in these ``families``."""

    store: str
    families: Sequence[StoredFamily]
    pseudonyms: Pseudonyms

    def masked(self, data: bytes, held: Sequence[Any] | None) -> bytes:
        """A complement's bytes in place of some.

        ``held`` is the value that it belongs to, as it is and as it is masked. Raises
        `UnsupportedError` for one whose hashes depend on masked values that are not there.
        """
        complement = Complement.from_bytes(FORMAT.decode(data)["complement"])
        known = {} if held is None else {content_hash(held[0]): content_hash(held[1])}
        is_changed = any(one != other for one, other in known.items())
        entries, places = {}, set()
        for revision, entry in complement.entries.items():
            walk = _MaskedComplement(self.store, self._kinds(entry.formats), self.pseudonyms)
            entries[revision] = replace(entry, remainder=walk.remainder(entry.remainder))
            places |= walk.places
        if not places and not is_changed:
            return data
        for revision, entry in entries.items():
            left = entry.remainder
            # A whole value comes back by this hash alone, and on the way nobody knows the value.
            if left.difference is None and left.of not in known and len(entries) > 1:
                raise self._unknown("a whole value that is left out, among several scripts")
            # Of a value that was written since, or of a revision on the way: it fits nothing.
            other = self.pseudonyms.digest(left.of.encode()).hex()[: len(left.of)]
            of = known.get(left.of, other)
            entries[revision] = replace(entry, remainder=replace(left, of=of))
        return FORMAT.encode({"complement": Complement(entries).to_bytes()})

    def _unknown(self, found: str) -> UnsupportedError:
        return _cannot_mask(self.store, self.store, found)

    def _kinds(self, formats: str) -> list[pa.DataType]:
        """Arrow's types of those formats of a script that the store still has."""
        known = []
        for family in self.families:
            if family.format.fingerprint[:8] in formats.split():
                try:
                    found = arrow_schema(row_json(family.format.struct_type().jsonValue()))
                except StatemigrateError:
                    continue
                known.append(pa.struct(list(found)))
        return known


@dataclass
class _MaskedComplement:
    """Goes through what a script has left out; ``places`` are the fields that it has masked."""

    store: str
    kinds: Sequence[pa.DataType]
    pseudonyms: Pseudonyms
    places: set[str] = field(default_factory=set)

    def remainder(self, found: Remainder) -> Remainder:
        """What was left out, with pseudonyms; the hash of the value stays for now."""
        if found.difference is None:
            return replace(found, whole=self._with_pseudonyms(found.whole, (), hidden=False))
        return replace(found, difference=self._difference(found.difference, (), hidden=False))

    def _difference(self, found: Any, path: tuple[str, ...], *, hidden: bool) -> Any:
        before = len(self.places)
        match found:
            case ["value", replaced, kept]:
                made = self._with_pseudonyms(kept, path, hidden=hidden)
                self._check_hash(replaced, path, is_masked=len(self.places) > before or hidden)
                return ["value", replaced, made]
            case ["added", kept]:
                return ["added", self._with_pseudonyms(kept, path, hidden=hidden)]
            case ["removed", replaced]:
                self._check_hash(replaced, path, is_masked=hidden)
                return found
            case ["fields", fields]:
                return ["fields", [self._field(name, each, path, hidden) for name, each in fields]]
            case ["elements", elements]:
                made = [
                    [old, None if each is None else self._difference(each, path, hidden=hidden)]
                    for old, each in elements
                ]
                if len(self.places) > before or hidden:
                    raise self._unknown(path, "the hash of an element")
                return ["elements", made]
        raise self._unknown(path, "another document")

    def _field(self, name: Any, found: Any, path: tuple[str, ...], hidden: bool) -> list[Any]:
        key = self._key(name, path) if hidden else name
        inner, hides = self._step(name, path, hidden=hidden)
        return [key, self._difference(found, inner, hidden=hides)]

    def _with_pseudonyms(self, kept: Any, path: tuple[str, ...], *, hidden: bool) -> Any:
        if isinstance(kept, list):
            return [self._with_pseudonyms(each, path, hidden=hidden) for each in kept]
        if isinstance(kept, Mapping) and kept["type"] == "dict":
            pairs = []
            for name, each in kept["value"]:
                key = self._key(name, path) if hidden else name
                inner, hides = self._step(name, path, hidden=hidden)
                pairs.append([key, self._with_pseudonyms(each, inner, hidden=hides)])
            return {**kept, "value": pairs}
        return self._leaf(kept, path) if hidden and kept is not None else kept

    def _step(
        self, name: Any, path: tuple[str, ...], *, hidden: bool
    ) -> tuple[tuple[str, ...], bool]:
        """The place of a field, and whether it is masked; of a map's entry that of the map."""
        kinds = list(self._kinds_at(path))
        if any(map(pa.types.is_map, kinds)):
            return (*path, _ENTRY), hidden
        if not isinstance(name, str):
            return path, hidden
        # Below the fields of a value a name may be the key of a map, which no message repeats.
        is_field = not path or any(map(pa.types.is_struct, kinds))
        return (*path, name if is_field else _ENTRY), hidden or self._hides(name, path)

    def _key(self, name: Any, path: tuple[str, ...]) -> Any:
        """A name in what is masked: that of a field stays, the key of a map is a value."""
        kinds = list(self._kinds_at(path))
        if any(pa.types.is_struct(each) for each in kinds):
            return name
        (kind,) = [each for each in kinds if pa.types.is_map(each)][:1] or [None]
        if kind is None:
            raise self._unknown(path, "fields of what no format has")
        return self._masked(name, kind.key_type, (*path, "key"))

    def _kinds_at(self, path: Sequence[str]) -> Iterator[pa.DataType]:
        for kind in self.kinds:
            at = reduce(_within, path, kind)
            if at is not None:
                yield at

    def _leaf(self, document: Any, path: tuple[str, ...]) -> Any:
        value = untyped(document)
        kinds: list[pa.DataType] = [
            each for each in self._kinds_at(path) if not pa.types.is_nested(each)
        ]
        if isinstance(value, str):
            kinds = [pa.string()]
        elif isinstance(value, bytes):
            kinds = [pa.binary()]
        if not kinds:
            raise self._unknown(path, f"a {type(value).__name__} whose type no format has")
        return self._masked(document, kinds[0], path)

    def _masked(self, document: Any, kind: pa.DataType, path: Sequence[str]) -> Any:
        place = self._named(path)
        self.places.add(place)
        made = self.pseudonyms.of_leaf(pa.array([untyped(document)], kind), place)
        return typed(plain_values(made)[0])

    def _hides(self, name: str, path: Sequence[str]) -> bool:
        return self.pseudonyms.hides(name, self._named(path))

    def _named(self, path: Sequence[str]) -> str:
        return ".".join((self.store, *filter(None, path)))

    def _check_hash(self, found: str, path: Sequence[str], *, is_masked: bool) -> None:
        if is_masked and found not in _EMPTY:
            raise self._unknown(path, "the hash of a value")

    def _unknown(self, path: Sequence[str], found: str) -> UnsupportedError:
        return _cannot_mask(self.store, self._named(path), found)


def _cannot_mask(store: str, column: str, found: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-PREVIEW-037",
        f"the complements of {store} cannot be masked",
        expected="texts and bytes, numbers of a format that the store still has, and empty "
        "values in the place of what scripts have left out",
        found=f"{found}, in {column}",
        next_action="save the bundle without this mask, or give the complements up in the "
        "query first: `statemigrate backfill CHECKPOINT --retire --complement`",
        store=store,
        column=column,
    )


def _within(kind: Any, name: str) -> Any:
    """The type of a field, of an element's field, or of what a map has under a key; or None."""
    while kind is not None and pa.types.is_list(kind):
        kind = kind.value_type
    if kind is not None and pa.types.is_map(kind):
        return kind.item_type
    if kind is None or not pa.types.is_struct(kind):
        return None
    return next((each.type for each in kind if each.name == name), None)


def texts_of(data: bytes) -> Iterator[bytes]:
    """All texts in a complement, and all bytes."""
    complement = Complement.from_bytes(FORMAT.decode(data)["complement"])
    for entry in complement.entries.values():
        yield from _texts([entry.remainder.difference, entry.remainder.whole])


def _texts(document: Any) -> Iterator[bytes]:
    if isinstance(document, str):
        yield document.encode("utf-8", "surrogatepass")
    elif isinstance(document, list):
        for each in document:
            yield from _texts(each)
    elif isinstance(document, dict):
        if document.get("type") == "bytes":
            yield bytes.fromhex(document["value"])
        for key, each in document.items():
            yield from _texts(key)
            yield from _texts(each)
