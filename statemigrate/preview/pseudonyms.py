"""Pseudonyms in place of the values of named columns, as Arrow has them.

Equal values have equal pseudonyms, of the same type, so that groups and joins stay as they are. A
text has the hash that `Mask` shows of it. An integer has another one of its width, by a Feistel
network, whose rounds are a keyed hash: no two integers have one pseudonym.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statemigrate.errors import UnsupportedError
from statemigrate.formats import Mask
from statemigrate.numpy_arrays import arrow_array, numpy_array

_ROUNDS = 6
_SPREAD = 1_000_000.0
"""The largest pseudonym of a number with a fraction."""
_FEW = 1 << 20
"""Integers from here on are rarely equal by chance."""


class Pseudonyms:
    """Replaces what fields have whose names a mask has, at any depth of a column.

    A name is that of a field, or begins with the place, as ``aggregation-0.max`` does. ``names``
    are those of the mask that a field had, and ``places`` these fields. ``texts`` and ``numbers``
    are the values that were replaced, as far as they can be recognised elsewhere: all texts, and
    large integers.
    """

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.texts: set[bytes] = set()
        self.numbers: set[int] = set()
        self.places: set[str] = set()
        self.names: set[str] = set()

    def replaced(self, array: pa.Array, place: str) -> pa.Array:
        """Structs, or lists of structs, with pseudonyms. ``place`` is what they are.

        Raises `UnsupportedError` for a field of a type that has no pseudonyms.
        """
        return self._replaced(array, place, hidden=False)

    def _replaced(self, array: pa.Array, place: str, *, hidden: bool) -> pa.Array:
        kind = array.type
        if pa.types.is_struct(kind):
            columns = [
                self._replaced(
                    column,
                    f"{place}.{each.name}",
                    hidden=self.hides(each.name, place) or hidden,
                )
                for each, column in zip(kind, array.flatten(), strict=True)
            ]
            if not columns:
                return array
            return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
            return self._elements_replaced(array, place, hidden=hidden)
        if not hidden or pa.types.is_null(kind):
            return array
        self.places.add(place)
        return self._leaf(array, place)

    def of_leaf(self, array: pa.Array, place: str) -> pa.Array:
        """Single values with pseudonyms, whatever their name. Raises as `replaced`."""
        return self._replaced(array, place, hidden=True)

    def hides(self, field: str, place: str) -> bool:
        """Whether the mask names a field of a place, and with it all that is in the field."""
        found = {field.casefold(), f"{place}.{field}".casefold()} & self.mask.names
        self.names |= found
        return bool(found)

    def hides_any(self, fields: Iterable[str], place: str) -> bool:
        """Whether the mask may name one of the fields, at any depth of a place."""
        names = self.mask.names
        is_within = any(each.startswith(f"{place}.".casefold()) for each in names)
        return is_within or any(each.casefold() in names for each in fields)

    def _elements_replaced(self, array: pa.Array, place: str, *, hidden: bool) -> pa.Array:
        kind = array.type
        is_map = pa.types.is_map(kind)
        lists = array
        if is_map:
            entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
            lists = array.cast(pa.list_(entry))
        lengths = numpy_array(pc.fill_null(pc.list_value_length(lists), 0))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        elements = self._replaced(lists.flatten(), place, hidden=hidden)
        nulls = array.is_null()
        if is_map:
            offsets = arrow_array(ends.astype(np.int32))
            keys, items = elements.flatten()
            return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=nulls)
        if pa.types.is_large_list(kind):
            offsets = arrow_array(ends.astype(np.int64))
            return pa.LargeListArray.from_arrays(offsets, elements, type=kind, mask=nulls)
        offsets = arrow_array(ends.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=nulls)

    def _leaf(self, array: pa.Array, place: str) -> pa.Array:
        kind = array.type
        if pa.types.is_integer(kind):
            return self._integers(array)
        encoded = array.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        made = self._function(kind, place)
        if _is_text(kind):
            self.texts.update(encoded.dictionary.cast(pa.binary()).to_pylist())
        return pa.array([made(each) for each in values], kind).take(encoded.indices)

    def _function(self, kind: pa.DataType, place: str) -> Callable[[Any], Any]:
        """What gives the pseudonym of a value of a type."""
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self.mask.hashed
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return lambda each: self.digest(each)[:8]
        if pa.types.is_floating(kind):
            return lambda each: self._number(each) / 2.0**64 * _SPREAD
        if pa.types.is_decimal(kind):
            most = 10**kind.precision
            return lambda each: Decimal(self._number(each) % most).scaleb(-kind.scale)
        raise UnsupportedError(
            "SM-PREVIEW-025",
            f"{place} cannot have pseudonyms",
            expected="text, bytes, or numbers",
            found=str(kind),
            next_action="name other columns with --mask; a date or a time cannot be replaced "
            "without another order of the rows",
            column=place,
        )

    def digest(self, value: Any) -> bytes:
        """A hash of a value that nobody finds who has not the mask's secret."""
        data = value if isinstance(value, bytes) else repr(value).encode()
        return hashlib.blake2b(data, key=self.mask.secret, digest_size=16).digest()

    def _number(self, value: Any) -> int:
        return int.from_bytes(self.digest(value)[:8], "big")

    def _integers(self, array: pa.Array) -> pa.Array:
        kind = array.type
        nulls = numpy_array(array.is_null())
        values = numpy_array(pc.fill_null(array, 0))
        large = values[(np.abs(values.astype(np.float64)) >= _FEW) & ~nulls]
        self.numbers.update(np.unique(large).tolist())
        made = self._permuted(values.view(f"u{values.dtype.itemsize}")).view(values.dtype)
        return pa.array(made, kind, mask=nulls)

    def _permuted(self, values: Any) -> Any:
        """Other integers of the same width: a permutation, by a balanced Feistel network."""
        half = values.dtype.itemsize * 4
        low = (1 << half) - 1
        left, right = (values >> half).astype(np.uint64), (values & low).astype(np.uint64)
        for number in range(_ROUNDS):
            secret = np.uint64(int.from_bytes(self.digest(f"round {number}")[:8], "big"))
            left, right = right, left ^ (_mixed(right ^ secret) & np.uint64(low))
        return ((left << np.uint64(half)) | right).astype(values.dtype)


