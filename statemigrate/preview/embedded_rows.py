"""State of the embedded engine with other rows: of a sample of the keys, with pseudonyms.

Its records are bytes: a key's columns, of a map those of its own key, and a value in the format of
its family. Only columns that a mask names are read and written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from statemigrate.blocks import in_blocks, record_size
from statemigrate.checkpoint.operators import row_json
from statemigrate.checkpoint.rows import arrow_schema, partition_of
from statemigrate.deployment import StoredStore
from statemigrate.embedded import (
    CommittedPartition,
    ComplementedValues,
    CopiedFamily,
    Layout,
    Manifest,
    copy_changed,
    fork_versions,
    hold,
    list_key,
    read_manifest,
)
from statemigrate.errors import UnsupportedError, ValueMismatchError
from statemigrate.files import Files, open_files
from statemigrate.formats import (
    Format,
    NamedColumn,
    aware_of,
    columns_in,
    microseconds_of,
    plain_array,
    plain_values,
)
from statemigrate.preview.key_sample import KeySample, SampledTypes, same_types
from statemigrate.preview.masked_complements import ComplementMask, texts_of
from statemigrate.preview.pseudonyms import Pseudonyms, field_names, unmaskable
from statemigrate.processor import TupleKeyCodec

_AT_ONCE = 4_096
_HIDDEN = "left out, since values of the bundle are masked"
Key = tuple[Any, ...]


class EmbeddedStateRows:
    """See `statemigrate.preview.engines.StateRows`."""

    state_folder = "statemigrate/partitions/"

    def __init__(self, pseudonyms: Pseudonyms, sample: KeySample | None) -> None:
        self._pseudonyms, self._sample = pseudonyms, sample

    def check(self, files: Files, batch: int) -> SampledTypes:
        """See `StateRows`."""
        if self._sample is None:
            return []
        manifest = read_manifest(Layout.over(files), batch)
        types = {
            str(each["name"]).casefold(): each["type"] for each in manifest.key_schema["fields"]
        }
        found: SampledTypes = [
            (name, self._sample.check_key(name, types)) for name in sorted(manifest.stores)
        ]
        same_types(found)
        return found

    def copy(self, files: Files, new: Path, batches: Sequence[int], scratch: Path) -> None:
        """See `StateRows`. The versions are copied as they are first: a query may remove them."""
        whole, working = scratch / "whole", scratch / "working"
        fork_versions(files, whole, batches)
        working.mkdir(mode=0o700)
        old = open_files(whole.as_uri())
        manifest = read_manifest(Layout.over(old), batches[-1])
        copy_changed(old, new, batches, _Change(self._pseudonyms, self._sample, manifest), working)

    def columns(self, files: Files, batch: int) -> Iterator[NamedColumn]:
        """See `StateRows`."""
        manifest = read_manifest(Layout.over(files), batch)
        for name, stored in manifest.stores.items():
            yield from columns_in(manifest.key_schema, name)
            yield from columns_in(stored.user_key, name)
            for family in stored.families:
                yield from columns_in(family.format.struct_type().jsonValue(), name)

    def rows(self, files: Files, batches: Sequence[int]) -> Iterator[tuple[str, pa.Array]]:
        """See `StateRows`."""
        layout = Layout.over(files)
        for batch in batches:
            with closing(hold(layout, batch=batch, deadline=0.0)) as version:
                for number in range(len(version.manifest.partitions)):
                    with version.partition(number) as partition:
                        yield from _partition_rows(version.manifest, partition)


@dataclass(frozen=True)
class _Change:
    """See `statemigrate.embedded.RecordChange`."""

    pseudonyms: Pseudonyms
    sample: KeySample | None
    manifest: Manifest

    @cached_property
    def moves(self) -> bool:
        """See `RecordChange`."""
        names = [str(each["name"]) for each in self.manifest.key_schema["fields"]]
        for name in names:
            if len({self.pseudonyms.hides(name, store) for store in self.manifest.stores}) > 1:
                # All stores are grouped by one key, and its rows meet in one partition.
                raise UnsupportedError(
                    "SM-PREVIEW-036",
                    f"{name}, which all state is grouped by, would be masked in some stores alone",
                    expected=f"--mask {name}, which masks it everywhere",
                    found="the name with a store in front of it",
                    next_action=f"give --mask {name}; no bundle was written",
                    column=name,
                )
        stores = self.manifest.stores
        return any(self.pseudonyms.hides(name, store) for name in names for store in stores)

    def keys(
        self, place: CopiedFamily, keys: Sequence[bytes], partition: int, *, elements: bool
    ) -> Sequence[tuple[int, bytes] | None]:
        """See `RecordChange`."""
        if not keys:
            return []
        bare = [list_key(each) if elements else each for each in keys]
        found = _SplitKeys.of(self.manifest, bare)
        chosen = [True] * len(keys)
        if self.sample is not None:
            columns = {name.casefold(): found.column(name) for name in found.names}
            chosen = self.sample.chosen(columns).to_pylist()
        numbers = [partition] * len(keys)
        if self.moves:
            found = found.replaced(place.store, self.pseudonyms)
            numbers = found.partitions(len(self.manifest.partitions)).tolist()
        rests = _masked_user_keys(place, found.rests, self.pseudonyms)
        positions = [key[len(each) :] for key, each in zip(keys, bare, strict=True)]
        made = map(b"".join, zip(found.encoded(), rests, positions, strict=True))
        return [
            (number, key) if is_in else None
            for number, key, is_in in zip(numbers, made, chosen, strict=True)
        ]

    def values(
        self,
        place: CopiedFamily,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        held: ComplementedValues,
    ) -> Sequence[bytes]:
        """See `RecordChange`."""
        if not self.pseudonyms.mask.names:
            return values
        if not place.has_complements:
            return _masked_values(place.store, place.family.format, values, self.pseudonyms)
        masking = ComplementMask(place.store, place.stored.families, self.pseudonyms)
        return [
            masking.masked(data, self._complemented(place, held.under(key)))
            for key, data in zip(keys, values, strict=True)
        ]

    def _complemented(self, place: CopiedFamily, found: tuple[Any, list[bytes]] | None) -> Any:
        """The value that a complement belongs to, as it is and as the copy has it."""
        if found is None:
            return None
        family, data = found
        masked = _masked_values(place.store, family.format, data, self.pseudonyms)
        pair = [family.format.decode_many(each) for each in (data, list(masked))]
        return pair if place.stored.variable_kind.has_several_values else [each[0] for each in pair]

    def cause(self, text: str) -> str:
        """See `RecordChange`: what went wrong with a value may repeat it."""
        return _HIDDEN if self.pseudonyms.mask.names else text


@dataclass(frozen=True)
class _SplitKeys:
    """Grouping keys by column, and the bytes behind each, those of a map's own key."""

    kinds: tuple[tuple[str, pa.DataType], ...]
    codec: TupleKeyCodec
    columns: tuple[Sequence[Any], ...]
    rests: Sequence[bytes]

    @classmethod
    def of(cls, manifest: Manifest, keys: Sequence[bytes]) -> _SplitKeys:
        """Keys of the state that a manifest describes."""
        kinds = tuple(
            (each.name, each.type) for each in arrow_schema(row_json(manifest.key_schema))
        )
        codec = _codec(manifest.key_schema)
        split = list(map(codec.split, keys))
        columns = tuple(zip(*(key for key, _ in split), strict=True))
        return cls(kinds, codec, columns, [rest for _, rest in split])

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [name for name, _ in self.kinds]

    def column(self, name: str) -> pa.Array:
        """A column as Spark has it."""
        at = self.names.index(name)
        kind = self.kinds[at][1]
        return plain_array([_for_arrow(each, kind) for each in self.columns[at]], kind)

    def partitions(self, count: int) -> Any:
        """The partition of each key."""
        return partition_of([self.column(name) for name in self.names], count)

    def replaced(self, store: str, pseudonyms: Pseudonyms) -> _SplitKeys:
        """The same with pseudonyms in the columns that the mask names."""
        columns = [
            _replaced_column(self.column(name), name, store, pseudonyms)
            if pseudonyms.hides(name, store)
            else column
            for name, column in zip(self.names, self.columns, strict=True)
        ]
        return _SplitKeys(self.kinds, self.codec, tuple(columns), self.rests)

    def encoded(self) -> list[bytes]:
        """The bytes of each key, but for those behind it."""
        return self.codec.encode_many(list(zip(*self.columns, strict=True)))