def field_names(kind: object) -> Iterator[str]:
    """The names of all fields of a type, as Spark's JSON has it, at any depth."""
    if not isinstance(kind, Mapping):
        return
    for each in kind.get("fields", ()):
        yield str(each["name"])
        yield from field_names(each["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from field_names(kind.get(part))


def unmaskable(place: str, found: str = "bytes with several fields") -> UnsupportedError:
    """The error for a place whose columns nothing here reads and writes."""
    return UnsupportedError(
        "SM-PREVIEW-026",
        f"values of a masked column may be in {place}, where they cannot have pseudonyms",
        expected="columns that Spark's metadata name",
        found=found,
        next_action="save the bundle without a mask; no bundle was written",
        place=place,
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _mixed(values: Any) -> Any:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), of many integers at once."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True)
class Unmasked:
    """A field that has a value as it was; ``is_encoded`` says that it is within some bytes."""

    place: str
    is_encoded: bool = False


class UnmaskedValues:
    """Finds values that have pseudonyms in other columns, where they are still as they were.

    A column with another name may have the same values: the key of a join, a list, a text that was
    put together. Equal texts are found whatever they are, parts of texts by some of the values, and
    integers where most of a column is among them.
    """

    _SHORTEST, _SHORTEST_PART, _PARTS = 4, 6, 200
    _FEWEST = 10

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        texts = {each for each in pseudonyms.texts if len(each) >= self._SHORTEST}
        self._texts = pa.array(sorted(texts), pa.binary())
        parts = sorted((each for each in texts if len(each) >= self._SHORTEST_PART), key=_by_digest)
        # A pattern is a text: bytes that are none are found as a whole alone.
        known = [each for each in map(_as_text, parts) if each is not None]
        self._parts = "|".join(map(re.escape, known[: self._PARTS]))
        self._numbers = pa.array(sorted(pseudonyms.numbers), pa.int64())

    def where(self, array: pa.Array, place: str) -> Unmasked | None:
        """The field of structs, or lists of them, in which one of the values is."""
        kind = array.type
        if pa.types.is_struct(kind):
            found = (
                self.where(column, f"{place}.{each.name}")
                for each, column in zip(kind, array.flatten(), strict=True)
            )
            return next((each for each in found if each is not None), None)
        if pa.types.is_map(kind):
            entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
            return self.where(array.cast(pa.list_(entry)).flatten(), place)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return self.where(array.flatten(), place)
        if pa.types.is_integer(kind):
            return Unmasked(place) if self._has_numbers(array) else None
        return self._in_texts(array, place) if _is_text(kind) else None

    def _in_texts(self, array: pa.Array, place: str) -> Unmasked | None:
        if not len(self._texts):
            return None
        is_bytes = pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)
        found = array.drop_null().unique().cast(pa.binary())
        if pc.any(pc.is_in(found, value_set=self._texts)).as_py():
            return Unmasked(place)
        has_part = self._parts and pc.any(pc.match_substring_regex(found, self._parts)).as_py()
        return Unmasked(place, is_encoded=is_bytes) if has_part else None

    def _has_numbers(self, array: pa.Array) -> bool:
        if not len(self._numbers):
            return False
        found = array.drop_null().unique().cast(pa.int64())
        is_large = pc.or_(pc.greater_equal(found, _FEW), pc.less_equal(found, -_FEW))
        large = found.filter(is_large)
        equal = pc.sum(pc.is_in(large, value_set=self._numbers)).as_py() or 0
        return bool(equal >= self._FEWEST and 2 * equal > len(large))


def _by_digest(text: bytes) -> bytes:
    """An order that no value has chosen: so the parts are any of them."""
    return hashlib.blake2b(text, digest_size=8).digest()


def _as_text(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None