def _replaced_column(
    column: pa.Array, name: str, store: str, pseudonyms: Pseudonyms
) -> Sequence[Any]:
    structs = pa.StructArray.from_arrays([column], [name])
    return plain_values(pseudonyms.replaced(structs, store).field(0))


def _masked_user_keys(
    place: CopiedFamily, keys: Sequence[bytes], pseudonyms: Pseudonyms
) -> Sequence[bytes]:
    """The bytes of a map's own keys, with pseudonyms."""
    schema = place.stored.user_key
    if (
        schema is None
        or not any(keys)
        or not pseudonyms.hides_any(field_names(schema), place.store)
    ):
        return keys
    codec = _codec(schema)
    structs = _user_keys(schema, codec, keys)
    made = plain_values(pseudonyms.replaced(structs, place.store))
    return codec.encode_many([_for_key(each, structs.type) for each in made])


def _user_keys(schema: Any, codec: TupleKeyCodec, keys: Sequence[bytes]) -> pa.StructArray:
    kind = pa.struct(list(arrow_schema(row_json(dict(schema)))))
    return plain_array([_for_arrow(codec.decode(each), kind) for each in keys], kind)


def _for_arrow(value: Any, kind: pa.DataType) -> Any:
    """A part of a key as Arrow takes it: fields by name, and moments with their zone."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        parts = zip(kind, value, strict=True)
        return {each.name: _for_arrow(part, each.type) for each, part in parts}
    if pa.types.is_list(kind):
        return [_for_arrow(each, kind.value_type) for each in value]
    is_moment = pa.types.is_timestamp(kind) and kind.tz is not None
    return aware_of(microseconds_of(value)) if is_moment else value


def _for_key(value: Any, kind: pa.DataType) -> Any:
    """The same part as a key's codec takes it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return tuple(_for_key(value[each.name], each.type) for each in kind)
    if pa.types.is_list(kind):
        return [_for_key(each, kind.value_type) for each in value]
    return value


def _codec(schema: Mapping[str, Any]) -> TupleKeyCodec:
    from pyspark.sql.types import StructType

    return TupleKeyCodec(StructType.fromJson(dict(schema)))


def _masked_values(
    store: str, fmt: Format, values: Sequence[bytes], pseudonyms: Pseudonyms
) -> Sequence[bytes]:
    """The bytes of values with pseudonyms. Raises `UnsupportedError` where they have no room."""
    if not values or not pseudonyms.hides_any(_names_in(fmt.schema), store):
        return values
    plain = fmt.decode_many(values)
    try:
        array = _value_array(fmt, plain)
        same = fmt.encode_many(plain_values(array))
    except Exception as error:
        raise unmaskable(store, f"values of {fmt}") from error
    if same != list(values):
        raise unmaskable(store, f"values of {fmt}")
    made = plain_values(pseudonyms.replaced(array, store))
    try:
        return fmt.encode_many(made)
    except ValueMismatchError as error:
        raise UnsupportedError(
            "SM-PREVIEW-025",
            f"{store} has a masked column whose format has no room for pseudonyms",
            expected="text, bytes, or numbers of any value",
            found=f"{error.expected}, in {fmt}",
            next_action="name other columns with --mask; no bundle was written",
            column=f"{store}.{error.data.get('field', '')}",
        ) from error


def _value_array(fmt: Format, values: Sequence[Any]) -> pa.StructArray:
    kind = pa.struct(list(arrow_schema(row_json(fmt.struct_type().jsonValue()))))
    return plain_array(values, kind)


def _names_in(node: Any) -> Iterator[str]:
    """The names of all fields of a schema, at any depth."""
    for each in getattr(node, "fields", ()):
        yield each.name
        yield from _names_in(each.type)
    for part in ("items", "keys", "values"):
        if hasattr(node, part):
            yield from _names_in(getattr(node, part))
    for each in getattr(node, "branches", ()):
        yield from _names_in(each)


def _partition_rows(
    manifest: Manifest, partition: CommittedPartition
) -> Iterator[tuple[str, pa.Array]]:
    """All that a partition has, by store."""
    for store, stored in manifest.stores.items():
        for family in stored.every_family:
            place = CopiedFamily(store, stored, family)
            for block in in_blocks(partition.records(family.name), _AT_ONCE, record_size):
                keys = [list_key(key) if place.has_elements else key for key, _ in block]
                yield from _key_rows(manifest, store, stored, keys)
                values = [data for _, data in block]
                if place.has_complements:
                    texts = [text for data in values for text in texts_of(data)]
                    yield f"{store}.complement", pa.array(texts, pa.binary())
                else:
                    yield from _value_rows(store, family.format, values)
            marks = list(partition.quarantined(family.name))
            if marks:
                yield from _key_rows(manifest, store, stored, [key for key, _ in marks])
                yield (
                    f"{store}.cause",
                    pa.array([cause.encode() for _, cause in marks], pa.binary()),
                )


def _key_rows(
    manifest: Manifest, store: str, stored: StoredStore, keys: Sequence[bytes]
) -> Iterator[tuple[str, pa.Array]]:
    found = _SplitKeys.of(manifest, keys)
    columns = [found.column(name) for name in found.names]
    yield store, pa.StructArray.from_arrays(columns, found.names)
    if stored.user_key is not None:
        yield store, _user_keys(stored.user_key, _codec(stored.user_key), found.rests)


def _value_rows(store: str, fmt: Format, values: Sequence[bytes]) -> Iterator[tuple[str, pa.Array]]:
    plain = fmt.decode_many(values)
    try:
        yield store, _value_array(fmt, plain)
    except Exception:
        # Of a type that Arrow has not: as all the texts in it, wherever they are.
        yield store, pa.array(list(_texts_in(plain)), pa.binary())


def _texts_in(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts_in(key)
            yield from _texts_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts_in(each)
